// Functions that are captured and replayed: calls, arguments, results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/base/env.h"
#include "quern/engine/jit/jit.h"
#include "quern/engine/realize/schedule_cache.h"
#include "quern/runtime/counters.h"
#include "test/engine/tensors.h"

namespace quern {
namespace {

using testing::ElementsAre;

TEST(Jit, RunsTwiceAndIsReplayedAfterThat) {
  int calls = 0;
  auto f = jit([&](const Tensor& x, const Tensor& y) {
    calls++;
    return x + y * 2;
  });
  for (int i = 0; i < 6; i++) {
    const auto a = static_cast<float>(i);
    EXPECT_THAT(f(row({a, 1}), row({2, a})).to_vector<float>(), ElementsAre(a + 4, 1 + 2 * a));
    EXPECT_EQ(calls, std::min(i + 1, 2));
    EXPECT_EQ(f.is_captured(), i >= 1);
  }
  EXPECT_EQ(f.kernels(), 1);
}

TEST(Jit, NumbersInsideAreConstants) {
  auto scaled = jit([](const Tensor& x) { return x * row({2, 3}) + Tensor::from<float>({1}); });
  auto counted = jit([](const Tensor& x) {  // what is written begins with the numbers in each call
    const Tensor sum = row({0, 10});
    sum.assign(sum + x);
    sum.assign(sum * 2);
    return std::vector<Tensor>{sum, row({7})};
  });
  for (int i = 0; i < 5; i++) {
    const auto a = static_cast<float>(i);
    EXPECT_THAT(scaled(row({a, 1})).to_vector<float>(), ElementsAre(2 * a + 1, 4));
    const std::vector<Tensor> both = counted(row({a, 1}));
    EXPECT_THAT(both[0].to_vector<float>(), ElementsAre(2 * a, 22));
    EXPECT_THAT(both[1].to_vector<float>(), ElementsAre(7));
  }
  EXPECT_TRUE(scaled.is_captured() && counted.is_captured());
}

TEST(Jit, ReplaysScheduleAndCompileNothing) {
  auto f = jit([](const Tensor& x) { return x.softmax(-1) * 3; });
  Floats values(64);
  for (int i = 0; i < 2; i++) f(Tensor::from(values, Shape{4, 16}));
  const CacheCounts before = schedule_cache_counts();
  for (int i = 0; i < 10; i++) {
    values[3] = static_cast<float>(i);
    const Tensor x = Tensor::from(values, Shape{4, 16});
    EXPECT_TRUE(f(x).allclose(x.softmax(-1) * 3)) << i;
  }
  const CacheCounts after = schedule_cache_counts();
  EXPECT_LE(after.misses - before.misses, 1);  // what allclose does
}

TEST(Jit, OutputsThatAreKeptStayAsTheyAre) {
  auto f = jit([](const Tensor& x) { return x * 2; });
  std::vector<Tensor> kept;
  std::vector<Tensor> lazy;
  for (int i = 0; i < 8; i++) {
    const Tensor y = f(row({static_cast<float>(i)}));
    if (i % 3 == 0) kept.push_back(y);
    lazy.push_back(y.reshape({1, 1}) + 1);  // holds the memory, not the tensor
  }
  for (size_t i = 0; i < kept.size(); i++) EXPECT_EQ(kept[i].item<float>(), static_cast<float>(6 * i));
  for (size_t i = 0; i < lazy.size(); i++) EXPECT_EQ(lazy[i].item<float>(), static_cast<float>(2 * i + 1));
}

TEST(Jit, OutputsGoRoundAsInputs) {
  auto f = jit([](const Tensor& x) { return x + 1; });
  Tensor x = row({0, 10});
  for (int i = 0; i < 9; i++) x = f(x);
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(9, 19));
  const Tensor y = f(x), z = f(y), w = f(z);
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(9, 19));
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(10, 20));
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(12, 22));
}

TEST(Jit, AnOutputThatWasWrittenIsNotTakenForAnother) {
  auto f = jit([](const Tensor& x) { return x + 1; });
  for (int i = 0; i < 5; i++) {
    const Tensor y = f(row({1, 2})), z = y + 0;
    y.assign(y * 10);
    f(row({5, 6}));
    EXPECT_THAT(z.to_vector<float>(), ElementsAre(2, 3));
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(20, 30));
    y.set_requires_grad();
  }
  EXPECT_FALSE(f(row({1, 2})).requires_grad());
}

TEST(Jit, KindsOfResults) {
  auto pairs = jit([](const Tensor& x) { return std::pair(x + 1, x + 2); });
  auto tuples = jit([](const Tensor& x) {
    return std::tuple(x + 1, std::vector<Tensor>{x + 2, x + 3}, std::optional<Tensor>(x + 4),
                      std::optional<Tensor>());
  });
  auto lists = jit([](const std::vector<Tensor>& xs) {
    std::vector<Tensor> result;
    for (const Tensor& x : xs) result.push_back(x * 2);
    return result;
  });
  for (int i = 0; i < 4; i++) {
    const auto a = static_cast<float>(i);
    const auto [p, q] = pairs(row({a}));
    EXPECT_EQ(p.item<float>() + q.item<float>(), 2 * a + 3);
    const auto [t, list, some, none] = tuples(row({a}));
    EXPECT_EQ(t.item<float>(), a + 1);
    ASSERT_EQ(list.size(), 2U);
    EXPECT_EQ(list[1].item<float>(), a + 3);
    EXPECT_EQ(some->item<float>(), a + 4);
    EXPECT_FALSE(none);
    const std::vector<Tensor> doubled = lists(std::vector<Tensor>{row({a}), row({a + 1, 3})});
    EXPECT_THAT(doubled[1].to_vector<float>(), ElementsAre(2 * a + 2, 6));
  }
}

TEST(Jit, ResultsThatAreInputsOrWeights) {
  const Tensor w = row({1, 2, 3, 4});
  auto f = jit([&](const Tensor& x) {
    return std::tuple(x, x.reshape({2, 2}), w.reshape({2, 2}), x.transpose(), Tensor::ones({2}));
  });
  for (int i = 0; i < 4; i++) {
    const auto a = static_cast<float>(i);
    const Tensor x = Tensor::from(Floats{a, 1, 2, 3}, Shape{4, 1});
    const auto [same_x, square, weight, turned, ones] = f(x);
    EXPECT_THAT(same_x.to_vector<float>(), ElementsAre(a, 1, 2, 3));
    EXPECT_THAT(square.transpose().to_vector<float>(), ElementsAre(a, 2, 1, 3));
    EXPECT_THAT(weight.to_vector<float>(), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(turned.to_vector<float>(), ElementsAre(a, 1, 2, 3));
    EXPECT_THAT(ones.to_vector<float>(), ElementsAre(1, 1));
  }
}

TEST(Jit, PlainValuesArePartOfTheCall) {
  auto f = jit([](const Tensor& x, double scale, bool negative, const std::string& how) {
    const Tensor y = how == "sum" ? x.sum() : x.max();
    return y * (negative ? -scale : scale);
  });
  for (int i = 0; i < 4; i++) EXPECT_EQ(f(row({1, 2}), 2.0, true, "sum").item<float>(), -6);
  EXPECT_EQ(error_of([&] { f(row({1, 2}), 3.0, true, "sum"); }),
            "jit: value 0 among the arguments is 3.000000, it was 2.000000 when the function was captured");
  EXPECT_EQ(error_of([&] { f(row({1, 2}), 2.0, true, "max"); }),
            "jit: value 2 among the arguments is 'max', it was 'sum' when the function was captured");
  EXPECT_EQ(f(row({1, 2}), 2.0, true, "sum").item<float>(), -6);
}

TEST(Jit, LazyInputsAreRealizedAndConstantsGetMemory) {
  auto f = jit([](const Tensor& x, const Tensor& y) { return (x * y).sum(); });
  for (int i = 0; i < 4; i++) {
    const Tensor x = row({1, 2, 3}) + static_cast<float>(i);
    EXPECT_EQ(f(x, Tensor::full({3}, static_cast<float>(i))).item<float>(),
              static_cast<float>(i * (6 + 3 * i)));
  }
}

TEST(Jit, PartsAndViewsOfLargerMemory) {
  Floats values(24);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i);
  const Tensor all = Tensor::from(values, Shape{6, 4});
  auto f = jit([](const Tensor& x, const Tensor& y) { return x.sum(0) + y; });
  for (int64_t i = 0; i < 5; i++) {  // rows: memory in order, used where it lies
    const Tensor x = all.shrink({{{i, i + 2}}, {}}), y = all.shrink({{{5, 6}}, {}}).reshape({4});
    if (i == 4) {
      EXPECT_EQ(
          error_of([&] { f(x, y); }),
          "jit: inputs 0 and 1 are the same memory: the function could not tell them apart; clone() one "
          "of them");
      break;
    }
    const auto a = static_cast<float>(8 * i + 4 + 20);
    EXPECT_THAT(f(x, y).to_vector<float>(), ElementsAre(a, a + 3, a + 6, a + 9)) << i;
  }
  auto columns = jit([](const Tensor& x) { return x.sum(); });  // not in order: copied
  for (int64_t i = 0; i < 4; i++)
    EXPECT_EQ(columns(all.shrink({{}, {{i, i + 1}}})).item<float>(), static_cast<float>(60 + 6 * i));
  auto turned = jit([](const Tensor& x) { return x.sum(1); });
  for (int i = 0; i < 4; i++)
    EXPECT_THAT(turned((all + i).realize().transpose()).to_vector<float>(),
                ElementsAre(60 + 6 * i, 66 + 6 * i, 72 + 6 * i, 78 + 6 * i));
}

TEST(Jit, SeveralRealizesInside) {
  auto f = jit([](const Tensor& x) {
    const Tensor y = (x + 1).realize();
    const Tensor z = (y * 2).realize();
    return std::pair(z, (z - y).realize());
  });
  for (int i = 0; i < 4; i++) {
    const auto a = static_cast<float>(i);
    const auto [z, d] = f(row({a, 5}));
    EXPECT_THAT(z.to_vector<float>(), ElementsAre(2 * a + 2, 12));
    EXPECT_THAT(d.to_vector<float>(), ElementsAre(a + 1, 6));
  }
  EXPECT_EQ(f.kernels(), 3);
}

TEST(Jit, MemoryIsPlannedOverAllOfIt) {
  auto f = jit([](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 10; i++) y = (y + 1).realize();
    return y;
  });
  for (int i = 0; i < 3; i++)
    EXPECT_EQ(f(Tensor::full({1000}, i)).sum().item<float>(), 1000.0F * static_cast<float>(10 + i));
  EXPECT_EQ(f.kernels(), 10);
  EXPECT_LE(f.memory_bytes(), 2 * 4096);  // 9 values between them, of which two are alive at once
}

TEST(Jit, MemoryOfSomeoneElseMayOverlap) {
  auto run = [](int64_t jit_is) {
    const env::Override set("JIT", jit_is);
    Floats values = {1, 2, 3, 4, 5, 6, 7, 8};
    auto at = [&](size_t i) { return Tensor::from_blob(&values[i], {4}, dtypes::float32, nullptr); };
    auto f = jit([](const Tensor& x, const Tensor& y) { x.assign(y * 2); });
    const Tensor apart = Tensor::from(Floats{1, 2, 3, 4});
    for (size_t i = 0; i < 3; i++) f(at(i), apart);
    f(at(1), at(0));
    f(at(2), at(4));
    return values;
  };
  EXPECT_EQ(run(1), run(2));  // overlaps are seen by the kernel
}

TEST(Jit, NoArgumentsAndNoResults) {
  const Tensor w = row({1, 2}).realize();
  auto f = jit([&] { w.assign(w * 2); });
  for (int i = 0; i < 5; i++) f();
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(32, 64));
  auto g = jit([&] { return w + 1; });
  for (int i = 0; i < 3; i++) EXPECT_THAT(g().to_vector<float>(), ElementsAre(33, 65));
}

TEST(Jit, OffAndKernelByKernel) {
  for (const int64_t how : {0, 2}) {
    const env::Override jit_is("JIT", how);
    int calls = 0;
    auto f = jit([&](const Tensor& x) {
      calls++;
      return x + 1;
    });
    for (int i = 0; i < 5; i++)
      EXPECT_EQ(f(row({static_cast<float>(i)})).item<float>(), static_cast<float>(i + 1));
    EXPECT_EQ(calls, how == 0 ? 5 : 2);
  }
}

TEST(Jit, ResetStartsAgain) {
  int calls = 0;
  auto f = jit([&](const Tensor& x) {
    calls++;
    return x + 1;
  });
  for (int i = 0; i < 3; i++) f(row({1}));
  f.reset();
  for (int i = 0; i < 3; i++) EXPECT_THAT(f(row({1, 2})).to_vector<float>(), ElementsAre(2, 3));
  EXPECT_EQ(calls, 4);
}

TEST(Jit, WhatWasCapturedIsNotKept) {
  const int64_t before = GlobalCounters::mem_used;
  auto f = jit([](const Tensor& x) { return std::pair(x.reshape({1000, 1000}), (x + 1).realize() * 2); });
  for (int i = 0; i < 3; i++) f(Tensor::full({1000000}, i).contiguous());
  EXPECT_LT(GlobalCounters::mem_used - before, 5000000);  // what lies between the kernels
}

TEST(Jit, MemoryDoesNotGrow) {
  const Tensor w = row({1, 2, 3, 4}).realize();
  auto f = jit([&](const Tensor& x) {
    w.assign(w * 0.5 + x);
    return (w * x).softmax(0) + Tensor::rand({4});
  });
  Tensor y = f(row({1, 2, 3, 4}));
  for (int i = 0; i < 5; i++) y = f(y);
  const int64_t memory = GlobalCounters::mem_used;
  const size_t nodes = live_nodes();
  for (int i = 0; i < 10000; i++) y = f(y);
  EXPECT_LE(GlobalCounters::mem_used, memory);
  EXPECT_LE(live_nodes(), nodes + 8);
}

}  // namespace
}  // namespace quern
