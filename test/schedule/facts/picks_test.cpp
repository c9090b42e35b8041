// Picks by indices are reads: no loop goes over what they pick from, whatever stands around the comparison.
#include <gmock/gmock.h>

#include "quern/engine/realize/outputs.h"

#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/schedule/facts/picks.h"
#include "quern/tensor/core/operand.h"
#include "quern/tensor/core/tensor.h"
#include "test/schedule/run.h"

namespace quern {
namespace {

Schedule schedule_of(const Tensor& t) {
  static const DeviceSpec spec = cpu_like();
  return make_schedule(outputs_for({t.uop()}, Roots::realized, {}).sink,
                       [&](const std::string&) -> const DeviceSpec& { return spec; });
}

// Steps of all loops of the schedule's kernels, reduces among them.
int64_t steps(const Tensor& t) {
  int64_t sum = 0;
  for (const Step& step : schedule_of(t).steps) {
    int64_t of_kernel = 1;
    walk(step.program, [&](const UOp& u) {
      if (u.op() == Op::RANGE) of_kernel *= static_cast<int64_t>(u.vmax()) + 1;
    });
    sum += of_kernel;
  }
  return sum;
}

Tensor indices(const Shape& shape, DType dtype = dtypes::int32) { return input(shape).cast(dtype).realize(); }

struct Picks : testing::Test {
  Tensor table = input({1000, 64});
  Tensor at = indices({20});
  const int64_t read = 20 * 64;
};

TEST_F(Picks, IndicesOfEveryDtype) {
  for (const DType dtype : {dtypes::int8, dtypes::uint8, dtypes::int32, dtypes::int64, dtypes::uint64})
    EXPECT_EQ(steps(table.at({indices({20}, dtype)})), read) << dtype.name();
}
TEST_F(Picks, ComputedIndices) {
  EXPECT_EQ(steps(table.at({at + 7})), read);
  EXPECT_EQ(steps(table.at({at * 3 - 1})), read);
  EXPECT_EQ(steps(table.at({(at + 7).mod(1000)})), read);
  EXPECT_EQ(steps(table.at({Tensor::arange(20) * 2})), read);
}
TEST_F(Picks, OtherWaysToAsk) {
  EXPECT_EQ(steps(table.index_select(0, at)), read);
  EXPECT_EQ(steps(table.index_select(1, indices({20}))), 1000 * 20);
  EXPECT_EQ(steps(table.gather(0, indices({20, 64}))), read);
  EXPECT_EQ(steps(table.at({at, indices({20})})), 20);
  EXPECT_EQ(steps(table.T().at({Slice{}, at})), read);
  EXPECT_EQ(steps(at.one_hot(1000).cast(dtypes::float32).matmul(table)), read);
}
TEST_F(Picks, ByHand) {
  const Tensor places = Tensor::arange(1000);
  EXPECT_EQ(steps(at.unsqueeze(-1).eq(places).where(table.T().unsqueeze(1), 0).sum(-1)), read);
  EXPECT_EQ(steps((places * 2 + 1).eq(at.unsqueeze(-1)).where(table.T().unsqueeze(1), 0).sum(-1)), read);
  EXPECT_EQ(steps((places.eq(at.unsqueeze(-1)).cast(dtypes::float32).unsqueeze(-1) * table).sum(1)), read);
}
// A cheap table is computed where it is read, one with a reduce once.
TEST_F(Picks, TablesThatAreComputed) {
  EXPECT_EQ(steps((table * 2 + 1).at({at})), read);
  EXPECT_EQ(steps(table.exp().at({at})), read);
  EXPECT_EQ(schedule_of(table.softmax().at({at})).steps.size(), 2U);
  EXPECT_EQ(schedule_of(table.at({table.argmax(1)})).steps.size(), 2U);
}

TEST_F(Picks, WhatIsNoPick) {
  const Tensor places = Tensor::arange(1000), i = at.unsqueeze(-1);
  auto axes = [](const Tensor& sum) { return picked_axes(base_of(sum.uop())); };
  const Tensor values = input({20, 1000});
  EXPECT_EQ(axes(places.eq(i).where(values, 0).sum(-1)), 2U);
  EXPECT_EQ(axes(places.le(i).where(values, 0).sum(-1)), 0U);  // several
  EXPECT_EQ(axes(places.eq(i).where(values, 1).sum(-1)), 0U);  // the others count, too
  EXPECT_EQ(axes(places.eq(i).where(values, 0).max(-1)), 0U);  // no sum
  EXPECT_EQ(axes(places.eq(values.cast(dtypes::int32)).where(values, 0).sum(-1)),
            0U);  // differs along the axis
}

}  // namespace
}  // namespace quern
