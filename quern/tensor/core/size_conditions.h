// What functions of tensors found to hold of symbolic sizes, for the values that variables had then: a slice
// ends within its axis, a kernel reaches no further than its input. Whoever captures what was computed
// collects these conditions, and asks them again when variables have other values.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "quern/ir/node/uop.h"

namespace quern::detail {

struct SizeCondition {
  UOp number;        // 0 or more, if the condition holds
  std::string text;  // what is computed: "shrink: axis 0 is 8 long, asked for [n, n + 2)"
};

// While it lives, the conditions that this thread notes are collected; one at a time in a thread.
class SizeConditions {
 public:
  SizeConditions();
  SizeConditions(const SizeConditions&) = delete;
  SizeConditions& operator=(const SizeConditions&) = delete;
  ~SizeConditions();

  const std::vector<SizeCondition>& all() const { return all_; }
  void add(const UOp& number, const std::function<std::string()>& text);

 private:
  std::vector<SizeCondition> all_;
  std::unordered_set<UOp> numbers_;
};

// `number` was found to be 0 or more. Nothing is to be remembered where that follows from the bounds of its
// variables, or where nobody collects.
void note_not_negative(const UOp& number, const std::function<std::string()>& text);

}  // namespace quern::detail
