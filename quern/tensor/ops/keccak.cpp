#include "quern/tensor/ops/keccak.h"

#include <fmt/format.h>

#include <array>

#include "quern/tensor/core/support.h"
#include "quern/tensor/indexing/loop_kernel.h"

namespace quern {
namespace {

using detail::ended, detail::read, detail::seen_after, detail::together, detail::write;

constexpr int64_t kLanes = 25, kRounds = 24;
using State = std::array<UOp, kLanes>;  // lane (x, y) is number x + 5 y

UOp word(uint64_t value) { return UOp::constant(dtypes::uint64, static_cast<wide>(value)); }
UOp rotated(const UOp& x, int by) {
  return by == 0 ? x : (x << word(static_cast<uint64_t>(by))) | (x >> word(static_cast<uint64_t>(64 - by)));
}

// Bits 2^j - 1 of the constant of a round are those of a shift register of 8 bits.
std::array<uint64_t, kRounds> round_constants() {
  std::array<uint64_t, kRounds> constants{};
  unsigned shifted = 1;
  for (uint64_t& constant : constants)
    for (int j = 0; j < 7; j++) {
      if ((shifted & 1) != 0) constant |= uint64_t{1} << ((1 << j) - 1);
      shifted = shifted << 1 ^ ((shifted & 0x80) != 0 ? 0x171 : 0);
    }
  return constants;
}

State permuted(const State& a, const UOp& constant) {
  const auto at = [](int x, int y) { return static_cast<size_t>(x % 5 + 5 * (y % 5)); };
  std::array<UOp, 5> column, change;
  for (int x = 0; x < 5; x++)
    column[at(x, 0)] = a[at(x, 0)] ^ a[at(x, 1)] ^ a[at(x, 2)] ^ a[at(x, 3)] ^ a[at(x, 4)];
  for (int x = 0; x < 5; x++) change[at(x, 0)] = column[at(x + 4, 0)] ^ rotated(column[at(x + 1, 0)], 1);
  // Each lane is rotated by the next triangular number on a walk through all of them, and moves to (y, 2x +
  // 3y).
  State moved;
  moved[0] = a[0] ^ change[0];
  for (int t = 0, x = 1, y = 0; t < kRounds; t++) {
    const int by = (t + 1) * (t + 2) / 2 % 64, next = (2 * x + 3 * y) % 5;
    moved[at(y, next)] = rotated(a[at(x, y)] ^ change[at(x, 0)], by);
    x = y, y = next;
  }
  State mixed;
  for (int y = 0; y < 5; y++)
    for (int x = 0; x < 5; x++)
      mixed[at(x, y)] = moved[at(x, y)] ^ (~moved[at(x + 1, y)] & moved[at(x + 2, y)]);
  mixed[0] = mixed[0] ^ constant;
  return mixed;
}

UOp absorb(const UOps& memory, int64_t messages, int64_t blocks, int64_t words) {
  detail::LoopBuilder build;
  const UOp &out = memory[0], &in = memory[1];
  const UOp state = build.registers(dtypes::uint64, kLanes), table = build.registers(dtypes::uint64, kRounds);
  const UOp message = build.loop(messages, AxisKind::GLOBAL);
  UOps start;
  const auto constants = round_constants();
  for (int64_t i = 0; i < kLanes; i++)
    start.push_back(write(seen_after(state, {message}), UOp::index(i), word(0)));
  for (int64_t i = 0; i < kRounds; i++)
    start.push_back(
        write(seen_after(table, {message}), UOp::index(i), word(constants[static_cast<size_t>(i)])));
  const UOp started = together(start);

  const UOp block = build.loop(blocks);
  const UOps open{started, block};
  UOps combined;
  for (int64_t i = 0; i < words; i++)
    combined.push_back(write(
        seen_after(state, open), UOp::index(i),
        read(seen_after(state, open), UOp::index(i)) ^ read(in, (message * blocks + block) * words + i)));
  const UOp read_in = together(combined), round = build.loop(kRounds);
  const UOps in_round{started, block, read_in, round};
  State now;
  for (int64_t i = 0; i < kLanes; i++)
    now[static_cast<size_t>(i)] = read(seen_after(state, in_round), UOp::index(i));
  const State next = permuted(now, read(seen_after(table, in_round), round));
  UOps stored;
  for (int64_t i = 0; i < kLanes; i++)
    stored.push_back(write(seen_after(state, in_round), UOp::index(i), next[static_cast<size_t>(i)]));
  const UOp done = ended(ended(together(stored), {round}), {block});
  UOps shown;
  for (int64_t i = 0; i < kLanes; i++)
    shown.push_back(write(out, message * kLanes + i, read(seen_after(state, {done}), UOp::index(i))));
  return ended(together(shown), {message});
}

}  // namespace

Tensor keccak_states(const Tensor& blocks) {
  detail::need_axes("keccak", blocks, 2);
  if (blocks.dtype() != dtypes::uint64)
    throw DTypeError(fmt::format("keccak: blocks are uint64, given {}", detail::text(blocks)));
  const Ints sizes = detail::int_shape("keccak", blocks);
  const int64_t words = sizes.back(), count = sizes[sizes.size() - 2];
  if (words < 1 || words > kLanes)
    throw ShapeError(fmt::format("keccak: blocks of {} words; there must be 1 to {}", words, kLanes));
  if (!detail::can_run_loops(blocks))
    throw DeviceError("keccak: a tensor that is sharded; gather it first with to()");
  Shape shape = blocks.shape();
  shape.pop_back();
  shape.back() = kLanes;
  int64_t messages = 1;
  for (size_t i = 0; i + 2 < sizes.size(); i++) messages *= sizes[i];
  if (messages == 0 || count == 0) return Tensor::zeros(shape, {.dtype = dtypes::uint64});
  return detail::run_loops("keccak", {{dtypes::uint64, shape}}, {blocks},
                           [&](const UOps& memory) { return absorb(memory, messages, count, words); })[0];
}

}  // namespace quern
