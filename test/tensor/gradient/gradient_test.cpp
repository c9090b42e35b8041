// Gradients are compared with central differences in float64, and where there are ties, zeros and NaNs with
// what they have to be.
#include "quern/tensor/gradient/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <unordered_map>

#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/spec/spec.h"
#include "test/error_of.h"
#include "test/ir/rounds.h"
#include "test/tensor/reference.h"

namespace quern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Numbers = std::vector<double>;
using Values = std::vector<Const>;
using Memory = std::unordered_map<UOp, Values>;  // what BUFFERs hold
using Function = std::function<UOp(const UOps&)>;

constexpr double kInf = std::numeric_limits<double>::infinity();

UOp leaf(const Ints& sizes, DType dtype = dtypes::float64, const std::string& device = "CPU") {
  int64_t elements = 1;
  for (const int64_t s : sizes) elements *= s;
  return reshape(new_buffer(dtype, elements, device_node(device)), sizes_of(sizes));
}
void fill(Memory& memory, const UOp& x, const Numbers& numbers) {
  Values& held = memory[base_of(x)];
  held.clear();
  for (const double n : numbers) held.push_back(make_const(x.dtype(), n));
}
Numbers floats_of(const UOp& x, const Memory& memory) {
  Numbers numbers;
  for (const Const& c : reference::evaluate(x, [&](const UOp& buffer) { return memory.at(buffer); }))
    numbers.push_back(c.as_float());
  return numbers;
}
UOp alu(Op op, const UOp& a) { return UOp::alu(op, {a}); }
UOp alu(Op op, const UOp& a, const UOp& b) { return UOp::alu(op, {a, b}); }
UOp number(const UOp& like, double value) { return full(like.shape(), UOp::constant(like.dtype(), value)); }
Ints all_axes(const UOp& x) {
  Ints axes;
  for (int64_t i = 0; i < std::ssize(x.shape()); i++) axes.push_back(i);
  return axes;
}
UOp total(const UOp& x) { return reshape(reduce(x, Op::ADD, all_axes(x)), UOps{}); }
UOp gradient_of(const UOp& y, const UOp& x) { return gradient(y, UOps{x}, gradient_seed(y))[0]; }

// Inputs and what they hold.
struct Inputs {
  UOps leaves;
  Memory memory;
  std::mt19937_64 random{first_seed()};

  UOp add(const Ints& sizes, double low, double high) {
    leaves.push_back(leaf(sizes));
    Numbers numbers(static_cast<size_t>(base_of(leaves.back()).arg().integer()));
    for (double& n : numbers) n = std::uniform_real_distribution(low, high)(random);
    fill(memory, leaves.back(), numbers);
    return leaves.back();
  }
};

// d (w . f) / d x for all inputs x, against differences; w is random.
void expect_right(Inputs inputs, const Function& f) {
  const UOp y = f(inputs.leaves);
  const size_t count = inputs.leaves.size();
  const UOp w = inputs.add(y.int_shape(), -1, 1);
  inputs.leaves.pop_back();
  const UOp loss = total(y * w);
  const UOps found = gradient(y, inputs.leaves, w);
  for (size_t i = 0; i < count; i++) {
    const UOp& x = inputs.leaves[i];
    ASSERT_TRUE(found[i]) << "input " << i;
    check(UOp::sink({&found[i], 1}), Level::tensor);
    EXPECT_TRUE(same_sizes(found[i].shape(), x.shape()));
    const Numbers got = floats_of(found[i], inputs.memory);
    Values& held = inputs.memory[base_of(x)];
    for (size_t j = 0; j < held.size(); j++) {
      const double at = held[j].as_float(), h = 1e-5 * std::max(1.0, std::abs(at));
      auto loss_at = [&](double value) {
        held[j] = Const::of_float(value);
        return floats_of(loss, inputs.memory)[0];
      };
      const double slope = (loss_at(at + h) - loss_at(at - h)) / (2 * h);
      held[j] = Const::of_float(at);
      EXPECT_NEAR(got[j], slope, 1e-6 * std::max(1.0, std::abs(slope))) << "input " << i << ", element " << j;
    }
  }
}

// The first and the second derivative.
void expect_right_twice(const Inputs& inputs, const Function& f) {
  expect_right(inputs, f);
  for (size_t i = 0; i < inputs.leaves.size(); i++) {
    const Function first = [&](const UOps& x) {
      const UOp y = f(x);
      return gradient_of(total(y * y), x[i]);
    };
    SCOPED_TRACE("second order, by input " + std::to_string(i));
    expect_right(inputs, first);
  }
}

Inputs one(const Ints& sizes, double low = -2, double high = 2) {
  Inputs inputs;
  inputs.add(sizes, low, high);
  return inputs;
}
Inputs two(const Ints& sizes, double low = -2, double high = 2) {
  Inputs inputs = one(sizes, low, high);
  inputs.add(sizes, low, high);
  return inputs;
}

TEST(Gradient, Unary) {
  for (const Op op : {Op::NEG, Op::RECIP, Op::SQRT, Op::EXP2, Op::LOG2, Op::SIN, Op::COS}) {
    SCOPED_TRACE(name(op));
    const bool positive = op != Op::NEG && op != Op::SIN && op != Op::COS && op != Op::EXP2;
    expect_right_twice(one({5}, positive ? 0.5 : -2, 3), [&](const UOps& x) { return alu(op, x[0]); });
  }
  expect_right(one({7}), [](const UOps& x) { return alu(Op::TRUNC, x[0]); });  // 0 but not none
}

TEST(Gradient, Binary) {
  for (const Op op : {Op::ADD, Op::SUB, Op::MUL, Op::FDIV, Op::MAX, Op::MIN, Op::POW}) {
    SCOPED_TRACE(name(op));
    const bool positive = op == Op::FDIV || op == Op::POW;
    expect_right_twice(two({4}, positive ? 0.5 : -2, 2), [&](const UOps& x) { return alu(op, x[0], x[1]); });
  }
}

TEST(Gradient, Ternary) {
  Inputs inputs = two({4});
  inputs.add({4}, -1, 1);
  expect_right_twice(inputs, [](const UOps& x) { return UOp::alu(Op::MULACC, {x[0], x[1], x[2]}); });
  expect_right_twice(inputs, [](const UOps& x) { return where(x[0] < x[1], x[1] * x[2], x[0] * x[0]); });
}

TEST(Gradient, CosineOfLargeAngles) {
  const UOp x = leaf({3}, dtypes::float32);
  Memory memory;
  fill(memory, x, {1e4, -12345.5, 0});
  const Numbers got = floats_of(gradient_of(alu(Op::SIN, x), x), memory);
  const Numbers wanted{std::cos(1e4), std::cos(-12345.5), 1};
  for (size_t i = 0; i < 3; i++) EXPECT_NEAR(got[i], wanted[i], 3e-7);
}

TEST(Gradient, CastGoesBackToTheDTypeOfItsSource) {
  const UOp x = leaf({2}, dtypes::float16);
  const UOp y = x.cast(dtypes::float64) * number(x.cast(dtypes::float64), 3);
  const UOp g = gradient_of(y, x);
  EXPECT_EQ(g.dtype(), dtypes::float16);
  EXPECT_FALSE(gradient_of(x.cast(dtypes::int32).cast(dtypes::float16), x)) << "integers have no gradient";
}

TEST(Gradient, PowerAtItsEdges) {
  struct Case {
    double base, exponent, to_base, to_exponent;
  };
  const Case cases[] = {{0, 0, 0, 0},       {0, 1, 1, 0},
                        {0, 2, 0, 0},       {-2, 3, 12, NAN},
                        {-2, 2, -4, NAN},   {0, 0.5, kInf, 0},
                        {-3, 0, 0, NAN},    {2, 0, 0, std::numbers::ln2},
                        {kInf, 0, 0, kInf}, {1e-310, 0, 0, std::log(1e-310)}};
  for (const auto& [base, exponent, to_base, to_exponent] : cases) {
    SCOPED_TRACE(fmt::format("{} to the {}", base, exponent));
    const UOp a = leaf({1}), b = leaf({1}), y = alu(Op::POW, a, b);
    Memory memory;
    fill(memory, a, {base});
    fill(memory, b, {exponent});
    auto expect = [&](const UOp& g, double wanted) {
      const double got = floats_of(g, memory)[0];
      if (std::isnan(wanted))
        EXPECT_TRUE(std::isnan(got)) << got;
      else if (std::isinf(wanted))
        EXPECT_EQ(got, wanted);
      else
        EXPECT_NEAR(got, wanted, 1e-9 * std::max(1.0, std::abs(wanted)));
    };
    expect(gradient_of(y, a), to_base);
    expect(gradient_of(y, b), to_exponent);
    expect(gradient_of(alu(Op::POW, a, number(a, exponent)), a), to_base);
  }
}

TEST(Gradient, SquaresAtZeroTwice) {
  const UOp a = leaf({1}), b = leaf({1});
  Memory memory;
  fill(memory, a, {0});
  fill(memory, b, {2});
  for (const UOp& exponent : {b, number(a, 2)}) {
    const UOp first = gradient_of(alu(Op::POW, a, exponent), a);
    EXPECT_THAT(floats_of(first, memory), ElementsAre(0));
    EXPECT_THAT(floats_of(gradient_of(first, a), memory), ElementsAre(2));
  }
}

TEST(Gradient, RootAtZeroIsInfinite) {
  const UOp x = leaf({1});
  Memory memory;
  fill(memory, x, {0});
  EXPECT_THAT(floats_of(gradient_of(alu(Op::SQRT, x), x), memory), ElementsAre(kInf));
}

TEST(Gradient, EqualOperandsOfMaxShare) {
  const UOp a = leaf({3}), b = leaf({3});
  Memory memory;
  fill(memory, a, {1, 2, 3});
  fill(memory, b, {2, 2, 2});
  EXPECT_THAT(floats_of(gradient_of(max(a, b), a), memory), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(floats_of(gradient_of(max(a, b), b), memory), ElementsAre(1, 0.5, 0));
  EXPECT_THAT(floats_of(gradient_of(min(a, b), a), memory), ElementsAre(1, 0.5, 0));
}

TEST(Gradient, WhereDoesNotLeakTheOtherBranch) {
  const UOp x = leaf({3});
  Memory memory;
  fill(memory, x, {-1, 0, 4});
  const UOp zero = number(x, 0);
  const UOp y = where(zero < x, alu(Op::SQRT, where(zero < x, x, number(x, 1))), zero);
  EXPECT_THAT(floats_of(gradient_of(y, x), memory), ElementsAre(0, 0, 0.25));
  const UOp poisoned = where(zero < x, number(x, 2) * x, number(x, NAN));
  EXPECT_THAT(floats_of(gradient_of(poisoned, x), memory), ElementsAre(0, 0, 2));
}

// So that what was below zero need not be kept: a convolution and the relu behind it are one kernel in
// training, too.
TEST(Gradient, OfReluIsToldByItsValue) {
  const UOp x = leaf({6}), zero = number(x, 0), relu = where(x <= zero, zero, x);
  Memory memory;
  fill(memory, x, {-1, -0.0, 0, 2, kInf, std::nan("")});
  const UOp slope = gradient_of(total(relu), x);
  EXPECT_THAT(floats_of(slope, memory), ElementsAre(0, 0, 0, 1, 1, 1));
  size_t uses = 0;
  walk(slope, [&](const UOp& u) {
    uses += std::ranges::count_if(u.src(), [&](const UOp& s) { return same(s, x); });
  });
  EXPECT_EQ(uses, 2U) << "of x, both by relu itself:\n" << slope.text();
}

TEST(Gradient, Movement) {
  const UOps wide = sizes_of({5, 6}), at = sizes_of({1, 2});
  expect_right_twice(one({3, 4}), [](const UOps& x) { return reshape(x[0], sizes_of({2, 6})); });
  expect_right_twice(one({3, 4}), [](const UOps& x) { return permute(x[0], {1, 0}); });
  expect_right_twice(one({2, 3, 4}), [](const UOps& x) { return permute(x[0], {2, 0, 1}); });
  expect_right_twice(one({3, 4}), [](const UOps& x) { return flip(x[0], {1}); });
  expect_right_twice(one({3, 4}), [&](const UOps& x) { return pad(x[0], at, wide); });
  expect_right_twice(one({5, 6}), [&](const UOps& x) { return shrink(x[0], at, sizes_of({3, 4})); });
  expect_right_twice(one({1, 4}), [](const UOps& x) { return expand(x[0], sizes_of({3, 4})); });
}

TEST(Gradient, ViewsThatOverlapAddUp) {
  expect_right_twice(one({8}), [](const UOps& x) {  // windows of 6, at 0, 1 and 2
    UOp sum;
    for (int64_t i = 0; i < 3; i++) {
      const UOp window = shrink(x[0], sizes_of({i}), sizes_of({6}));
      sum = sum ? sum + window * window : flip(window, {0});
    }
    return sum;
  });
}

TEST(Gradient, Broadcast) {
  Inputs inputs;
  inputs.add({4}, -1, 1);
  inputs.add({3, 1}, -1, 1);
  expect_right_twice(inputs, [](const UOps& x) {
    const UOps sizes = sizes_of({3, 4});
    return expand(reshape(x[0], sizes_of({1, 4})), sizes) * expand(x[1], sizes);
  });
}

TEST(Gradient, Reduces) {
  for (const Op op : {Op::ADD, Op::MAX, Op::MIN, Op::MUL})
    for (const Ints& axes : {Ints{0}, Ints{1}, Ints{0, 2}, Ints{0, 1, 2}}) {
      SCOPED_TRACE(fmt::format("{} over {}", name(op), fmt::join(axes, ", ")));
      expect_right_twice(one({2, 3, 2}), [&](const UOps& x) { return reduce(x[0], op, axes); });
    }
}

TEST(Gradient, EqualMaximaShare) {
  const UOp x = leaf({2, 4});
  Memory memory;
  fill(memory, x, {1, 3, 3, 0, -kInf, -kInf, -kInf, -kInf});
  EXPECT_THAT(floats_of(gradient_of(reduce(x, Op::MAX, {1}), x), memory),
              ElementsAre(0, 0.5, 0.5, 0, 0.25, 0.25, 0.25, 0.25));
}

TEST(Gradient, ManyEqualMaximaOfNarrowFloats) {
  const UOp x = leaf({70000}, dtypes::float16);
  Memory memory;
  fill(memory, x, Numbers(70000, 1));
  const UOp y = reduce(x, Op::MAX, {0});
  const Numbers got = floats_of(gradient(y, UOps{x}, number(y, 60000))[0], memory);
  EXPECT_NEAR(got[0], 60000.0 / 70000, 1e-3) << "70000 is not a float16";
}

TEST(Gradient, ProductsWithZeros) {
  const UOp x = leaf({3, 3});
  Memory memory;
  fill(memory, x, {2, 0, 5, 0, 0, 7, 2, 3, 4});
  EXPECT_THAT(floats_of(gradient_of(reduce(x, Op::MUL, {1}), x), memory),
              ElementsAre(0, 10, 0, 0, 0, 0, 12, 8, 6));
  const UOp first = shrink(gradient_of(reduce(x, Op::MUL, {1}), x), sizes_of({0, 0}), sizes_of({1, 1}));
  EXPECT_THAT(floats_of(gradient_of(first, x), memory), ElementsAre(0, 5, 0, 0, 0, 0, 0, 0, 0))
      << "d/dx1 of x1 * x2, at a zero";
}

TEST(Gradient, ProductsOfManyFactorsGoInBlocks) {
  Inputs inputs = one({2, 70}, 0.8, 1.2);
  inputs.memory[base_of(inputs.leaves[0])][40] = Const::of_float(0);
  expect_right(inputs, [](const UOps& x) { return reduce(x[0], Op::MUL, {1}); });
}

TEST(Gradient, Markers) {
  const UOp x = leaf({3});
  EXPECT_FALSE(gradient_of(detach(x) * number(x, 2), x));
  EXPECT_TRUE(gradient_of(detach(x) * x, x));
  expect_right_twice(one({3}), [](const UOps& v) { return contiguous(v[0] * v[0]); });
  const UOp backward = gradient_of(UOp::make(Op::CONTIGUOUS_BACKWARD, x.dtype(), {x}) * x, x);
  EXPECT_TRUE(backward.ops_below().contains(Op::CONTIGUOUS));
  EXPECT_FALSE(gradient_of(x.bitcast(dtypes::int64).bitcast(dtypes::float64), x));
}

TEST(Gradient, CopyGoesBackToTheFirstDevice) {
  const UOp x = leaf({3}, dtypes::float64, "A"), w = leaf({3}, dtypes::float64, "B");
  const UOp g = gradient_of(copy_to(x, device_node("B")) * w, x);
  EXPECT_EQ(g.device(), Texts{"A"});
  const UOp constant = gradient_of(copy_to(x, device_node("B")), x);
  EXPECT_FALSE(constant.ops_below().contains(Op::COPY)) << "constants are everywhere";
}

TEST(Gradient, ShardsAreTheValueThatWasSharded) {
  const UOp both = UOp::make(Op::DEVICE, dtypes::void_, {}, Texts{"A", "B"});
  const UOp x = leaf({4, 3}, dtypes::float64, "A"), w = leaf({2, 3}, dtypes::float64, "A");
  auto shard = [&](const UOp& whole) {  // as Tensor::shard does, on axis 0
    const UOp copied = copy_to(whole, both);
    const UOp part =
        shrink(copied, UOps{UOp::variable("_device_num", 0, 1) * 2, UOp::index(0)}, sizes_of({2, 3}));
    return UOp::make(Op::MULTI, whole.dtype(), {part}, 0);
  };
  const UOp sharded = shard(x), y = sharded * sharded;
  const UOp g = gradient_of(y, x);
  EXPECT_EQ(g, copy_to(gradient_of(y, sharded), device_node("A")));
  const UOp memory = UOp::make(Op::MULTI, w.dtype(), {w}, 0);
  EXPECT_TRUE(gradient_of(memory * memory, memory)) << "a sharded weight is a target itself";
}

// ---- assignments

UOp assigned(const UOp& memory, const UOp& view, const UOp& value) {
  return after(memory, UOps{store(view, value)});
}

TEST(Gradient, AssignedSlices) {
  Inputs inputs;
  inputs.add({4, 3}, -1, 1);
  inputs.add({2, 2}, -1, 1);
  expect_right_twice(inputs, [](const UOps& x) {
    const UOp& buffer = base_of(x[0]);
    const UOp view = flip(permute(shrink(x[0], sizes_of({1, 0}), sizes_of({2, 2})), {1, 0}), {0});
    const UOp then = reshape(assigned(buffer, view, x[1] * x[1]), x[0].shape());
    return then * then;
  });
}

TEST(Gradient, AssignmentsInARow) {
  Inputs inputs;
  inputs.add({6}, -1, 1);
  inputs.add({4}, -1, 1);
  inputs.add({3}, -1, 1);
  expect_right(inputs, [](const UOps& x) {  // the second writes over a part of the first
    const UOp first = assigned(x[0], shrink(x[0], sizes_of({0}), sizes_of({4})), x[1]);
    return assigned(first, shrink(first, sizes_of({2}), sizes_of({3})), x[2] * x[2]);
  });
}

TEST(Gradient, AssigningEverythingForgetsWhatWasThere) {
  const UOp x = leaf({6}), v = leaf({2, 3});
  const UOp y = assigned(x, reshape(x, sizes_of({2, 3})), v);
  EXPECT_FALSE(gradient_of(y, x));
  EXPECT_TRUE(gradient_of(y, v));
}

TEST(Gradient, ManyAssignmentsTakeLinearTime) {
  const UOp x = leaf({4}), v = leaf({1});
  UOp memory = x;
  constexpr int64_t writes = 30000;
  for (int64_t i = 0; i < writes; i++)
    memory = assigned(memory, shrink(memory, sizes_of({i % 4}), sizes_of({1})), alu(Op::SIN, v));
  EXPECT_LT(UOp::sink(gradient(memory, UOps{x, v}, gradient_seed(memory))).toposort().size(), 20 * writes);
}

// ---- which targets, and in which graphs

TEST(Gradient, TargetsThatTheLossDoesNotDependOn) {
  const UOp x = leaf({3}), other = leaf({3});
  const UOps found = gradient(total(x), UOps{other, x}, gradient_seed(total(x)));
  EXPECT_FALSE(found[0]);
  EXPECT_TRUE(found[1]);
}

TEST(Gradient, OfAnIntermediateAndOfTheLossItself) {
  const UOp x = leaf({3}), y = x * x, loss = total(y * y);
  Memory memory;
  fill(memory, x, {1, 2, 3});
  const UOps found = gradient(loss, UOps{y, x, loss}, gradient_seed(loss));
  EXPECT_THAT(floats_of(found[0], memory), ElementsAre(2, 8, 18));
  EXPECT_THAT(floats_of(found[1], memory), ElementsAre(4, 32, 108));
  EXPECT_THAT(floats_of(found[2], memory), ElementsAre(1));
}

TEST(Gradient, OtherReshapesOfATargetCount) {
  const UOp x = leaf({2, 3}), y = reshape(x, sizes_of({3, 2}));
  Memory memory;
  fill(memory, x, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(floats_of(gradient_of(total(y * y), x), memory), ElementsAre(2, 4, 6, 8, 10, 12));
}

TEST(Gradient, SymbolicSizes) {
  const UOp n = UOp::variable("n", 1, 100).bind(17), four = UOp::index(4);
  const UOp held = leaf({100, 4}), x = shrink(held, UOps{UOp::index(0), UOp::index(0)}, UOps{n, four});
  Memory memory;
  fill(memory, held, Numbers(400, 1));
  for (const Op op : {Op::ADD, Op::MAX, Op::MUL}) {
    const UOp y = reduce(x * x, op, {0, 1});
    const UOp g = gradient_of(y, x);
    ASSERT_TRUE(g);
    EXPECT_TRUE(same_sizes(g.shape(), x.shape()));
    check(UOp::sink({&g, 1}), Level::tensor);
    const Numbers wanted(68, op == Op::MAX ? 2.0 / 68 : 2);
    EXPECT_THAT(floats_of(g, memory), ::testing::Pointwise(::testing::DoubleNear(1e-12), wanted));
  }
}

TEST(Gradient, FunctionsAreInlined) {
  Inputs inputs = two({3});
  auto param = [](int64_t slot) { return UOp::make(Op::PARAM, dtypes::float64, sizes_of({3}), slot); };
  expect_right_twice(inputs, [&](const UOps& x) {
    const UOp p = param(0), q = param(1);
    const UOp inner =
        UOp::make(Op::FUNCTION, dtypes::float64, {p * p * q, q, p}, FunctionArg{"inner", false});
    const UOp both = UOp::make(Op::TUPLE, dtypes::void_, {inner + p, q * q});
    const UOp outer = UOp::make(Op::FUNCTION, dtypes::void_, {both, x[1], x[0]}, FunctionArg{"outer", false});
    return UOp::make(Op::GETTUPLE, dtypes::float64, {outer}, 0) *
           UOp::make(Op::GETTUPLE, dtypes::float64, {outer}, 1);
  });
}

TEST(Gradient, TheSameGraphEveryTime) {
  const UOp x = leaf({4});
  auto loss = [&] { return total(alu(Op::SIN, x) * x + alu(Op::EXP2, x) * alu(Op::SIN, x)); };
  EXPECT_EQ(gradient_of(loss(), x), gradient_of(loss(), x));
}

TEST(Gradient, LongChainsTakeLinearTime) {
  const UOp w = leaf({2}), x = leaf({2});
  UOp h = x;
  constexpr size_t steps = 100000;
  for (size_t i = 0; i < steps; i++) h = alu(Op::SIN, h * w);
  const UOp g = gradient_of(h, w);
  EXPECT_LT(g.toposort().size(), 20 * steps);
}

// A recurrent cell, unrolled: its weights are used in every step, its input is a slice of one tensor.
UOp unrolled(const UOp& x, const UOp& w, const UOp& u, int64_t steps) {
  const int64_t n = w.int_shape()[0];
  auto product = [&](const UOp& row, const UOp& matrix) {  // (1, n) by (n, n)
    return permute(reduce(expand(permute(row, {1, 0}), sizes_of({n, n})) * matrix, Op::ADD, {0}), {0, 1});
  };
  UOp h = number(shrink(x, sizes_of({0, 0}), sizes_of({1, n})), 0);
  for (int64_t t = 0; t < steps; t++)
    h = alu(Op::SIN, product(shrink(x, sizes_of({t, 0}), sizes_of({1, n})), w) + product(h, u));
  return h;
}

TEST(Gradient, Recurrence) {
  Inputs inputs;
  inputs.add({5, 3}, -1, 1);
  inputs.add({3, 3}, -1, 1);
  inputs.add({3, 3}, -1, 1);
  expect_right(inputs, [](const UOps& v) { return unrolled(v[0], v[1], v[2], 5); });
  auto nodes = [](int64_t steps) {
    const UOp x = leaf({steps, 3}), w = leaf({3, 3}), u = leaf({3, 3}), y = unrolled(x, w, u, steps);
    return UOp::sink(gradient(y, UOps{x, w, u}, gradient_seed(y))).toposort().size();
  };
  EXPECT_LT(nodes(400), 2.1 * static_cast<double>(nodes(200)));
}

TEST(Gradient, WrongUse) {
  const UOp x = leaf({3}), i = leaf({3}, dtypes::int32);
  auto call = [](const UOp& loss, const UOp& target, const UOp& seed) {
    return error_of([&] { gradient(loss, UOps{target}, seed); });
  };
  EXPECT_THAT(call(i, x, i), HasSubstr("the loss has dtype int32; only floats"));
  EXPECT_THAT(call(x, UOp(), x), HasSubstr("a target is no node at all"));
  EXPECT_THAT(call(x, x, i), HasSubstr("the gradient given for the loss has dtype int32"));
  EXPECT_THAT(call(x, i, x), HasSubstr("a target has dtype int32; only floats"));
  EXPECT_THAT(call(x, x, x.cast(dtypes::float32)),
              HasSubstr("the loss has dtype float64, the gradient given for it float32"));
  EXPECT_THAT(call(x, x, leaf({4})), HasSubstr("the loss has shape (3,), the gradient given for it (4,)"));
  const UOp several = UOp::make(Op::MSTACK, x.dtype(), {x, x});
  EXPECT_THAT(call(several, x, x), HasSubstr("MSTACK has no gradient"));
}

}  // namespace
}  // namespace quern
