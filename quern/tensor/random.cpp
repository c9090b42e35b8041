// Random numbers: Threefry-2x32 on a counter, with the seed as the key. The numbers depend on the seed, on
// how many were drawn before, and on nothing else.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <numbers>

#include "quern/ir/fork.h"
#include "quern/tensor/random.h"
#include "quern/tensor/support.h"
#include "quern/tensor/training.h"

namespace quern {
namespace {

struct Generator {
  ProcessMutex lock{LockOrder::settings};
  detail::RandomState state{0, 0};
};
Generator& generator() {
  static Generator g;
  return g;
}

// A number that is no part of the program that is compiled. Each value is a variable of its own: a graph may
// have several.
Tensor changing(std::string_view name, uint64_t value) {
  using Limits = std::numeric_limits<int64_t>;
  const Variable variable(fmt::format("{}{}", name, value), Limits::min(), Limits::max());
  return Tensor::from_dim(variable.bind(static_cast<int64_t>(value)), dtypes::uint64);
}

// n words of 64 bits that were not drawn before.
Tensor random_words(int64_t n) {
  const detail::RandomState now = detail::draw_words(static_cast<uint64_t>(n));
  return (detail::iota(n, dtypes::uint64) + changing(detail::kDrawn, now.drawn))
      .threefry(changing(detail::kSeed, now.seed));
}

int64_t elements(const char* who, const Shape& shape) {
  detail::checked_shape(who, shape);
  int64_t n = 1;
  for (const Dim& d : shape) {
    if (d.is_symbolic())
      throw ShapeError(fmt::format("{}: shape {} has a symbolic size", who, shape_text(shape)));
    n *= d.value();
  }
  return n;
}

DType float_asked(const char* who, const Made& made) {
  const DType dtype = made.dtype.value_or(default_float());
  if (!dtype.is_float() || dtype.lanes() != 1)
    throw DTypeError(fmt::format("{}: needs a float type, given {}", who, dtype.name()));
  return dtype;
}

// Of uint32 or uint64.
Tensor drawn_bits(const char* who, const Shape& shape, DType dtype) {
  constexpr int64_t kMostWords = int64_t{1} << 50;
  const int64_t n = elements(who, shape), words = dtype == dtypes::uint64 ? n : n / 2 + n % 2;
  if (n == 0) return Tensor::zeros(shape, {.dtype = dtype});
  if (words > kMostWords)
    throw ShapeError(fmt::format(
        "{}: shape {} is too large: at most 2^50 words of 64 bits can be drawn at once, it needs {}", who,
        shape_text(shape), words));
  const Tensor word = random_words(words);
  if (dtype == dtypes::uint64) return word.reshape(shape);
  // The low halves of the words, then the high ones.
  const Tensor halves = Tensor::cat({word.cast(dtypes::uint32), word.rshift(32).cast(dtypes::uint32)});
  return halves.shrink({{{0, n}}}).reshape(shape);
}

// In [0, 1), in steps of 2^-24 (float64: 2^-53). Narrower floats have fewer bits, so that nothing rounds up
// to 1.
Tensor uniform_floats(const char* who, const Shape& shape, DType dtype) {
  const DType bits = dtype == dtypes::float64 ? dtypes::uint64 : dtypes::uint32;
  const Tensor random = drawn_bits(who, shape, bits);
  const int kept = 1 - static_cast<int>(std::lround(std::log2(epsilon(dtype))));  // bits of the significand
  const DType computed = dtype == dtypes::float64 ? dtypes::float64 : dtypes::float32;
  return (random.rshift(bits.bits() - kept).cast(computed) * std::ldexp(1.0, -kept)).cast(dtype);
}

// Of n outputs and inputs: the product of all axes but the first.
double inputs(const char* who, const Shape& shape) {
  if (shape.empty()) throw ShapeError(fmt::format("{}: a shape of no axes has no inputs", who));
  return static_cast<double>(std::max<int64_t>(elements(who, Shape(shape.begin() + 1, shape.end())), 1));
}

}  // namespace

detail::RandomState detail::random_state() {
  const std::lock_guard guard(generator().lock);
  return generator().state;
}
detail::RandomState detail::draw_words(uint64_t n) {
  const std::lock_guard guard(generator().lock);
  const RandomState before = generator().state;
  generator().state.drawn += n;
  return before;
}

void Tensor::manual_seed(uint64_t seed) {
  if (detail::made_inside() != 0)
    throw Error("manual_seed: inside a jit, replays would not set the seed; set it before the call");
  const std::lock_guard guard(generator().lock);
  generator().state = {seed, 0};
}

Tensor Tensor::random_bits(const Shape& shape, const Made& made) {
  const DType dtype = made.dtype.value_or(dtypes::uint32);
  if (dtype != dtypes::uint32 && dtype != dtypes::uint64)
    throw DTypeError(fmt::format("random_bits: needs uint32 or uint64, given {}", dtype.name()));
  return detail::placed(drawn_bits("random_bits", shape, dtype), made);
}

Tensor Tensor::rand(const Shape& shape, const Made& made) {
  return detail::placed(uniform_floats("rand", shape, float_asked("rand", made)), made);
}
Tensor Tensor::uniform(const Shape& shape, double low, double high, const Made& made) {
  const DType dtype = made.dtype.value_or(default_float());
  const Tensor r =
      uniform_floats("uniform", shape, dtype.is_float() && dtype.bits() > 32 ? dtype : dtypes::float32);
  return detail::placed((r * (high - low) + low).cast(dtype), made);
}

// Box and Muller: two uniform numbers make one normal number. 1 - u is never 0.
Tensor Tensor::randn(const Shape& shape, const Made& made) {
  const DType dtype = float_asked("randn", made), computed = detail::sum_dtype(dtype);
  const Tensor angle = uniform_floats("randn", shape, computed) * (2 * std::numbers::pi),
               u = uniform_floats("randn", shape, computed);
  return detail::placed((angle.cos() * ((1 - u).log() * -2).sqrt()).cast(dtype), made);
}
Tensor Tensor::normal(const Shape& shape, double mean, double std, const Made& made) {
  if (std < 0) throw ValueError(fmt::format("normal: the standard deviation {} is negative", std));
  return randn(shape, made) * std + mean;
}

Tensor Tensor::randint(const Shape& shape, int64_t low, int64_t high, const Made& made) {
  if (low >= high) throw ValueError(fmt::format("randint: low {} must be below high {}", low, high));
  const DType dtype = made.dtype.value_or(default_int());
  if (!dtype.is_int() || dtype.is_index())
    throw DTypeError(fmt::format("randint: needs an integer type, given {}", dtype.name()));
  make_const(dtype, low), make_const(dtype, wide{high} - 1);  // both must be values of it
  // A remainder of 64 random bits: the bias is below high - low in 2^64.
  const auto range = static_cast<uint64_t>(wide{high} - wide{low});
  const Tensor bits = drawn_bits("randint", shape, dtypes::uint64);
  const Tensor offset = bits.mod(detail::number(wide{range}, dtypes::uint64, {}));
  return detail::placed(
      (offset + detail::number(wide{static_cast<uint64_t>(low)}, dtypes::uint64, {})).cast(dtype), made);
}

Tensor Tensor::rand_like(const Made& made) const {
  return rand(shape(), {made.dtype.value_or(dtype()), made.device});
}
Tensor Tensor::randn_like(const Made& made) const {
  return randn(shape(), {made.dtype.value_or(dtype()), made.device});
}

Tensor Tensor::scaled_uniform(const Shape& shape, const Made& made) {
  const int64_t n = elements("scaled_uniform", shape);
  return uniform(shape, -1, 1, made) * (n > 0 ? 1 / std::sqrt(static_cast<double>(n)) : 0.0);
}
Tensor Tensor::glorot_uniform(const Shape& shape, const Made& made) {
  const double in = inputs("glorot_uniform", shape), out = static_cast<double>(shape[0].value());
  return uniform(shape, -1, 1, made) * std::sqrt(6 / (in + out));
}
Tensor Tensor::kaiming_uniform(const Shape& shape, double a, const Made& made) {
  const double bound =
      std::numbers::sqrt3 * std::sqrt(2 / (1 + a * a)) / std::sqrt(inputs("kaiming_uniform", shape));
  return uniform(shape, -bound, bound, made);
}
Tensor Tensor::kaiming_normal(const Shape& shape, double a, const Made& made) {
  return normal(shape, 0, std::sqrt(2 / (1 + a * a)) / std::sqrt(inputs("kaiming_normal", shape)), made);
}

Tensor Tensor::randperm(int64_t n, const Made& made) {
  if (n < 0) throw ValueError(fmt::format("randperm: {} elements; there must be 0 or more", n));
  if (n > int64_t{1} << 30)
    throw ValueError(fmt::format("randperm: {} elements; there must be at most 2^30", n));
  return detail::placed(random_bits({n}).argsort().cast(made.dtype.value_or(default_int())), made);
}

Tensor Tensor::multinomial(int64_t samples, bool replacement) const {
  if (ndim() != 1 && ndim() != 2)
    throw ShapeError(fmt::format("multinomial: needs one or two axes, given {}", shape_text(shape())));
  if (samples < 1)
    throw ValueError(fmt::format("multinomial: {} samples; there must be at least 1", samples));
  const Tensor weights = (ndim() == 1 ? unsqueeze(0) : *this).cast(dtypes::float32);
  const int64_t rows = detail::int_size("multinomial", weights, 0),
                n = detail::int_size("multinomial", weights, 1);
  if (!replacement && samples > n)
    throw ValueError(fmt::format("multinomial: {} samples of {} without replacement", samples, n));
  Tensor result = zeros({});
  if (replacement || samples == 1) {
    // How many of the running sums are not above a random part of the whole.
    const Tensor sums = weights.cumsum(1);
    const Tensor target = rand({rows, samples, 1}) * sums.shrink({std::nullopt, {{n - 1, n}}}).unsqueeze(-1);
    result = sums.unsqueeze(1).le(target).sum(2, false, dtypes::int32).minimum(n - 1);
  } else {
    // The greatest log(weight) + Gumbel noise, as often as samples are asked for.
    const Tensor noise = (1 - rand({rows, n})).log().neg().log().neg().minimum(100);  // finite
    result = (weights.log() + noise).topk(samples, 1).second;
  }
  return (ndim() == 1 ? result.squeeze(0) : result).cast(default_int());
}

Tensor Tensor::dropout(double p, std::optional<bool> training) const {
  if (std::isnan(p) || p < 0 || p > 1)
    throw ValueError(fmt::format("dropout: p is {}; it must be in [0, 1]", p));
  if (!training.value_or(is_training()) || p == 0) return detail::own_value(*this);
  if (p == 1) return zeros_like();
  const Tensor kept = rand(shape(), {.dtype = dtypes::float32}).ge(p);
  return kept.where(*this, 0) / (1 - p);
}

}  // namespace quern
