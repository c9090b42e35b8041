// A rule in the form that is matched: its patterns as flat tables, variables as numbers. Internal to ir.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "quern/ir/rules/rules.h"

namespace quern::detail {

inline constexpr int kMaxCaptures = 16;

// A pattern node with its variable resolved to a slot and its parts to positions.
struct Part {
  Pat::Kind kind = Pat::Kind::node;
  Pat::SourceMode mode = Pat::SourceMode::any;
  int16_t slot = -1;
  bool plain = false;  // nothing to check but ops, types and slot
  bool wants_const = false;
  uint16_t first = 0, count = 0;  // its parts, in CompiledRule::children
  OpSet ops;
  Types types;
  const Pat::Data* data = nullptr;
};

struct CompiledRule {
  const Rule* rule = nullptr;
  std::vector<Part> parts;
  std::vector<uint16_t> children;
  int left = -1, right = -1, condition = -1;
  int captures = 0;
};

// A RewriteError when the rule makes no sense: unknown variables, a function with other arguments, ...
CompiledRule compile_rule(const Rule& rule);

// What the rule makes of the node; none if it does not match, refuses, or changes nothing. `now`: the node's
// sources, for functions that take them.
UOp apply_rule(const CompiledRule& compiled, const UOp& node, Sources now, Context context);

// The number of a literal, or the arg that a pattern asks for.
bool asks_for_one_arg(const Part& part);
bool has_that_arg(const Part& part, const UOp& u);

// What turns most nodes away before a matcher is set up: the dtype, op and dtype of the first sources, and
// their arg where it has to be a certain one. The candidates for an op stand in a row, so that looking
// through them stays in the cache.
class Candidate {
 public:
  explicit Candidate(const CompiledRule& rule) : rule_(&rule) {
    const Part& p = rule.parts[static_cast<size_t>(rule.left)];
    types_ = p.types;
    all_alike_ = p.mode == Pat::SourceMode::each;
    if (p.mode == Pat::SourceMode::any) return;
    exactly_ = p.mode == Pat::SourceMode::exactly;
    count_ = all_alike_ ? 0 : p.count;
    for (size_t i = 0; i < screened() || (all_alike_ && i == 0); i++) {
      const Part& source = rule.parts[rule.children[p.first + i]];
      sources_[i] = {source.ops, source.types, asks_for_one_arg(source) ? &source : nullptr};
    }
  }
  const CompiledRule& rule() const { return *rule_; }

  bool may_match(const UOp& u) const {
    if (!types_.contains(u.dtype())) return false;
    const Sources s = u.src();
    if (all_alike_) return std::ranges::all_of(s, [&](const UOp& x) { return sources_[0].allows(x); });
    if (exactly_ ? s.size() != count_ : s.size() < count_) return false;
    if (count_ == 2 && is_commutative(u.op()))
      return (sources_[0].allows(s[0]) && sources_[1].allows(s[1])) ||
             (sources_[0].allows(s[1]) && sources_[1].allows(s[0]));
    for (size_t i = 0; i < screened(); i++)
      if (!sources_[i].allows(s[i])) return false;
    return true;
  }

 private:
  struct Screen {
    OpSet ops;
    Types types;
    const Part* arg = nullptr;  // a pattern that asks for one
    bool allows(const UOp& u) const {
      return ops.contains(u.op()) && types.contains(u.dtype()) && (!arg || has_that_arg(*arg, u));
    }
  };
  static constexpr size_t kScreened = 3;
  size_t screened() const { return std::min<size_t>(count_, kScreened); }

  const CompiledRule* rule_;
  Types types_;
  bool all_alike_ = false, exactly_ = false;
  uint16_t count_ = 0;
  std::array<Screen, kScreened> sources_;
};

}  // namespace quern::detail
