#include "quern/ir/symbolic/symbolic.h"

#include <algorithm>
#include <array>

namespace quern {

const Rules symbolic = [] {
  // Gates first: other rules may drop an operand that is invalid somewhere.
  return gates + constants + identities + booleans + casts + floats_exact + selects + divisions +
         comparisons + sums;
};

std::span<const NamedRules> algebraic_lists() {
  static const std::array<NamedRules, 10> lists = {{{"constants", &constants},
                                                    {"identities", &identities},
                                                    {"booleans", &booleans},
                                                    {"sums", &sums},
                                                    {"divisions", &divisions},
                                                    {"comparisons", &comparisons},
                                                    {"selects", &selects},
                                                    {"casts", &casts},
                                                    {"floats_exact", &floats_exact},
                                                    {"gates", &gates}}};
  return lists;
}

UOp UOp::simplify() const {
  if (is_const() || src().empty()) return *this;
  if (is_elementwise(op()) &&
      std::ranges::all_of(src(), &UOp::is_const))  // sizes and strides, most of the time
    if (UOp value = constants.apply(*this).result; value && value.is_const()) return value;
  return graph_rewrite(*this, symbolic, {.name = "symbolic", .to_simplest = true});
}

}  // namespace quern
