#include "test/ops/array.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace quern::optest {
namespace {

constexpr Number kInf = std::numeric_limits<Number>::infinity(),
                 kNaN = std::numeric_limits<Number>::quiet_NaN();

// How a float type is laid out. E4M3 has no infinity: its greatest exponent counts as any other, and all ones
// is NaN.
struct Format {
  int mantissa, exponent, bias;
  bool infinite = true;
};

Format format_of(DType dtype) {
  switch (dtype.kind()) {
    case Scalar::FP8E4M3: return {3, 4, 7, false};
    case Scalar::FP8E5M2: return {2, 5, 15};
    case Scalar::Float16: return {10, 5, 15};
    case Scalar::BFloat16: return {7, 8, 127};
    case Scalar::Float32: return {23, 8, 127};
    default: return {52, 11, 1023};
  }
}

Number greatest_float(const Format& f) {
  const int top = (1 << f.exponent) - (f.infinite ? 2 : 1) - f.bias;
  const Number full = 2 - std::ldexp(Number{f.infinite ? 1.0L : 2.0L}, -f.mantissa);
  return std::ldexp(full, top);
}

}  // namespace

Array::Array(DType d, Ints s) : dtype(d), shape(std::move(s)), at(static_cast<size_t>(count(shape))) {}
Array::Array(DType d, Ints s, Numbers numbers) : dtype(d), shape(std::move(s)), at(std::move(numbers)) {
  if (std::ssize(at) != count(shape)) throw std::logic_error("an array has another number of elements");
}
size_t Array::place(const Ints& index) const {
  int64_t p = 0;
  if (index.size() != shape.size()) throw std::logic_error("an index has another number of axes");
  for (size_t i = 0; i < shape.size(); i++) {
    if (index[i] < 0 || index[i] >= shape[i]) throw std::logic_error("an index is out of bounds");
    p = p * shape[i] + index[i];
  }
  return static_cast<size_t>(p);
}

Number spacing(DType dtype, Number value) {
  const Format f = format_of(dtype);
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(Number{1}, std::max(exponent - 1, 1 - f.bias) - f.mantissa);
}

Number rounded(DType dtype, Number value) {
  if (!dtype.is_float() || std::isnan(value) || value == 0) return value;
  const Format f = format_of(dtype);
  const Number most = greatest_float(f), beyond = f.infinite ? std::copysign(kInf, value) : kNaN;
  if (std::isinf(value)) return beyond;
  const Number unit = spacing(dtype, value);
  const Number result = std::nearbyint(value / unit) * unit;  // in the mode to nearest, ties to even
  const bool saturates = dtype.is_fp8() && !std::isinf(static_cast<float>(value));
  if (std::abs(result) > most) return saturates ? std::copysign(most, value) : beyond;
  return result == 0 ? std::copysign(Number{0}, value) : result;
}

Whole least(DType dtype) { return dtype.is_signed() ? -(Whole{1} << (dtype.bits() - 1)) : Whole{0}; }
Whole greatest(DType dtype) {
  return (Whole{1} << (dtype.is_signed() ? dtype.bits() - 1 : dtype.bits())) - 1;
}

Whole wrapped_product(Whole x, Whole y) {
  __extension__ typedef unsigned __int128 Bits;
  return static_cast<Whole>(static_cast<Bits>(x) * static_cast<Bits>(y));
}
Number wrapped(DType dtype, Whole value) {
  const Whole modulus = Whole{1} << dtype.bits();
  Whole r = value % modulus;
  if (r < 0) r += modulus;
  if (dtype.is_signed() && r >= modulus / 2) r -= modulus;
  return static_cast<Number>(r);
}

Number converted(DType from, DType to, Number value) {
  if (to.is_bool()) return value != 0 ? 1 : 0;
  if (to.is_float()) return rounded(to, value);
  if (!from.is_float()) return wrapped(to, static_cast<Whole>(value));
  if (std::isnan(value)) return 0;
  const Number low = static_cast<Number>(least(to)), high = static_cast<Number>(greatest(to));
  return std::trunc(std::clamp(value, low, high)) + 0;  // integers have no -0
}

uint64_t encoded(DType dtype, Number value) {
  if (!dtype.is_float()) return static_cast<uint64_t>(static_cast<Whole>(value));
  const Format f = format_of(dtype);
  const uint64_t sign = uint64_t{std::signbit(value)} << (dtype.bits() - 1),
                 top = ((uint64_t{1} << f.exponent) - 1) << f.mantissa;
  if (std::isnan(value))
    return sign | top | ((uint64_t{1} << f.mantissa) - (f.infinite ? (uint64_t{1} << (f.mantissa - 1)) : 1));
  if (std::isinf(value)) return sign | top;
  if (value == 0) return sign;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int field = std::max(exponent - 1 + f.bias, 0);  // 0: subnormal
  const Number unit = std::ldexp(Number{1}, std::max(field, 1) - f.bias - f.mantissa);
  const auto whole = static_cast<uint64_t>(std::abs(value) / unit);
  return sign | (field == 0 ? whole : (static_cast<uint64_t>(field - 1) << f.mantissa) + whole);
}

Number decoded(DType dtype, uint64_t bits) {
  if (dtype.is_bool()) return (bits & 0xff) != 0 ? 1 : 0;
  if (!dtype.is_float()) return wrapped(dtype, bits);
  const Format f = format_of(dtype);
  const auto field = static_cast<int>((bits >> f.mantissa) & ((uint64_t{1} << f.exponent) - 1));
  const uint64_t rest = bits & ((uint64_t{1} << f.mantissa) - 1), full = (uint64_t{1} << f.mantissa) - 1;
  const Number sign = ((bits >> (dtype.bits() - 1)) & 1) != 0 ? -1 : 1;
  if (field == (1 << f.exponent) - 1) {
    if (f.infinite) return rest == 0 ? sign * kInf : kNaN;
    if (rest == full) return kNaN;
  }
  const Number fraction =
      static_cast<Number>(rest) + (field == 0 ? Number{0} : static_cast<Number>(full + 1));
  return sign * std::ldexp(fraction, std::max(field, 1) - f.bias - f.mantissa);
}

Tensor tensor_of(const Array& a) {
  const auto size = static_cast<size_t>(a.dtype.bytes());
  std::vector<std::byte> bytes(a.at.size() * size);
  for (size_t i = 0; i < a.at.size(); i++) {
    const uint64_t bits = encoded(a.dtype, a.at[i]);
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return Tensor::from_bytes(bytes.data(), bytes.size(), dims(a.shape), a.dtype);
}

Array array_of(const Tensor& x) {
  Ints shape;
  for (const Dim& d : x.shape()) shape.push_back(d.is_symbolic() ? -1 : d.value());
  const auto size = static_cast<size_t>(x.dtype().bytes());
  const std::vector<std::byte> bytes = x.bytes();
  const auto n = static_cast<int64_t>(bytes.size() / size);
  if (std::ranges::count(shape, -1) > 0) shape = {n};  // a symbolic size: what there is of it, flat
  Numbers numbers;
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + static_cast<size_t>(i) * size, size);
    numbers.push_back(decoded(x.dtype(), bits));
  }
  return {x.dtype(), shape, numbers};
}

int64_t count(const Ints& shape) {
  int64_t n = 1;
  for (const int64_t s : shape) n *= s;
  return n;
}

void each(const Ints& shape, const std::function<void(const Ints&)>& body) {
  Ints index(shape.size(), 0);
  for (int64_t n = count(shape); n > 0; n--) {
    body(index);
    for (size_t a = shape.size(); a-- > 0;) {
      if (++index[a] < shape[a]) break;
      index[a] = 0;
    }
  }
}

int64_t axis_of(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

Array moved(const Array& a, const Ints& shape, const From& from, Number fill) {
  Array out(a.dtype, shape);
  size_t n = 0;
  each(shape, [&](const Ints& i) {
    const std::optional<Ints> source = from(i);
    out.at[n++] = source ? a(*source) : fill;
  });
  return out;
}

Array cut(const Array& a, const Ints& begin, const Ints& size, Number fill) {
  return moved(
      a, size,
      [&](Ints i) -> std::optional<Ints> {
        for (size_t k = 0; k < i.size(); k++)
          if (i[k] += begin[k]; i[k] < 0 || i[k] >= a.shape[k]) return std::nullopt;
        return i;
      },
      fill);
}

Ints broadcast_shape(const std::vector<Ints>& shapes) {
  size_t rank = 0;
  for (const Ints& s : shapes) rank = std::max(rank, s.size());
  Ints out(rank, 1);
  for (const Ints& s : shapes)
    for (size_t i = 0; i < s.size(); i++)
      if (s[i] != 1) out[rank - s.size() + i] = s[i];
  return out;
}

Array broadcast(const Array& a, const Ints& shape) {
  return moved(a, shape, [&](const Ints& i) {
    Ints from(i.end() - a.rank(), i.end());
    for (size_t k = 0; k < from.size(); k++)
      if (a.shape[k] == 1) from[k] = 0;
    return from;
  });
}

Array reduced(const Array& a, const Axes& axes, bool keepdim,
              const std::function<Number(const Numbers&)>& f) {
  std::vector<bool> gone(a.shape.size(), !axes.given());
  for (const int64_t axis : axes.values()) gone[static_cast<size_t>(axis_of(axis, a.rank()))] = true;
  Ints kept = a.shape, shown;
  for (size_t i = 0; i < kept.size(); i++) {
    if (gone[i]) kept[i] = 1;
    if (!gone[i] || keepdim) shown.push_back(kept[i]);
  }
  std::vector<Numbers> lists(static_cast<size_t>(count(kept)));
  const Array places(a.dtype, kept);
  each(a.shape, [&](Ints i) {
    const Number value = a(i);
    for (size_t k = 0; k < i.size(); k++)
      if (gone[k]) i[k] = 0;
    lists[places.place(i)].push_back(value);
  });
  Array out(a.dtype, shown);
  for (size_t i = 0; i < lists.size(); i++) out.at[i] = f(lists[i]);
  return out;
}

Array along(const Array& a, int64_t axis, const std::function<Numbers(const Numbers&)>& f) {
  const auto at = static_cast<size_t>(axis_of(axis, a.rank()));
  Ints starts = a.shape, shape = a.shape;
  starts[at] = 1;
  const auto fresh = std::ssize(f(Numbers(static_cast<size_t>(a.shape[at]), 1)));
  shape[at] = fresh;
  Array out(a.dtype, shape);
  each(starts, [&](Ints i) {
    Numbers line;
    for (i[at] = 0; i[at] < a.shape[at]; i[at]++) line.push_back(a(i));
    const Numbers result = f(line);
    for (i[at] = 0; i[at] < fresh; i[at]++) out(i) = result[static_cast<size_t>(i[at])];
  });
  return out;
}

Array elementwise(DType dtype, const Arrays& inputs, const std::function<Number(const Numbers&)>& f) {
  std::vector<Ints> shapes;
  for (const Array& a : inputs) shapes.push_back(a.shape);
  const Ints shape = broadcast_shape(shapes);
  Arrays wide_inputs;
  for (const Array& a : inputs) wide_inputs.push_back(broadcast(a, shape));
  Array out(dtype, shape);
  Numbers arguments(inputs.size());
  for (size_t i = 0; i < out.at.size(); i++) {
    for (size_t k = 0; k < inputs.size(); k++) arguments[k] = wide_inputs[k].at[i];
    out.at[i] = f(arguments);
  }
  return out;
}

Array with_dtype(Array a, DType dtype) {
  a.dtype = dtype;
  return a;
}

Array permuted(const Array& a, const Ints& order) {
  Ints shape;
  for (const int64_t o : order) shape.push_back(a.shape[static_cast<size_t>(o)]);
  return moved(a, shape, [&](const Ints& i) {
    Ints from(i.size());
    for (size_t k = 0; k < order.size(); k++) from[static_cast<size_t>(order[k])] = i[k];
    return from;
  });
}

Array swapped(const Array& a, int64_t first, int64_t second) {
  Ints order;
  for (int64_t i = 0; i < a.rank(); i++) order.push_back(i);
  std::swap(order[static_cast<size_t>(axis_of(first, a.rank()))],
            order[static_cast<size_t>(axis_of(second, a.rank()))]);
  return permuted(a, order);
}

Array reshaped(const Array& a, const Ints& shape) { return {a.dtype, shape, a.at}; }

// Of two and more axes.
Array matmul(const Array& a, const Array& b) {
  const Ints batch =
      broadcast_shape({Ints(a.shape.begin(), a.shape.end() - 2), Ints(b.shape.begin(), b.shape.end() - 2)});
  Ints left = batch, right = batch, out = batch;
  const int64_t inner = a.shape.back();
  left.insert(left.end(), a.shape.end() - 2, a.shape.end());
  right.insert(right.end(), b.shape.end() - 2, b.shape.end());
  out.insert(out.end(), {a.shape[a.shape.size() - 2], b.shape.back()});
  const Array x = broadcast(a, left), y = broadcast(b, right);
  Array result(a.dtype, out);
  each(out, [&](const Ints& i) {
    Ints p = i, q = i;
    Number sum = 0;
    for (int64_t k = 0; k < inner; k++) {
      p[p.size() - 1] = k, q[q.size() - 2] = k;
      sum += x(p) * y(q);
    }
    result(i) = sum;
  });
  return result;
}

std::string text(const Ints& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }
Shape dims(const Ints& shape) { return {shape.begin(), shape.end()}; }

std::string difference(const Array& got, const Array& want, const Closeness& close) {
  if (got.dtype != want.dtype)
    return fmt::format("dtype {}, expected {}", got.dtype.name(), want.dtype.name());
  if (got.shape != want.shape) return fmt::format("shape {}, expected {}", text(got.shape), text(want.shape));
  Number most = 0;
  for (const Number n : want.at)
    if (std::isfinite(n)) most = std::max(most, std::abs(n));
  for (size_t i = 0; i < got.at.size(); i++) {
    const Number g = got.at[i], exact = want.at[i], w = rounded(want.dtype, exact);
    const bool zeros_differ = close.signed_zeros && w == 0 && g == 0 && std::signbit(g) != std::signbit(w);
    if ((g == w && !zeros_differ) || (std::isnan(g) && std::isnan(w))) continue;
    if (want.dtype.is_float() && !zeros_differ && std::isfinite(exact) && !std::isnan(g)) {
      // Where one rounds to infinity the other may be the greatest finite number.
      const Number unit = spacing(want.dtype,
                                  std::max(close.whole ? most : std::abs(exact), Number{close.least})),
                   shown = std::isinf(g) ? std::copysign(greatest_float(format_of(want.dtype)) + unit, g) : g;
      if (std::abs(shown - exact) <= close.ulps * unit) continue;
      return fmt::format("element {} is {:.17g}, expected {:.17g}: {:.3g} ulp", i, static_cast<double>(g),
                         static_cast<double>(exact), static_cast<double>(std::abs(shown - exact) / unit));
    }
    return fmt::format("element {} is {:.20g}, expected {:.20g}", i, g, w);
  }
  return "";
}

}  // namespace quern::optest
