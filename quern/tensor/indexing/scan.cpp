// Running sums, products and extremes along an axis. Where all sizes are numbers they are kernels of one pass
// or two over the elements (scan_kernel.h), and their gradients are accumulations, too; otherwise they are
// sums over windows.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numbers>

#include "quern/ir/node/eval.h"
#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/indexing/scan_kernel.h"

namespace quern {
namespace {

constexpr int64_t kScanBlock = 256;
constexpr int64_t kMostScanned = int64_t{1} << 40;  // of which each sees those before it

Tensor pad_last(const Tensor& x, const Dim& before, const Dim& after, const Operand& value) {
  std::vector<std::pair<Dim, Dim>> padding(static_cast<size_t>(x.ndim()), {Dim(0), Dim(0)});
  padding.back() = {before, after};
  return x.pad_axes(padding, value);
}

// ---- sums over windows

// A window becomes one value, and the values of two neighbours become one.
struct Windows {
  std::function<Tensor(const Tensor&)> over_last_axis;
  std::function<Tensor(const Tensor&, const Tensor&)> joined;
  Operand neutral;
};

Windows by(Op op, DType dtype) {
  return {[=](const Tensor& windows) { return detail::reduced("cumsum", windows, op, -1, false); },
          [=](const Tensor& a, const Tensor& b) { return detail::apply(op, a, b); },
          detail::neutral_of(op, dtype)};
}

// Element i sees a window of the n elements that end with it; in front of the first there are neutral ones.
Tensor scan_block(const Tensor& x, const Windows& a) {
  const Dim n = x.size(-1);
  const Tensor padded = pad_last(x, detail::difference(n, 1), 0, a.neutral);
  return a.over_last_axis(detail::windows(padded, x.ndim() - 1, n, n));
}

// Along the last axis. A long one is cut into blocks, which are scanned, and the totals of the blocks before
// are put on top: n * 256 steps, not n * n.
Tensor scan_last(const Tensor& x, const Windows& a) {
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

// ---- kernels

using detail::Accumulation;
using detail::KernelValues;
using Gradients = std::vector<std::optional<Tensor>>;

UOp zero_that_changes_nothing(DType dtype) {  // 0.0 + -0.0 is 0.0
  return dtype.is_float() ? UOp::constant(dtype, -0.0) : UOp::constant(dtype, 0);
}

// The neighbour before (by 1) or behind (by -1) each element along an axis, `fill` where there is none.
Tensor neighbour(const Tensor& x, int64_t axis, int by, const Operand& fill) {
  std::vector<std::optional<std::pair<Dim, Dim>>> bounds(static_cast<size_t>(x.ndim()));
  std::vector<std::pair<Dim, Dim>> padding(static_cast<size_t>(x.ndim()), {Dim(0), Dim(0)});
  const auto at = static_cast<size_t>(axis);
  const int64_t n = x.size(axis).value();
  bounds[at] = by > 0 ? std::pair<Dim, Dim>(0, n - 1) : std::pair<Dim, Dim>(1, n);
  padding[at] = by > 0 ? std::pair<Dim, Dim>(1, 0) : std::pair<Dim, Dim>(0, 1);
  return x.shrink(bounds).pad_axes(padding, fill);
}
// In the direction of an accumulation.
Tensor previous(const Tensor& x, int64_t axis, bool reversed, const Operand& fill) {
  return neighbour(x, axis, reversed ? -1 : 1, fill);
}
Tensor following(const Tensor& x, int64_t axis, bool reversed, const Operand& fill) {
  return neighbour(x, axis, reversed ? 1 : -1, fill);
}

Tensor sums(const Tensor& x, int64_t axis, bool reversed) {
  const DType dtype = x.dtype();
  const Accumulation what{.name = "cumsum",
                          .states = {dtype},
                          .results = {dtype},
                          .neutral = {zero_that_changes_nothing(dtype)},
                          .first = [](const UOps& e, const UOp&) { return e; },
                          .combine = [](const UOps& a, const UOps& b) { return UOps{a[0] + b[0]}; },
                          .result = [](const UOps& s) { return s; }};
  return detail::accumulated_along(what, {x}, axis, reversed, [=](const KernelValues& v) {
    return Gradients{sums(v.given[0], axis, !reversed)};
  })[0];
}

// r[i] = b[i] + a[i] r[i - 1]. In blocks only if no factor is greater than 1: their product would overflow.
Tensor recurrence(const Tensor& factors, const Tensor& added, int64_t axis, bool reversed, bool in_order) {
  const DType dtype = added.dtype();
  const Accumulation what{
      .name = in_order ? "recurrence" : "decay",
      .states = {dtype, dtype},
      .results = {dtype},
      .in_order = in_order,
      .neutral = {UOp::constant(dtype, 1.0), zero_that_changes_nothing(dtype)},
      .first = [](const UOps& e, const UOp&) { return e; },
      .combine = [](const UOps& a, const UOps& b) { return UOps{a[0] * b[0], b[1] + b[0] * a[1]}; },
      .result = [](const UOps& s) { return UOps{s[1]}; }};
  return detail::accumulated_along(what, {factors, added}, axis, reversed, [=](const KernelValues& v) {
    const Tensor g =
        recurrence(following(v.inputs[0], axis, reversed, 0), v.given[0], axis, !reversed, in_order);
    return Gradients{g * previous(v.outputs[0], axis, reversed, 0), g};
  })[0];
}

// The same with factors that are 1 or 0: the sum begins anew where `goes_on` is false.
Tensor sums_of_runs(const Tensor& goes_on, const Tensor& added, int64_t axis, bool reversed) {
  const DType dtype = added.dtype();
  const Accumulation what{
      .name = "sums_of_runs",
      .states = {dtypes::bool_, dtype},
      .results = {dtype},
      .neutral = {UOp::boolean(true), zero_that_changes_nothing(dtype)},
      .first = [](const UOps& e, const UOp&) { return e; },
      .combine = [](const UOps& a,
                    const UOps& b) { return UOps{a[0] & b[0], where(b[0], a[1] + b[1], b[1])}; },
      .result = [](const UOps& s) { return UOps{s[1]}; }};
  return detail::accumulated_along(what, {goes_on, added}, axis, reversed, [=](const KernelValues& v) {
    const Tensor behind = following(v.inputs[0], axis, reversed, false);
    return Gradients{std::nullopt, sums_of_runs(behind, v.given[0], axis, !reversed)};
  })[0];
}

// The gradient of x[i] is the product of those before it, times the sum over what follows of the gradient and
// the product of those between: no division, so zeros are exact.
Tensor products(const Tensor& x, int64_t axis) {
  const DType dtype = x.dtype();
  const Accumulation what{.name = "cumprod",
                          .states = {dtype},
                          .results = {dtype},
                          .in_order = true,
                          .neutral = {UOp::constant(dtype, make_const(dtype, 1))},
                          .first = [](const UOps& e, const UOp&) { return e; },
                          .combine = [](const UOps& a, const UOps& b) { return UOps{a[0] * b[0]}; },
                          .result = [](const UOps& s) { return s; }};
  return detail::accumulated_along(what, {x}, axis, false, [=](const KernelValues& v) {
    const Tensor behind = recurrence(following(v.inputs[0], axis, false, 0), v.given[0], axis, true, true);
    return Gradients{previous(v.outputs[0], axis, false, 1) * behind};
  })[0];
}

// The last of equal extremes so far; the first NaN stays, and the last NaN is its place.
std::pair<Tensor, Tensor> extremes(const Tensor& x, int64_t axis, Op op) {
  const DType dtype = x.dtype(), index = detail::place_dtype(x.size(axis));
  const Accumulation what{
      .name = op == Op::MAX ? "cummax" : "cummin",
      .states = {dtype, index},
      .results = {dtype, index},
      .neutral = {UOp::constant(dtype, identity_element(op, dtype)), UOp::constant(index, 0)},
      .first = [=](const UOps& e, const UOp& position) { return UOps{e[0], position.cast(index)}; },
      .combine =
          [=](const UOps& a, const UOps& b) {
            UOp is_record = op == Op::MAX ? b[0] >= a[0] : b[0] <= a[0];
            if (dtype.is_float()) is_record = is_record | ne(b[0], b[0]);
            return UOps{where(is_record, b[0], a[0]), where(is_record, b[1], a[1])};
          },
      .result = [](const UOps& s) { return s; }};
  const std::vector<Tensor> found =
      detail::accumulated_along(what, {x}, axis, false, [=](const KernelValues& v) {
        // places only grow: those that are alike stand side by side, and the first is the place itself
        const Tensor& places = v.outputs[1];
        const Tensor total = sums_of_runs(places.eq(neighbour(places, axis, -1, -1)), v.given[0], axis, true);
        return Gradients{places.eq(detail::positions(places, axis, index)).where(total, 0)};
      });
  return {found[0], found[1]};
}

// The state (m, s) stands for m + log(s), where m is the greatest exponent.
Tensor log_sums(const Tensor& x, int64_t axis) {
  const DType dtype = x.dtype();
  const auto exponential = [dtype](const UOp& u) {
    return UOp::alu(Op::EXP2, {u * UOp::constant(dtype, std::numbers::log2e)});
  };
  const Accumulation what{
      .name = "logcumsumexp",
      .states = {dtype, dtype},
      .results = {dtype},
      .neutral = {UOp::constant(dtype, -std::numeric_limits<double>::infinity()), UOp::constant(dtype, 0.0)},
      .first = [=](const UOps& e, const UOp&) { return UOps{e[0], UOp::constant(dtype, 1.0)}; },
      .combine =
          [=](const UOps& a, const UOps& b) {
            const UOp greater = a[0] < b[0], zero = UOp::constant(dtype, 0.0);
            const UOp distance = where(greater, a[0] - b[0], b[0] - a[0]);
            const UOp factor = exponential(where(eq(a[0], b[0]), zero, distance));  // infinities may be equal
            return UOps{max(a[0], b[0]), where(greater, a[1] * factor + b[1], a[1] + b[1] * factor)};
          },
      .result =
          [=](const UOps& s) {
            const UOp log = UOp::alu(Op::LOG2, {s[1]}) * UOp::constant(dtype, std::numbers::ln2);
            return UOps{s[0] + log};
          }};
  return detail::accumulated_along(what, {x}, axis, false, [=](const KernelValues& v) {
    // the gradient of x[i] is exp(x[i] - y[i]) times r[i] = g[i] + exp(y[i] - y[i + 1]) r[i + 1]
    const Tensor &in = v.inputs[0], &y = v.outputs[0];
    const auto decay = [](const Tensor& less, const Tensor& more) {
      return less.eq(more).where(1, less.eq(more).where(0, less - more).exp());
    };
    const Tensor nothing = y.eq(-std::numeric_limits<double>::infinity());
    const Tensor behind = recurrence(decay(y, following(y, axis, false, 0)), v.given[0], axis, true, false);
    return Gradients{nothing.where(0, decay(in, y) * behind)};
  })[0];
}

// ---- either

int64_t checked_axis(const char* who, const Tensor& x, int64_t axis) {
  const int64_t at = detail::resolve_axis(who, axis, x.ndim());
  if (x.size(at).uop().vmax() > kMostScanned)
    throw ShapeError(
        fmt::format("{}: axis {} of {} has more than 2^40 elements", who, axis, shape_text(x.shape())));
  return at;
}

template <class Kernel>
Tensor scan(const char* who, const Tensor& x, int64_t axis, const Windows& windows, const Kernel& kernel) {
  if (x.ndim() == 0 && (axis == 0 || axis == -1)) return detail::own_value(x);
  const int64_t at = checked_axis(who, x, axis);
  if (!detail::has_elements(x)) return detail::own_value(x);
  if (detail::can_run_loops(x)) return kernel(x, at);
  return detail::own_value(scan_last(x.transpose(at, -1), windows).transpose(at, -1), x);
}

// The place of an extreme so far is the last place at which the element is the extreme so far.
std::pair<Tensor, Tensor> scan_with_places(const char* who, const Tensor& x, int64_t axis, Op op) {
  if (x.ndim() == 0 && (axis == 0 || axis == -1))
    return {detail::own_value(x), Tensor::zeros({}, {.dtype = default_int()})};
  const int64_t at = checked_axis(who, x, axis);
  if (!detail::has_elements(x))
    return {detail::own_value(x), Tensor::zeros(x.shape(), {.dtype = default_int()})};
  if (detail::can_run_loops(x)) return extremes(x, at, op);
  const auto along = [&](const Tensor& t, Op o) {
    return detail::own_value(scan_last(t.transpose(at, -1), by(o, t.dtype())).transpose(at, -1), t);
  };
  const Tensor values = along(x, op);
  const Tensor record = x.is_floating_point() ? x.eq(values) | x.isnan() : x.eq(values);
  const Tensor places = record.where(detail::positions(x, at, dtypes::int64), 0);
  return {values, along(places, Op::MAX).cast(detail::place_dtype(x.size(at)))};
}

}  // namespace

Tensor Tensor::cumsum(int64_t axis) const {
  const Tensor x = cast(detail::sum_dtype(dtype()));
  const Tensor result = scan("cumsum", x, axis, by(Op::ADD, x.dtype()),
                             [](const Tensor& t, int64_t at) { return sums(t, at, false); });
  return is_floating_point() ? result.cast(dtype()) : result;
}
Tensor Tensor::cumprod(int64_t axis) const {
  const Tensor x = cast(detail::sum_dtype(dtype()));
  const Tensor result = scan("cumprod", x, axis, by(Op::MUL, x.dtype()), products);
  return is_floating_point() ? result.cast(dtype()) : result;
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
                 -std::numeric_limits<double>::infinity()},
                log_sums);
  });
}

}  // namespace quern
