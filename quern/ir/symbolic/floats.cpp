// Rules on floats: exact ones, and those that a program has to ask for.
#include <cmath>

#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

// x / c is x * (1 / c) to the bit when c is a power of two and 1 / c is a finite value of the dtype.
UOp multiply_by_reciprocal(const UOp& x, const UOp& c) {
  const double v = c.value().as_float();
  int exponent = 0;
  if (!std::isfinite(v) || v == 0.0 || std::fabs(std::frexp(v, &exponent)) != 0.5) return {};
  const double inverse = 1.0 / v;
  if (!std::isfinite(inverse) || round_float(c.dtype(), inverse) != inverse) return {};
  return UOp::make(Op::MUL, x.dtype(), {x, UOp::constant(c.dtype(), inverse)});
}

}  // namespace

const Rules floats_exact = [] {
  const Pat x = floats("x"), y = floats("y"), c0 = float_const("c0");
  return RuleList{
      {x + -0.0, x},
      {x * 1, x},
      {x / 1.0, x},
      {(x * -1) * -1, x},
      {(x * -1) * c0, x * fold(c0 * -1)},
      {(x * -1) * (y * -1), x * y},
      {x < x, false},
      {x / c0, multiply_by_reciprocal, "x / 2^k -> x * 2^-k"},
      {op(Op::TRUNC, {op(Op::TRUNC, {x})}), op(Op::TRUNC, {x})},
  };
};

// The error of each, for finite x where the result is finite.
const Rules relaxed = [] {
  const Pat x = floats("x"), y = floats("y"), c0 = float_const("c0"), c1 = float_const("c1");
  return RuleList{
      {x + 0, x},                                // the sign of zero
      {x * 0, 0},                                // NaN and infinity become 0; the sign of zero
      {x + x * -1, 0},                           // the same
      {x / x, 1},                                // NaN (of 0, infinity, NaN) becomes 1
      {(x + c0) + c1, x + fold(c0 + c1)},        // up to 1 ulp of the larger constant, for each constant
      {(x * c0) * c1, x * fold(c0 * c1)},        // up to 1.5 ulp; overflow of a step is avoided
      {x * c0 + x * c1, x * fold(c0 + c1)},      // up to 2 ulp of the larger product
      {x + x, x * 2.0},                          // exact; here because sums keep their tree otherwise
      {op(Op::RECIP, {op(Op::RECIP, {x})}), x},  // up to 1 ulp; overflow of a step is avoided
      {op(Op::SQRT, {x * x}), max(x, x * -1)},   // up to 1 ulp; overflow of a step is avoided
      {op(Op::EXP2, {op(Op::LOG2, {x})}), x},    // a few ulp times the logarithm; NaN of negatives is lost
      {op(Op::LOG2, {op(Op::EXP2, {x})}), x},    // half an ulp of 1 absolute; overflow of a step is avoided
      {(x / y) / c0, x / (y * c0)},              // up to 1.5 ulp
  };
};

}  // namespace quern
