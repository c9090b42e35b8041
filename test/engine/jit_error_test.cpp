// What a captured function refuses, and what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/engine/jit/jit.h"
#include "test/engine/tensors.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(JitErrors, AnotherShapeDtypeOrDevice) {
  auto f = jit([](const Tensor& x, const Tensor& y) { return x + y; });
  for (int i = 0; i < 3; i++) f(row({1, 2}), row({3, 4}));
  EXPECT_EQ(error_of([&] { f(row({1, 2}), row({3})); }),
            "jit: input 1 has shape (1,), it was (2,) when the function was captured");
  EXPECT_THROW(f(row({1, 2}), row({3})), ShapeError);
  EXPECT_EQ(error_of([&] { f(Tensor::from(std::vector<int32_t>{1, 2}), row({3, 4})); }),
            "jit: input 0 is int32, it was float32 when the function was captured");
  EXPECT_THROW(f(Tensor::from(std::vector<int32_t>{1, 2}), row({3, 4})), DTypeError);
  EXPECT_EQ(error_of([&] { f(row({1, 2}), Tensor::from(Floats{3, 4}, {}, {.device = "INTERP:3"})); }),
            "jit: input 1 is on INTERP:3, it was on " + default_device() + " when the function was captured");
  EXPECT_THAT(f(row({1, 2}), row({3, 4})).to_vector<float>(), ElementsAre(4, 6));  // it goes on
}

TEST(JitErrors, TheSameMemoryTwice) {
  auto f = jit([](const Tensor& x, const Tensor& y) { return x + y; });
  const Tensor x = row({1, 2}), y = row({3, 4});
  const std::string twice =
      "jit: inputs 0 and 1 are the same memory: the function could not tell them apart; clone() one of them";
  f(x, x);  // not yet captured
  EXPECT_EQ(error_of([&] { f(x, x.reshape({2})); }), twice);
  EXPECT_THAT(f(x, y).to_vector<float>(), ElementsAre(4, 6));
  EXPECT_TRUE(f.is_captured());
  EXPECT_EQ(error_of([&] { f(y, y); }), twice);
  EXPECT_EQ(error_of([&] { f(y, y); }), twice);
  EXPECT_THAT(f(y, x).to_vector<float>(), ElementsAre(4, 6));
}

TEST(JitErrors, ListsOfAnotherLength) {
  auto f = jit([](const std::vector<Tensor>& xs) { return xs[0] + 1; });
  for (int i = 0; i < 3; i++) f(std::vector<Tensor>{row({1}), row({2})});
  EXPECT_THAT(
      error_of([&] { f(std::vector<Tensor>{row({1})}); }),
      HasSubstr("1 tensors, 0 sizes and 0 other values are given (with their lists), the function was "
                "captured with 2, 0 and 0"));
}

TEST(JitErrors, NumbersInsideThatChange) {
  float last = 0;
  auto f = jit([&](const Tensor& x) { return x + row({1, last++}); });
  f(row({1, 2}));
  EXPECT_EQ(error_of([&] { f(row({1, 2})); }),
            "jit: inside the function a tensor is made from numbers of the host that were others in the last "
            "call, which a replay cannot repeat: make it before the call, and pass it as an input or hold it "
            "outside");
  EXPECT_FALSE(f.is_captured());
}

TEST(JitErrors, ValuesReadInside) {
  auto f = jit([](const Tensor& x) { return x.sum().item<float>() > 0 ? x : x * -1; });
  f(row({1, 2}));
  EXPECT_EQ(
      error_of([&] { f(row({1, 2})); }),
      "jit: inside the function values are read (numpy, item, to_vector), which a replay cannot repeat: "
      "return the tensor, and read it when the function has returned");
  EXPECT_FALSE(f.is_captured());
}

TEST(JitErrors, ReadingWhatWasNotReturned) {
  std::optional<Tensor> kept, lazy, constant;
  auto f = jit([&](const Tensor& x) {
    kept = (x + 1).realize();
    lazy = x * 5;
    constant = Tensor::ones({2});
    return *kept * 2;
  });
  for (int i = 0; i < 2; i++) f(row({1, 2}));
  EXPECT_THAT(kept->to_vector<float>(), ElementsAre(2, 3));  // until a replay makes another one
  const Tensor before = *kept + 1;
  f(row({3, 4}));
  const std::string text =
      "a tensor of shape (2,) was computed inside a function given to jit(), which did not return it: "
      "replays do "
      "not compute it; return it, or assign() it to a tensor that was made outside";
  EXPECT_EQ(error_of([&] { kept->to_vector<float>(); }), text);
  EXPECT_EQ(error_of([&] { (*lazy + 1).realize(); }), text);
  EXPECT_THAT(constant->to_vector<float>(), ElementsAre(1, 1));
  EXPECT_THAT(before.to_vector<float>(), ElementsAre(3, 4));
}

TEST(JitErrors, GradientsThatAreNotCleared) {
  const Tensor w = row({1, 2}).set_requires_grad();
  auto f = jit([&](const Tensor& x) {
    const Tensor loss = (w * x).sum();
    loss.backward();
    return loss;
  });
  f(row({1, 2}));
  EXPECT_THAT(
      error_of([&] { f(row({1, 2})); }),
      HasSubstr("a tensor of shape (2,) that was made outside is another one after the call (a gradient "
                "that was not cleared"));
  EXPECT_FALSE(f.is_captured());
}

TEST(JitErrors, AnInputThatTheFunctionUsesItself) {
  const Tensor w = row({1, 2}).realize();
  auto f = jit([&](const Tensor& x) { w.assign(w + x); });
  for (int i = 0; i < 3; i++) f(row({1, 1}));
  EXPECT_EQ(error_of([&] { f(w); }),
            "jit: input 0 is memory that the function also uses by itself, and it is written: clone() it");
  f(row({1, 1}));
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(5, 6));
}

TEST(JitErrors, WritesIntoACopy) {
  const Tensor all = Tensor::from(Floats{1, 2, 3, 4, 5, 6}, Shape{3, 2}).realize();
  auto f = jit([](const Tensor& x) { x.assign(x + 1); });
  const std::string text =
      "jit: input 0 is written by the function; a view whose elements are not in order cannot be";
  f(all.shrink({{}, {{0, 1}}}));
  EXPECT_EQ(error_of([&] { f(all.shrink({{}, {{0, 1}}})); }), text);
  auto g = jit([](const Tensor& x) { x.assign(x + 1); });
  for (int i = 0; i < 3; i++) g(all.shrink({{{1, 3}}, {}}));
  EXPECT_THAT(all.to_vector<float>(), ElementsAre(2, 2, 7, 7, 9, 9));
}

TEST(JitErrors, ASeedSetInside) {
  auto f = jit([](const Tensor& x) {
    Tensor::manual_seed(3);
    return x + Tensor::rand({2});
  });
  f(row({1, 2}));
  EXPECT_EQ(error_of([&] { f(row({1, 2})); }),
            "manual_seed: inside a jit, replays would not set the seed; set it before the call");
}

TEST(JitErrors, AVariableOfTwoValues) {
  const Variable n("n", 1, 8);
  auto f = jit([&](const Tensor& x, const Dim& size) { return x.shrink({{{Dim(0), size}}}).sum(); });
  const Tensor x = row({1, 2, 3, 4, 5, 6, 7, 8});
  for (int i = 1; i < 4; i++) f(x, n.bind(i));
  EXPECT_THAT(error_of([&] { f(x, Dim(4)); }), HasSubstr("size 0 among the arguments is 4, it was"));
  auto g = jit([&](const Tensor& a, const Dim& size) {
    return a.shrink({{{Dim(0), size}}}).sum().realize() + a.shrink({{{Dim(0), n.bind(2)}}}).sum();
  });
  g(x, n.bind(2));
  EXPECT_EQ(error_of([&] { g(x, n.bind(3)); }),
            "jit: variable n is 3 by the arguments of the function, and bound to 2 inside it");
}

TEST(JitErrors, ASizeForWhichASliceDoesNotFit) {
  const Variable n("n", 1, 8);
  const Tensor x = Tensor::arange(8, {.dtype = dtypes::float32}).realize();
  auto f = jit([](const Tensor& a, const Dim& at) { return a.shrink({{{at, at + 2}}}) * 1; });
  for (int i = 1; i < 4; i++) EXPECT_THAT(f(x, n.bind(i)).to_vector<float>(), ElementsAre(i, i + 1));
  for (int repeated = 0; repeated < 2; repeated++)
    EXPECT_EQ(
        error_of([&] { f(x, n.bind(7)); }),
        "jit: the function was captured with other sizes and cannot be replayed with n = 7: shrink: axis 0 "
        "is 8 long, asked for [n, n + 2)");
  EXPECT_THAT(f(x, n.bind(6)).to_vector<float>(), ElementsAre(6, 7));
  EXPECT_TRUE(f.is_captured());
}

TEST(JitErrors, ASizeForWhichAPlaceIsOutside) {
  const Variable n("n", 0, 20);
  const Tensor x = Tensor::arange(8, {.dtype = dtypes::float32}).realize();
  auto f = jit([](const Tensor& a, const Dim& at) { return a(at) * 1; });
  for (int i = 1; i < 4; i++) EXPECT_EQ(f(x, n.bind(i)).item<float>(), i);
  EXPECT_THAT(error_of([&] { f(x, n.bind(8)); }),
              HasSubstr("with n = 8: index n is out of bounds for axis 0 of size 8"));
  auto behind = jit([](const Tensor& a, const Dim& at) { return a(at - 3) * 1; });
  for (int i = 3; i < 6; i++) EXPECT_EQ(behind(x, n.bind(i)).item<float>(), i - 3);
  EXPECT_THAT(error_of([&] { behind(x, n.bind(11)); }), HasSubstr("cannot be replayed with n = 11: index"));
}

TEST(JitErrors, ASizeOfAPartThatWasMadeOutside) {
  const Variable n("n", 1, 8);
  const Tensor x = Tensor::arange(8, {.dtype = dtypes::float32}).realize();
  auto f = jit([&, last = x.shrink({{{n.bind(3), n.bind(3) + 2}}}) * 2](const Tensor& a, const Dim& at) {
    return last + a + Tensor::from_dim(at, dtypes::float32);
  });
  const Tensor one = Tensor::ones({2}).realize();
  f(one, n.bind(3)), f(one, n.bind(3));
  EXPECT_THAT(error_of([&] { f(one, n.bind(7)); }),
              HasSubstr("with n = 7: a part of axis 0, which is 8 long: [n, n + 2)"));
}

TEST(JitErrors, AnExceptionInsideLeavesItNotCaptured) {
  int calls = 0;
  auto f = jit([&](const Tensor& x) {
    if (++calls == 2) throw std::runtime_error("stop");
    return x + 1;
  });
  f(row({1}));
  EXPECT_THROW(f(row({1})), std::runtime_error);
  EXPECT_FALSE(f.is_captured());
  EXPECT_EQ((row({1}) + 1).item<float>(), 2);  // nothing is refused
  for (int i = 0; i < 3; i++) EXPECT_EQ(f(row({5})).item<float>(), 6);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace quern
