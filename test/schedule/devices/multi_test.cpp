// What becomes of graphs over several devices: which steps there are, and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/base/env.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/schedule/schedule.h"
#include "test/error_of.h"
#include "test/schedule/run.h"

namespace quern {
namespace {

using testing::HasSubstr;

UOp devices(int n) {
  Texts names;
  for (int i = 0; i < n; i++) names.push_back("D:" + std::to_string(i));
  return UOp::make(Op::DEVICE, dtypes::void_, {}, names);
}
UOp memory(const Ints& shape, const UOp& device) {
  int64_t elements = 1;
  for (const int64_t s : shape) elements *= s;
  return reshape(new_buffer(dtypes::float32, elements, device), sizes_of(shape));
}
UOp cut(const Ints& part, int n, int64_t axis) { return sharded(memory(part, devices(n)), {axis, n}); }

// The steps that bring a value into memory of its own, as long as the value is whole on each device.
std::vector<Step> steps_of(const UOp& value, const Sharding& sharding = {}) {
  static const DeviceSpec spec = gpu_like();
  const UOps sizes = part_sizes(value.shape(), sharding);
  const UOp device = UOp::make(Op::DEVICE, dtypes::void_, {}, value.device());
  const auto elements = static_cast<int64_t>(elements_in(sizes).int_value());
  const UOp seen = sharded(reshape(new_buffer(value.dtype(), elements, device), sizes), sharding);
  return make_schedule(UOp::sink(UOps{after(seen, UOps{store(seen, value)})}),
                       [](const std::string&) -> const DeviceSpec& { return spec; })
      .steps;
}
size_t copies(const std::vector<Step>& steps) {
  return static_cast<size_t>(
      std::ranges::count_if(steps, [](const Step& s) { return s.program.op() == Op::COPY; }));
}

TEST(Sharding, WhereTheCutAxisGoes) {
  const UOp x = cut({2, 6}, 2, 0);
  auto axis = [](const UOp& u) { return Shardings(u)[u].axis; };
  EXPECT_EQ(axis(x), 0);
  EXPECT_EQ(axis(x + x), 0);
  EXPECT_EQ(axis(permute(x, {1, 0})), 1);
  EXPECT_EQ(axis(reshape(x, sizes_of({24}))), 0);
  EXPECT_EQ(axis(reshape(x, sizes_of({1, 2, 12}))), 1) << "axes of size 1 are no place for it";
  EXPECT_EQ(axis(reshape(x, sizes_of({3, 8}))), -1);
  EXPECT_EQ(axis(reduce(x, Op::ADD, {1})), 0);
  EXPECT_EQ(axis(reduce(x, Op::ADD, {0})), -1);
  EXPECT_EQ(axis(flip(x, {0})), 0);
  EXPECT_EQ(axis(shrink(x, sizes_of({0, 1}), sizes_of({4, 2}))), 0);
  EXPECT_EQ(axis(shrink(x, sizes_of({1, 0}), sizes_of({2, 6}))), -1);
  EXPECT_EQ(axis_in_reshape(sizes_of({2, 12}), sizes_of({24}), {1, 2}), -1);
  EXPECT_EQ(axis_in_reshape(sizes_of({2, 12}), sizes_of({2, 4, 3}), {1, 2}), 1);
}

TEST(Multi, ElementwiseIsOneStep) {
  const UOp x = cut({2, 6}, 2, 0), y = cut({2, 6}, 2, 0);
  const std::vector<Step> steps = steps_of(x * y + x, {0, 2});
  ASSERT_EQ(steps.size(), 1U) << "parts need nothing of each other";
  EXPECT_EQ(steps[0].buffers[0].device(), (Texts{"D:0", "D:1"}));
  EXPECT_EQ(steps[0].program.variables().size(), 0U) << "and do not depend on which device it is";
}

TEST(Multi, WhatIsWholeIsReadByPart) {
  const UOp x = cut({2, 6}, 2, 0), whole = memory({4, 6}, devices(2));
  const std::vector<Step> steps = steps_of(x + whole, {0, 2});
  ASSERT_EQ(steps.size(), 1U);
  const UOps variables = steps[0].program.variables();
  ASSERT_EQ(variables.size(), 1U);
  EXPECT_EQ(variables[0].arg().variable().name, kDeviceNumber);
}

TEST(Multi, ShardingSendsEachDeviceItsPart) {
  const UOp x = memory({4, 6}, device_node("D:9")), everywhere = copy_to(x, devices(2));
  const UOp y = sharded(own_part(everywhere, {0, 2}), {0, 2});
  const std::vector<Step> steps = steps_of(y, {0, 2});
  ASSERT_EQ(steps.size(), 2U) << "a copy for each device, straight to its place";
  for (const Step& s : steps) {
    EXPECT_EQ(s.program.op(), Op::COPY);
    EXPECT_EQ(s.buffers[1].op(), Op::SLICE);
    EXPECT_EQ(s.buffers[1].arg().integer(), 12);
  }
}

TEST(Multi, GatheringCopiesIntoParts) {
  const UOp x = cut({2, 6}, 2, 0);
  const std::vector<Step> rows = steps_of(copy_to(x, device_node("D:9")));
  EXPECT_EQ(copies(rows), 2U);
  EXPECT_EQ(rows.size(), 3U) << "two copies, and one kernel into the memory that was asked for";
  const std::vector<Step> columns = steps_of(copy_to(cut({4, 3}, 2, 1), device_node("D:9")));
  EXPECT_EQ(copies(columns), 2U);
  EXPECT_EQ(columns.size(), 5U) << "columns do not lie in a row: each part is also put in its place";
}

TEST(Multi, AllReduce) {
  const UOp x = cut({2, 6}, 3, 0), sum = reduce(x, Op::ADD, {0});
  const std::vector<Step> naive = steps_of(sum);
  EXPECT_EQ(copies(naive), 3U) << "each device's sum to all";
  EXPECT_EQ(naive.size(), 5U) << "sums of the parts, copies, sums of sums";
  const env::Override always("RING", 2);
  const std::vector<Step> ring = steps_of(sum);
  EXPECT_EQ(copies(ring), 3U * 2 + 3) << "each of 3 chunks makes 2 hops and is then sent to all";
}

TEST(Multi, LargeSumsGoAroundTheRing) {
  auto has_ring = [&](int n, int64_t columns) {
    return copies(steps_of(reduce(cut({2, columns}, n, 0), Op::ADD, {0}))) > static_cast<size_t>(n);
  };
  EXPECT_FALSE(has_ring(4, 256 * 1024)) << "few elements";
  EXPECT_TRUE(has_ring(4, 256 * 1024 + 1));
  EXPECT_FALSE(has_ring(2, 1 << 20)) << "two devices exchange what they have";
  const env::Override never("RING", int64_t{0});
  EXPECT_FALSE(has_ring(4, 1 << 20));
}

TEST(Multi, OpsOfSeveralDevices) {
  const UOp x = memory({4}, devices(2));
  const UOp all = UOp::make(Op::ALLREDUCE, dtypes::float32, {x, devices(2)},
                            ReduceArg{.op = Op::MAX, .axes = {}, .states = 1});
  EXPECT_EQ(steps_of(all).size(), 3U) << "two copies and a kernel";
  const UOp second = UOp::make(Op::MSELECT, dtypes::float32, {x}, 1);
  EXPECT_EQ(second.device(), Texts{"D:1"});
  EXPECT_EQ(steps_of(second + second).size(), 1U);
  const UOp stack = UOp::make(Op::MSTACK, dtypes::float32, {memory({4}, device_node("D:0")), second});
  EXPECT_EQ(stack.device(), (Texts{"D:0", "D:1"}));
  EXPECT_EQ(steps_of(stack * stack).size(), 1U);
}

TEST(MultiErrors, NameWhatTheyAreAbout) {
  const UOp x = cut({2, 6}, 2, 0);
  EXPECT_THAT(error_of([&] { steps_of(x + memory({4, 6}, device_node("D:7"))); }),
              HasSubstr("ADD: one operand of shape (4, 6) is on D:0+D:1, another on D:7"));
  EXPECT_THAT(
      error_of([&] { steps_of(reshape(cut({4, 3}, 2, 1), sizes_of({24})) + memory({24}, devices(2))); }),
      HasSubstr("reshape: (4, 6), sharded on axis 1 over D:0+D:1, to (24,)"));
  EXPECT_THAT(
      error_of([&] {
        steps_of(memory({4, 6}, device_node("D:0")) + UOp::make(Op::MSELECT, dtypes::float32, {x}, 5));
      }),
      HasSubstr("MSELECT: part 5 of a tensor on D:0+D:1"));
  const UOp twice = UOp::make(Op::MULTI, dtypes::float32, {x}, 1);
  EXPECT_THAT(error_of([&] { steps_of(twice + twice, {1, 2}); }), HasSubstr("is itself cut on axis 0"));
}

// A kernel of the user's that writes a buffer and wants, at the same time, its contents after a store that
// comes first only if the kernel has run: no copy helps.
TEST(ScheduleErrors, ACircleNamesTheMemory) {
  static const DeviceSpec spec = gpu_like();
  const UOp device = device_node("D:0"), buffer = new_buffer(dtypes::float32, 16, device);
  const UOp stored =
      after(buffer, UOps{store(buffer, full(sizes_of({16}), UOp::constant(dtypes::float32, 2.0)))});
  const UOp to = UOp::make(Op::PARAM, dtypes::float32.ptr(16), {}, 0),
            from = UOp::make(Op::PARAM, dtypes::float32.ptr(16), {}, 1), r = UOp::range(16, 0);
  const UOp place = UOp::make(Op::INDEX, to.dtype(), {to, r}),
            value = UOp::make(Op::INDEX, dtypes::float32, {from, r});
  const UOp body = UOp::sink(
      UOps{UOp::make(Op::END, dtypes::void_, {UOp::make(Op::STORE, dtypes::void_, {place, value}), r})});
  const UOp call = UOp::make(Op::CALL, dtypes::void_, {body, buffer, stored});
  const std::string text = error_of([&] {
    make_schedule(UOp::sink(UOps{after(buffer, UOps{call})}),
                  [](const std::string&) -> const DeviceSpec& { return spec; });
  });
  EXPECT_THAT(text, HasSubstr("wait for each other"));
  EXPECT_THAT(text, HasSubstr("memory of (16,) float32 on D:0"));
  EXPECT_THAT(text, HasSubstr("a kernel of the user's writes it"));
}

}  // namespace
}  // namespace quern
