// Integer expressions as sums of terms with constant factors. Internal to symbolic.
#pragma once

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "quern/base/small_vector.h"
#include "quern/ir/node/uop.h"

namespace quern {

// constant + sum of factor * term. Terms are distinct, in structural order, and no factor is 0. For
// fixed-width integers factors and constant are values of the dtype, and the sum is meant modulo its width.
struct Linear {
  struct Term {
    UOp value;
    wide factor;
  };
  DType dtype;
  SmallVector<Term, 6> terms;
  wide constant = 0;

  bool is_constant() const { return terms.empty(); }
  // The interval of the sum in mathematical integers. Loops of symbolic size count: r0[n] < n.
  Bounds interval() const;
  // Can the sum be computed without wrapping? Always so for index.
  bool exact() const;
  bool fits_dtype() const;  // the same by its bounds, for index too: where a rule makes a sum larger
};

inline Linear term_of(const UOp& value) {
  return {.dtype = value.dtype(), .terms = {{value, 1}}, .constant = 0};
}
inline Linear constant_sum(DType dtype, wide v) { return {.dtype = dtype, .terms = {}, .constant = v}; }

// None when the sum is too long to be worth it, or a factor leaves the dtype's range.
std::optional<Linear> linear_of(const UOp& u);

// None when a factor leaves the dtype's range.
struct Multiple {
  const Linear& sum;
  wide factor;
};
std::optional<Linear> total(std::initializer_list<Multiple> parts);
std::optional<Linear> add(const Linear& a, const Linear& b, wide factor_of_b = 1);
std::optional<Linear> scaled(const Linear& a, wide factor);

UOp to_uop(const Linear& linear);
bool is_written_as(const UOp& u, const Linear& linear);  // is `u` what to_uop() would make? Makes no nodes.

// Splits into the part whose factors are multiples of d, divided by d (without the constant), and the rest.
std::pair<Linear, Linear> split_multiples(const Linear& linear, wide d);

// The factors of a product, in order.
UOps factors_of(const UOp& term);

wide gcd(wide a, wide b);
wide gcd_of_factors(const Linear& linear, wide start = 0);

}  // namespace quern
