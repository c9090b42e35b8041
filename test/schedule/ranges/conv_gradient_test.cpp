// The kernels of a convolution's gradients have indices that loops can walk along: no division of a loop's
// counter stands in a kernel that sums up.
#include <gtest/gtest.h>

#include "quern/tensor/core/tensor.h"
#include "test/schedule/run.h"

namespace quern {
namespace {

int divisions_beside_reduces(const std::vector<Tensor>& tensors) {
  int found = 0;
  for (const Step& step : schedule_of(tensors, cpu_like()).steps) {
    if (step.program.op() != Op::SINK || !step.program.ops_below().contains(Op::REDUCE)) continue;
    for (const UOp& u : step.program.toposort())
      found += (u.op() == Op::FLOORDIV || u.op() == Op::FLOORMOD) && !u.src(0).ranges().empty() ? 1 : 0;
  }
  return found;
}

int divisions(const ConvOptions& options) {
  const Tensor x = input({4, 8, 14, 14}), w = input({8, 8 / options.groups, 3, 3});
  return divisions_beside_reduces(x.conv2d(w, {}, options).square().sum().gradient({x, w}));
}

TEST(ConvGradientKernels, IndicesAreAffine) {
  EXPECT_EQ(divisions({}), 0);
  EXPECT_EQ(divisions({.padding = 1}), 0);
  EXPECT_EQ(divisions({.dilation = 2, .padding = {2, 1, 0, 1}}), 0);
  EXPECT_EQ(divisions({.stride = 2, .padding = 1}), 0);
  EXPECT_EQ(divisions({.stride = 3}), 0);
}

}  // namespace
}  // namespace quern
