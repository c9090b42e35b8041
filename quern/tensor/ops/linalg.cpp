// Decompositions of matrices. All of them work on the last two axes; the others are a batch.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quern/tensor/core/support.h"

namespace quern {
namespace {

using detail::part;

Tensor columns(const Tensor& x, int64_t begin, int64_t end) { return part(x, -1, begin, end); }

Tensor matrix(const char* who, const Tensor& x) {
  detail::need_axes(who, x, 2);
  if (!x.is_floating_point())
    throw DTypeError(fmt::format("{}: needs floats, given {}", who, detail::text(x)));
  (void)detail::int_shape(who, x);
  return x.dtype().bits() < 32 ? x.cast(dtypes::float32) : x;
}

// The unit matrix, once for each matrix of the batch.
Tensor identity_for(const Tensor& x, int64_t n) {
  Shape shape = x.shape();
  shape[shape.size() - 2] = n, shape.back() = n;
  return Tensor::eye(n, {}, {.dtype = x.dtype()}).expand(shape);
}

}  // namespace

// Householder: each step reflects, so that one more column has zeros below the diagonal. The vectors are as
// long as the columns, with zeros in front.
std::pair<Tensor, Tensor> Tensor::qr() const {
  Tensor r = matrix("qr", *this);
  const int64_t m = r.size(-2).value(), n = r.size(-1).value();
  Tensor q = identity_for(r, m);
  const Tensor row = detail::iota(m, dtypes::int64).unsqueeze(-1);
  for (int64_t i = 0; i < std::min(m - 1, n); i++) {
    const Tensor x = row.ge(i).where(columns(r, i, i + 1), 0);  // (..., m, 1)
    const Tensor scale = x.abs().max(-2, true), safe = scale.eq(0).where(1, scale);
    const Tensor unit = x / safe;  // so that squares neither overflow nor vanish
    const Tensor norm = unit.square().sum(-2, true).sqrt();
    const Tensor head = part(unit, -2, i, i + 1);
    const Tensor sign = head.lt(0).where(-1.0, 1.0).cast(r.dtype());
    const Tensor v = row.eq(i).where(head + sign * norm, unit);
    const Tensor length = v.square().sum(-2, true);
    const Tensor factor = length.eq(0).where(0.0, 2 / length.eq(0).where(1.0, length));
    r = (r - v * factor * v.transpose(-2, -1).dot(r)).contiguous();
    q = (q - q.dot(v) * factor * v.transpose(-2, -1)).contiguous();
  }
  return {q.cast(dtype()), r.triu().cast(dtype())};
}

// One-sided Jacobi: columns are rotated in pairs until all are orthogonal. All pairs of a round are disjoint
// and rotated at once; a round-robin brings each column together with each other. Below A stands V, to which
// the same is done.
Tensor::Svd Tensor::svd(bool full_matrices) const {
  const Tensor given = matrix("svd", *this);
  if (given.size(-2).value() < given.size(-1).value()) {
    const Svd t = transpose(-2, -1).svd(full_matrices);
    return {t.vh.transpose(-2, -1), t.s, t.u.transpose(-2, -1)};
  }
  const int64_t m = given.size(-2).value(), n = given.size(-1).value();
  if (n == 0) throw ShapeError(fmt::format("svd: a matrix of shape {} is empty", shape_text(shape())));
  const int64_t even = n + n % 2, half = even / 2;
  const Tensor scale = given.abs().max({-2, -1}, true), safe = scale.eq(0).where(1.0, scale);
  Tensor w = cat({given / safe, identity_for(given, n)}, -2).pad({0, even - n});
  constexpr int kSweeps = 12;  // convergence is quadratic; ten are enough for float64 and hundreds of columns
  for (int64_t round = 0; n > 1 && round < kSweeps * (even - 1); round++) {
    const Tensor left = columns(w, 0, half), right = columns(w, half, even);
    const Tensor a = part(left, -2, 0, m), b = part(right, -2, 0, m);
    const Tensor alpha = a.square().sum(-2, true), beta = b.square().sum(-2, true),
                 gamma = (a * b).sum(-2, true);
    const Tensor none = gamma.eq(0);
    const Tensor zeta = (beta - alpha) / (none.where(1.0, gamma) * 2);
    const Tensor size = zeta.abs();
    // 1 / (size + sqrt(1 + size^2)), which is 1 / (2 size) where the square would overflow.
    const Tensor root = size.gt(1e8).where(size, (size.minimum(1e8).square() + 1).sqrt());
    const Tensor tangent = none.where(0.0, zeta.lt(0).where(-1.0, 1.0).cast(w.dtype()) / (size + root));
    const Tensor cosine = (tangent.square() + 1).rsqrt(), sine = cosine * tangent;
    const Tensor l = left * cosine - right * sine, r = left * sine + right * cosine;
    if (half == 1) {
      w = cat({l, r}, -1).contiguous();
      continue;
    }
    // The first stays, the others go round: l0 r0 l1 ... / r1 ... r(h-1) l(h-1).
    w = cat({columns(l, 0, 1), columns(r, 0, 1), columns(l, 1, half - 1), columns(r, 1, half),
             columns(l, half - 1, half)},
            -1)
            .contiguous();
  }
  const Tensor a = part(w, -2, 0, m), v = part(w, -2, m, m + n);
  const Tensor squares = a.square().sum(-2), none = squares.eq(0);
  const Tensor norms = none.where(0.0, none.where(1.0, squares).sqrt());  // 0 has no slope, not a NaN
  const Tensor added = v.square().sum(-2).lt(0.5);  // the column that made their number even
  const Tensor order = added.where(-1.0, norms).argsort(-1, true);
  auto sorted = [&](const Tensor& x) {
    const Tensor index = order.unsqueeze(-2).expand(x.shape());
    return columns(x.gather(-1, index), 0, n);
  };
  const Tensor s = columns(norms.gather(-1, order), 0, n);
  const Tensor u = sorted(a) / s.eq(0).where(1.0, s).unsqueeze(-2);
  // Columns of singular values 0, and those that make U square, are any that are orthogonal to the others: QR
  // finds them.
  const auto [q, r] = u.qr();
  const Tensor signs = r.diagonal(0, -2, -1).lt(0).where(-1.0, 1.0).cast(u.dtype()).unsqueeze(-2);
  Tensor full = columns(q, 0, n) * signs;
  if (full_matrices && m > n) full = cat({full, columns(q, n, m)}, -1);
  const Tensor values = s * safe.squeeze(-1);  // (..., n) by (..., 1)
  return {full.cast(dtype()), values.cast(dtype()), sorted(v).transpose(-2, -1).cast(dtype())};
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
