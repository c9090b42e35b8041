#include "test/ops/row.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "test/fuzz.h"
#include "test/ir/rounds.h"
#include "test/ops/layout.h"

namespace quern::optest {

using namespace dtypes;

const Types kAll(std::begin(all), std::end(all));
const Types kInts = {int8, uint8, int16, uint16, int32, uint32, int64, uint64};
const Types kBits = {bool_, int8, uint8, int16, uint16, int32, uint32, int64, uint64};
const Types kFloats = {float32, float64, float16, bfloat16, fp8e4m3, fp8e5m2};
const Types kWide = {float32, float64};
const Types kNumbers = {float32, float64, float16, bfloat16, fp8e4m3, fp8e5m2, int8,
                        uint8,   int16,   uint16,  int32,    uint32,  int64,   uint64};
const Types kSigned = {float32, float64, float16, bfloat16, fp8e4m3, fp8e5m2, int8, int16, int32, int64};

DType as_sum(DType d) {
  if (d.is_float() || d.bits() >= 32) return d;
  return d.is_unsigned() ? uint32 : int32;
}

Function<Array> pointwise(Rule result, OfNumbers f, OfWholes integers) {
  return [=](const Arrays& a) {
    const DType type = a.back().dtype, out = result(type);  // the last: a condition comes first
    return elementwise(out, a, [&](const Numbers& n) -> Number {
      if (type.is_float()) return f(n);
      if (!integers) {  // integers become floats first
        Numbers floats = n;
        for (Number& x : floats) x = rounded(out, x);
        return f(floats);
      }
      std::vector<Whole> wholes;
      for (const Number x : n) wholes.push_back(static_cast<Whole>(x));
      const Whole value = integers(wholes, type);
      return out.is_bool() ? Number{value != 0 ? 1.0L : 0.0L} : wrapped(out, value);
    });
  };
}

std::vector<std::vector<Ints>> broadcast_cases(size_t inputs) {
  std::vector<std::vector<Ints>> cases = {{{2, 3}, {2, 3}, {2, 3}},
                                          {{2, 3}, {3}, {}},
                                          {{2, 1, 2}, {3, 1}, {1, 2}},
                                          {{}, {}, {}},
                                          {{1}, {2, 2}, {2, 1}},
                                          {{0, 3}, {1}, {3}},
                                          {{1}, {1}, {}},
                                          {{2, 0}, {0}, {2, 1}}};
  for (auto& c : cases) c.resize(inputs);
  return cases;
}

Row unary(const std::string& name, Tensor (Tensor::*method)() const, Number (*f)(Number), double low,
          double high, double ulps) {
  Row row{.name = name,
          .ours = [=](const Tensors& x) { return (x[0].*method)(); },
          .reference = pointwise(as_float, [=](const Numbers& n) { return f(n[0]); }),
          .inputs = {{low, high}},
          .shapes = broadcast_cases(1),
          .types = kAll,
          .close = {ulps}};
  row.by = {0}, row.twice = true;
  return row;
}

std::mt19937_64 generator(const std::string& name) {
  uint64_t hash = 1469598103934665603u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return std::mt19937_64(hash ^ testing::seed());
}

Array random_array(std::mt19937_64& random, DType dtype, const Ints& shape, const Input& input,
                   bool any_size) {
  Array a(dtype, shape);
  const double low = std::ceil(input.low), high = std::floor(input.high);
  for (Number& n : a.at) {
    if (dtype.is_float())
      n = rounded(dtype, std::uniform_real_distribution(input.low, input.high)(random));
    else if (dtype.is_bool())
      n = static_cast<Number>(random() % 2);
    else if (any_size && random() % 2 == 0)
      n = wrapped(dtype, static_cast<Whole>(random()));
    else
      n = std::clamp(
          static_cast<Number>(pick(random, static_cast<int64_t>(low), static_cast<int64_t>(high))),
          static_cast<Number>(std::max<Whole>(least(dtype), static_cast<Whole>(std::max(low, -1e18)))),
          static_cast<Number>(greatest(dtype)));
  }
  return a;
}

namespace {

// The inputs of one run.
struct Case {
  std::vector<Ints> shapes;
  std::vector<Placed> placed;
  Arrays bases;
  Numbers fills;
  std::string name;

  Arrays seen(const Arrays& memory) const {
    Arrays arrays;
    for (size_t i = 0; i < memory.size(); i++)
      arrays.push_back(optest::seen(placed[i], memory[i], shapes[i], fills[i]));
    return arrays;
  }
};

// Each input in the layout after that of the one before, so that different ones meet.
Case make_case(const Row& row, std::mt19937_64& random, DType dtype, const std::vector<Ints>& shapes,
               size_t layout) {
  Case c{.shapes = shapes, .placed = {}, .bases = {}, .fills = {}, .name = dtype.name()};
  for (size_t i = 0; i < row.inputs.size(); i++) {
    const Input& input = row.inputs[i];
    const DType type = input.dtype.value_or(dtype);
    const Layout& named = layouts[layout == 0 ? 0 : (layout + i) % layouts.size()];
    const Number fill = random_array(random, type, {}, input).at[0];
    std::optional<Placed> placed = named.place(shapes[i], fill);
    c.name += fmt::format(", {} {}", placed ? named.name : layouts[0].name, text(shapes[i]));
    if (!placed) placed = layouts[0].place(shapes[i], fill);
    c.placed.push_back(*placed), c.fills.push_back(fill);
    c.bases.push_back(random_array(random, type, placed->base, input, row.wrapping));
  }
  return c;
}

constexpr double kInf = std::numeric_limits<double>::infinity();

// Infinities, NaN, zeros and the ends of the dtype, each against each.
Case special_case(const Row& row, DType dtype) {
  Case c{.shapes = {}, .placed = {}, .bases = {}, .fills = {}, .name = dtype.name() + ", special values"};
  const size_t n = row.inputs.size();
  for (size_t i = 0; i < n; i++) {
    const DType type = row.inputs[i].dtype.value_or(dtype);
    Numbers numbers;
    if (type.is_float())
      for (const double v : {0.0, -0.0, 1.0, -1.0, 2.5, -0.5, kInf, -kInf, std::nan(""), 6e4, 448.0})
        numbers.push_back(rounded(type, v));
    else if (type.is_bool())
      numbers = {0, 1};
    else
      numbers = {0,
                 1,
                 2,
                 3,
                 static_cast<Number>(least(type)),
                 static_cast<Number>(least(type) + 1),
                 static_cast<Number>(greatest(type)),
                 static_cast<Number>(greatest(type) - 1)};
    Ints shape(n, 1);
    shape[i] = std::ssize(numbers);
    c.shapes.push_back(shape);
    c.fills.push_back(0);
    c.placed.push_back(*layouts[0].place(shape, 0));
    c.bases.emplace_back(type, shape, numbers);
  }
  return c;
}

Tensors views(const Case& c, const Tensors& leaves) {
  Tensors result;
  for (size_t i = 0; i < leaves.size(); i++) result.push_back(c.placed[i].view(leaves[i]));
  return result;
}

void run_case(const Row& row, const Case& c, bool narrow) {
  try {
    Tensors leaves;
    for (const Array& base : c.bases) leaves.push_back(tensor_of(base));
    const Tensors got = row.ours(views(c, leaves));
    const Arrays want = row.reference(c.seen(c.bases));
    ASSERT_EQ(got.size(), want.size()) << row.name << ": " << c.name;
    Closeness close = row.close;
    if (narrow) close.ulps = row.narrow;
    for (size_t i = 0; i < got.size(); i++) {
      const std::string wrong = difference(array_of(got[i]), want[i], close);
      if (!wrong.empty()) ADD_FAILURE() << row.name << ": " << c.name << ": result " << i << ": " << wrong;
    }
  } catch (const std::exception& e) {
    ADD_FAILURE() << row.name << ": " << c.name << ": " << e.what();
  }
}

bool is_narrow(DType d) { return d.is_float() && d.bits() < 32; }

}  // namespace

void expect_values(const Row& row) {
  std::mt19937_64 random = generator(row.name);
  size_t turn = 0;
  for (const DType dtype : row.types) {
    run_case(row, make_case(row, random, dtype, row.shapes[0], 0), is_narrow(dtype));
    if (row.specials) run_case(row, special_case(row, dtype), is_narrow(dtype));
  }
  for (const auto& shapes : row.shapes)
    for (size_t layout = 0; layout < layouts.size(); layout++) {
      const DType dtype = row.types[turn++ % row.types.size()];
      run_case(row, make_case(row, random, dtype, shapes, layout), is_narrow(dtype));
    }
}

// ---- Gradients

namespace {

// What is differentiated: the results, each element times a fixed number of its own, added up.
struct Loss {
  const Row& row;
  const Case& c;
  Arrays weights;

  Number at(const Arrays& bases) const {
    const Arrays results = row.reference(c.seen(bases));
    Number sum = 0;
    for (size_t k = 0; k < results.size(); k++)
      if (results[k].dtype.is_float())
        for (size_t i = 0; i < results[k].at.size(); i++) sum += results[k].at[i] * weights[k].at[i];
    return sum;
  }
  Tensor of(const Tensors& leaves) const {
    const Tensors results = row.ours(views(c, leaves));
    std::optional<Tensor> sum;
    for (size_t k = 0; k < results.size(); k++)
      if (results[k].is_floating_point()) {
        const Tensor part = (results[k] * tensor_of(weights[k])).sum();
        sum = sum ? *sum + part : part;
      }
    return *sum;
  }
};

void compare(const Row& row, const std::string& what, const Tensor& got, const Array& want,
             double tolerance) {
  const Array found = array_of(got);
  if (found.dtype != want.dtype || found.shape != want.shape) {
    ADD_FAILURE() << row.name << ": " << what << ": " << found.dtype.name() << " " << text(found.shape);
    return;
  }
  Number most = 1e-3;
  for (const Number n : want.at) most = std::max(most, std::abs(n));
  for (size_t i = 0; i < want.at.size(); i++)
    if (!std::isnan(want.at[i]) &&
        !(std::abs(found.at[i] - want.at[i]) <= tolerance * most)) {  // 0 / 0 has none
      ADD_FAILURE() << row.name << ": " << what << ": element " << i << " is "
                    << static_cast<double>(found.at[i]) << ", the slope is "
                    << static_cast<double>(want.at[i]);
      return;
    }
}

// The slope of f by each element of base `i`.
Array slopes(const Arrays& bases, size_t i, Number h, const std::function<Number(const Arrays&)>& f) {
  Arrays moved_bases = bases;
  Array result = bases[i];
  for (size_t j = 0; j < result.at.size(); j++) {
    Number& x = moved_bases[i].at[j];
    const Number at = x;
    x = at + h;
    const Number above = f(moved_bases);
    x = at - h;
    const Number below = f(moved_bases);
    x = at;
    result.at[j] = (above - below) / (2 * h);
  }
  return result;
}

void run_gradients(const Row& row, const Case& c, std::mt19937_64& random, bool twice) {
  try {
    Loss loss{row, c, {}};
    for (const Array& a : row.reference(c.seen(c.bases)))
      loss.weights.push_back(random_array(random, float64, a.shape, {-1, 1}));
    Tensors leaves, targets;
    for (const Array& base : c.bases) leaves.push_back(tensor_of(base));
    for (const size_t i : row.by) targets.push_back(leaves[i]);
    const Tensors found = loss.of(leaves).gradient(targets, {}, true);
    auto expect_first = [&] {
      for (size_t k = 0; k < found.size(); k++)
        compare(row, fmt::format("{}: by input {}", c.name, row.by[k]), found[k],
                slopes(c.bases, row.by[k], 1e-6L, [&](const Arrays& b) { return loss.at(b); }), row.slope);
    };
    if (!twice) return expect_first();
    // The first gradients, times fixed numbers, are differentiated again: by the difference of the loss in
    // that direction.
    Arrays direction;
    std::optional<Tensor> inner;
    for (size_t k = 0; k < found.size(); k++) {
      direction.push_back(random_array(random, float64, c.bases[row.by[k]].shape, {-1, 1}));
      const Tensor part = (found[k] * tensor_of(direction[k])).sum();
      inner = inner ? *inner + part : part;
    }
    const Tensors second = inner->gradient(targets, {}, true);
    expect_first();  // now, because what is in memory has forgotten how it was computed
    auto in_direction = [&](const Arrays& bases) {
      const Number h = 1e-4L;
      Arrays above = bases, below = bases;
      for (size_t k = 0; k < direction.size(); k++)
        for (size_t j = 0; j < direction[k].at.size(); j++) {
          above[row.by[k]].at[j] += h * direction[k].at[j];
          below[row.by[k]].at[j] -= h * direction[k].at[j];
        }
      return (loss.at(above) - loss.at(below)) / (2 * h);
    };
    for (size_t k = 0; k < second.size(); k++)
      compare(row, fmt::format("{}: twice, by input {}", c.name, row.by[k]), second[k],
              slopes(c.bases, row.by[k], 1e-4L, in_direction), 1e-5);
  } catch (const std::exception& e) {
    ADD_FAILURE() << row.name << ": " << c.name << ": " << e.what();
  }
}

// Gradients have the dtypes of what they belong to.
void check_dtypes(const Row& row, std::mt19937_64& random) {
  for (const DType dtype : {float32, float16, bfloat16}) {
    if (std::ranges::count(row.types, dtype) == 0) continue;
    const Case c = make_case(row, random, dtype, row.shapes[0], 0);
    Tensors leaves, targets;
    for (const Array& base : c.bases) leaves.push_back(tensor_of(base));
    for (const size_t i : row.by) targets.push_back(leaves[i]);
    for (const Tensor& y : row.ours(views(c, leaves)))
      if (y.is_floating_point())
        for (const Tensor& g : y.gradient(targets, y.ones_like(), true))
          EXPECT_EQ(g.dtype().name(), dtype.name()) << row.name << ": the dtype of the gradient";
  }
}

}  // namespace

void expect_gradients_at(const Row& row, const Numbers& points) {
  const Array base(float64, {std::ssize(points)}, points);
  const Tensor x = tensor_of(base);
  const Array got = array_of(row.ours({x})[0].sum().gradient({x})[0]);
  for (size_t i = 0; i < points.size(); i++) {
    auto at = [&](Number p) { return row.reference({Array(float64, {}, {p})})[0].at[0]; };
    const Number h = 1e-7L * std::max(Number{1}, std::abs(points[i])),
                 slope = (at(points[i] + h) - at(points[i] - h)) / (2 * h);
    if (std::isnan(slope) || std::abs(slope) > std::numeric_limits<double>::max()) continue;
    EXPECT_NEAR(static_cast<double>(got.at[i]), static_cast<double>(slope),
                1e-6 * std::max(1.0, std::abs(static_cast<double>(slope))))
        << row.name << " at " << static_cast<double>(points[i]);
  }
}

void expect_gradients(const Row& row) {
  if (row.by.empty()) return;
  std::mt19937_64 random = generator(row.name + " gradient");
  for (const auto& shapes : row.shapes)
    for (size_t layout = 0; layout < layouts.size(); layout++)
      run_gradients(row, make_case(row, random, float64, shapes, layout), random,
                    row.twice && layout % 4 == 0);
  try {
    check_dtypes(row, random);
  } catch (const std::exception& e) {
    ADD_FAILURE() << row.name << ": gradients of narrower floats: " << e.what();
  }
}

}  // namespace quern::optest
