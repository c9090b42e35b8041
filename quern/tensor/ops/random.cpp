// Random numbers: Threefry-2x32 on a counter, with the seed as the key. The numbers depend on the seed, on
// how many were drawn before, and on nothing else. They are those that tinygrad gives for the same seed, on
// its first device; where its floats have too few values for what is asked (kFew), they are other ones.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <numbers>

#include "quern/base/fork.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/core/training.h"
#include "quern/tensor/indexing/sort_kernel.h"
#include "quern/tensor/ops/random.h"

namespace quern {
namespace {

// The key of a seed. The constant is what tinygrad has beside the seed, which has 32 bits there.
uint64_t key_of(uint64_t seed) { return ((seed << 32) | 0x14b81119U) ^ (seed >> 32); }

struct Generator {
  ProcessMutex lock{LockOrder::settings};
  detail::RandomState state{key_of(0), 0};
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

// Ranges and permutations up to here are made of floats, of which there are 2^23.
constexpr int64_t kFew = int64_t{1} << 16;

Tensor low_half(const Tensor& word) { return word.cast(dtypes::uint32); }
Tensor high_half(const Tensor& word) { return word.rshift(32).cast(dtypes::uint32); }

// n words of 32 bits that were not drawn before. The count of those that were makes a key; with it, number i
// and i + (n + 1) / 2 make word i, their low half, and word i + (n + 1) / 2, the high one. Longer runs are
// drawn in parts of kMost, one after the other.
Tensor random_words(int64_t n) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  const detail::RandomState now = detail::draw_words(static_cast<uint64_t>(n));
  const Tensor drawn = changing(detail::kDrawn, now.drawn), key = changing(detail::kKey, now.key);
  auto halves = [](const Tensor& i, const Operand& half, const Tensor& part_key) {
    return ((i + half).lshift(32) + i).threefry(part_key);
  };
  auto number = [](int64_t i) { return detail::number(wide{i}, dtypes::uint64, {}); };
  if (n <= kMost) {
    const int64_t half = n / 2 + n % 2;
    const Tensor both = halves(detail::iota(half, dtypes::uint64), number(half), drawn.threefry(key));
    return Tensor::cat({low_half(both), high_half(both)}).shrink({{{0, n}}});
  }
  const int64_t parts = (n - 1) / kMost + 1, last = n - (parts - 1) * kMost;
  const Tensor all = detail::iota(n, dtypes::uint64), part = all.div(number(kMost), "floor"),
               i = all - part * number(kMost);
  const Tensor half = part.eq(number(parts - 1)).where(number(last / 2 + last % 2), number(kMost / 2 + 1));
  const Tensor is_low = i.lt(half);
  const Tensor both = halves(is_low.where(i, i - half), half, (drawn + part * number(kMost)).threefry(key));
  return is_low.where(low_half(both), high_half(both));
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

// Of symbolic sizes, those of the greatest values: as many numbers are drawn whatever they are, and a part
// of them is used.
Shape greatest(const Shape& shape) {
  Shape most;
  for (const Dim& d : shape) most.emplace_back(d.max());
  return most;
}
Tensor in_shape(const Tensor& numbers, const Shape& shape) {
  const Tensor all = numbers.reshape(greatest(shape));
  return all.shrink_to(std::vector<std::optional<Dim>>(shape.begin(), shape.end()));
}

DType float_asked(const char* who, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(default_float());
  if (!dtype.is_float() || dtype.lanes() != 1)
    throw DTypeError(fmt::format("{}: needs a float type, given {}", who, dtype.name()));
  return dtype;
}

// So many sets of a shape, of an unsigned type: words, parts of them, or several each.
Tensor drawn_bits(const char* who, const Shape& shape, DType dtype, int64_t sets = 1) {
  constexpr int64_t kMostWords = int64_t{1} << 50;
  detail::checked_shape(who, shape);
  const int64_t n = elements(who, greatest(shape));
  if (n == 0) return Tensor::zeros({sets, n}, {.dtype = dtype});
  const int64_t words = n > kMostWords ? n : (n * sets * dtype.bytes() - 1) / 4 + 1;
  if (words > kMostWords)
    throw ShapeError(fmt::format(
        "{}: shape {} is too large: at most 2^50 words of 32 bits can be drawn at once, it needs {}", who,
        shape_text(shape), words));
  return random_words(words).bitcast(dtype).shrink({{{0, n * sets}}}).reshape({sets, n});
}

// In [0, 1), in steps of 2^-23 (float64: 2^-52; narrower floats: their epsilon), so that nothing rounds up
// to 1. A set of the shape each.
std::vector<Tensor> uniform_sets(const char* who, const Shape& shape, DType dtype, int64_t sets) {
  const DType bits = detail::unsigned_of(dtype.bits());
  const int kept = -static_cast<int>(std::lround(std::log2(epsilon(dtype))));
  const DType computed = dtype == dtypes::float64 ? dtypes::float64 : dtypes::float32;
  const Tensor number = drawn_bits(who, shape, bits, sets).rshift(bits.bits() - kept).cast(computed);
  const Tensor all = (number * std::ldexp(1.0, -kept)).cast(dtype);
  std::vector<Tensor> each;
  each.reserve(static_cast<size_t>(sets));
  for (int64_t i = 0; i < sets; i++)
    each.push_back(in_shape(all.shrink({{{i, i + 1}}, std::nullopt}), shape));
  return each;
}
Tensor uniform_floats(const char* who, const Shape& shape, DType dtype) {
  return uniform_sets(who, shape, dtype, 1)[0];
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
  generator().state = {key_of(seed), 0};
}

Tensor Tensor::random_bits(const Shape& shape, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(dtypes::uint32);
  if (dtype != dtypes::uint32 && dtype != dtypes::uint64)
    throw DTypeError(fmt::format("random_bits: needs uint32 or uint64, given {}", dtype.name()));
  return detail::placed(in_shape(drawn_bits("random_bits", shape, dtype), shape), options);
}

Tensor Tensor::rand(const Shape& shape, const TensorOptions& options) {
  return detail::placed(uniform_floats("rand", shape, float_asked("rand", options)), options);
}
Tensor Tensor::uniform(const Shape& shape, double low, double high, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(default_float()),
              floats = dtype.is_float() ? dtype : default_float();
  const Tensor r = uniform_floats("uniform", shape, floats.bits() > 32 ? floats : dtypes::float32);
  return detail::placed(((r * (high - low)).cast(dtype) + low).cast(dtype),
                        options);  // integers: cut off, then moved
}

// Box and Muller: two uniform numbers make one normal number. 1 - u is never 0.
Tensor Tensor::randn(const Shape& shape, const TensorOptions& options) {
  const DType dtype = float_asked("randn", options);
  const std::vector<Tensor> u = uniform_sets("randn", shape, detail::sum_dtype(dtype), 2);
  const Tensor angle = u[0] * (2 * std::numbers::pi), radius = ((1 - u[1]).log() * -2).sqrt();
  return detail::placed((angle.cos() * radius).cast(dtype), options);
}
Tensor Tensor::normal(const Shape& shape, double mean, double std, const TensorOptions& options) {
  if (std < 0) throw ValueError(fmt::format("normal: the standard deviation {} is negative", std));
  return randn(shape, options) * std + mean;
}

Tensor Tensor::randint(const Shape& shape, int64_t low, int64_t high, const TensorOptions& options) {
  if (low >= high) throw ValueError(fmt::format("randint: low {} must be below high {}", low, high));
  const DType dtype = options.dtype.value_or(default_int());
  if (!dtype.is_int() || dtype.is_index())
    throw DTypeError(fmt::format("randint: needs an integer type, given {}", dtype.name()));
  make_const(dtype, low), make_const(dtype, wide{high} - 1);  // both must be values of it
  const auto range = static_cast<uint64_t>(wide{high} - wide{low});
  if (range <= kFew) {
    const DType floats = default_float().bits() > 32 ? default_float() : dtypes::float32;
    const Tensor r = uniform_floats("randint", shape, floats) * static_cast<double>(range);
    return detail::placed(r.cast(dtype) + detail::number(wide{low}, dtype, {}), options);
  }
  // A remainder of 64 random bits: the bias is below high - low in 2^64.
  const Tensor bits = in_shape(drawn_bits("randint", shape, dtypes::uint64), shape);
  const Tensor offset = bits.mod(detail::number(wide{range}, dtypes::uint64, {}));
  return detail::placed(
      (offset + detail::number(wide{static_cast<uint64_t>(low)}, dtypes::uint64, {})).cast(dtype), options);
}

Tensor Tensor::rand_like(const TensorOptions& options) const {
  return detail::beside_parts(rand(shape(), {options.dtype.value_or(dtype()), options.device}), *this,
                              options);
}
Tensor Tensor::randn_like(const TensorOptions& options) const {
  return detail::beside_parts(randn(shape(), {options.dtype.value_or(dtype()), options.device}), *this,
                              options);
}

Tensor Tensor::scaled_uniform(const Shape& shape, const TensorOptions& options) {
  const int64_t n = elements("scaled_uniform", shape);
  return uniform(shape, -1, 1, options) * (n > 0 ? 1 / std::sqrt(static_cast<double>(n)) : 0.0);
}
Tensor Tensor::glorot_uniform(const Shape& shape, const TensorOptions& options) {
  const double in = inputs("glorot_uniform", shape), out = static_cast<double>(shape[0].value());
  const double bound = std::sqrt(6 / (in + out));
  return uniform(shape, -bound, bound, options);
}
Tensor Tensor::kaiming_uniform(const Shape& shape, double a, const TensorOptions& options) {
  const double bound = std::sqrt(6 / (1 + a * a) / inputs("kaiming_uniform", shape));
  return uniform(shape, -bound, bound, options);
}
Tensor Tensor::kaiming_normal(const Shape& shape, double a, const TensorOptions& options) {
  return normal(shape, 0, std::sqrt(2 / (1 + a * a) / inputs("kaiming_normal", shape)), options);
}

Tensor Tensor::randperm(int64_t n, const TensorOptions& options) {
  if (n < 0) throw ValueError(fmt::format("randperm: {} elements; there must be 0 or more", n));
  if (n > int64_t{1} << 30)
    throw ValueError(fmt::format("randperm: {} elements; there must be at most 2^30", n));
  const Tensor keys = n <= kFew ? rand({n}, {dtypes::float32}) : random_bits({n});
  return detail::placed(keys.argsort().cast(options.dtype.value_or(detail::place_dtype(n))), options);
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
    // How many of the running sums, as parts of the whole, are not above a random number.
    const Tensor sums = weights.cumsum(1), parts = sums / sums.shrink({std::nullopt, {{n - 1, n}}});
    const Tensor at = rand({samples, rows, 1}, {dtypes::float32});
    if (n > 0 && detail::can_run_loops(parts))
      result = detail::places_in_sorted(parts, at.squeeze(2).transpose(0, 1), true, dtypes::int32);
    else
      result = at.ge(parts).sum(2, false, dtypes::int32).transpose(0, 1);
    result = result.minimum(n - 1);
  } else {
    // The greatest log(u) / weight, as often as samples are asked for (Efraimidis and Spirakis), also for u =
    // 0.
    const Tensor u = rand({rows, n}, {dtypes::float32});
    result = (u.log2().maximum(-24) / weights).topk(samples, 1).second;
  }
  return (ndim() == 1 ? result.squeeze(0) : result).cast(detail::place_dtype(n));
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
