// Gradients of a row against differences of its reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "test/ops/case.h"

namespace quern::optest {

using namespace dtypes;

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
  size_t turn = 0;
  for (const auto& shapes : row.shapes)
    for (size_t layout = 0; layout < layouts.size(); layout++) {
      const Case c = make_case(row, random, float64, shapes, layout);
      if (is_run(turn++)) run_gradients(row, c, random, row.twice && layout % 4 == 0);
    }
  try {
    check_dtypes(row, random);
  } catch (const std::exception& e) {
    ADD_FAILURE() << row.name << ": gradients of narrower floats: " << e.what();
  }
}

}  // namespace quern::optest
