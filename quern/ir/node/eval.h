// What each elementwise op computes, on constants. This is the definition: constant folding uses it, the
// INTERP device executes it, and every other device has to agree with it.
#pragma once

#include <span>

#include "quern/ir/node/const.h"
#include "quern/ir/node/op.h"

namespace quern {

// The value of `op` on `args`; `in` is the dtype of the operands (of WHERE: of its second and third), `out`
// that of the result. A vector dtype stands for its scalar. Works for every elementwise op; any Invalid
// operand that is used makes the result Invalid. WHERE uses only the operand that it picks; false AND x is
// false and true OR x is true, whatever x is.
//
// What C leaves open is defined here:
//   x // 0 and x % 0 are 0, in floor and truncating form; INT_MIN // -1 wraps to INT_MIN, and the remainder
//   is 0; integer ADD, SUB, MUL, NEG wrap; a shift by the width or more, or by a negative amount, gives 0
//   (SHR of a negative number: -1); conversions as convert() in const.h; MAX and MIN of floats give NaN if
//   either is NaN, and order -0.0 before 0.0; POW of integers wraps, with a negative exponent it is 0 except
//   for the bases 1 and -1, and pow(0, negative) is 0; integer AND/OR/XOR and shifts are those of two's
//   complement.
//
// Floats: ADD, SUB, MUL, FDIV, RECIP, SQRT, TRUNC and MULACC are correctly rounded, whatever the type. EXP2,
// LOG2, SIN, COS, POW come from the C library in double, rounded.
//
// Bools: ADD is OR and MUL is AND, in MULACC too; all else is as for an unsigned integer of one bit (MAX is
// OR, MIN is AND, SUB is XOR, NEG changes nothing).
//
// An op on a dtype that it has no meaning for (XOR of floats, SQRT of integers) is a mistake of ours:
// InternalError.
Const eval(Op op, DType out, DType in, std::span<const Const> args);

// The value a reduce starts from, with op(e, x) = x: 0 for ADD, 1 for MUL, the least value for MAX, the
// greatest for MIN, all ones for AND, 0 for OR and XOR. (0.0 + -0.0 is 0.0: a float sum never gives -0.0.)
// DTypeError for others.
Const identity_element(Op op, DType dtype);

}  // namespace quern
