// Tensors on several devices: the same numbers as on one, whatever axis they are cut on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <sstream>

#include "quern/base/env.h"
#include "quern/engine/realize/schedule_cache.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/runtime/buffer.h"
#include "quern/runtime/counters.h"
#include "quern/tensor/core/tensor.h"
#include "test/engine/tensors.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Function = std::function<Tensor(const std::vector<Tensor>&)>;
using Cuts = std::vector<std::optional<int64_t>>;

void expect_same(const std::vector<Tensor>& inputs, const Cuts& cuts, int devices, const Function& f,
                 bool realized = false) {
  std::vector<Tensor> spread;
  for (size_t i = 0; i < inputs.size(); i++) {
    spread.push_back(inputs[i].shard(interps(devices), cuts[i]));
    if (realized) spread.back().realize();
  }
  const Tensor expected = f(inputs), got = f(spread);
  EXPECT_EQ(got.to_vector<float>(), expected.to_vector<float>()) << devices << " devices";
}

void expect_same_everywhere(const std::vector<Tensor>& inputs, const std::vector<Cuts>& ways,
                            const Function& f) {
  for (const int devices : {2, 3, 4})
    for (const Cuts& cuts : ways)
      for (const bool realized : {false, true}) {
        std::string text;
        for (const auto& c : cuts) text += c ? std::to_string(*c) + " " : "- ";
        SCOPED_TRACE(text + (realized ? "realized" : "lazy"));
        expect_same(inputs, cuts, devices, f, realized);
      }
}

const std::vector<Cuts> kOne = {{0}, {1}, {std::nullopt}};
const std::vector<Cuts> kPairs = {{0, 0}, {1, 1}, {0, std::nullopt},           {std::nullopt, 1},
                                  {0, 1}, {1, 0}, {std::nullopt, std::nullopt}};

TEST(Multi, Elementwise) {
  expect_same_everywhere({numbers({12, 24}), numbers({12, 24}, 2)}, kPairs, [](const auto& x) {
    return (x[0] + x[1] * 2.0).maximum(x[0]) - (x[1] > x[0]).where(x[0], x[1]);
  });
}

TEST(Multi, ReducesOverAndBesideTheCutAxis) {
  const std::vector<Tensor> in = {numbers({12, 24})};
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0].sum(0); });
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0].sum(1); });
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0].sum(); });
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0].max(0); });
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0] * x[0].sum(0, true); });
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0] - x[0].max(1, true); });
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0].mean(1).cast(dtypes::float32); });
}

TEST(Multi, Movement) {
  const std::vector<Tensor> in = {numbers({12, 24})};
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0].permute({1, 0}).contiguous(); });
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0].flip(0) + 1.0; });
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0].flip({0, 1}) + x[0]; });
  expect_same_everywhere(in, kOne,
                         [](const auto& x) { return x[0].reshape({12, 24, 1}).expand({12, 24, 3}) * 2.0; });
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0].pad({1, 2, 3, 1}) + 1.0; });
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0].shrink({{{1, 11}}, {{3, 20}}}) + 1.0; });
  expect_same_everywhere(in, kOne, [](const auto& x) { return x[0].shrink({{{0, 3}}, {{6, 12}}}) + 1.0; });
  expect_same_everywhere(in, {{0}}, [](const auto& x) { return x[0].reshape({288}) * 3.0; });
  expect_same_everywhere(in, {{1}}, [](const auto& x) { return x[0].reshape({3, 4, 12, 2}) * 3.0; });
  expect_same_everywhere({numbers({12, 24}), numbers({12, 24}, 3)}, kPairs,
                         [](const auto& x) { return Tensor::cat({x[0], x[1]}, 0); });
}

TEST(Multi, Matmul) {
  expect_same_everywhere({numbers({12, 24}), numbers({24, 12}, 2)}, kPairs,
                         [](const auto& x) { return x[0].matmul(x[1]); });
}

TEST(Multi, SoftmaxAndConvolution) {
  for (const int devices : {2, 3}) {
    const Tensor x = numbers({6, 12}), image = numbers({6, 2, 5, 5}), weight = numbers({6, 2, 3, 3}, 4);
    for (const int64_t axis : {0, 1}) {
      const Floats expected = x.softmax(1).to_vector<float>(),
                   got = x.shard(interps(devices), axis).softmax(1).to_vector<float>();
      for (size_t i = 0; i < expected.size(); i++) EXPECT_NEAR(got[i], expected[i], 1e-6);
    }
    expect_same({image, weight}, {0, std::nullopt}, devices,
                [](const auto& t) { return t[0].conv2d(t[1]).relu(); });
    expect_same({image, weight}, {std::nullopt, 0}, devices, [](const auto& t) { return t[0].conv2d(t[1]); });
  }
}

TEST(Multi, ACutTensorHasOnePartADevice) {
  const Tensor x = numbers({4, 6}).shard({"INTERP", "interp:1"}, 0).realize();
  EXPECT_EQ(x.devices(), (Texts{"INTERP", "INTERP:1"}));
  const UOp memory = memory_base(x.uop());
  ASSERT_EQ(memory.op(), Op::BUFFER);
  EXPECT_EQ(memory.arg().integer(), 12) << "a part on each device, not all of it";
  Floats second(12);
  buffer_of(memory, 1)->copy_out(std::as_writable_bytes(std::span(second)));
  Floats all = numbers({4, 6}).to_vector<float>();
  EXPECT_EQ(second, Floats(all.begin() + 12, all.end()));
  EXPECT_THAT(error_of([&] { buffer_of(memory, 2); }), HasSubstr("there is no device 2"));
  EXPECT_THAT(error_of([&] { buffer_of(memory); }), HasSubstr("memory on 2 devices: expected one"));
  std::ostringstream text;
  text << x;
  EXPECT_THAT(text.str(), HasSubstr("[-2,  5,  1, -3,  4,  0]"));
}

TEST(Multi, OneKernelRunsOnEachDevice) {
  const Tensor x = numbers({4, 6}).shard(interps(2), 0).realize();
  const Tensor y = x * 2.0 + 1.0;
  EXPECT_THAT(y.schedule(), HasSubstr("INTERP+INTERP:1"));
  const int64_t before = GlobalCounters::kernels;
  y.realize();
  EXPECT_EQ(GlobalCounters::kernels - before, 2) << "one step, on two devices";
}

TEST(Multi, SchedulesAreKnownAgain) {
  auto run = [] {
    const Tensor x = numbers({4, 6}).shard(interps(2), 0).realize();
    return (x * 2.0).sum(0).to_vector<float>();
  };
  const Floats first = run();
  const CacheCounts before = schedule_cache_counts();
  EXPECT_EQ(run(), first);
  EXPECT_EQ(schedule_cache_counts().misses, before.misses);
}

TEST(Multi, Assign) {
  for (const int devices : {2, 3}) {
    for (const std::optional<int64_t> axis :
         {std::optional<int64_t>(0), std::optional<int64_t>(1), std::optional<int64_t>()}) {
      auto run = [&](bool spread) {
        auto on = [&](const Tensor& t) { return spread ? t.shard(interps(devices), axis).realize() : t; };
        const Tensor x = on(numbers({6, 6})), y = on(numbers({6, 6}, 2)), view = x.permute({1, 0});
        x.assign(x + y);
        x.assign(x * 2.0);
        x.shrink({{{0, 1}}, {{0, 6}}}).assign(y.shrink({{{1, 2}}, {{0, 6}}}));
        x.shrink({{{0, 6}}, {{2, 5}}}).assign(7.0);
        const Floats seen = view.to_vector<float>();
        x.assign(x.flip({0, 1}));
        Floats all = x.to_vector<float>();
        all.insert(all.end(), seen.begin(), seen.end());
        const Tensor kept = x.clone();
        x.assign(y);
        const Floats later = (kept + x).to_vector<float>();
        all.insert(all.end(), later.begin(), later.end());
        return all;
      };
      EXPECT_EQ(run(true), run(false)) << devices << " devices, axis " << axis.value_or(-1);
    }
  }
}

TEST(Multi, AssignStaysInTheSameMemory) {
  const Tensor x = numbers({4, 6}).shard(interps(2), 0).realize();
  const UOp memory = memory_base(x.uop());
  x.assign(x * 2.0).realize();
  EXPECT_EQ(memory_base(x.uop()), memory);
  EXPECT_EQ(x.to_vector<float>(), (numbers({4, 6}) * 2.0).to_vector<float>());
}

TEST(Multi, SymbolicSizes) {
  const Tensor x = numbers({6, 8});
  auto run = [&](const Tensor& t, int64_t n) {
    const Dim size(UOp::variable("n", 1, 8).bind(n));
    const Tensor part = t.shrink({{{0, 6}}, {{0, size}}});
    Floats all = (part * 2.0).sum(0).sum().to_vector<float>();
    for (const Tensor& y : {part + 1.0, part - part.sum(0, true), part.sum(1), part.flip(0) + 1.0}) {
      const Floats values = y.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  for (const int64_t n : {1, 5, 8}) EXPECT_EQ(run(x.shard(interps(3), 0), n), run(x, n)) << n;
}

TEST(Multi, RingAndNaiveAgree) {
  for (const int devices : {2, 3, 4}) {
    const Tensor x = numbers({12, 5, 7});
    const Floats expected = x.sum(0).to_vector<float>(), most = x.max(0).to_vector<float>();
    for (const int ring : {0, 2}) {
      const env::Override set("RING", ring);
      const Tensor s = x.shard(interps(devices), 0).realize();
      const Tensor sum = s.sum(0), greatest = s.max(0);
      EXPECT_EQ(sum.to_vector<float>(), expected) << devices << " devices, RING=" << ring;
      EXPECT_EQ(greatest.to_vector<float>(), most);
      EXPECT_EQ(s.sum().item<float>(), x.sum().item<float>()) << "fewer elements than devices";
    }
  }
}

TEST(Multi, AllDevicesHaveTheSameBits) {
  Tensor::manual_seed(3);
  const Tensor x = Tensor::randn({12, 40}).realize();
  for (const int ring : {0, 2}) {
    const env::Override set("RING", ring);
    const Tensor sum = x.shard(interps(4), 0).sum(0).realize();
    const UOp memory = memory_base(sum.uop());
    std::vector<Floats> all(4, Floats(40));
    for (size_t i = 0; i < 4; i++) buffer_of(memory, i)->copy_out(std::as_writable_bytes(std::span(all[i])));
    for (size_t i = 1; i < 4; i++) EXPECT_EQ(all[i], all[0]) << "RING=" << ring;
  }
}

TEST(Multi, BetweenListsOfDevices) {
  const Tensor x = numbers({12, 4});
  const Tensor two = x.shard(interps(2), 0).realize();
  EXPECT_EQ(two.to("INTERP:1").to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(two.to("INTERP:7").to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(two.shard(interps(3), 0).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(two.shard(interps(3), 0).realize().shard(interps(2), 1).realize().to_vector<float>(),
            x.to_vector<float>());
  EXPECT_EQ(two.shard(interps(2), 1).realize().to_vector<float>(), x.to_vector<float>());
  const Tensor whole = x.shard(interps(2)).realize();
  EXPECT_EQ(whole.to("INTERP:1").to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ((whole.to("INTERP:4") + 1.0).to_vector<float>(), (x + 1.0).to_vector<float>());
  EXPECT_EQ(whole.shard(interps(4)).realize().to_vector<float>(), x.to_vector<float>());
}

TEST(Multi, MinusZeroStaysMinusZero) {
  const Tensor x = Tensor::from(Floats{-0.0F, -0.0F, 1, 2}).shard(interps(2), 0).realize();
  EXPECT_TRUE(std::signbit(x.to("INTERP:2").to_vector<float>()[1])) << "parts are not added up";
}

TEST(Multi, ConstantsAndEmptyTensors) {
  EXPECT_THAT(Tensor::ones({4}).shard(interps(2), 0).realize().to_vector<float>(), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(
      (Tensor::ones({4}).shard(interps(2), 0) + numbers({4}).shard(interps(2), 0)).sum().to_vector<float>(),
      ElementsAre((numbers({4}) + 1.0).sum().item<float>()));
  EXPECT_TRUE(Tensor::ones({0, 3}).shard(interps(2), 0).realize().to_vector<float>().empty());
  EXPECT_THAT(numbers({4, 3}).shrink({{{0, 0}}, {{0, 3}}}).shard(interps(2), 0).sum(0).to_vector<float>(),
              ElementsAre(0, 0, 0));
  const Tensor none =
      numbers({4, 6}).shrink({{{0, 0}}, {{0, 6}}}).sum(0) + Tensor::arange(6).cast(dtypes::float32);
  EXPECT_THAT((none.shard(interps(3), 0) + 1.0).to_vector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(Tensor::arange(8).shard(interps(2), 0).cast(dtypes::float32).to_vector<float>(),
            Tensor::arange(8).cast(dtypes::float32).to_vector<float>());
  expect_same({Tensor::arange(12).cast(dtypes::float32)}, {0}, 3,
              [](const auto& x) { return x[0].flip(0) * 2.0 + x[0].sum() + x[0].shrink({{{1, 2}}}); });
  EXPECT_EQ(Tensor::arange(8).to("INTERP:1").device(), "INTERP:1");
  EXPECT_EQ(Tensor::arange(8).to("INTERP:1").cast(dtypes::float32).to_vector<float>(),
            Tensor::arange(8).cast(dtypes::float32).to_vector<float>());
}

TEST(Multi, NamesOfDevicesHaveOneForm) {
  const Tensor x = numbers({4}).to("INTERP").realize();
  EXPECT_EQ(x.to("interp:0").uop(), x.uop());
  EXPECT_EQ(x.to("interp:01").device(), "INTERP:1");
  EXPECT_EQ((x.to("Interp:3") + numbers({4}).to("INTERP:3")).device(), "INTERP:3");
  EXPECT_EQ(Tensor::empty({4}, {.device = "interp:0"}).device(), "INTERP");
  EXPECT_EQ(x.to("disk:/tmp/Some/File:0").device(), "DISK:/tmp/Some/File:0");
}

TEST(Multi, NullDevices) {
  const Tensor x = Tensor::empty({8, 4}, {.device = "NULL"}).shard({"NULL", "NULL:1", "NULL:2", "NULL:3"}, 0);
  EXPECT_NO_THROW((x.matmul(x.permute({1, 0})).sum(0) * 2.0).realize());
}

TEST(Multi, MemoryOfTheScheduleIsPlannedForEachDevice) {
  const Tensor x = numbers({4, 64}).shard(interps(2), 0).realize();
  const Tensor y = (x.contiguous() * 2.0).contiguous().sum(1).contiguous().exp().contiguous().sum(0);
  EXPECT_FLOAT_EQ(y.item<float>(), (numbers({4, 64}) * 2.0).sum(1).exp().sum(0).item<float>());
}

TEST(MultiErrors, SayWhatIsWrong) {
  const Tensor x = numbers({4, 6}).to("INTERP").realize(), two = x.shard(interps(2), 0).realize();
  const Tensor other = x.shard({"INTERP:2", "INTERP:3"}, 0).realize();
  const Tensor inner = x.shard(interps(2), 1).realize();
  EXPECT_THAT(error_of([&] { (two + other).realize(); }), HasSubstr("INTERP+INTERP:1"));
  EXPECT_THAT(error_of([&] { (two + x).realize(); }), HasSubstr("INTERP+INTERP:1"));
  EXPECT_THAT(error_of([&] { (inner.reshape({24}) + 1.0).realize(); }),
              HasSubstr("(4, 6), sharded on axis 1 over INTERP+INTERP:1, to (24,): no axis"));
  EXPECT_THAT(error_of([&] { (two.reshape({3, 8}) + 1.0).realize(); }),
              HasSubstr("no axis of that can be divided"));
  EXPECT_THAT(error_of([&] { x.shard(interps(4), 1); }),
              HasSubstr("cannot be divided evenly among 4 devices"));
  EXPECT_THAT(error_of([&] { x.shard({"INTERP", "interp:0"}, 0); }), HasSubstr("INTERP is named twice"));
  EXPECT_THAT(error_of([&] { two.assign(x); }),
              HasSubstr("the value is on INTERP, the tensor on INTERP+INTERP:1"));
  EXPECT_THAT(error_of([&] { x.shard({"INTERP", "NOWHERE"}, 0).realize(); }),
              HasSubstr("no device 'NOWHERE'"));
  EXPECT_EQ(inner.reshape({24}).to_vector<float>(), x.to_vector<float>()) << "it is gathered first";
  EXPECT_EQ(two.to_vector<float>(), x.to_vector<float>()) << "what failed changed nothing";
}

// ---- kernels of the user's

Tensor doubled(const Tensor& x) {
  return custom_kernel({x.empty_like(), x}, [](const UOps& p) {
    const UOp r = UOp::range(p[0].dtype().size(), 0);
    const UOp value = UOp::make(Op::INDEX, dtypes::float32, {p[1], r});
    const UOp place = UOp::make(Op::INDEX, p[0].dtype(), {p[0], r});
    const UOp body = UOp::make(Op::STORE, dtypes::void_, {place, value + value});
    return UOp::make(Op::SINK, dtypes::void_, {UOp::make(Op::END, dtypes::void_, {body, r})},
                     KernelArg{.name = "doubled", .opts = {}});
  })[0];
}

TEST(CustomKernel, RunsWhereItsArgumentsAre) {
  const Tensor x = numbers({4, 3});
  EXPECT_EQ(doubled(x).to_vector<float>(), (x * 2.0).to_vector<float>());
  EXPECT_EQ(doubled(x.to("INTERP:1")).to_vector<float>(), (x * 2.0).to_vector<float>());
}

TEST(CustomKernel, OnSeveralDevices) {
  const Tensor x = numbers({4, 3}), whole = x.shard(interps(2));
  EXPECT_EQ((doubled(whole) + whole).to_vector<float>(), (x * 3.0).to_vector<float>()) << "it runs on each";
  EXPECT_THAT(
      error_of([&] { doubled(numbers({4, 3}).shard(interps(2), 0)).realize(); }),
      HasSubstr("custom_kernel: argument 0 of shape (4, 3) is sharded on axis 0 over INTERP+INTERP:1"));
}

}  // namespace
}  // namespace quern
