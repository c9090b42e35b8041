// What a function that jit captures makes run: schedules, the memory they ran on, the values of variables.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "quern/engine/realize/schedule_cache.h"
#include "quern/tensor/core/size_conditions.h"
#include "quern/tensor/ops/random.h"

namespace quern {

// While it lives, what this thread realises is recorded; one at a time in a thread.
class Recording {
 public:
  // `numbers`: of the host, that the function made tensors of when it ran last.
  explicit Recording(std::vector<uint64_t> numbers);
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording();

  static Recording* current();
  // An Error for what cannot be replayed: "jit: inside the function ..., which a replay cannot repeat; ...".
  static void refuse(const char* what, const char* instead);

  void add(const UOp& sink, const Stripped& stripped, std::shared_ptr<const Prepared> prepared);
  bool made(const UOp& buffer) const;  // a BUFFER that was made since, and is no constant

  // A tensor is made of numbers of the host, which have this hash. The same ones as when the function ran
  // last are a constant, in this memory; others are refused, since a replay would not have them.
  void add_constant(uint64_t numbers, const UOp& memory);
  // Writes below these that were asked for before the recording, and are not run yet: no part of it.
  UOps older_writes(const UOps& roots) const;
  void rename(const std::unordered_map<UOp, UOp>& writes);  // which are other nodes now

  // What runs while this lives is not recorded.
  class Pause {
   public:
    Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause();

   private:
    Recording* paused_;
  };

  struct Ran {
    std::shared_ptr<const Prepared> prepared;
    UOps memory;
    VariableValues variables;
  };
  const std::vector<Ran>& ran() const { return ran_; }
  const std::unordered_set<UOp>& written() const { return written_; }  // BUFFERs
  uint64_t number() const { return number_; }                          // what made_inside() is meanwhile
  const detail::RandomState& random() const { return random_; }        // at the start
  // Of symbolic sizes, that were asked for or on which what ran depends.
  const std::vector<detail::SizeCondition>& conditions() const { return conditions_.all(); }

 private:
  void add_conditions(const UOp& part);

  uint64_t number_;
  int64_t first_identity_;
  detail::RandomState random_;
  detail::SizeConditions conditions_;
  std::vector<Ran> ran_;
  std::unordered_set<UOp> written_, older_, constants_;
  std::vector<uint64_t> numbers_;
};

// While it lives, this thread notes the numbers of the host that tensors are made of, by their hashes.
class NumbersSeen {
 public:
  NumbersSeen();
  NumbersSeen(const NumbersSeen&) = delete;
  NumbersSeen& operator=(const NumbersSeen&) = delete;
  ~NumbersSeen();  // one around it has seen them, too
  static NumbersSeen* current();

  std::vector<uint64_t> hashes;

 private:
  NumbersSeen* around_;
};

}  // namespace quern
