// The reference evaluator itself, on graphs small enough to be computed by hand.
#include "test/tensor/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "quern/ir/shape/movement.h"

namespace quern {
namespace {

using reference::evaluate;
using reference::evaluate_tensor;
using testing::ElementsAre;

const UOp kDevice = device_node("INTERP");

Ints ints(const std::vector<Const>& values) {
  Ints result;
  for (const Const& c : values) result.push_back(c.as_int());
  return result;
}

// Every buffer holds 0, 1, 2, ...
std::vector<Const> counting(const UOp& buffer) {
  std::vector<Const> result;
  for (int64_t i = 0; i < buffer.arg().integer(); i++) result.push_back(make_const(buffer.dtype(), i));
  return result;
}

UOp memory(const Ints& shape, DType dtype = dtypes::int32) {
  const int64_t elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  return reshape(new_buffer(dtype, elements, kDevice), sizes_of(shape));
}

TEST(Reference, MovementOps) {
  const UOp x = memory({2, 3});
  EXPECT_THAT(ints(evaluate(permute(x, {1, 0}), counting)), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(ints(evaluate(flip(x, {1}), counting)), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_THAT(ints(evaluate(shrink(x, sizes_of({1, 1}), sizes_of({1, 2})), counting)), ElementsAre(4, 5));
  EXPECT_THAT(ints(evaluate(pad(x, sizes_of({0, 1}), sizes_of({3, 4})), counting)),
              ElementsAre(0, 0, 1, 2, 0, 3, 4, 5, 0, 0, 0, 0));
  EXPECT_THAT(ints(evaluate(expand(reshape(memory({2}), sizes_of({2, 1})), sizes_of({2, 2})), counting)),
              ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(evaluate_tensor(permute(x, {1, 0}), counting).shape, (Ints{3, 2}));
}

TEST(Reference, ElementwiseAndReduce) {
  const UOp x = memory({2, 3});
  EXPECT_THAT(ints(evaluate(x * x + full(sizes_of({2, 3}), UOp::constant(dtypes::int32, 1)), counting)),
              ElementsAre(1, 2, 5, 10, 17, 26));
  EXPECT_THAT(ints(evaluate(reduce(x, Op::ADD, {1}), counting)), ElementsAre(3, 12));
  EXPECT_THAT(ints(evaluate(reduce(x, Op::MAX, {0, 1}), counting)), ElementsAre(5));
  EXPECT_THAT(ints(evaluate(reduce(memory({2, 0}), Op::MUL, {1}), counting)), ElementsAre(1, 1));
}

TEST(Reference, ReduceOfSeveralValues) {  // the sum, and how many there were
  const UOp x = memory({4}), one = UOp::constant(dtypes::int32, 1), zero = UOp::constant(dtypes::int32, 0);
  auto state = [](int64_t i) { return UOp::make(Op::STATE, dtypes::int32, {}, i); };
  const UOp body = UOp::make(Op::TUPLE, dtypes::void_, {state(0) + state(2), state(1) + state(3)});
  const UOp sums = UOp::make(Op::REDUCE, dtypes::void_, {x, full(sizes_of({4}), one), zero, zero, body},
                             ReduceArg{.op = Op::NOOP, .axes = {0}, .states = 2});
  EXPECT_THAT(ints(evaluate(UOp::make(Op::GETTUPLE, dtypes::int32, {sums}, 0), counting)), ElementsAre(6));
  EXPECT_THAT(ints(evaluate(UOp::make(Op::GETTUPLE, dtypes::int32, {sums}, 1), counting)), ElementsAre(4));
}

TEST(Reference, StoresInOrder) {
  const UOp buffer = memory({4});
  auto constant = [](int64_t size, int value) {
    return full(sizes_of({size}), UOp::constant(dtypes::int32, value));
  };
  const UOp first = after(buffer, UOps{store(shrink(buffer, sizes_of({1}), sizes_of({2})), constant(2, 7))});
  EXPECT_THAT(ints(evaluate(first, counting)), ElementsAre(0, 7, 7, 3));
  const UOp second = after(first, UOps{store(shrink(first, sizes_of({2}), sizes_of({2})), constant(2, 9))});
  EXPECT_THAT(ints(evaluate(second, counting)), ElementsAre(0, 7, 9, 9));
  EXPECT_THAT(ints(evaluate(second + first, counting)), ElementsAre(0, 14, 16, 12));
  EXPECT_THAT(ints(evaluate(buffer, counting)), ElementsAre(0, 1, 2, 3));
  // What is stored is computed before anything is stored.
  EXPECT_THAT(ints(evaluate(after(buffer, UOps{store(buffer, flip(buffer, {0}))}), counting)),
              ElementsAre(3, 2, 1, 0));
  // A store through a view of the earlier AFTER, seen from the bare memory.
  EXPECT_THAT(
      ints(evaluate(after(buffer, UOps{store(shrink(first, sizes_of({3}), sizes_of({1})), constant(1, 5))}),
                    counting)),
      ElementsAre(0, 7, 7, 5));
}

TEST(Reference, Variables) {
  const UOp n = UOp::variable("n", 1, 4), x = memory({4});
  const UOp part = shrink(x, sizes_of({0}), UOps{n.bind(3)});
  EXPECT_THAT(ints(evaluate(part, counting)), ElementsAre(0, 1, 2));
  EXPECT_THAT(ints(evaluate(shrink(x, sizes_of({0}), UOps{n}), counting, {{"n", 2}})), ElementsAre(0, 1));
  EXPECT_THROW(evaluate(shrink(x, sizes_of({0}), UOps{n}), counting), Error);
  EXPECT_THROW(evaluate(n.bind(2) + n.bind(3)), Error);
}

TEST(Reference, DeepChains) {
  UOp x = UOp::constant(dtypes::int32, 0);
  for (int i = 0; i < 100000; i++)
    x = UOp::make(Op::ADD, dtypes::int32, {x, UOp::constant(dtypes::int32, 1)});
  EXPECT_THAT(ints(evaluate(x)), ElementsAre(100000));
}

}  // namespace
}  // namespace quern
