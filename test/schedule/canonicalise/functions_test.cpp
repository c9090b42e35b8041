// Functions marked precompile: scheduled once, called with their arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "quern/engine/realize/schedule_cache.h"
#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/function.h"
#include "quern/tensor/core/tensor.h"
#include "test/engine/tensors.h"
#include "test/error_of.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

UOp parameter(const Ints& shape, int64_t slot) {
  return UOp::make(Op::PARAM, dtypes::float32, sizes_of(shape), slot);
}
UOp call(const UOp& body, UOps arguments, bool precompile, const std::string& name = "layer") {
  arguments.insert(arguments.begin(), body);
  return UOp::make(Op::FUNCTION, body.op() == Op::TUPLE ? dtypes::void_ : body.dtype(), arguments,
                   FunctionArg{.name = name, .precompile = precompile});
}
Tensor small_numbers(const Shape& shape, int seed) {
  int64_t n = 1;
  for (const Dim& d : shape) n *= d.value();
  Floats values;
  for (int64_t i = 0; i < n; i++) values.push_back(static_cast<float>((i * 3 + seed) % 5 - 2));
  return Tensor::from(values, shape);
}

// x and w to tanh(x @ w) + x, of 8 x 8.
UOp layer_body() {
  const Tensor x(parameter({8, 8}, 0)), w(parameter({8, 8}, 1));
  return (x.matmul(w).tanh() + x).uop();
}

Tensor chain(int layers, bool precompile) {
  Tensor x = small_numbers({8, 8}, 1);
  for (int i = 0; i < layers; i++)
    x = Tensor(call(layer_body(), {x.uop(), small_numbers({8, 8}, i).uop()}, precompile));
  return x;
}

TEST(Function, ALayerIsScheduledOnce) {
  clear_schedule_cache();
  const Floats kept = chain(32, true).to_vector<float>();
  const CacheCounts counts = schedule_cache_counts();
  EXPECT_EQ(counts.misses, 2) << "the chain, and the layer";
  EXPECT_EQ(counts.hits, 31) << "each other call of the layer";
  EXPECT_EQ(kept, chain(32, false).to_vector<float>());
}

TEST(Function, AnotherChainKnowsTheLayer) {
  clear_schedule_cache();
  chain(4, true).realize();
  const CacheCounts before = schedule_cache_counts();
  chain(7, true).realize();
  EXPECT_EQ(schedule_cache_counts().misses - before.misses, 1) << "the chain only";
}

TEST(Function, EqualKernelsAreEqualNodes) {
  const std::string text = chain(3, true).schedule();
  const size_t lines = static_cast<size_t>(std::ranges::count(text, '\n'));
  EXPECT_GE(lines, 3U) << text;
}

TEST(Function, SeveralValues) {
  const Tensor x(parameter({4}, 0)), y(parameter({4}, 1));
  const UOp body = UOp::make(Op::TUPLE, dtypes::void_, {(x + y).uop(), (x * y).sum().uop(), x.uop()});
  const UOp both = call(body, {small_numbers({4}, 0).uop(), small_numbers({4}, 1).uop()}, true);
  auto get = [&](int64_t i) { return Tensor(UOp::make(Op::GETTUPLE, dtypes::float32, {both}, i)); };
  const Tensor sum = get(0), product = get(1), first = get(2);
  Tensor::realize_all({sum, product, first});
  EXPECT_EQ(sum.to_vector<float>(), (small_numbers({4}, 0) + small_numbers({4}, 1)).to_vector<float>());
  EXPECT_EQ(product.to_vector<float>(),
            (small_numbers({4}, 0) * small_numbers({4}, 1)).sum().to_vector<float>());
  EXPECT_EQ(first.to_vector<float>(), small_numbers({4}, 0).to_vector<float>());
}

TEST(Function, ArgumentsAreViewsConstantsAndComputed) {
  const Tensor x = small_numbers({8, 8}, 2), w = small_numbers({8, 8}, 3);
  auto run = [&](bool precompile) {
    const Tensor a(call(layer_body(), {x.permute({1, 0}).uop(), (w * 2.0).uop()}, precompile));
    const Tensor b(call(layer_body(), {a.uop(), Tensor::ones({8, 8}).uop()}, precompile));
    const Tensor c(call(layer_body(), {b.flip(0).uop(), b.uop()}, precompile));
    return (c + a).to_vector<float>();
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Function, MemoryInTheBodyIsAnArgument) {
  const Tensor weight = small_numbers({4}, 2), x = small_numbers({4}, 1);
  for (const bool precompile : {false, true}) {
    const UOp body = (Tensor(parameter({4}, 0)) * weight).uop();
    const Tensor y(call(body, {x.uop()}, precompile));
    EXPECT_EQ(y.to_vector<float>(), (x * weight).to_vector<float>());
  }
}

TEST(Function, FunctionsInFunctions) {
  const UOp inner = (Tensor(parameter({4}, 0)) * 2.0 + Tensor(parameter({4}, 1))).uop();
  for (const bool outer_kept : {false, true})
    for (const bool inner_kept : {false, true}) {
      const Tensor p(parameter({4}, 0)), q(parameter({4}, 1));
      // The parameters change places on the way in.
      const UOp body = (Tensor(call(inner, {q.uop(), p.uop()}, inner_kept, "inner")) + p).uop();
      const Tensor a = small_numbers({4}, 1), b = small_numbers({4}, 4);
      const Tensor y(call(body, {a.uop(), b.uop()}, outer_kept, "outer"));
      EXPECT_EQ(y.to_vector<float>(), (b * 2.0 + a + a).to_vector<float>()) << outer_kept << inner_kept;
    }
}

TEST(Function, Gradients) {
  const Tensor x = small_numbers({8, 8}, 2), w = small_numbers({8, 8}, 3);
  auto gradients = [&](bool precompile) {
    const Tensor y(call(layer_body(), {x.uop(), w.uop()}, precompile));
    const std::vector<Tensor> g = (y * y).sum().gradient({x, w});
    Floats all = g[0].to_vector<float>();
    const Floats more = g[1].to_vector<float>();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST(Function, OnSeveralDevices) {
  const std::vector<std::string> devices{"INTERP", "INTERP:1"};
  const Tensor x = small_numbers({8, 8}, 2), w = small_numbers({8, 8}, 3);
  const Tensor y(call(layer_body(), {x.shard(devices, 0).uop(), w.shard(devices).uop()}, true));
  EXPECT_EQ(y.to_vector<float>(), (x.matmul(w).tanh() + x).to_vector<float>());
}

TEST(Function, WrongArguments) {
  for (const bool precompile : {false, true}) {
    auto run = [&](const UOps& arguments) {
      return error_of([&] { Tensor(call(layer_body(), arguments, precompile)).realize(); });
    };
    const UOp x = small_numbers({8, 8}, 1).uop();
    EXPECT_THAT(run({x}), HasSubstr("function layer: it has a parameter 1, but 1 arguments were given"));
    EXPECT_THAT(run({x, small_numbers({8, 4}, 1).uop()}),
                HasSubstr("function layer: argument 1 is float32 (8, 4), expected float32 (8, 8)"));
    EXPECT_THAT(run({x, small_numbers({8, 8}, 1).cast(dtypes::int32).uop()}),
                HasSubstr("expected float32 (8, 8)"));
  }
}

TEST(Function, TooDeep) {
  UOp body = (Tensor(parameter({4}, 0)) + 1.0).uop();
  for (int i = 0; i < 200; i++) body = (Tensor(call(body, {parameter({4}, 0)}, true)) + 1.0).uop();
  EXPECT_THAT(error_of([&] { Tensor(call(body, {small_numbers({4}, 1).uop()}, true)).realize(); }),
              HasSubstr("the most is 64"));
}

TEST(Function, OfWhatACallableComputes) {
  const Tensor x = small_numbers({8, 8}, 2), w = small_numbers({8, 8}, 3);
  const TensorFunction layer = [](const std::vector<Tensor>& a) {
    return std::vector{a[0].matmul(a[1]).tanh() + a[0].reshape({64}).reshape({8, 8}), a[0].sum()};
  };
  const std::vector<Tensor> expected = layer({x.transpose(), w});
  for (const bool precompile : {false, true}) {
    const FunctionSettings settings{.name = "layer", .precompile = precompile, .allow_implicit = false};
    const std::vector<Tensor> found = call_function(layer, {x.transpose(), w}, settings);
    ASSERT_EQ(found.size(), 2U);
    for (size_t i = 0; i < 2; i++)
      EXPECT_EQ(found[i].to_vector<float>(), expected[i].to_vector<float>()) << i;
  }
  auto run = [&] { call_function([&](auto&) { return std::vector{x * w}; }, {x}, {"f", true, false}); };
  EXPECT_THAT(error_of(run),
              HasSubstr("function f: it uses memory that is no argument: 64 elements of float32 on "));
}

TEST(Function, LayersOfCallablesAreScheduledOnce) {
  clear_schedule_cache();
  Tensor x = small_numbers({8, 8}, 1);
  for (int i = 0; i < 16; i++)
    x = call_function([](const std::vector<Tensor>& a) { return std::vector{a[0].matmul(a[1]).tanh()}; },
                      {x, small_numbers({8, 8}, i)}, {.precompile = true})[0];
  x.realize();
  EXPECT_EQ(schedule_cache_counts().misses, 2) << "the chain, and the layer";
}

}  // namespace
}  // namespace quern
