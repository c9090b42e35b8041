// Assignment, views of memory, and the registry of live tensors.
#include <gtest/gtest.h>

#include "quern/ir/shape/movement.h"
#include "quern/ir/spec/spec.h"
#include "quern/tensor/core/live.h"
#include "test/tensor/values.h"

namespace quern {
namespace {

TEST(Assign, ViewsSeeIt) {
  const Tensor x = counted({2, 3}), row = x.at({1}), transposed = x.T();
  const Tensor before = x + 0;
  row.assign(9);
  EXPECT_EQ(values(x), (List{0, 1, 2, 9, 9, 9}));
  EXPECT_EQ(values(row), (List{9, 9, 9}));
  EXPECT_EQ(values(transposed), (List{0, 9, 1, 9, 2, 9}));
  EXPECT_EQ(values(before), (List{0, 1, 2, 3, 4, 5}));  // what was computed before sees what was there
  x.assign(x + x);
  EXPECT_EQ(values(row), (List{18, 18, 18}));
  check(x.uop(), Level::tensor);
}

TEST(Assign, Items) {
  const Tensor x = counted({5}), y = x;
  x(Slice{1, 3}) = -1;
  EXPECT_EQ(values(y), (List{0, -1, -1, 3, 4}));  // a copy is the same tensor
  x(Slice{{}, {}, 2}) = input({3}, {7, 8, 9});    // padded: five is not a multiple of two
  EXPECT_EQ(values(x), (List{7, -1, 8, 3, 9}));
  x(Slice{{}, {}, -2}) = input({3}, {7, 8, 9});
  EXPECT_EQ(values(x), (List{9, -1, 8, 3, 7}));
  x.set({input({3}, {0, 1, 0}, dtypes::int64)}, input({3}, {1, 2, 3}));  // the last stays
  EXPECT_EQ(values(x), (List{3, 2, 8, 3, 7}));
  x.set({x.gt(5)}, 0);
  EXPECT_EQ(values(x), (List{3, 2, 0, 3, 0}));
  const Tensor m = counted({2, 2});
  m(1, 0) = m(0, 1);
  EXPECT_EQ(values(m), (List{0, 1, 1, 3}));
  check(x.uop(), Level::tensor);
}

TEST(Assign, ValuesWithoutMemoryGetIt) {
  const Tensor zeros = Tensor::zeros({3}), other = Tensor::zeros({3});
  zeros(1) = 5;
  EXPECT_EQ(values(zeros), (List{0, 5, 0}));
  EXPECT_EQ(values(other), (List{0, 0, 0}));
  const Tensor sum = counted({3}) + 1;
  sum.assign(counted({3}));
  EXPECT_EQ(values(sum), (List{0, 1, 2}));
  const Tensor copy = sum.clone();
  copy.assign(0);
  EXPECT_EQ(values(sum), (List{0, 1, 2}));
}

TEST(Assign, ViewsOfValuesWithoutMemory) {
  const Tensor zeros = Tensor::zeros({4}), pair = zeros.at({Slice{1, 3}});
  pair.assign(5);
  EXPECT_EQ(values(zeros), (List{0, 5, 5, 0}));
  const Tensor x = counted({4}), sum = x + 1, same_sum = x + 1, part = sum.reshape({2, 2}).at({1});
  part.assign(-1);
  EXPECT_EQ(values(sum), (List{1, 2, -1, -1}));
  EXPECT_EQ(values(same_sum), (List{1, 2, 3, 4}));  // the same node before, but no view
  const Tensor apart = x.detach();
  apart.assign(7);
  EXPECT_EQ(values(x), (List{7, 7, 7, 7}));
  EXPECT_EQ(values(sum), (List{1, 2, -1, -1}));
  check(x.uop(), Level::tensor);
}

TEST(Assign, ResultsAreNoViews) {
  const Tensor x = counted({3, 1}), sums = x.sum(1), padded = x.pad({0, 0}), joined = Tensor::cat({x}, 0);
  sums.assign(9), padded.assign(9), joined.assign(9);
  EXPECT_EQ(values(x), (List{0, 1, 2}));
}

TEST(Live, ReplaceChangesAllThatShare) {
  const Tensor x = counted({2}), y = x + 1, z = y * 2;
  const UOp ones = Tensor::ones({2}).uop();
  replace_live({{y.uop(), ones}});
  EXPECT_TRUE(same(y.uop(), ones));
  EXPECT_EQ(values(z), (List{2, 2}));
  const size_t before = live_uops().size();
  {
    const Tensor w = z + 123;
    EXPECT_EQ(live_uops().size(), before + 1);
  }
  EXPECT_EQ(live_uops().size(), before);
}

TEST(Live, LongChainsDoNotRecurse) {
  Tensor x = counted({1});
  for (int i = 0; i < 20000; i++) x = x + 1;
  const Tensor y = x * 2;
  replace_live({{base_of(counted({1}).uop()), base_of(x.uop())}});
  EXPECT_EQ(shape(y), "(1,)");
}

TEST(CustomKernel, ResultsComeAfterTheCall) {
  const Tensor out = Tensor::empty({4}), in = counted({4}) + 1;
  const auto results = custom_kernel({out, in}, [](const UOps& p) {
    const UOp i = UOp::range(4, 0);
    const UOp to = UOp::make(Op::INDEX, p[0].dtype().base().ptr(4), {p[0], i}),
              from = UOp::make(Op::INDEX, dtypes::float32, {p[1], i});
    return UOp::sink(
        UOps{UOp::make(Op::END, dtypes::void_, {UOp::make(Op::STORE, dtypes::void_, {to, from * 2}), i})});
  });
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(base_of(results[0].uop()).op(), Op::AFTER);
  EXPECT_EQ(base_of(results[0].uop()).src(1).op(), Op::CALL);
  EXPECT_EQ(base_of(results[0].uop()).src(1).src(0).op(), Op::SINK);
}

TEST(Graphs, AreLegal) {
  const Tensor x = counted({2, 3}), i = input({2}, {0, 1}, dtypes::int64);
  for (const Tensor& t : {x.exp().softmax(1), x.at({i}), x.sort().first, x.cumsum(1), x.erf(), x.to("OTHER"),
                          x.shard({"A", "B"}, 0), x.qr().first, Tensor::rand({3}), x.gelu(), x.fmod(2),
                          x.contiguous().detach()})
    check(UOp::sink(UOps{t.uop()}), Level::tensor);
  EXPECT_EQ(x.to("OTHER").device(), "OTHER");
  EXPECT_EQ(shape(x.shard({"A", "B"}, 0)), "(2, 3)");
}

}  // namespace
}  // namespace quern
