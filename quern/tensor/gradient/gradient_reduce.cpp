// Gradients of sums, extremes and products over axes.
#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/node/reduce.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/gradient/gradient_rules.h"

namespace quern {
namespace {

UOp sum(const UOp& x, const Ints& axes) {
  return reduce(x.cast(detail::sum_dtype(x.dtype())), Op::ADD, axes).cast(x.dtype());
}

// Everything that equals the extreme gets the same part of the gradient.
UOp to_extremes(const UOp& node, const UOp& gradient) {
  const UOp& x = node.src(0);
  const DType wide_dtype = detail::sum_dtype(x.dtype());
  const UOp is_extreme = eq(x, expand(node, x.shape()));
  const UOp count = reduce(is_extreme.cast(wide_dtype), Op::ADD, node.arg().reduce().axes);
  const UOp share = (gradient.cast(wide_dtype) / count).cast(x.dtype());
  return where(is_extreme, expand(share, x.shape()), filled_like(x, 0));
}

// true on the diagonal of an n by n matrix: ones in the first column of a matrix with a column more, read n
// by n.
UOp diagonal(const UOp& n) {
  const UOp one = UOp::index(1), zero = UOp::index(0), wider = (n + 1).simplify();
  const UOp column = full(UOps{n, one}, UOp::boolean(true));
  const UOp padded = pad(column, UOps{zero, zero}, UOps{n, wider});
  const UOp flat = reshape(padded, UOps{elements_in(UOps{n, wider})});
  const UOp square = elements_in(UOps{n, n});
  return reshape(shrink(flat, UOps{zero}, UOps{square}), UOps{n, n});
}

// x is (rows, n): at each place the product of the others in the row, from a matrix a row.
UOp products_of_others_directly(const UOp& x) {
  const UOp &rows = x.shape()[0], &n = x.shape()[1], one = UOp::index(1);
  const UOps cube{rows, n, n};
  const UOp on_diagonal = expand(reshape(diagonal(n), UOps{one, n, n}), cube);
  const UOp others = where(on_diagonal, full(cube, UOp::constant(x.dtype(), 1.0)),
                           expand(reshape(x, UOps{rows, one, n}), cube));
  return reshape(reduce(others, Op::MUL, {2}), UOps{rows, n});
}

// The same in blocks: the others within the block times the other blocks. No division, so zeros need no care,
// and the gradient of this is right too. The work is n * kProductBlock a level.
constexpr int64_t kProductBlock = 32;

UOp products_of_others(const UOp& x) {
  struct Level {
    UOp within;  // (rows, blocks, kProductBlock): products of the others of a block
    UOp rows, n, blocks;
  };
  std::vector<Level> levels;
  UOp at = x;
  while (at.shape()[1].vmax() > kProductBlock) {
    const UOp rows = at.shape()[0], n = at.shape()[1], zero = UOp::index(0),
              block = UOp::index(kProductBlock);
    const UOp blocks = ((n + (kProductBlock - 1)) / kProductBlock).simplify(),
              whole = (blocks * kProductBlock).simplify();
    const UOps sizes{rows, whole};
    const UOp inside = pad(full(at.shape(), UOp::boolean(true)), UOps{zero, zero}, sizes);
    const UOp filled =
        where(inside, pad(at, UOps{zero, zero}, sizes), full(sizes, UOp::constant(x.dtype(), 1.0)));
    const UOp in_blocks = reshape(filled, UOps{(rows * blocks).simplify(), block});
    levels.push_back({products_of_others_directly(in_blocks), rows, n, blocks});
    at = reshape(reduce(in_blocks, Op::MUL, {1}), UOps{rows, blocks});
  }
  UOp result = products_of_others_directly(at);
  for (; !levels.empty(); levels.pop_back()) {
    const auto& [within, rows, n, blocks] = levels.back();
    const UOps cube{rows, blocks, UOp::index(kProductBlock)};
    const UOp other_blocks = expand(reshape(result, UOps{rows, blocks, UOp::index(1)}), cube);
    const UOp flat =
        reshape(reshape(within, cube) * other_blocks, UOps{rows, (blocks * kProductBlock).simplify()});
    result = shrink(flat, UOps{UOp::index(0), UOp::index(0)}, UOps{rows, n});
  }
  return result;
}

// The reduced axes are moved to the end and made one.
UOp to_factors(const UOp& node, const UOp& gradient) {
  const UOp& x = node.src(0);
  const Ints& axes = node.arg().reduce().axes;
  Ints order;
  for (int64_t axis = 0; axis < std::ssize(x.shape()); axis++)
    if (std::ranges::find(axes, axis) == axes.end()) order.push_back(axis);
  order.insert(order.end(), axes.begin(), axes.end());

  const UOp moved = permute(x, order);
  const Sources sizes = moved.shape();
  const size_t kept = sizes.size() - axes.size();
  const UOp rows = reshape(moved, UOps{elements_in(sizes.first(kept)), elements_in(sizes.subspan(kept))});
  const UOp others = permute(reshape(products_of_others(rows), sizes), inverse_order(order));
  return expand(gradient, x.shape()) * others;
}

}  // namespace

UOp reduce_to_source(const UOp& node, const UOp& gradient) {
  const ReduceArg& reduced = node.arg().reduce();
  switch (reduced.axes.empty() ? Op::NOOP : reduced.op) {
    case Op::ADD: return expand(gradient, Reduction(node).value().shape());
    case Op::MAX:
    case Op::MIN: return to_extremes(node, gradient);
    case Op::MUL: return to_factors(node, gradient);
    default: throw Error(fmt::format("gradient: a REDUCE by {} has no gradient", name(reduced.op)));
  }
}

UOp expand_to_source(const UOp& node, const UOp& gradient) {
  const UOps &from = node.src(0).shape(), &to = node.shape();
  Ints axes;
  for (size_t i = 0; i < to.size(); i++)
    if (from[i].equals(1) && !to[i].equals(1)) axes.push_back(static_cast<int64_t>(i));
  return sum(gradient, axes);
}

}  // namespace quern
