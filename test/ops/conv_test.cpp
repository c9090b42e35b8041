// Convolutions and pooling against loops over windows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

// Of each spatial axis.
struct Window {
  Ints stride, dilation, before, after;
};
struct Conv {
  Window window;
  int64_t groups = 1;
};

int64_t outputs(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t padding) {
  return (size + padding - (kernel - 1) * dilation - 1) / stride + 1;
}

// The place under element k of the window of output o; none: it is padding.
std::optional<Ints> under(const Window& w, const Ints& o, const Ints& k, const Ints& sizes) {
  Ints place;
  for (size_t i = 0; i < o.size(); i++) {
    place.push_back(o[i] * w.stride[i] + k[i] * w.dilation[i] - w.before[i]);
    if (place[i] < 0 || place[i] >= sizes[i]) return std::nullopt;
  }
  return place;
}
Ints tail(const Ints& list, size_t from) { return {list.begin() + static_cast<int64_t>(from), list.end()}; }
Ints joined(Ints a, const Ints& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Array conv(const Array& x, const Array& w, const Array* bias, const Conv& c) {
  const Ints sizes = tail(x.shape, 2), kernel = tail(w.shape, 2);
  Ints spatial;
  for (size_t i = 0; i < sizes.size(); i++)
    spatial.push_back(outputs(sizes[i], kernel[i], c.window.stride[i], c.window.dilation[i],
                              c.window.before[i] + c.window.after[i]));
  const int64_t out = w.shape[0], in = w.shape[1], each_group = out / c.groups;
  Array y(x.dtype, joined({x.shape[0], out}, spatial));
  each(y.shape, [&](const Ints& i) {
    const int64_t group = i[1] / each_group;
    Number sum = bias != nullptr ? (*bias)({i[1]}) : 0;
    for (int64_t channel = 0; channel < in; channel++)
      each(kernel, [&](const Ints& k) {
        if (const auto place = under(c.window, tail(i, 2), k, sizes))
          sum += x(joined({i[0], group * in + channel}, *place)) * w(joined({i[1], channel}, k));
      });
    y(i) = sum;
  });
  return y;
}

// Each input element spreads the kernel over the output.
Array conv_transposed(const Array& x, const Array& w, const Conv& c, const Ints& extra) {
  const Ints sizes = tail(x.shape, 2), kernel = tail(w.shape, 2);
  Ints spatial;
  for (size_t i = 0; i < sizes.size(); i++)
    spatial.push_back((sizes[i] - 1) * c.window.stride[i] + (kernel[i] - 1) * c.window.dilation[i] + 1 -
                      c.window.before[i] - c.window.after[i] + extra[i]);
  const int64_t in_group = w.shape[0] / c.groups, out_group = w.shape[1];
  Array y(x.dtype, joined({x.shape[0], out_group * c.groups}, spatial));
  each(x.shape, [&](const Ints& i) {
    for (int64_t o = 0; o < out_group; o++)
      each(kernel, [&](const Ints& k) {
        if (const auto place = under(c.window, tail(i, 2), k, spatial))
          y(joined({i[0], i[1] / in_group * out_group + o}, *place)) += x(i) * w(joined({i[1], o}, k));
      });
  });
  return y;
}

Row layer_row(const std::string& name, Function<Tensor> ours, Function<Array> reference,
              const std::vector<std::vector<Ints>>& shapes, const Types& types = kFloats) {
  std::vector<size_t> by;
  for (size_t i = 0; i < shapes[0].size(); i++) by.push_back(i);
  return {.name = name,
          .ours = std::move(ours),
          .reference = std::move(reference),
          .inputs = std::vector<Input>(by.size()),
          .shapes = shapes,
          .types = types,
          .close = {16, true},
          .narrow = 2,
          .by = by};
}
Row conv_row(const std::string& name, const ConvOptions& o, const Conv& c, const std::vector<Ints>& shapes) {
  Row row = layer_row(
      "conv2d " + name,
      [=](const Tensors& x) {
        return x[0].conv2d(x[1], x.size() > 2 ? std::optional(x[2]) : std::nullopt, o);
      },
      [=](const Arrays& a) { return conv(a[0], a[1], a.size() > 2 ? &a[2] : nullptr, c); }, {shapes});
  row.twice = true;
  return row;
}
Row transposed_row(const std::string& name, const ConvTransposeOptions& o, const Conv& c, const Ints& extra,
                   const std::vector<Ints>& shapes) {
  return layer_row(
      "conv_transpose2d " + name, [=](const Tensors& x) { return x[0].conv_transpose2d(x[1], {}, o); },
      [=](const Arrays& a) { return conv_transposed(a[0], a[1], c, extra); }, {shapes});
}

std::vector<Row> convolutions() {
  return {
      conv_row("plain", {}, {{{1, 1}, {1, 1}, {0, 0}, {0, 0}}}, {{2, 2, 3, 4}, {3, 2, 2, 3}, {3}}),
      conv_row("strided, padded", {.stride = 2, .padding = 1}, {{{2, 2}, {1, 1}, {1, 1}, {1, 1}}},
               {{1, 2, 4, 5}, {2, 2, 3, 3}}),
      conv_row("asymmetric padding", {.padding = {1, 0, 2, 1}}, {{{1, 1}, {1, 1}, {2, 1}, {1, 0}}},
               {{1, 1, 3, 3}, {1, 1, 2, 2}}),
      conv_row("dilated groups", {.groups = 2, .dilation = {2, 1}}, {{{1, 1}, {2, 1}, {0, 0}, {0, 0}}, 2},
               {{1, 4, 4, 3}, {4, 2, 2, 2}, {4}}),
      conv_row("one by one", {}, {{{1, 1}, {1, 1}, {0, 0}, {0, 0}}}, {{1, 2, 2, 2}, {1, 2, 1, 1}}),
      conv_row("of each channel", {.groups = 2, .stride = {1, 2}}, {{{1, 2}, {1, 1}, {0, 0}, {0, 0}}, 2},
               {{1, 2, 3, 4}, {2, 1, 2, 2}}),
      conv_row("of one dimension", {.stride = 2, .padding = 1}, {{{2}, {1}, {1}, {1}}},
               {{2, 2, 5}, {2, 2, 3}, {2}}),
      conv_row("of three dimensions", {.dilation = 1}, {{{1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}},
               {{1, 1, 2, 3, 2}, {2, 1, 2, 2, 1}}),
      conv_row("of an empty batch", {}, {{{1, 1}, {1, 1}, {0, 0}, {0, 0}}},
               {{0, 2, 3, 4}, {3, 2, 2, 3}, {3}}),
      transposed_row("plain", {}, {{{1, 1}, {1, 1}, {0, 0}, {0, 0}}}, {0, 0}, {{1, 2, 2, 3}, {2, 3, 2, 2}}),
      transposed_row("strided, padded", {.stride = 2, .padding = 1, .output_padding = 1},
                     {{{2, 2}, {1, 1}, {1, 1}, {1, 1}}}, {1, 1}, {{1, 2, 2, 3}, {2, 1, 3, 3}}),
      transposed_row("dilated groups", {.groups = 2, .stride = {2, 1}, .dilation = {1, 2}},
                     {{{2, 1}, {1, 2}, {0, 0}, {0, 0}}, 2}, {0, 0}, {{1, 4, 2, 2}, {4, 1, 2, 2}}),
      transposed_row("of one dimension", {.stride = 3}, {{{3}, {1}, {0}, {0}}}, {0}, {{2, 1, 3}, {1, 2, 2}}),
      layer_row(
          "conv_transpose2d with a bias", [](const Tensors& x) { return x[0].conv_transpose2d(x[1], x[2]); },
          [](const Arrays& a) {
            Array y = conv_transposed(a[0], a[1], {{{1, 1}, {1, 1}, {0, 0}, {0, 0}}}, {0, 0});
            each(y.shape, [&](const Ints& i) { y(i) += a[2]({i[1]}); });
            return y;
          },
          {{{1, 1, 2, 2}, {1, 2, 2, 2}, {2}}}),
  };
}

TEST(Convolutions, Values) { expect_all(convolutions()); }
TEST(Convolutions, Gradients) { expect_all_gradients(convolutions()); }

TEST(Convolutions, Integers) {
  std::mt19937_64 random = generator("integers");
  for (const DType dtype : kInts) {
    const Array x = random_array(random, dtype, {1, 2, 3, 3}, {-3, 3}),
                w = random_array(random, dtype, {2, 2, 2, 2}, {-3, 3});
    Array want = conv(x, w, nullptr, {{{1, 1}, {1, 1}, {0, 0}, {0, 0}}});
    want.dtype = promote(dtype, dtype.is_unsigned() ? dtypes::uint32 : dtypes::int32);  // as sums
    for (Number& n : want.at) n = wrapped(want.dtype, static_cast<Whole>(n));
    EXPECT_EQ(difference(array_of(tensor_of(x).conv2d(tensor_of(w))), want, {}), "") << dtype.name();
  }
}

// ---- Pooling

struct Pooling {
  Ints kernel;
  Window window;
  bool ceil = false, counts_padding = true;
};

// The values under each window, and their places in the pooled axes; padding is place -1.
using Under = std::function<Number(const Numbers& values, const Ints& places, int64_t in_padded)>;
Array pooled(const Array& x, const Pooling& p, DType dtype, const Under& f) {
  const size_t n = p.kernel.size(), front = x.shape.size() - n;
  const Ints sizes = tail(x.shape, front);
  Ints shape(x.shape.begin(), x.shape.begin() + static_cast<int64_t>(front));
  for (size_t i = 0; i < n; i++) {
    const int64_t room =
        sizes[i] + p.window.before[i] + p.window.after[i] - (p.kernel[i] - 1) * p.window.dilation[i] - 1;
    int64_t out = room / p.window.stride[i] + 1;
    if (p.ceil && room % p.window.stride[i] != 0 && out * p.window.stride[i] < sizes[i] + p.window.before[i])
      out++;
    shape.push_back(out);
  }
  Array y(dtype, shape);
  const Array spatial(dtypes::bool_, sizes);
  each(shape, [&](const Ints& i) {
    Numbers values;
    Ints places;
    int64_t inside = 0;
    each(p.kernel, [&](const Ints& k) {
      const Ints o = tail(i, front);
      bool in_padded = true;  // not what ceil mode added
      for (size_t d = 0; d < n; d++)
        in_padded = in_padded && o[d] * p.window.stride[d] + k[d] * p.window.dilation[d] <
                                     sizes[d] + p.window.before[d] + p.window.after[d];
      inside += in_padded ? 1 : 0;
      if (const auto place = under(p.window, o, k, sizes)) {
        values.push_back(x(joined(Ints(i.begin(), i.begin() + static_cast<int64_t>(front)), *place)));
        places.push_back(static_cast<int64_t>(spatial.place(*place)));
      }
    });
    y(i) = f(values, places, inside);
  });
  return y;
}
Number most_of_window(const Numbers& values, const Ints&, int64_t) {
  return *std::ranges::max_element(values);
}

Row pool_row(const std::string& name, const PoolOptions& o, const Pooling& p, bool average,
             const std::vector<std::vector<Ints>>& shapes) {
  Row row = layer_row(
      (average ? "avg_pool2d " : "max_pool2d ") + name,
      [=](const Tensors& x) { return average ? x[0].avg_pool2d(p.kernel, o) : x[0].max_pool2d(p.kernel, o); },
      [=](const Arrays& a) {
        if (!average) return pooled(a[0], p, a[0].dtype, most_of_window);
        return pooled(a[0], p, as_float(a[0].dtype), [&](const Numbers& v, const Ints&, int64_t inside) {
          Number sum = 0;
          for (const Number x : v) sum += x;
          return sum / static_cast<Number>(p.counts_padding ? inside : std::ssize(v));
        });
      },
      shapes, kAll);
  if (!average) row.close = {}, row.narrow = 0;
  return row;
}

std::vector<Row> pools() {
  const Window plain{{2, 2}, {1, 1}, {0, 0}, {0, 0}}, around{{2, 1}, {1, 1}, {1, 1}, {1, 1}},
      wide_steps{{2, 2}, {1, 1}, {0, 0}, {0, 0}};
  const Window dilated{{1, 1}, {2, 1}, {0, 0}, {0, 0}}, uneven{{2, 2}, {1, 1}, {1, 0}, {0, 1}};
  std::vector<Row> rows;
  for (const bool average : {false, true}) {
    rows.push_back(
        pool_row("plain", {}, {{2, 2}, plain}, average, {{{2, 4, 5}}, {{1, 2, 2, 2}}, {{0, 2, 2}}}));
    rows.push_back(
        pool_row("padded", {.stride = {2, 1}, .padding = 1}, {{3, 2}, around}, average, {{{1, 1, 4, 3}}}));
    rows.push_back(pool_row("uneven padding", {.stride = 2, .padding = {0, 1, 1, 0}}, {{2, 2}, uneven},
                            average, {{{1, 3, 3}}}));
    rows.push_back(
        pool_row("dilated", {.stride = 1, .dilation = {2, 1}}, {{2, 2}, dilated}, average, {{{1, 4, 3}}}));
    rows.push_back(pool_row("ceil", {.stride = 2, .ceil_mode = true}, {{3, 3}, wide_steps, true}, average,
                            {{{1, 6, 5}}, {{1, 4, 4}}}));
    rows.push_back(pool_row("of three dimensions", {},
                            {{2, 1, 2}, {{2, 1, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}}, average,
                            {{{1, 2, 2, 4}}}));
  }
  rows.push_back(pool_row("without padding", {.stride = {2, 1}, .padding = 1, .count_include_pad = false},
                          {{3, 2}, around, false, false}, true, {{{1, 1, 4, 3}}}));
  rows.push_back(pool_row("ceil, padded", {.stride = 2, .padding = 1, .ceil_mode = true},
                          {{3, 3}, {{2, 2}, {1, 1}, {1, 1}, {1, 1}}, true}, true, {{{1, 4, 6}}}));
  rows.push_back(pool_row("ceil, without padding",
                          {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false},
                          {{3, 3}, {{2, 2}, {1, 1}, {1, 1}, {1, 1}}, true, false}, true, {{{1, 4, 6}}}));
  return rows;
}

TEST(Pools, Values) { expect_all(pools()); }
TEST(Pools, Gradients) { expect_all_gradients(pools()); }

// The places are numbers in the pooled axes; unpooling puts the values back there.
std::vector<Row> with_places() {
  auto places_of = [](const Array& x, const Pooling& p) {
    return pooled(x, p, dtypes::int32, [](const Numbers& v, const Ints& places, int64_t) {
      return static_cast<Number>(places[static_cast<size_t>(std::ranges::max_element(v) - v.begin())]);
    });
  };
  const Pooling plain{{2, 2}, {{2, 2}, {1, 1}, {0, 0}, {0, 0}}},
      around{{3, 3}, {{2, 2}, {1, 1}, {1, 1}, {1, 1}}};
  auto pair_of = [](const std::pair<Tensor, Tensor>& p) { return Tensors{p.first, p.second}; };
  std::vector<Row> rows = {
      layer_row(
          "max_pool2d_with_indices",
          [=](const Tensors& x) { return pair_of(x[0].max_pool2d_with_indices()); },
          [=](const Arrays& a) {
            return Arrays{pooled(a[0], plain, a[0].dtype, most_of_window), places_of(a[0], plain)};
          },
          {{{2, 4, 5}}, {{1, 1, 2, 2}}}, kAll),
      layer_row(
          "max_pool2d_with_indices, padded",
          [=](const Tensors& x) {
            return pair_of(x[0].max_pool2d_with_indices(3, {.stride = 2, .padding = 1}));
          },
          [=](const Arrays& a) {
            return Arrays{pooled(a[0], around, a[0].dtype, most_of_window), places_of(a[0], around)};
          },
          {{{1, 4, 5}}}, kAll),
      layer_row(
          "max_unpool2d",
          [](const Tensors& x) {
            const auto [values, places] = x[0].max_pool2d_with_indices();
            return values.max_unpool2d(places);
          },
          [=](const Arrays& a) {
            const Array values = pooled(a[0], plain, a[0].dtype, most_of_window),
                        places = places_of(a[0], plain);
            Array out(a[0].dtype, a[0].shape);
            const int64_t columns = a[0].shape[2];
            each(values.shape, [&](const Ints& i) {
              const auto place = static_cast<int64_t>(places(i));
              out({i[0], place / columns, place % columns}) = values(i);
            });
            return out;
          },
          {{{2, 4, 6}}}, kAll),
  };
  for (Row& row : rows) row.close = {}, row.narrow = 0;
  return rows;
}

TEST(PoolsWithPlaces, Values) { expect_all(with_places()); }
TEST(PoolsWithPlaces, Gradients) { expect_all_gradients(with_places()); }

TEST(Pools, UnpoolToASize) {
  const Tensor x = Tensor::from(std::vector<float>{5, 7}, Shape{1, 1, 2}),
               at = Tensor::from(std::vector<int32_t>{0, 8}, Shape{1, 1, 2});
  EXPECT_EQ(array_of(x.max_unpool2d(at, 2, {}, Ints{2, 5})).at, (Numbers{5, 0, 0, 0, 0, 0, 0, 0, 7, 0}));
}

// NaN wins; windows of padding alone have the least value.
TEST(Pools, NaN) {
  const Tensor x = Tensor::from(std::vector<float>{1, std::nanf(""), 2, 3}, Shape{1, 2, 2});
  EXPECT_TRUE(std::isnan(x.max_pool2d().item<float>()));
  EXPECT_EQ(x.max_pool2d_with_indices().second.item<int>(), 1);
}

}  // namespace
}  // namespace quern::optest
