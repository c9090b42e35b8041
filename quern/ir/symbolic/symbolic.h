// Symbolic simplification: what equals what, for values of every dtype.
//
// Each list below is algebra: both sides of a rule have the same value for every value of its variables (that
// satisfies the condition), to the last bit; where evaluation is Invalid, anything goes. Index arithmetic is
// that of mathematical integers; the fixed-width integers wrap, and a rule that would not survive that asks
// for no_wrap or compares bounds. The tests go over the lists and prove the rules one by one.
//
// The form that results: sums are flat, their terms in structural order with constant factors on the right
// and the constant last; a comparison of integers has its constant on the right, and `not` in front rather
// than <=; divisions and remainders by constants have no multiples of the divisor inside, and the sign of a
// sum outside; the quotient and remainder of one number are joined where both are there; conditions and
// min/max are flat and ordered; there is one gate, and it is outermost. It stays there: an index that is
// invalid somewhere is so afterwards too.
//
// Pass "simplify":
//   %i = (r0[4] * 8 + r1[8]) // 8
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], %i), LOAD(INDEX(PARAM(; 1):float32*[4], %i + 0))), r0, r1))
//   ->
//   %0 = STORE(INDEX(PARAM(; 0):float32*[4], r0[4]), LOAD(INDEX(PARAM(; 1):float32*[4], r0)))
//   SINK(END(%0, r0, r1[8]))
//
// The same list, where loops were split:
//
// Pass "simplify split loops":
//   %i = (r0[16] * 4 + r1[4, UPCAST]) // 4
//   %y = STORE(INDEX(PARAM(; 0):float32*[64], r0 * 4 + r1), CAST(%i):float32)
//   SINK(END(%y, r0, r1); {name: "e_64", opts: ["UPCAST(0, 4)"]})
//   ->
//   %0 = STORE(INDEX(PARAM(; 0):float32*[64], r0[16] * 4 + r1[4, UPCAST]), CAST(r0):float32)
//   SINK(END(%0, r0, r1); {name: "e_64", opts: ["UPCAST(0, 4)"]})
//
// Pass "simplify workgroups", with workgroups:
//   %i = (SPECIAL(8; "gidx0") * 16 + SPECIAL(16; "lidx0")) // 16
//   SINK(STORE(INDEX(PARAM(; 0):float32*[8], %i), 1.0:float32))
//   ->
//   SINK(STORE(INDEX(PARAM(; 0):float32*[8], SPECIAL(8; "gidx0")), 1.0:float32))
#pragma once

#include <span>

#include "quern/ir/rewrite/rewrite.h"

namespace quern {

extern const Rules constants;     // operations on constants only
extern const Rules identities;    // neutral and absorbing elements, and ops in terms of others
extern const Rules booleans;      // conditions
extern const Rules sums;          // the order and like terms of sums, products, min/max and conditions
extern const Rules divisions;     // floor and truncating division and remainder
extern const Rules comparisons;   // of integers, by bounds and after moving terms
extern const Rules selects;       // where, min and max
extern const Rules casts;         // chains of casts
extern const Rules floats_exact;  // on floats, exact to the bit
extern const Rules gates;         // values behind a condition: where(gate, value, invalid)

extern const Rules symbolic;  // all of the above

// On floats, not exact: each rule states its error. Only for programs that asked for it.
extern const Rules relaxed;

struct NamedRules {
  const char* name;
  const Rules* rules;
};
std::span<const NamedRules> algebraic_lists();  // the lists that the tests prove, `relaxed` not among them

// The expression where the condition is known to hold: bounds of what the condition compares are used.
// The result equals the expression wherever the condition is true; elsewhere it may differ.
UOp simplify_under(const UOp& expression, const UOp& condition);

}  // namespace quern
