#include "test/ops/row.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "test/fuzz.h"
#include "test/ir/rounds.h"
#include "test/ops/case.h"

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

Row moving(const std::string& name, Function<Tensor> ours, Function<Array> reference,
           const std::vector<std::vector<Ints>>& shapes) {
  std::vector<size_t> by(shapes[0].size());
  for (size_t i = 0; i < by.size(); i++) by[i] = i;
  return {.name = name,
          .ours = std::move(ours),
          .reference = std::move(reference),
          .inputs = std::vector<Input>(by.size()),
          .shapes = shapes,
          .types = kAll,
          .close = {.signed_zeros = true},
          .narrow = 0,
          .by = by,
          .wrapping = true};
}

std::mt19937_64 generator(const std::string& name) {
  uint64_t hash = 1469598103934665603u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return std::mt19937_64(hash ^ first_seed());
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

Tensors views(const Case& c, const Tensors& leaves) {
  Tensors result;
  for (size_t i = 0; i < leaves.size(); i++) result.push_back(c.placed[i].view(leaves[i]));
  return result;
}

namespace {

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
      const DType dtype = row.types[turn % row.types.size()];
      const Case c = make_case(row, random, dtype, shapes, layout);
      if (is_run(turn++)) run_case(row, c, is_narrow(dtype));
    }
}

}  // namespace quern::optest
