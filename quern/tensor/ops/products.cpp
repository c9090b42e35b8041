// Products of vectors and matrices by the names that users of PyTorch know, and distances.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quern/tensor/core/support.h"

namespace quern {
namespace {

void need_exactly(const char* who, const char* what, const Tensor& x, int64_t axes) {
  if (x.ndim() != axes)
    throw ShapeError(fmt::format("{}: {} has shape {}, expected {} {}", who, what, shape_text(x.shape()),
                                 axes, axes == 1 ? "axis" : "axes"));
}

// beta x + alpha a b. A factor of 1 costs nothing, and x is not read where beta is 0.
Tensor scaled_sum(const char* who, const Tensor& x, const Tensor& product, double beta, double alpha) {
  detail::check_broadcasts(who, "the tensor", x, product.shape());
  const Tensor scaled = alpha == 1 ? product : product * alpha;
  if (beta == 0) return scaled;
  return (beta == 1 ? x : x * beta) + scaled;
}

// The axes but for those, then those; or the other way round; as a matrix.
Tensor as_matrix(const Tensor& x, const Ints& summed, bool summed_last) {
  Ints order;
  for (int64_t a = 0; a < x.ndim(); a++)
    if (!std::ranges::count(summed, a)) order.push_back(a);
  order.insert(summed_last ? order.end() : order.begin(), summed.begin(), summed.end());
  Dim count = 1;
  for (const int64_t a : summed) count = detail::product(count, x.size(a));
  Dim others = 1;
  for (int64_t a = 0; a < x.ndim(); a++)
    if (!std::ranges::count(summed, a)) others = detail::product(others, x.size(a));
  return x.permute(order).reshape(summed_last ? Shape{others, count} : Shape{count, others});
}

}  // namespace

Tensor Tensor::mm(const Tensor& other) const {
  need_exactly("mm", "the left matrix", *this, 2);
  need_exactly("mm", "the right matrix", other, 2);
  return dot(other);
}

Tensor Tensor::bmm(const Tensor& other) const {
  need_exactly("bmm", "the left side", *this, 3);
  need_exactly("bmm", "the right side", other, 3);
  if (!detail::same_dims(size(0), other.size(0)))
    throw ShapeError(fmt::format("bmm: {} matrices on the left, {} on the right: shapes {} and {}",
                                 size(0).text(), other.size(0).text(), shape_text(shape()),
                                 shape_text(other.shape())));
  return dot(other);
}

Tensor Tensor::mv(const Tensor& vector) const {
  need_exactly("mv", "the matrix", *this, 2);
  need_exactly("mv", "the vector", vector, 1);
  return dot(vector);
}

Tensor Tensor::outer(const Tensor& other) const {
  need_exactly("outer", "the left vector", *this, 1);
  need_exactly("outer", "the right vector", other, 1);
  return unsqueeze(1) * other.unsqueeze(0);
}

Tensor Tensor::addmm(const Tensor& a, const Tensor& b, double beta, double alpha) const {
  need_exactly("addmm", "the left matrix", a, 2);
  need_exactly("addmm", "the right matrix", b, 2);
  return scaled_sum("addmm", *this, a.dot(b), beta, alpha);
}

Tensor Tensor::baddbmm(const Tensor& a, const Tensor& b, double beta, double alpha) const {
  need_exactly("baddbmm", "the left side", a, 3);
  need_exactly("baddbmm", "the right side", b, 3);
  return scaled_sum("baddbmm", *this, a.bmm(b), beta, alpha);
}

Tensor Tensor::tensordot(const Tensor& other, int64_t axes) const {
  if (axes < 0 || axes > ndim() || axes > other.ndim())
    throw ValueError(fmt::format("tensordot: {} axes of shapes {} and {}", axes, shape_text(shape()),
                                 shape_text(other.shape())));
  Ints last, first;
  for (int64_t a = 0; a < axes; a++) {
    last.push_back(ndim() - axes + a);
    first.push_back(a);
  }
  return tensordot(other, last, first);
}

Tensor Tensor::tensordot(const Tensor& other, const Ints& axes, const Ints& other_axes) const {
  if (axes.size() != other_axes.size())
    throw ValueError(
        fmt::format("tensordot: {} axes of the left, {} of the right", axes.size(), other_axes.size()));
  (void)detail::resolve_axes("tensordot", axes, ndim());  // none twice
  (void)detail::resolve_axes("tensordot", other_axes, other.ndim());
  Ints left, right;
  for (size_t i = 0; i < axes.size(); i++) {
    left.push_back(detail::resolve_axis("tensordot", axes[i], ndim()));
    right.push_back(detail::resolve_axis("tensordot", other_axes[i], other.ndim()));
    if (!detail::same_dims(size(left.back()), other.size(right.back())))
      throw ShapeError(fmt::format("tensordot: axis {} of {} against axis {} of {}", left.back(),
                                   shape_text(shape()), right.back(), shape_text(other.shape())));
  }
  Shape result;
  for (int64_t a = 0; a < ndim(); a++)
    if (!std::ranges::count(left, a)) result.push_back(size(a));
  for (int64_t a = 0; a < other.ndim(); a++)
    if (!std::ranges::count(right, a)) result.push_back(other.size(a));
  return as_matrix(*this, left, true).dot(as_matrix(other, right, false)).reshape(result);
}

// Each element of this by the whole of the other. Axes that one of them lacks are in front, of size 1.
Tensor Tensor::kron(const Tensor& other) const {
  const auto axes = static_cast<size_t>(std::max(ndim(), other.ndim()));
  Shape a = shape(), b = other.shape(), outer, inner, joined;
  a.insert(a.begin(), axes - a.size(), Dim(1));
  b.insert(b.begin(), axes - b.size(), Dim(1));
  for (size_t i = 0; i < axes; i++) {
    outer.insert(outer.end(), {a[i], Dim(1)});
    inner.insert(inner.end(), {Dim(1), b[i]});
    joined.push_back(detail::product(a[i], b[i]));
  }
  // Each factor is computed once, not for each element of the other.
  const Tensor left = contiguous().reshape(outer), right = other.contiguous().reshape(inner);
  return (left * right).reshape(detail::checked_shape("kron", joined));
}

Tensor Tensor::trace() const {
  need_exactly("trace", "the matrix", *this, 2);
  return diagonal().sum();
}

Tensor Tensor::cross(const Tensor& other, std::optional<int64_t> axis) const {
  const auto [x, y] = detail::matched("cross", *this, other);
  int64_t at = 0;
  if (axis)
    at = detail::resolve_axis("cross", *axis, x.ndim());
  else
    while (at < x.ndim() && x.size(at) != Dim(3)) at++;
  if (at == x.ndim() || x.size(at) != Dim(3))
    throw ShapeError(axis ? fmt::format("cross: axis {} of {} has {} elements, expected 3", *axis,
                                        shape_text(x.shape()), x.size(at).text())
                          : fmt::format("cross: no axis of {} has 3 elements", shape_text(x.shape())));
  return x.roll(-1, at) * y.roll(1, at) - x.roll(1, at) * y.roll(-1, at);
}

// The differences are taken first, so that rows that are close to each other have a distance that is right to
// all digits; they are computed where they are summed, and never stored.
Tensor Tensor::cdist(const Tensor& other, double p) const {
  detail::need_axes("cdist", *this, 2);
  detail::need_axes("cdist", other, 2);
  if (!(p >= 0)) throw ValueError(fmt::format("cdist: p is {}; it must be 0 or more", p));
  if (!detail::same_dims(size(-1), other.size(-1)))
    throw ShapeError(fmt::format("cdist: rows of {} have {} elements, those of {} have {}",
                                 shape_text(shape()), size(-1).text(), shape_text(other.shape()),
                                 other.size(-1).text()));
  const auto [x, y] = detail::matched("cdist", unsqueeze(-2), other.unsqueeze(-3));
  return detail::to_float(x).sub(detail::to_float(y)).norm(p, -1);
}

Tensor Tensor::cosine_similarity(const Tensor& other, int64_t axis, double eps) const {
  const auto [a, b] = detail::matched("cosine_similarity", *this, other);
  const int64_t at = detail::resolve_axis("cosine_similarity", axis, a.ndim());
  const DType out = detail::to_float(a).dtype(), computed = detail::sum_dtype(out);
  const Tensor x = a.cast(computed), y = b.cast(computed);
  const Tensor sizes = x.norm(2, at).clamp_min(eps) * y.norm(2, at).clamp_min(eps);
  return ((x * y).sum(at) / sizes).cast(out);
}

}  // namespace quern
