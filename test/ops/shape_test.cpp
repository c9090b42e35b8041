// What moves values and computes none: every dtype, every view as an input.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

std::vector<Row> views() {
  const std::vector<std::vector<Ints>> matrix = {{{2, 3}}, {{2, 1}}, {{0, 3}}},
                                       cube = {{{2, 3, 2}}, {{1, 3, 2}}};
  return {
      moving(
          "reshape", [](const Tensors& x) { return x[0].reshape({3, -1}); },
          [](const Arrays& a) { return reshaped(a[0], {3, count(a[0].shape) / 3}); },
          {{{2, 3}}, {{3}}, {{3, 0}}, {{2, 3, 2}}}),
      moving(
          "view", [](const Tensors& x) { return x[0].view({1, 6, 1}); },
          [](const Arrays& a) { return reshaped(a[0], {1, 6, 1}); }, {{{2, 3}}}),
      moving(
          "reshape to no axes", [](const Tensors& x) { return x[0].reshape({}); },
          [](const Arrays& a) { return reshaped(a[0], {}); }, {{{1, 1}}, {{}}}),
      moving(
          "expand", [](const Tensors& x) { return x[0].expand({4, -1, 3}); },
          [](const Arrays& a) { return broadcast(a[0], {4, 2, 3}); }, {{{2, 1}}, {{2, 3}}, {{1, 2, 1}}}),
      moving(
          "expand to nothing", [](const Tensors& x) { return x[0].expand({0, 3}); },
          [](const Arrays& a) { return broadcast(a[0], {0, 3}); }, {{{1, 3}}, {{}}, {{3}}}),
      moving(
          "broadcast_to", [](const Tensors& x) { return x[0].broadcast_to({2, 3}); },
          [](const Arrays& a) { return broadcast(a[0], {2, 3}); }, {{{2, 1}}, {{}}, {{3}}}),
      moving(
          "permute", [](const Tensors& x) { return x[0].permute({2, 0, -2}); },
          [](const Arrays& a) { return permuted(a[0], {2, 0, 1}); }, cube),
      moving(
          "transpose", [](const Tensors& x) { return x[0].transpose(); },
          [](const Arrays& a) { return swapped(a[0], 0, 1); }, cube),
      moving(
          "transpose of the last", [](const Tensors& x) { return x[0].transpose(0, -1); },
          [](const Arrays& a) { return swapped(a[0], 0, -1); }, cube),
      moving(
          "T", [](const Tensors& x) { return x[0].T(); }, [](const Arrays& a) { return swapped(a[0], 0, 1); },
          cube),
      moving(
          "flatten", [](const Tensors& x) { return x[0].flatten(); },
          [](const Arrays& a) { return reshaped(a[0], {count(a[0].shape)}); }, {{{2, 3}}, {{}}, {{0, 2}}}),
      moving(
          "flatten of some", [](const Tensors& x) { return x[0].flatten(1, -2); },
          [](const Arrays& a) { return reshaped(a[0], {2, 6, 1}); }, {{{2, 3, 2, 1}}}),
      moving(
          "unflatten", [](const Tensors& x) { return x[0].unflatten(-1, {-1, 2}); },
          [](const Arrays& a) { return reshaped(a[0], {2, 3, 2}); }, {{{2, 6}}}),
      moving(
          "squeeze", [](const Tensors& x) { return x[0].squeeze(); },
          [](const Arrays& a) { return reshaped(a[0], {3, 2}); }, {{{1, 3, 1, 2}}}),
      moving(
          "squeeze of one", [](const Tensors& x) { return x[0].squeeze(-2); },
          [](const Arrays& a) { return reshaped(a[0], {1, 3, 2}); }, {{{1, 3, 1, 2}}}),
      moving(
          "unsqueeze", [](const Tensors& x) { return x[0].unsqueeze(-1).unsqueeze(1); },
          [](const Arrays& a) { return reshaped(a[0], {a[0].shape[0], 1, a[0].shape[1], 1}); }, matrix),
      moving(
          "shrink", [](const Tensors& x) { return x[0].shrink({{{0, 2}}, std::nullopt, {{1, 2}}}); },
          [](const Arrays& a) { return cut(a[0], {0, 0, 1}, {2, 3, 1}); }, {{{2, 3, 2}}}),
      moving(
          "shrink to nothing", [](const Tensors& x) { return x[0].shrink({{{1, 1}}, std::nullopt}); },
          [](const Arrays& a) { return cut(a[0], {1, 0}, {0, 3}); }, {{{2, 3}}}),
      moving(
          "shrink_to", [](const Tensors& x) { return x[0].shrink_to({std::nullopt, Dim(2)}); },
          [](const Arrays& a) { return cut(a[0], {0, 0}, {2, 2}); }, {{{2, 3}}}),
      moving(
          "pad_to", [](const Tensors& x) { return x[0].pad_to({std::nullopt, Dim(5)}); },
          [](const Arrays& a) { return cut(a[0], {0, 0}, {a[0].shape[0], 5}); },
          {{{2, 3}}, {{2, 0}}, {{0, 3}}}),
      moving(
          "pad", [](const Tensors& x) { return x[0].pad({1, 2, 0, 1}); },
          [](const Arrays& a) { return cut(a[0], {0, -1}, {a[0].shape[0] + 1, a[0].shape[1] + 3}); }, matrix),
      moving(
          "pad with 1", [](const Tensors& x) { return x[0].pad({1, 2}, "constant", 1); },
          [](const Arrays& a) { return cut(a[0], {0, -1}, {a[0].shape[0], a[0].shape[1] + 3}, 1); }, matrix),
      moving(
          "pad by less than 0", [](const Tensors& x) { return x[0].pad({-1, 2, 1, -1}, "constant", 1); },
          [](const Arrays& a) { return cut(a[0], {-1, 1}, {2, 4}, 1); }, {{{2, 3}}}),
      moving(
          "pad_axes", [](const Tensors& x) { return x[0].pad_axes({{0, 1}, {1, 0}}, 1); },
          [](const Arrays& a) { return cut(a[0], {0, -1}, {a[0].shape[0] + 1, a[0].shape[1] + 1}, 1); },
          matrix),
      moving(
          "flip", [](const Tensors& x) { return x[0].flip(-1); },
          [](const Arrays& a) {
            return moved(a[0], a[0].shape,
                         [&](const Ints& i) { return Ints{i[0], a[0].shape[1] - 1 - i[1]}; });
          },
          matrix),
  };
}

TEST(Views, Values) { expect_all(views()); }
TEST(Views, Gradients) { expect_all_gradients(views()); }

// ---- Padding that repeats, rolls, repetitions

// Along the last axis: element i is that at place(i, n) of n.
Function<Array> last_axis(int64_t size, int64_t (*place)(int64_t i, int64_t n)) {
  return [=](const Arrays& a) {
    Ints shape = a[0].shape;
    shape.back() = size;
    return moved(a[0], shape, [&](Ints i) {
      i.back() = place(i.back(), a[0].shape.back());
      return i;
    });
  };
}
int64_t modulo(int64_t i, int64_t n) { return ((i % n) + n) % n; }

std::vector<Row> repetitions() {
  return {
      moving("pad reflect", [](const Tensors& x) { return x[0].pad({2, 1}, "reflect"); },
             last_axis(6, [](int64_t i, int64_t n) { return n - 1 - std::abs(n - 1 - std::abs(i - 2)); }),
             {{{2, 3}}}),
      moving("pad replicate", [](const Tensors& x) { return x[0].pad({2, 3}, "replicate"); },
             last_axis(8, [](int64_t i, int64_t n) { return std::clamp<int64_t>(i - 2, 0, n - 1); }),
             {{{2, 3}}}),
      moving("pad circular", [](const Tensors& x) { return x[0].pad({2, 1}, "circular"); },
             last_axis(6, [](int64_t i, int64_t n) { return modulo(i - 2, n); }), {{{2, 3}}}),
      moving(
          "pad reflect of two axes", [](const Tensors& x) { return x[0].pad({1, 1, 1, 0}, "reflect"); },
          [](const Arrays& a) {
            return moved(a[0], {3, 5}, [](const Ints& i) {
              return Ints{std::abs(i[0] - 1), 2 - std::abs(2 - std::abs(i[1] - 1))};
            });
          },
          {{{2, 3}}}),
      moving("roll", [](const Tensors& x) { return x[0].roll(-4, -1); },
             last_axis(3, [](int64_t i, int64_t n) { return modulo(i + 4, n); }), {{{2, 3}}, {{0, 3}}}),
      moving(
          "roll of two axes", [](const Tensors& x) { return x[0].roll({1, 2}, {0, 1}); },
          [](const Arrays& a) {
            return moved(a[0], {2, 3},
                         [](const Ints& i) { return Ints{modulo(i[0] - 1, 2), modulo(i[1] - 2, 3)}; });
          },
          {{{2, 3}}}),
      moving(
          "roll of all", [](const Tensors& x) { return x[0].roll(1); },
          [](const Arrays& a) {
            Array b = a[0];
            for (size_t i = 0; i < b.at.size(); i++) b.at[(i + 1) % b.at.size()] = a[0].at[i];
            return b;
          },
          {{{2, 3}}, {{1}}, {{0}}}),
      moving(
          "repeat", [](const Tensors& x) { return x[0].repeat({2, 1, 2}); },
          [](const Arrays& a) {
            const Ints s = a[0].shape;
            return moved(a[0], {2, s[0], s[1] * 2}, [=](const Ints& i) { return Ints{i[1], i[2] % s[1]}; });
          },
          {{{2, 3}}, {{2, 1}}, {{0, 3}}}),
      moving(
          "repeat no times", [](const Tensors& x) { return x[0].repeat({0, 2}); },
          [](const Arrays& a) { return Array(a[0].dtype, {0, 6}); }, {{{2, 3}}}),
      moving("repeat_interleave", [](const Tensors& x) { return x[0].repeat_interleave(2, -1); },
             last_axis(6, [](int64_t i, int64_t) { return i / 2; }), {{{2, 3}}}),
      moving(
          "repeat_interleave of all", [](const Tensors& x) { return x[0].repeat_interleave(3); },
          [](const Arrays& a) {
            Array b(a[0].dtype, {count(a[0].shape) * 3});
            for (size_t i = 0; i < b.at.size(); i++) b.at[i] = a[0].at[i / 3];
            return b;
          },
          {{{2, 2}}, {{}}}),
      moving(
          "unfold", [](const Tensors& x) { return x[0].unfold(0, 3, 2); },
          [](const Arrays& a) {
            return moved(a[0], {2, 2, 3}, [](const Ints& i) { return Ints{i[0] * 2 + i[2], i[1]}; });
          },
          {{{5, 2}}, {{6, 2}}}),
      moving(
          "diagonal", [](const Tensors& x) { return x[0].diagonal(1, 0, 2); },
          [](const Arrays& a) {
            return moved(a[0], {2, 2}, [](const Ints& i) { return Ints{i[1], i[0], i[1] + 1}; });
          },
          {{{2, 2, 3}}, {{3, 2, 3}}}),
      moving(
          "diagonal below", [](const Tensors& x) { return x[0].diagonal(-1); },
          [](const Arrays& a) {
            return moved(a[0], {std::max<int64_t>(std::min(a[0].shape[0] - 1, a[0].shape[1]), 0)},
                         [](const Ints& i) { return Ints{i[0] + 1, i[0]}; });
          },
          {{{3, 2}}, {{2, 4}}, {{1, 2}}, {{0, 2}}}),
      moving(
          "diag", [](const Tensors& x) { return x[0].diag(); },
          [](const Arrays& a) {
            const int64_t n = a[0].shape[0];
            return moved(a[0], {n, n}, [](const Ints& i) {
              return i[0] == i[1] ? std::optional<Ints>(Ints{i[0]}) : std::nullopt;
            });
          },
          {{{3}}, {{1}}, {{0}}}),
      moving(
          "tril", [](const Tensors& x) { return x[0].tril(); },
          [](const Arrays& a) {
            return moved(a[0], a[0].shape, [](const Ints& i) {
              return i[i.size() - 1] <= i[i.size() - 2] ? std::optional<Ints>(i) : std::nullopt;
            });
          },
          {{{2, 3}}, {{2, 3, 2}}, {{0, 3}}}),
      moving(
          "triu", [](const Tensors& x) { return x[0].triu(1); },
          [](const Arrays& a) {
            return moved(a[0], a[0].shape, [](const Ints& i) {
              return i[i.size() - 1] >= i[i.size() - 2] + 1 ? std::optional<Ints>(i) : std::nullopt;
            });
          },
          {{{2, 3}}, {{2, 3, 2}}, {{3, 0}}}),
      moving(
          "rearrange",
          [](const Tensors& x) { return x[0].rearrange("a (b c) d -> (d a) c 1 b", {{"b", 2}}); },
          [](const Arrays& a) {
            return moved(a[0], {4, 3, 1, 2},
                         [](const Ints& i) { return Ints{i[0] % 2, i[3] * 3 + i[1], i[0] / 2}; });
          },
          {{{2, 6, 2}}}),
      moving(
          "rearrange with an ellipsis",
          [](const Tensors& x) { return x[0].rearrange("a ... b -> ... (b a)"); },
          [](const Arrays& a) {
            return moved(a[0], {3, 1, 4}, [](const Ints& i) { return Ints{i[2] % 2, i[0], i[1], i[2] / 2}; });
          },
          {{{2, 3, 1, 2}}}),
  };
}

TEST(Repetitions, Values) { expect_all(repetitions()); }
TEST(Repetitions, Gradients) { expect_all_gradients(repetitions()); }

}  // namespace
}  // namespace quern::optest
