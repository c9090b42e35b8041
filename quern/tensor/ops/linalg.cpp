// Decompositions of matrices. All of them work on the last two axes; the others are a batch.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quern/tensor/core/custom_gradient.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/indexing/loop_kernel.h"
#include "quern/tensor/ops/linalg_kernels.h"

namespace quern {
namespace {

using detail::part;

Tensor columns(const Tensor& x, int64_t begin, int64_t end) { return part(x, -1, begin, end); }

Tensor matrix(const char* who, const Tensor& x) {
  detail::need_axes(who, x, 2);
  if (!x.is_floating_point())
    throw DTypeError(fmt::format("{}: needs floats, given {}", who, detail::text(x)));
  (void)detail::int_shape(who, x);
  if (!detail::can_run_loops(x))
    throw DeviceError(fmt::format("{}: a tensor of shape {} is sharded; gather it first with to()", who,
                                  shape_text(x.shape())));
  return x.dtype().bits() < 32 ? x.cast(dtypes::float32) : x;
}

// The unit matrix, once for each matrix of the batch.
Tensor identity_for(const Tensor& x, int64_t n) {
  Shape shape = x.shape();
  shape[shape.size() - 2] = n, shape.back() = n;
  return Tensor::eye(n, {}, {.dtype = x.dtype()}).expand(shape);
}

}  // namespace

namespace {

constexpr int64_t kPanel = 128;  // columns whose reflections one kernel finds

Tensor rows(const Tensor& x, int64_t begin, int64_t end) { return part(x, -2, begin, end); }
Tensor turned(const Tensor& x) { return x.transpose(-2, -1); }

// A product of reflections, H_1 ... H_k = I - V T V', as the rows of V' and T: so it is two products of
// matrices. The inverse of T is the upper half of V' V, with ones on its diagonal.
struct Panel {
  Tensor vectors, t;
  Tensor applied(const Tensor& x) const {
    return (x - turned(vectors).dot(t.dot(vectors.dot(x)))).contiguous();
  }
  Tensor applied_turned(const Tensor& x) const {
    return (x - turned(vectors).dot(turned(t).dot(vectors.dot(x)))).contiguous();
  }
};
Panel panel_of(const Tensor& vectors) {
  const Tensor products = vectors.dot(turned(vectors));
  const Tensor inverse = products.triu(1) + identity_for(products, products.size(-1).value());
  return {vectors, detail::upper_inverse(inverse)};
}

// Q and R, panel by panel: the reflections of one are applied to all columns behind it, and Q is what all of
// them make of the unit matrix, from the last to the first.
std::pair<Tensor, Tensor> decomposed(const Tensor& x) {
  const int64_t m = x.size(-2).value(), n = x.size(-1).value(), steps = std::min(m - 1, n);
  if (steps < 1 || !detail::has_elements(x)) return {identity_for(x, m), x};
  std::vector<Panel> panels;
  std::vector<Tensor> strips;  // rows of R
  Tensor left = x;             // what is below and behind the panels that are done
  for (int64_t begin = 0; begin < steps; begin += kPanel) {
    const int64_t width = std::min(kPanel, n - begin);
    const auto [vectors, reduced] = detail::reflections(columns(left, 0, width));
    panels.push_back(panel_of(vectors));
    const bool is_last = begin + kPanel >= steps;
    const int64_t height = is_last ? m - begin : width;
    Tensor behind = columns(left, width, n - begin);
    if (begin + width < n) behind = panels.back().applied_turned(behind);
    strips.push_back(Tensor::cat({rows(reduced, 0, height), rows(behind, 0, height)}, -1).pad({begin, 0}));
    left = rows(behind, height, m - begin);
  }
  Tensor q = x;
  for (size_t i = panels.size(); i-- > 0;) {
    const int64_t begin = static_cast<int64_t>(i) * kPanel, size = m - begin;
    const Tensor unit = identity_for(x, size);
    if (i + 1 == panels.size()) {
      q = panels[i].applied(unit);
      continue;
    }
    const Tensor inner = q.pad({kPanel, 0, kPanel, 0});
    const Tensor one = detail::iota(size, dtypes::int64).lt(kPanel).unsqueeze(-1);
    q = panels[i].applied(one.where(unit, inner));
  }
  return {q, Tensor::cat(strips, -2).triu()};
}

// With A = Q R: dQ = Q O, where O is antisymmetric. In the columns of A it is what Q' dA R^-1 has below its
// diagonal; of the others, which A does not determine, it says only how they give way.
std::vector<std::optional<Tensor>> qr_gradient(const FunctionValues& values) {
  const Tensor &q = values.results[0], &r = values.results[1], &x = values.inputs[0];
  const int64_t m = x.size(-2).value(), n = x.size(-1).value(), k = std::min(m, n);
  Tensor to_q = values.given[0];
  const Tensor to_r = values.given[1].triu(), square = columns(rows(r, 0, k), 0, k);
  const Tensor to_rest = columns(to_r, k, n);  // of wide matrices R = Q' A behind the square part
  if (n > m) to_q = to_q + columns(x, k, n).dot(turned(to_rest));
  const Tensor w = turned(q).dot(to_q), corner = columns(rows(w, 0, k), 0, k);
  const Tensor p = columns(rows(to_r, 0, k), 0, k).dot(turned(square));
  Tensor inner = p + (corner - turned(corner) - p + turned(p)).tril(-1);
  if (m > k)
    inner = Tensor::cat({inner, columns(rows(w, k, m), 0, k) - turned(columns(rows(w, 0, k), k, m))}, -2);
  Tensor found = q.dot(inner).dot(turned(detail::upper_inverse(square)));
  if (n > m) found = Tensor::cat({found, q.dot(to_rest)}, -1);
  return {found};
}

// With A = U S V': U and V turn as far as their neighbours' singular values differ. Equal ones, and those
// that are 0, determine no direction, and give none.
std::vector<std::optional<Tensor>> svd_gradient(const FunctionValues& values) {
  const Tensor &u = values.results[0], &s = values.results[1], &vh = values.results[2];
  const int64_t m = u.size(-2).value(), n = s.size(-1).value(), all = u.size(-1).value();
  const auto inverse = [](const Tensor& x) { return x.eq(0).where(0.0, 1 / x.eq(0).where(1.0, x)); };
  const Tensor across = s.unsqueeze(-2), down = s.unsqueeze(-1);
  const Tensor factor = inverse((across - down) * (across + down));
  const Tensor left = columns(u, 0, n), to_left = columns(values.given[0], 0, n);
  const Tensor in_u = turned(left).dot(to_left), in_v = vh.dot(turned(values.given[2]));
  const Tensor inner = factor * (in_u - turned(in_u)) * across + down * factor * (in_v - turned(in_v)) +
                       identity_for(factor, n) * values.given[1].unsqueeze(-1);
  Tensor found = left.dot(inner);
  if (m > n) {
    Tensor out_of_span = to_left - left.dot(in_u);
    if (all > n)
      out_of_span = out_of_span - columns(u, n, all).dot(turned(columns(values.given[0], n, all)).dot(left));
    found = found + out_of_span * inverse(across);
  }
  return {found.dot(vh)};
}

// U, S and V' of a matrix that is not wider than high, with all of U: A = Q R, and R = J' S V' by rotations
// of rows until all are orthogonal.
Tensor::Svd tall_svd(const Tensor& x) {
  const int64_t m = x.size(-2).value(), n = x.size(-1).value();
  const Tensor scale = x.abs().max({-2, -1}, true), safe = scale.eq(0).where(1.0, scale);
  const auto [q, r] = decomposed((x / safe).contiguous());
  const auto [found, rotation] = detail::jacobi(rows(r, 0, n));
  const Tensor norms = found.square().sum(-1).sqrt(), order = norms.argsort(-1, true);
  const Tensor s = norms.gather(-1, order);
  const auto in_order = [&](const Tensor& y) { return y.gather(-2, order.unsqueeze(-1).expand(y.shape())); };
  // Where a singular value is 0 any direction will do that is orthogonal to the others: QR finds it.
  const Tensor directions = in_order(found) / s.eq(0).where(1.0, s).unsqueeze(-1);
  const auto [v, signs_on_diagonal] = decomposed(turned(directions).contiguous());
  const Tensor signs =
      signs_on_diagonal.diagonal(0, -2, -1).lt(0).where(-1.0, 1.0).cast(x.dtype()).unsqueeze(-2);
  Tensor u = columns(q, 0, n).dot(turned(in_order(rotation)));
  if (m > n) u = Tensor::cat({u, columns(q, n, m)}, -1);
  return {u, s * safe.squeeze(-1), turned(v * signs)};  // (..., n) by (..., 1)
}

}  // namespace

std::pair<Tensor, Tensor> Tensor::qr() const {
  const Tensor x = matrix("qr", *this);
  const auto [q, r] = decomposed(x.detach());
  static const char identity = 0;
  const std::vector<Tensor> found = with_function_gradient({q, r}, {x}, qr_gradient, {&identity});
  return {found[0].cast(dtype()), found[1].cast(dtype())};
}

Tensor::Svd Tensor::svd(bool full_matrices) const {
  const Tensor x = matrix("svd", *this);
  const int64_t m = x.size(-2).value(), n = x.size(-1).value();
  if (m < n) {
    const Svd t = transpose(-2, -1).svd(full_matrices);
    return {t.vh.transpose(-2, -1), t.s, t.u.transpose(-2, -1)};
  }
  if (n == 0) throw ShapeError(fmt::format("svd: a matrix of shape {} is empty", shape_text(shape())));
  const Svd all = tall_svd(x.detach());
  static const char identity = 0;
  const std::vector<Tensor> found = with_function_gradient(
      {full_matrices ? all.u : columns(all.u, 0, n), all.s, all.vh}, {x}, svd_gradient, {&identity});
  return {found[0].cast(dtype()), found[1].cast(dtype()), found[2].cast(dtype())};
}

Tensor Tensor::newton_schulz(int64_t steps, const std::vector<double>& coefficients, double eps) const {
  if (steps < 0) throw ValueError(fmt::format("newton_schulz: {} steps; there must be 0 or more", steps));
  if (coefficients.empty()) throw ValueError("newton_schulz: no coefficients are given");
  detail::need_axes("newton_schulz", *this, 2);
  const bool tall = size(-2).max() > size(-1).max();
  const Tensor start = tall ? transpose(-2, -1) : *this;
  Tensor g = start / (start.square().sum({-2, -1}, true).sqrt() + eps);
  for (int64_t i = 0; i < steps; i++) {
    const Tensor square = g.dot(g.transpose(-2, -1));  // g times c0 + c1 gg' + c2 (gg')^2 + ..., by Horner
    Tensor sum = g * coefficients.back();
    for (size_t c = coefficients.size() - 1; c-- > 0;) sum = square.dot(sum) + g * coefficients[c];
    g = sum;
  }
  return tall ? g.transpose(-2, -1) : g;
}

}  // namespace quern
