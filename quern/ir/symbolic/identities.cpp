// Constant folding, neutral elements, and ops that are other ops.
#include <array>

#include "quern/ir/node/eval.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

// Sizes do not wrap: folding that would leave the index type is refused, and the program stays wrong visibly.
bool leaves_index(const UOp& u) {
  if (!u.dtype().is_index() || !is_alu(u.op()) || u.src().size() != 2) return false;
  if (!u.src(0).is_int_const() || !u.src(1).is_int_const()) return false;
  const wide a = u.src(0).int_value(), b = u.src(1).int_value();
  switch (u.op()) {
    case Op::ADD: return !fits(dtypes::index, a + b);
    case Op::SUB: return !fits(dtypes::index, a - b);
    case Op::MUL: return !fits(dtypes::index, a * b);
    default: return false;
  }
}

UOp fold_constants(const UOp& u) {
  if (leaves_index(u)) return {};
  std::array<Const, 3> args;
  for (size_t i = 0; i < u.src().size(); i++) args[i] = u.src(i).value();
  return UOp::constant(u.dtype(),
                       eval(u.op(), u.dtype(), u.src().back().dtype(), {args.data(), u.src().size()}));
}

// A value whose bounds meet is a constant; behind a gate it stays there, and so does a loop that may have no
// step.
UOp fold_bounds(const UOp& u) {
  if (u.op() == Op::RANGE && u.src(0).vmin() < 1) return {};
  if (u.op() == Op::WHERE && (u.src(1).is_invalid() || u.src(2).is_invalid())) return {};
  const Bounds b = u.bounds();
  return b.min == b.max ? UOp::constant(u.dtype(), wrap(u.dtype(), b.min)) : UOp();
}

}  // namespace

const Rules constants = [] {
  return RuleList{
      {each(ops::elementwise, op(Op::CONST)).as("x"), fold_constants, "an op on constants -> its value"},
      {op(ops::alu | Op::CAST | Op::RANGE | Op::SPECIAL).of(types::exact).as("x"), fold_bounds,
       "a value with one possible value -> that constant"},
  };
};

const Rules identities = [] {
  const Pat i = ints("i"), j = ints("j"), k = ints("k"), c0 = int_const("c0"), c1 = int_const("c1");
  const Pat x = var("x", types::ints | types::floats), y = var("y", types::ints | types::floats);
  return RuleList{
      {i + 0, i},
      {i * 0, 0},
      {i * 1, i},
      {i & 0, 0},
      {i & -1, i},
      {i & i, i},
      {i | 0, i},
      {i | -1, -1},
      {i | i, i},
      {i ^ 0, i},
      {i ^ i, 0},
      {(i ^ c0) ^ c1, i ^ fold(c0 ^ c1)},
      {(i & c0) & c1, i & fold(c0 & c1)},
      {(i | c0) | c1, i | fold(c0 | c1)},
      {i & c0, i % exact(c0 + 1), c0 > 0 && ((c0 + 1) & c0) == 0},  // a mask is a remainder

      // In terms of fewer ops.
      {op(Op::SUB, {x, y}), x + y * -1},
      {op(Op::NEG, {x}), x * -1},
      {op(Op::MULACC, {i, j, k}), i * j + k},
      {i << 0, i},
      {i >> 0, i},
      {i << c0, i * fold(Pat(1) << c0), c0 > 0},
      {i >> c0, i / exact(Pat(1) << c0), c0 > 0},
  };
};

}  // namespace quern
