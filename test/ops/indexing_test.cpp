// Indexing: slices, integers, tensors and masks; gather and scatter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

using dtypes::bool_, dtypes::int32, dtypes::int64;

Row indexing(const std::string& name, Function<Tensor> ours, Function<Array> reference,
             const std::vector<std::vector<Ints>>& shapes, std::vector<Input> more = {}) {
  more.insert(more.begin(), Input{});
  return {.name = name,
          .ours = std::move(ours),
          .reference = std::move(reference),
          .inputs = more,
          .shapes = shapes,
          .types = kAll,
          .close = {.signed_zeros = true},
          .narrow = 0,
          .by = {0},
          .wrapping = true};
}

// [start, start + step, ...) of one axis.
Array sliced(const Array& a, size_t axis, int64_t start, int64_t step, int64_t n) {
  Ints shape = a.shape;
  shape[axis] = n;
  return moved(a, shape, [=](Ints i) {
    i[axis] = start + step * i[axis];
    return i;
  });
}

// Where a tensor of integers points: the element, or none where it is out of range.
std::optional<int64_t> pointed(Number index, int64_t size) {
  const auto i = static_cast<int64_t>(index) + (index < 0 ? size : 0);
  return i < 0 || i >= size ? std::nullopt : std::optional(i);
}

std::vector<Row> slices() {
  const std::vector<std::vector<Ints>> one = {{{4, 5}}};
  return {
      indexing(
          "at slice", [](const Tensors& x) { return x[0].at({Slice{1, 3}}); },
          [](const Arrays& a) { return sliced(a[0], 0, 1, 1, 2); }, one),
      indexing(
          "at negative bounds", [](const Tensors& x) { return x[0].at({everything, Slice{-3, -1}}); },
          [](const Arrays& a) { return sliced(a[0], 1, 2, 1, 2); }, one),
      indexing(
          "at a step", [](const Tensors& x) { return x[0].at({everything, Slice{{}, {}, 2}}); },
          [](const Arrays& a) { return sliced(a[0], 1, 0, 2, 3); }, one),
      indexing(
          "at a step from 1", [](const Tensors& x) { return x[0].at({Slice{1, {}, 3}, Slice{1, {}, 3}}); },
          [](const Arrays& a) { return sliced(sliced(a[0], 0, 1, 3, 1), 1, 1, 3, 2); }, one),
      indexing(
          "at a negative step", [](const Tensors& x) { return x[0].at({everything, Slice{{}, {}, -2}}); },
          [](const Arrays& a) { return sliced(a[0], 1, 4, -2, 3); }, one),
      indexing(
          "at a negative step within",
          [](const Tensors& x) { return x[0].at({Slice{2, 0, -1}, Slice{3, {}, -3}}); },
          [](const Arrays& a) { return sliced(sliced(a[0], 0, 2, -1, 2), 1, 3, -3, 2); }, one),
      indexing(
          "at a step beyond",
          [](const Tensors& x) { return x[0].at({Slice{{}, {}, 100}, Slice{{}, {}, -100}}); },
          [](const Arrays& a) { return sliced(sliced(a[0], 0, 0, 1, 1), 1, 4, 1, 1); }, one),
      indexing(
          "at bounds beyond", [](const Tensors& x) { return x[0].at({Slice{-100, 100}, Slice{2, 100}}); },
          [](const Arrays& a) { return sliced(a[0], 1, 2, 1, 3); }, one),
      indexing(
          "at an empty slice", [](const Tensors& x) { return x[0].at({Slice{3, 1}, Slice{1, 3, -1}}); },
          [](const Arrays& a) { return Array(a[0].dtype, {0, 0}); }, one),
      indexing(
          "at integers", [](const Tensors& x) { return x[0].at({1, -1}); },
          [](const Arrays& a) { return Array(a[0].dtype, {}, {a[0]({1, a[0].shape[1] - 1})}); }, one),
      indexing(
          "at ellipsis and newaxis",
          [](const Tensors& x) { return Tensor(x[0](newaxis, ellipsis, newaxis, 2)); },
          [](const Arrays& a) { return reshaped(sliced(a[0], 1, 2, 1, 1), {1, a[0].shape[0], 1}); }, one),
      indexing(
          "at nothing", [](const Tensors& x) { return x[0].at({}); }, [](const Arrays& a) { return a[0]; },
          {{{4, 5}}, {{}}, {{0}}}),
  };
}

TEST(Slices, Values) { expect_all(slices()); }
TEST(Slices, Gradients) { expect_all_gradients(slices()); }

// ---- Tensors as indices. Of those out of range the result is 0.

std::vector<Row> gathers() {
  const Input rows{-5, 5, int64}, small{-3, 3, int32};
  return {
      indexing(
          "at a tensor", [](const Tensors& x) { return x[0].at({x[1]}); },
          [](const Arrays& a) {
            Ints shape = a[1].shape;
            shape.push_back(a[0].shape[1]);
            return moved(a[0], shape, [&](const Ints& i) -> std::optional<Ints> {
              const auto row = pointed(a[1](Ints(i.begin(), i.end() - 1)), a[0].shape[0]);
              return row ? std::optional(Ints{*row, i.back()}) : std::nullopt;
            });
          },
          {{{4, 3}, {5}}, {{4, 3}, {2, 2}}, {{4, 3}, {}}, {{4, 3}, {0}}, {{4, 0}, {2}}, {{0, 3}, {2}}},
          {rows}),
      indexing(
          "at two tensors", [](const Tensors& x) { return x[0].at({x[1], x[2]}); },
          [](const Arrays& a) {
            const Ints shape = broadcast_shape({a[1].shape, a[2].shape});
            const Array p = broadcast(a[1], shape), q = broadcast(a[2], shape);
            return moved(a[0], shape, [&](const Ints& i) -> std::optional<Ints> {
              const auto row = pointed(p(i), a[0].shape[0]), column = pointed(q(i), a[0].shape[1]);
              return row && column ? std::optional(Ints{*row, *column}) : std::nullopt;
            });
          },
          {{{4, 3}, {5}, {5}}, {{4, 3}, {2, 1}, {3}}, {{4, 3}, {}, {2}}}, {rows, small}),
      indexing(
          "at tensors apart", [](const Tensors& x) { return x[0].at({x[1], everything, x[2]}); },
          [](const Arrays& a) {
            return moved(a[0], {2, 2}, [&](const Ints& i) -> std::optional<Ints> {
              const auto first = pointed(a[1]({i[0]}), 4), last = pointed(a[2]({i[0]}), 3);
              return first && last ? std::optional(Ints{*first, i[1], *last}) : std::nullopt;
            });
          },
          {{{4, 2, 3}, {2}, {2}}}, {rows, small}),
      indexing(
          "at a tensor behind a slice", [](const Tensors& x) { return x[0].at({Slice{1, 3}, x[1]}); },
          [](const Arrays& a) {
            return moved(a[0], {2, a[1].shape[0]}, [&](const Ints& i) -> std::optional<Ints> {
              const auto column = pointed(a[1]({i[1]}), 3);
              return column ? std::optional(Ints{i[0] + 1, *column}) : std::nullopt;
            });
          },
          {{{4, 3}, {4}}}, {small}),
      indexing(
          "index_select", [](const Tensors& x) { return x[0].index_select(-1, x[1]); },
          [](const Arrays& a) {
            return moved(a[0], {4, a[1].shape[0]}, [&](const Ints& i) -> std::optional<Ints> {
              const auto column = pointed(a[1]({i[1]}), 3);
              return column ? std::optional(Ints{i[0], *column}) : std::nullopt;
            });
          },
          {{{4, 3}, {5}}, {{4, 3}, {0}}}, {small}),
      indexing(
          "gather", [](const Tensors& x) { return x[0].gather(0, x[1]); },
          [](const Arrays& a) {
            return moved(a[0], a[1].shape, [&](const Ints& i) -> std::optional<Ints> {
              const auto row = pointed(a[1](i), a[0].shape[0]);
              return row ? std::optional(Ints{*row, i[1]}) : std::nullopt;
            });
          },
          {{{4, 3}, {5, 3}}, {{4, 3}, {2, 2}}, {{4, 3}, {0, 3}}, {{0, 3}, {2, 3}}}, {rows}),
      indexing(
          "gather along the last", [](const Tensors& x) { return x[0].gather(-1, x[1]); },
          [](const Arrays& a) {
            return moved(a[0], a[1].shape, [&](const Ints& i) -> std::optional<Ints> {
              const auto column = pointed(a[1](i), a[0].shape[1]);
              return column ? std::optional(Ints{i[0], *column}) : std::nullopt;
            });
          },
          {{{4, 3}, {4, 5}}, {{1, 3}, {1, 1}}}, {small}),
  };
}

TEST(Gathers, Values) { expect_all(gathers()); }
TEST(Gathers, Gradients) { expect_all_gradients(gathers()); }

// ---- Scatter, along the first axis of two. What points out of range goes nowhere.

using Combine = std::function<Number(const Numbers&)>;  // what was there, then what came, in order

Function<Array> scattered(const Combine& combine) {
  return [=](const Arrays& a) {
    std::vector<Numbers> came(a[0].at.size());
    Array out = a[0];
    each(a[1].shape, [&](Ints i) {
      const Number value = a.size() > 2 ? a[2](i) : 1;
      const auto row = pointed(a[1](i), a[0].shape[0]);
      if (!row) return;
      i[0] = *row;
      came[out.place(i)].push_back(value);
    });
    for (size_t i = 0; i < came.size(); i++)
      if (!came[i].empty()) {
        came[i].insert(came[i].begin(), a[0].at[i]);
        out.at[i] = combine(came[i]);
        if (!out.dtype.is_float() && !out.dtype.is_bool())
          out.at[i] = wrapped(out.dtype, static_cast<Whole>(out.at[i]));
      }
    return out;
  };
}

Row scattering(const std::string& name, const std::string& reduce, bool self, const Combine& combine) {
  Row row = indexing(
      name, [=](const Tensors& x) { return x[0].scatter_reduce(0, x[1], x[2], reduce, self); },
      scattered([=](const Numbers& n) { return combine(self ? n : Numbers(n.begin() + 1, n.end())); }),
      {{{3, 2}, {4, 2}, {4, 2}},
       {{3, 2}, {2, 1}, {4, 2}},
       {{3, 2}, {0, 2}, {0, 2}},
       {{0, 2}, {1, 2}, {1, 2}}},
      {{-3, 2, int64}, {}});
  row.types = kNumbers, row.by = {0, 2}, row.wrapping = false;
  row.close = {4, true}, row.narrow = 4;
  return row;
}

std::vector<Row> scatters() {
  const auto sum = [](const Numbers& n) { return std::accumulate(n.begin(), n.end(), Number{0}); };
  const auto product = [](const Numbers& n) {
    return std::accumulate(n.begin(), n.end(), Number{1}, std::multiplies<>());
  };
  const auto most = [](const Numbers& n) { return *std::ranges::max_element(n); };
  const auto least_of = [](const Numbers& n) { return *std::ranges::min_element(n); };
  const auto mean = [=](const Numbers& n) { return sum(n) / static_cast<Number>(n.size()); };
  std::vector<Row> rows = {
      scattering("scatter", "sum", true, [](const Numbers& n) { return n.back(); }),
      scattering("scatter of a number", "sum", true, [](const Numbers&) { return 1; }),
      scattering("scatter add", "sum", true, sum),
      scattering("scatter multiply", "sum", true, product),
      scattering("scatter_reduce sum", "sum", true, sum),
      scattering("scatter_reduce prod", "prod", true, product),
      scattering("scatter_reduce amax", "amax", true, most),
      scattering("scatter_reduce amin", "amin", true, least_of),
      scattering("scatter_reduce mean", "mean", true, mean),
      scattering("scatter_reduce sum of others", "sum", false, sum),
      scattering("scatter_reduce prod of others", "prod", false, product),
      scattering("scatter_reduce amax of others", "amax", false, most),
      scattering("scatter_reduce amin of others", "amin", false, least_of),
      scattering("scatter_reduce mean of others", "mean", false, mean),
  };
  rows[0].ours = [](const Tensors& x) { return x[0].scatter(0, x[1], x[2]); };
  rows[1].ours = [](const Tensors& x) { return x[0].scatter(0, x[1], 1); };
  rows[1].by = {0};
  rows[2].ours = [](const Tensors& x) { return x[0].scatter(0, x[1], x[2], "add"); };
  rows[3].ours = [](const Tensors& x) { return x[0].scatter(0, x[1], x[2], "multiply"); };
  for (Row& row : rows)
    if (row.name.find("mean") != std::string::npos) row.types = kFloats;  // integers round down
  return rows;
}

TEST(Scatters, Values) { expect_all(scatters()); }
TEST(Scatters, Gradients) { expect_all_gradients(scatters()); }

TEST(Scatters, IntegerMeansRoundDown) {
  const Tensor x = Tensor::from(std::vector<int32_t>{-5, 7}),
               index = Tensor::from(std::vector<int64_t>{0, 0, 1});
  const Tensor source = Tensor::from(std::vector<int32_t>{2, -1, 2});
  EXPECT_EQ(x.scatter_reduce(0, index, source, "mean").to_vector<int32_t>(), (std::vector<int32_t>{-2, 4}));
}

// Slices along an axis, against the loops that they stand for.
TEST(Scatters, SlicesAlongAnAxis) {
  std::mt19937_64 random = generator("slices along an axis");
  for (const DType dtype : {dtypes::float32, dtypes::float16, dtypes::int32, dtypes::int8, dtypes::uint64})
    for (const int64_t axis : {0, 1, -1}) {
      const Array x = random_array(random, dtype, {4, 3, 5}, {}, true);
      const auto at = static_cast<size_t>(axis < 0 ? axis + 3 : axis);
      const Ints places{1, -2, 1, 2};
      Ints shape{4, 3, 5};
      shape[at] = std::ssize(places);
      const Array source = random_array(random, dtype, shape, {}, true);
      Array copied = x, filled = x;
      each(shape, [&](const Ints& i) {
        Ints to = i;
        const int64_t place = places[static_cast<size_t>(i[at])];
        to[at] = place < 0 ? place + x.shape[at] : place;
        copied(to) = source(i), filled(to) = 3;
      });
      const Tensor t = tensor_of(x), index = Tensor::from(places);
      EXPECT_EQ(difference(array_of(t.index_copy(axis, index, tensor_of(source))), copied, {}), "");
      EXPECT_EQ(difference(array_of(t.index_fill(axis, index, 3)), filled, {}), "");
      // one of each place: the sum of two
      const Tensor once = Tensor::from(Ints{2, 0}), two = tensor_of(source).shrink_to([&] {
        std::vector<std::optional<Dim>> sizes(3);
        sizes[at] = 2;
        return sizes;
      }());
      const Tensor sum = t.index_copy(axis, once, t.index_select(axis, once) + two);
      EXPECT_EQ(difference(array_of(t.index_add(axis, once, two)), array_of(sum), {}), "");
    }
  const Tensor numbers = Tensor::from(std::vector<int32_t>{3, 1, 3, 0});
  EXPECT_EQ(numbers.bincount().to_vector<int32_t>(), (std::vector<int32_t>{1, 1, 0, 2}));
  EXPECT_EQ(numbers.bincount(Tensor::from(std::vector<float>{1, 2, 4, 8}), 5).to_vector<float>(),
            (std::vector<float>{8, 2, 0, 5, 0}));
}

// ---- Masks: their number of elements is only known when they run.

TEST(Masks, SelectAndNonzero) {
  std::mt19937_64 random = generator("masks");
  for (const DType dtype : kAll)
    for (const Ints& shape : std::vector<Ints>{{3, 4}, {7}, {}, {0}, {2, 0}, {1}}) {
      const Array a = random_array(random, dtype, shape, {}, true),
                  mask = random_array(random, bool_, shape, {});
      Array selected(dtype, {0}), places(int32, {0, a.rank()});
      each(shape, [&](const Ints& i) {
        if (mask(i) != 0) selected.at.push_back(a(i)), selected.shape[0]++;
        if (a(i) == 0) return;
        for (const int64_t k : i) places.at.push_back(static_cast<Number>(k));
        places.shape[0]++;
      });
      EXPECT_EQ(difference(array_of(tensor_of(a).masked_select(tensor_of(mask))), selected, {}), "")
          << text(shape);
      EXPECT_EQ(difference(array_of(tensor_of(a).nonzero()), places, {}), "") << dtype.name() << text(shape);
      if (a.rank() == 0) continue;
      EXPECT_EQ(difference(array_of(tensor_of(a).at({tensor_of(mask)})), selected, {}), "") << text(shape);
      EXPECT_EQ(difference(array_of(tensor_of(a).T().masked_select(tensor_of(mask).T()).sort().first),
                           array_of(tensor_of(selected).sort().first), {}),
                "");
    }
}

TEST(Masks, Gradients) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4}),
               mask = Tensor::from(std::vector<bool>{true, false, true, true});
  EXPECT_EQ((x.masked_select(mask) * Tensor::from(std::vector<float>{5, 6, 7}))
                .sum()
                .gradient({x})[0]
                .to_vector<float>(),
            (std::vector<float>{5, 0, 6, 7}));
}

// ---- Writing: x.set is what NumPy's x[...] = value is.

TEST(Set, Places) {
  auto written = [](const std::vector<Index>& where, const Operand& value) {
    const Tensor x = Tensor::zeros({3, 4}, {.dtype = int32}).contiguous().realize();
    x.set(where, value);
    return array_of(x).at;
  };
  const Tensor three = Tensor::from(std::vector<int32_t>{7, 8, 9});
  EXPECT_EQ(written({1}, 5), (Numbers{0, 0, 0, 0, 5, 5, 5, 5, 0, 0, 0, 0}));
  EXPECT_EQ(written({everything, -1}, three), (Numbers{0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 9}));
  EXPECT_EQ(written({Slice{{}, {}, -2}, Slice{1, {}, 2}}, 5), (Numbers{0, 5, 0, 5, 0, 0, 0, 0, 0, 5, 0, 5}));
  EXPECT_EQ(written({0, Slice{3, {}, -1}}, Tensor::from(std::vector<int32_t>{1, 2, 3, 4})),
            (Numbers{4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(written({everything, Slice{{}, {}, 3}}, three.unsqueeze(1)),
            (Numbers{7, 0, 0, 7, 8, 0, 0, 8, 9, 0, 0, 9}));
  EXPECT_EQ(written({Tensor::from(std::vector<int64_t>{2, 0, 2})}, three.unsqueeze(1)),
            (Numbers{8, 8, 8, 8, 0, 0, 0, 0, 9, 9, 9, 9}));
  EXPECT_EQ(written({Tensor::from(std::vector<bool>{true, false, true})}, 5),
            (Numbers{5, 5, 5, 5, 0, 0, 0, 0, 5, 5, 5, 5}));
  EXPECT_EQ(written({ellipsis}, 5), Numbers(12, 5));
  EXPECT_EQ(written({Tensor::from(std::vector<bool>{false, false, false})}, 5), Numbers(12, 0));
  EXPECT_EQ(written({Slice{2, 2}}, 5), Numbers(12, 0));
}

}  // namespace
}  // namespace quern::optest
