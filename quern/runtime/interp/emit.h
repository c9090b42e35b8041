// Adds instructions to code, choosing the function for each; keeps track of which slots may hold Invalid.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "quern/runtime/interp/machine.h"

namespace quern::interp {

class Emitter {
 public:
  explicit Emitter(Code& code) : code_(code) {}

  uint32_t new_block();
  uint32_t new_slots(int count);  // one behind the other
  uint32_t new_slot() { return new_slots(1); }
  uint32_t constant(DType dtype, Const value);

  void add(uint32_t block, const Instruction& instruction) { code_.blocks[block].push_back(instruction); }
  void move(uint32_t block, uint32_t to, uint32_t from);
  void loop(uint32_t block, const Loop& loop);
  void elementwise(uint32_t block, Op op, DType out, DType in, uint32_t to,
                   std::span<const uint32_t> operands);
  uint32_t binary(uint32_t block, Op op, uint32_t a, uint32_t b);  // of indices
  uint32_t join_index(uint32_t block, uint32_t outer, uint32_t index, uint32_t size, uint32_t area);

 private:
  Code& code_;
  std::vector<bool> may_be_invalid_;  // of each slot
  std::map<std::pair<int, int64_t>, uint32_t> constants_;
};

}  // namespace quern::interp
