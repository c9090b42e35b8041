// Conditions. `not` is XOR with true, and bools have no arithmetic: it is the logical ops by other names.
#include "quern/ir/symbolic/symbolic.h"

namespace quern {

const Rules booleans = [] {
  const Pat a = bools("a"), b = bools("b");
  const Pat i = ints("i"), j = ints("j");
  const Pat x = var("x", types::ints | types::floats), y = var("y", types::ints | types::floats);
  return RuleList{
      {a & true, a},
      {a & false, false},
      {a & a, a},
      {a & ~a, false},
      {a | true, true},
      {a | false, a},
      {a | a, a},
      {a | ~a, true},
      {a ^ false, a},
      {a ^ a, false},
      {~~a, a},
      {a & (a | b), a},
      {a | (a & b), a},
      {a & (~a | b), a & b},
      {a | (~a & b), a | b},
      {(a & b) | (a & ~b), a},

      // Other names for them.
      {a + b, a | b},
      {a * b, a & b},
      {max(a, b), a | b},
      {min(a, b), a & b},
      {a != b, a ^ b},
      {a == b, ~(a ^ b)},
      {a < b, ~a & b},
      {a <= b, ~a | b},

      // Where the condition is negated, so is what it compares; <= of integers is the negation of <.
      {~(x != y), x == y},
      {~(x == y), x != y},
      {i <= j, ~(j < i)},
      {where(a, b, false), a & b},
      {where(a, true, b), a | b},
      {where(a, false, b), ~a & b},
      {where(a, b, true), ~a | b},
  };
};

}  // namespace quern
