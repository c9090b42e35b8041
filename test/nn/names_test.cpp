// Views with the functions of tensors, values without gradients, and functions that write in place.
#include <gtest/gtest.h>

#include "quern/base/error.h"
#include "quern/tensor/core/tensor.h"
#include "quern/tensor/core/training.h"
#include "test/engine/tensors.h"

namespace quern {
namespace {

Tensor rows() { return Tensor::from<float>({1, 2, 3, 4, 5, 6}, Shape{2, 3}); }

TEST(Views, HaveTheFunctionsOfTensors) {
  const Tensor x = rows();
  EXPECT_EQ(x(1).sum().item<float>(), 15);
  EXPECT_EQ(x(everything, 0).to_vector<float>(), (Floats{1, 4}));
  EXPECT_EQ(x(0, Slice{1, 3}).shape(), Shape{2});
  EXPECT_EQ((-x(0)).max().item<float>(), -1);
  EXPECT_EQ(x(x.gt(3)).sum().item<float>(), 15);
  EXPECT_EQ(x(1).add(x(0)).to_vector<float>(), (Floats{5, 7, 9}));
}

TEST(Views, AreWrittenThrough) {
  const Tensor x = rows();
  x(0) = 0;
  x(1, Slice{1, 3}) = x(1, Slice{0, 2});
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 0, 0, 4, 4, 5}));
  x(x.gt(3)) = -1;
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 0, 0, -1, -1, -1}));
  x(0).fill_(7);
  EXPECT_EQ(x.to_vector<float>(), (Floats{7, 7, 7, -1, -1, -1}));
}

TEST(Views, ATensorThatIsMadeOfOneIsWhatItWasThen) {
  const Tensor x = rows(), index = Tensor::from<int32_t>({1, 0});
  const Tensor taken = x(0, index);  // not a view of memory
  Tensor assigned = x;
  assigned = x(0, index);
  const std::vector<Tensor> kept = {x(0, index)};
  x(0) = 0;
  EXPECT_EQ(taken.to_vector<float>(), (Floats{2, 1}));
  EXPECT_EQ(assigned.to_vector<float>(), (Floats{2, 1}));
  EXPECT_EQ(kept[0].to_vector<float>(), (Floats{2, 1}));
}

TEST(Views, CopiesOfThemAreViews) {
  const Tensor x = rows();
  const View first = x(0);
  View second(first);
  second = Tensor::zeros({3});
  EXPECT_EQ(first.sum().item<float>(), 0);
  EXPECT_THROW((void)x(5).sum(), IndexError);
}

TEST(NoGrad, WhatIsComputedInItCarriesNoGradient) {
  const Tensor w = Tensor::from<float>({2, 3});
  std::optional<Tensor> inside;
  {
    const NoGrad off;
    EXPECT_FALSE(is_grad_enabled());
    inside = w * w;
  }
  EXPECT_TRUE(is_grad_enabled());
  EXPECT_EQ((*inside * w).sum().gradient({w})[0].to_vector<float>(), (Floats{4, 9}));
  EXPECT_EQ((w * w * w).sum().gradient({w})[0].to_vector<float>(), (Floats{12, 27}));
}

TEST(NoGrad, AViewMadeInItSeesWrites) {
  const Tensor w = Tensor::from<float>({2, 3});
  std::optional<Tensor> view;
  {
    const NoGrad off;
    view = w(Slice{0, 1});
  }
  w.assign(Tensor::from<float>({5, 6}));
  EXPECT_EQ(view->item<float>(), 5);
  view->assign(9);
  EXPECT_EQ(w.to_vector<float>(), (Floats{9, 6}));
}

TEST(NoGrad, WhatIsWrittenInItCarriesNone) {
  const Tensor w = Tensor::from<float>({2, 3}), mean = Tensor::from<float>({0, 0});
  {
    const NoGrad off;
    mean.assign(w * 0.5);
  }
  EXPECT_EQ((mean * w).sum().gradient({w})[0].to_vector<float>(), (Floats{1, 1.5}));
}

TEST(NoGrad, WhatRequiresGradientsKeepsThem) {
  std::optional<Tensor> made;
  {
    const NoGrad off;
    made = Tensor::from<float>({1, 2});
    made->set_requires_grad();
  }
  (*made * *made).sum().backward();
  EXPECT_EQ(made->grad()->to_vector<float>(), (Floats{2, 4}));
}

TEST(InPlace, WritesIntoTheMemory) {
  const Tensor x = rows(), view = x(0);
  x.mul_(2).add_(1, 0.5);
  EXPECT_EQ(view.to_vector<float>(), (Floats{2.5, 4.5, 6.5}));
  x.clamp_(0, 5).zero_();
  EXPECT_EQ(view.to_vector<float>(), (Floats{0, 0, 0}));
  x.copy_(Tensor::from<int32_t>({1, 2, 3}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 2, 3, 1, 2, 3}));
}

TEST(InPlace, AResultOfAnotherKindIsRefused) {
  const Tensor x = Tensor::from<int32_t>({1, 2});
  EXPECT_THROW(x.add_(1.5), DTypeError);
  EXPECT_THROW(x.div_(2), DTypeError);
  EXPECT_EQ(x.to_vector<int32_t>(), (std::vector<int32_t>{1, 2}));
  EXPECT_THROW(x.fill_(Tensor::zeros({2})), ShapeError);
}

TEST(Axes, OutOfRangeAreErrorsOfTheirOwn) { EXPECT_THROW((void)rows().sum(5), AxisError); }

}  // namespace
}  // namespace quern
