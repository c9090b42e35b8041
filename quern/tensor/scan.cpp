// Running sums, products and extremes along an axis.
#include <fmt/format.h>

#include <functional>
#include <limits>

#include "quern/ir/movement.h"
#include "quern/tensor/support.h"

namespace quern {
namespace {

constexpr int64_t kScanBlock = 256;
constexpr int64_t kMostScanned = int64_t{1} << 40;  // of which each sees those before it

Tensor pad_last(const Tensor& x, const Dim& before, const Dim& after, const Operand& value) {
  std::vector<std::pair<Dim, Dim>> padding(static_cast<size_t>(x.ndim()), {Dim(0), Dim(0)});
  padding.back() = {before, after};
  return x.pad_axes(padding, value);
}

// What is accumulated: a window becomes one value, and the values of two neighbours become one.
struct Accumulation {
  std::function<Tensor(const Tensor&)> over_last_axis;
  std::function<Tensor(const Tensor&, const Tensor&)> joined;
  Operand neutral;
};

Accumulation by(Op op, DType dtype) {
  return {[=](const Tensor& windows) { return detail::reduced("cumsum", windows, op, -1, false); },
          [=](const Tensor& a, const Tensor& b) { return detail::apply(op, a, b); },
          detail::neutral_of(op, dtype)};
}

// Element i sees a window of the n elements that end with it; in front of the first there are neutral ones.
Tensor scan_block(const Tensor& x, const Accumulation& a) {
  const Dim n = x.size(-1);
  const Tensor padded = pad_last(x, detail::difference(n, 1), 0, a.neutral);
  return a.over_last_axis(detail::windows(padded, x.ndim() - 1, n, n));
}

// Along the last axis. A long one is cut into blocks, which are scanned, and the totals of the blocks before
// are put on top: n * 256 steps, not n * n.
Tensor scan_last(const Tensor& x, const Accumulation& a) {
  const Dim size = x.size(-1);
  if (size.uop().vmax() == 0) return x;
  if (size.is_symbolic() || size.value() <= kScanBlock) return scan_block(x, a);
  const int64_t n = size.value(), blocks = (n + kScanBlock - 1) / kScanBlock;
  Shape cut = x.shape();
  cut.back() = blocks;
  cut.emplace_back(kScanBlock);
  const Tensor inner = scan_block(pad_last(x, 0, blocks * kScanBlock - n, a.neutral).reshape(cut), a);
  std::vector<std::optional<std::pair<Dim, Dim>>> last(cut.size());
  last.back() = {kScanBlock - 1, kScanBlock};
  const Tensor totals = scan_last(inner.shrink(last).squeeze(-1), a);
  std::vector<std::optional<std::pair<Dim, Dim>>> but_last(cut.size() - 1);
  but_last.back() = {0, blocks - 1};
  const Tensor before = pad_last(totals.shrink(but_last), 1, 0, a.neutral).unsqueeze(-1);
  const Tensor joined = a.joined(detail::broadcast_to("cumsum", before, cut), inner);
  Shape flat = x.shape();
  flat.back() = blocks * kScanBlock;
  last.assign(flat.size(), std::nullopt);
  last.back() = {0, n};
  return joined.reshape(flat).shrink(last);
}

Tensor scan(const char* who, const Tensor& x, int64_t axis, const Accumulation& a) {
  if (x.ndim() == 0 && (axis == 0 || axis == -1)) return detail::own_value(x);
  const int64_t at = detail::resolve_axis(who, axis, x.ndim());
  if (x.size(at).uop().vmax() > kMostScanned)
    throw ShapeError(
        fmt::format("{}: axis {} of {} has more than 2^40 elements", who, axis, shape_text(x.shape())));
  return detail::own_value(scan_last(x.transpose(at, -1), a).transpose(at, -1), x);
}
Tensor scan(const char* who, const Tensor& x, int64_t axis, Op op) {
  return scan(who, x, axis, by(op, x.dtype()));
}

// The place of an extreme so far is the last place at which the element is the extreme so far.
std::pair<Tensor, Tensor> scan_with_places(const char* who, const Tensor& x, int64_t axis, Op op) {
  const Tensor values = scan(who, x, axis, op);
  if (x.ndim() == 0) return {values, Tensor::zeros({}, {.dtype = default_int()})};
  const int64_t at = detail::resolve_axis(who, axis, x.ndim());
  const Tensor record = x.is_floating_point() ? x.eq(values) | x.isnan() : x.eq(values);
  const Tensor places = record.where(detail::positions(x, at, dtypes::int64), 0);
  return {values, scan(who, places, at, Op::MAX).cast(detail::place_dtype(x.size(at)))};
}

}  // namespace

Tensor Tensor::cumsum(int64_t axis) const {
  const Tensor sums = scan("cumsum", cast(detail::sum_dtype(dtype())), axis, Op::ADD);
  return is_floating_point() ? sums.cast(dtype()) : sums;
}
Tensor Tensor::cumprod(int64_t axis) const {
  const Tensor products = scan("cumprod", cast(detail::sum_dtype(dtype())), axis, Op::MUL);
  return is_floating_point() ? products.cast(dtype()) : products;
}
std::pair<Tensor, Tensor> Tensor::cummax(int64_t axis) const {
  return scan_with_places("cummax", *this, axis, Op::MAX);
}
std::pair<Tensor, Tensor> Tensor::cummin(int64_t axis) const {
  return scan_with_places("cummin", *this, axis, Op::MIN);
}

Tensor Tensor::logcumsumexp(int64_t axis) const {
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    return scan("logcumsumexp", x, axis,
                {[](const Tensor& windows) { return windows.logsumexp(-1); },
                 [](const Tensor& a, const Tensor& b) { return a.logaddexp(b); },
                 -std::numeric_limits<double>::infinity()});
  });
}

}  // namespace quern
