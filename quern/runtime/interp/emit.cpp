#include "quern/runtime/interp/emit.h"

#include <algorithm>

namespace quern::interp {

uint32_t Emitter::new_block() {
  code_.blocks.emplace_back();
  return static_cast<uint32_t>(code_.blocks.size() - 1);
}

uint32_t Emitter::new_slots(int count) {
  const auto first = static_cast<uint32_t>(code_.slots.size());
  const size_t size = code_.slots.size() + static_cast<size_t>(count);
  code_.slots.resize(size, Slot{.i = 0});
  code_.invalid.resize(size, 0);
  may_be_invalid_.resize(size, false);
  return first;
}

uint32_t Emitter::constant(DType dtype, Const value) {
  const int lanes = dtype.lanes();
  const std::pair<int, int64_t> key{static_cast<int>(value.kind()), value.raw()};
  if (lanes == 1)
    if (const auto known = constants_.find(key); known != constants_.end()) return known->second;
  const uint32_t first = new_slots(lanes);
  for (uint32_t slot = first; slot < first + static_cast<uint32_t>(lanes); slot++) {
    code_.invalid[slot] = value.is_invalid() ? 1 : 0;
    may_be_invalid_[slot] = value.is_invalid();
    if (dtype.is_float())
      code_.slots[slot].f = value.as_float();
    else
      code_.slots[slot].i = value.as_int();
  }
  if (lanes == 1) constants_[key] = first;
  return first;
}

void Emitter::move(uint32_t block, uint32_t to, uint32_t from) {
  if (may_be_invalid_[from]) {
    elementwise(block, Op::CAST, dtypes::index, dtypes::index, to, {&from, 1});
    return;
  }
  add(block, {.run = copy, .to = to, .a = from});
}

void Emitter::loop(uint32_t block, const Loop& loop) {
  code_.loops.push_back(loop);
  add(block, {.run = run_loop, .a = static_cast<uint32_t>(code_.loops.size() - 1)});
}

void Emitter::elementwise(uint32_t block, Op op, DType out, DType in, uint32_t to,
                          std::span<const uint32_t> operands) {
  Instruction instruction{.run = function_for(op, out.scalar(), in.scalar()), .to = to, .a = operands[0]};
  if (operands.size() > 1) instruction.b = operands[1];
  if (operands.size() > 2) instruction.c = operands[2];
  if (std::ranges::any_of(operands, [&](uint32_t slot) { return may_be_invalid_[slot]; })) {
    const bool selects = op == Op::WHERE && !may_be_invalid_[operands[0]];
    instruction.run = selects ? select_or_invalid : by_eval_or_invalid;
    may_be_invalid_[to] = true;
  }
  if (instruction.run == by_eval || instruction.run == by_eval_or_invalid) {
    instruction.number = static_cast<int64_t>(code_.operations.size());
    code_.operations.push_back({op, out.scalar(), in.scalar()});
  }
  add(block, instruction);
}

uint32_t Emitter::binary(uint32_t block, Op op, uint32_t a, uint32_t b) {
  const uint32_t to = new_slot(), operands[] = {a, b};
  elementwise(block, op, dtypes::index, dtypes::index, to, operands);
  return to;
}

uint32_t Emitter::join_index(uint32_t block, uint32_t outer, uint32_t index, uint32_t size, uint32_t area) {
  const uint32_t to = new_slot();
  may_be_invalid_[to] = may_be_invalid_[outer] || may_be_invalid_[index];
  add(block, {.run = interp::join_index, .to = to, .a = outer, .b = index, .c = area, .number = size});
  return to;
}

}  // namespace quern::interp
