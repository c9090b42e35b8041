// where, min and max.
#include "quern/ir/symbolic/linear.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

// The one that is never less, by the bounds of the difference.
UOp greater_of(const UOp& u, const UOp& a, const UOp& b) {
  const auto x = linear_of(a), y = linear_of(b);
  if (!x || !y || !x->exact() || !y->exact()) return {};
  Linear wide_x = *x, wide_y = *y;
  wide_x.dtype = wide_y.dtype = dtypes::index;  // in mathematical integers
  const auto difference = add(wide_x, wide_y, -1);
  if (!difference) return {};
  const Bounds d = difference->interval();
  if (d.min >= 0) return u.op() == Op::MAX ? a : b;
  if (d.max <= 0) return u.op() == Op::MAX ? b : a;
  return {};
}

// A gate stays as it is: what is behind it comes first.
UOp swap_branches(const UOp&, const UOp& a, const UOp& x, const UOp& y) {
  return y.is_invalid() ? UOp() : where(a, y, x);
}

}  // namespace

const Rules selects = [] {
  const Pat a = bools("a"), b = bools("b");
  const Pat x = var("x"), y = var("y"), z = var("z");
  const Pat i = ints("i"), j = ints("j"), k = ints("k"), c0 = int_const("c0"), c1 = int_const("c1");
  return RuleList{
      {where(true, x, y), x},
      {where(false, x, y), y},
      {where(a, x, x), x},
      {where(~a, x, y).as("u"), swap_branches, "where(!a, x, y) -> where(a, y, x)"},
      {where(a, where(a, x, y), z), where(a, x, z)},
      {where(a, x, where(a, y, z)), where(a, x, z)},
      {where(a, where(b, x, y), y), where(a & b, x, y)},
      {where(a, x, where(b, x, y)), where(a | b, x, y)},
      {where(a, i + j, i + k), i + where(a, j, k)},
      {where(a, i, 0) + where(a, j, 0), where(a, i + j, 0)},
      {where(a, c0, c1) < k, where(a, c0 < k, c1 < k)},
      {where(a, c0, c1) == k, where(a, c0 == k, c1 == k)},
      {where(a, c0, c1) != k, where(a, c0 != k, c1 != k)},

      {max(x, x), x},
      {min(x, x), x},
      {max(i, min(i, j)), i},
      {min(i, max(i, j)), i},
      {max(min(i, c0), c1), c1, c0 <= c1},
      {min(max(i, c0), c1), c1, c1 <= c0},
      {op({Op::MAX, Op::MIN}, {i, j}).as("u"), greater_of, "max(a, b) -> a where a - b is never negative"},
  };
};

}  // namespace quern
