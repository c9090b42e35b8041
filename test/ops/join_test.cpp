// Tensors put together and taken apart, and resized.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

Array joined(const Arrays& a, int64_t axis) {
  const auto at = static_cast<size_t>(axis_of(axis, a[0].rank()));
  Ints shape = a[0].shape;
  shape[at] = 0;
  for (const Array& x : a) shape[at] += x.shape[at];
  Array out(a[0].dtype, shape);
  int64_t begin = 0;
  for (const Array& x : a) {
    each(x.shape, [&](Ints i) {
      const Number value = x(i);
      i[at] += begin;
      out(i) = value;
    });
    begin += x.shape[at];
  }
  return out;
}
Function<Array> parts(const Ints& sizes) {  // of axis 1 of two
  return [=](const Arrays& a) {
    Arrays out;
    int64_t begin = 0;
    for (const int64_t s : sizes) {
      out.push_back(cut(a[0], {0, begin}, {a[0].shape[0], s}));
      begin += s;
    }
    return out;
  };
}

std::vector<Row> joins() {
  return {
      moving(
          "cat", [](const Tensors& x) { return Tensor::cat({x[0], x[1], x[0]}, -1); },
          [](const Arrays& a) { return joined({a[0], a[1], a[0]}, -1); },
          {{{2, 3}, {2, 1}}, {{2, 0}, {2, 3}}, {{1, 2}, {1, 0}}, {{0, 2}, {0, 3}}}),
      moving(
          "cat of rows", [](const Tensors& x) { return Tensor::cat(x); },
          [](const Arrays& a) { return joined(a, 0); }, {{{2, 3}, {1, 3}, {3, 3}}, {{0, 3}, {1, 3}, {0, 3}}}),
      moving(
          "stack", [](const Tensors& x) { return Tensor::stack(x, 1); },
          [](const Arrays& a) {
            Arrays rows;
            for (const Array& x : a) rows.push_back(reshaped(x, {x.shape[0], 1, x.shape[1]}));
            return joined(rows, 1);
          },
          {{{2, 3}, {2, 3}}, {{0, 3}, {0, 3}}}),
      moving(
          "stack of no axes", [](const Tensors& x) { return Tensor::stack(x); },
          [](const Arrays& a) { return Array(a[0].dtype, {2}, {a[0].at[0], a[1].at[0]}); }, {{{}, {}}}),
      moving("split", [](const Tensors& x) { return x[0].split(2, 1); }, parts({2, 2, 1}),
             {{{2, 5}}, {{0, 5}}}),
      moving("split by sizes", [](const Tensors& x) { return x[0].split({1, 0, 4}, -1); }, parts({1, 0, 4}),
             {{{2, 5}}}),
      moving("chunk", [](const Tensors& x) { return x[0].chunk(3, 1); }, parts({2, 2, 1}), {{{2, 5}}}),
      moving(
          "meshgrid", [](const Tensors& x) { return Tensor::meshgrid(x); },
          [](const Arrays& a) {
            const int64_t n = count(a[0].shape), m = count(a[1].shape);
            return Arrays{broadcast(reshaped(a[0], {n, 1}), {n, m}),
                          broadcast(reshaped(a[1], {1, m}), {n, m})};
          },
          {{{2}, {3}}, {{}, {3}}, {{0}, {3}}}),
      moving(
          "meshgrid xy", [](const Tensors& x) { return Tensor::meshgrid(x, "xy"); },
          [](const Arrays& a) {
            const int64_t n = count(a[0].shape), m = count(a[1].shape);
            return Arrays{broadcast(reshaped(a[0], {1, n}), {m, n}),
                          broadcast(reshaped(a[1], {m, 1}), {m, n})};
          },
          {{{2}, {3}}}),
  };
}

TEST(Joins, Values) { expect_all(joins()); }
TEST(Joins, Gradients) { expect_all_gradients(joins()); }

// ---- Resizing: places of the result in the axis that is resized, by the rules of PyTorch.

Function<Array> resized(const Ints& sizes, const std::string& mode, bool corners) {
  return [=](const Arrays& a) {
    Array x = a[0];
    for (size_t k = 0; k < sizes.size(); k++) {
      const int64_t axis = x.rank() - std::ssize(sizes) + static_cast<int64_t>(k), out = sizes[k];
      x = along(x, axis, [&](const Numbers& line) {
        const auto n = std::ssize(line);
        Numbers result;
        for (int64_t i = 0; i < out; i++) {
          const Number scale = static_cast<Number>(n) / static_cast<Number>(out), at = static_cast<Number>(i);
          if (mode == "nearest" || mode == "nearest-exact") {
            const Number place = mode == "nearest" ? std::floor(at * scale) : std::floor((at + 0.5L) * scale);
            result.push_back(
                line[static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(place), n - 1))]);
            continue;
          }
          const Number place =
              corners ? (out > 1 ? at * static_cast<Number>(n - 1) / static_cast<Number>(out - 1) : 0)
                      : std::max((at + 0.5L) * scale - 0.5L, 0.0L);
          const auto low = std::min<int64_t>(static_cast<int64_t>(place), n - 1),
                     high = std::min<int64_t>(low + 1, n - 1);
          const Number part = std::min(place - static_cast<Number>(low), 1.0L),
                       below = line[static_cast<size_t>(low)];
          result.push_back(below + (line[static_cast<size_t>(high)] - below) * part);
        }
        return result;
      });
    }
    return x;
  };
}

Row resizing(const std::string& mode, const Ints& sizes, bool corners,
             const std::vector<std::vector<Ints>>& shapes) {
  Row row = moving(
      "interpolate " + mode + (corners ? " by corners" : ""),
      [=](const Tensors& x) { return x[0].interpolate(sizes, mode, corners); }, resized(sizes, mode, corners),
      shapes);
  row.close = {4, true}, row.narrow = 1;
  if (!mode.starts_with("nearest")) row.types = kFloats;
  return row;
}

std::vector<Row> resizings() {
  return {resizing("nearest", {5}, false, {{{1, 2, 3}}, {{1, 1, 8}}}),
          resizing("nearest", {2, 5}, false, {{{1, 2, 3, 3}}}),
          resizing("nearest-exact", {5}, false, {{{1, 2, 3}}, {{1, 1, 8}}}),
          resizing("linear", {5}, false, {{{1, 2, 3}}, {{1, 1, 8}}, {{1, 1, 1}}}),
          resizing("linear", {5}, true, {{{1, 2, 3}}, {{1, 1, 8}}}),
          resizing("bilinear", {5, 2}, false, {{{1, 2, 3, 4}}}),
          resizing("bilinear", {1, 4}, true, {{{1, 2, 3, 2}}}),
          resizing("trilinear", {2, 3, 2}, false, {{{1, 1, 3, 2, 2}}})};
}

TEST(Resizing, Values) { expect_all(resizings()); }
TEST(Resizing, Gradients) { expect_all_gradients(resizings()); }

}  // namespace
}  // namespace quern::optest
