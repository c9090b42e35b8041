// Tensors brought into memory: values, order of effects, what live tensors see.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "quern/base/env.h"
#include "quern/engine/realize/schedule_cache.h"
#include "quern/ir/shape/movement.h"
#include "quern/runtime/buffer.h"
#include "quern/runtime/counters.h"
#include "quern/tensor/core/tensor.h"
#include "test/engine/tensors.h"
#include "test/error_of.h"
#include "test/tensor/reference.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor counting(const Shape& shape) {
  int64_t n = 1;
  for (const Dim& d : shape) n *= d.value();
  Floats values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::from(values, shape);
}

bool in_memory(const Tensor& t) {
  const UOp u = t.uop();
  return base_of(u).op() == Op::BUFFER;
}

TEST(Realize, ValuesGoIntoMemory) {
  const Tensor x = counting({2, 3});
  const Tensor y = (x + 1.0) * x;
  EXPECT_FALSE(in_memory(y));
  y.realize();
  EXPECT_TRUE(in_memory(y));
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(0, 2, 6, 12, 20, 30));
  EXPECT_THAT(y.sum(1).to_vector<float>(), ElementsAre(8, 62));
  EXPECT_THAT(y.permute({1, 0}).to_vector<float>(), ElementsAre(0, 12, 2, 20, 6, 30));
  EXPECT_TRUE(in_memory(y.permute({1, 0})));
}

TEST(Realize, WhatIsReadIsComputedOnceAndStaysWhatItWas) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2}).set_requires_grad();
  const Tensor y = x * 2.0;
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(2, 4));
  const int64_t before = GlobalCounters::kernels;
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(2, 4));
  EXPECT_EQ(GlobalCounters::kernels, before);
  const Tensor z = y * 3.0;
  EXPECT_EQ(z.to_vector<float>(), (std::vector<float>{6, 12}));
  EXPECT_EQ(GlobalCounters::kernels, before + 1);
  (y + z + x).sum().backward();
  EXPECT_THAT(x.grad()->to_vector<float>(), ElementsAre(9, 9));
}

// A value that was read is that of then, whatever is written to what it was computed of; nothing is computed
// for that.
TEST(Realize, WhatWasReadOutlivesWrites) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2}).realize();
  const Tensor y = x * 2.0, other = x * 3.0;
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(2, 4));
  x.assign(y + other).realize();
  EXPECT_TRUE(in_memory(y));
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(2, 4));
  EXPECT_THAT(other.to_vector<float>(), ElementsAre(3, 6));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(5, 10));
}

TEST(Realize, WhatSharesTheRealisedPartSeesTheMemory) {
  const Tensor x = counting({4});
  const Tensor y = x * 2.0, z = y + 1.0;
  y.realize();
  EXPECT_FALSE(z.uop().ops_below().contains(Op::MUL));
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(1, 3, 5, 7));
}

TEST(Realize, ReadingALossDoesNotCutItOff) {
  const Tensor w = Tensor::from(std::vector<float>{2, 3}).set_requires_grad();
  const Tensor loss = (w * w).sum();
  EXPECT_EQ(loss.item<float>(), 13);
  EXPECT_EQ(loss.to_vector<float>(), std::vector<float>{13});
  loss.backward();
  EXPECT_EQ(w.grad()->to_vector<float>(), (std::vector<float>{4, 6}));
  EXPECT_THAT(error_of([&] { loss.realize().backward(); }), HasSubstr("has been realized"));
}

TEST(Realize, ReadingWhatWasWrittenDoesNotCutItOff) {
  const Tensor x = Tensor::from<float>({1, 2, 3}), y = x.clone();
  y(0) = 0;
  const Tensor loss = (y * y).sum(), part = y.at({Slice{1, 3}});
  EXPECT_EQ(loss.item<float>(), 13);
  EXPECT_THAT(part.to_vector<float>(), ElementsAre(2, 3));
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(0, 2, 3));
  EXPECT_THAT(loss.gradient({x})[0].to_vector<float>(), ElementsAre(0, 4, 6));
}

TEST(Realize, GradientsThroughWhatWasRealizedAreErrors) {
  const Tensor x = Tensor::from<float>({1, 2, 3}), y = (x * 2).realize(), loss = (y * y).sum();
  EXPECT_THAT(error_of([&] { (void)loss.gradient({x}, {}, true); }), HasSubstr("has been realized"));
  EXPECT_THAT(loss.gradient({y})[0].to_vector<float>(), ElementsAre(4, 8, 12));
  const Tensor unused = Tensor::from<float>({1});
  EXPECT_THAT(loss.gradient({unused}, {}, true)[0].to_vector<float>(), ElementsAre(0));
}

TEST(Realize, AViewOfAComputedValueStaysAView) {
  const Tensor x = counting({4}).realize(), y = x * 2 + 1, v = y.at({2});
  v.realize();
  v.assign(-3);
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(1, 3, -3, 7));
  y.bitcast(dtypes::int32).assign(0);
  EXPECT_THAT(v.item<float>(), 0);
}

TEST(Realize, SeveralAtOnce) {
  const Tensor x = counting({4});
  const Tensor y = x * 2.0, z = y + 1.0;
  Tensor::realize_all({z, y});
  EXPECT_TRUE(in_memory(y) && in_memory(z));
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(1, 3, 5, 7));
  Tensor::realize_all({});
}

TEST(Realize, ContiguousOnTheWayIsKept) {
  const Tensor x = counting({4});
  const Tensor y = (x * 2.0).contiguous(), z = y + 1.0;
  z.realize();
  EXPECT_TRUE(in_memory(y));
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(0, 2, 4, 6));
}

TEST(Realize, AssignmentsAreSeenByViewsAndNotByOlderValues) {
  const Tensor x = counting({4});
  const Tensor view = x.reshape({2, 2}), before = x + 10.0;
  x.assign(x * 3.0);
  const Tensor after = x + 100.0;
  x.realize();
  EXPECT_TRUE(in_memory(before)) << "it read what was overwritten";
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(view.to_vector<float>(), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(before.to_vector<float>(), ElementsAre(10, 11, 12, 13));
  EXPECT_THAT(after.to_vector<float>(), ElementsAre(100, 103, 106, 109));
}

TEST(Realize, ManyAssignmentsInOrder) {
  const Tensor x = counting({4});
  const Tensor zero = x + 0.0;
  x.assign(x + 1.0);
  const Tensor one = x + 0.0;
  x.set({Slice{Dim(1), Dim(3)}}, 7.0);
  const Tensor two = x + 0.0;
  x.assign(x.flip(0));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(4, 7, 7, 1));
  EXPECT_THAT(zero.to_vector<float>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(one.to_vector<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(two.to_vector<float>(), ElementsAre(1, 7, 7, 4));
}

// Minutes, if each asked all those before it.
TEST(Realize, ThousandsOfAssignmentsWaitForEachOther) {
  constexpr int kWrites = 20'000;
  const Tensor x = Tensor::from<int32_t>({0, 1}), y = Tensor::from<int32_t>({1, 1});
  for (int i = 0; i < kWrites; i++) {
    x.assign(x + y);
    if (i % 100 == 0) y.assign(x - x + 1);
  }
  EXPECT_THAT(x.to_vector<int32_t>(), ElementsAre(kWrites, kWrites + 1));
}

TEST(Realize, OneKernelReadsMemoryBeforeItWritesThere) {
  const Tensor x = counting({2}), y = counting({2});
  const Tensor sum = x + y;
  x.assign(y * 10.0);
  Tensor::realize_all({x, sum});
  EXPECT_THAT(sum.to_vector<float>(), ElementsAre(0, 2));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(0, 10));
}

TEST(Realize, SeveralUpdatesThatReadAllOfWhatTheyOverwrite) {
  const Tensor x = counting({3}), y = counting({3});
  for (int i = 0; i < 3; i++) {
    x.assign(x.cumsum(0));
    y.assign(y - y.sum(0, true));
  }
  Tensor::realize_all({x, y});
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(0, 1, 5));
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(-9, -8, -7));
}

TEST(Realize, ConstantsAndEmptyTensors) {
  EXPECT_THAT(Tensor::full({2, 2}, 3.0).to_vector<float>(), ElementsAre(3, 3, 3, 3));
  EXPECT_TRUE(Tensor::zeros({0, 3}).to_vector<float>().empty());
  EXPECT_THAT(Tensor::zeros({2, 0}).sum(1).to_vector<float>(), ElementsAre(0, 0));
  EXPECT_THAT((counting({2}) * 1.0).realize().to_vector<float>(), ElementsAre(0, 1));
}

TEST(Realize, SymbolicSizes) {
  const Tensor x = counting({8});
  const Variable n("n", 1, 8);
  std::vector<std::vector<float>> results;
  clear_schedule_cache();
  for (const int64_t value : {3, 5}) {
    const Tensor part = x.shrink({{{Dim(0), n.bind(value)}}});
    const Tensor sum = part.sum(), more = (part + 1.0).contiguous().realize();
    EXPECT_EQ(sum.item<float>(), static_cast<float>(value * (value - 1) / 2));
    results.push_back(more.to_vector<float>());
  }
  EXPECT_THAT(results[0], ElementsAre(1, 2, 3));
  EXPECT_THAT(results[1], ElementsAre(1, 2, 3, 4, 5));
  const Tensor a = x.shrink({{{Dim(0), n.bind(2)}}}).sum(), b = x.shrink({{{Dim(0), n.bind(3)}}}).sum();
  EXPECT_THAT(error_of([&] { (a + b).realize(); }), HasSubstr("n is bound to"));
}

TEST(Realize, OtherValuesOfVariablesAreTheSameSchedule) {
  const Tensor x = counting({8});
  const Variable n("n", 1, 8);
  clear_schedule_cache();
  for (const int64_t value : {3, 5, 8}) x.shrink({{{Dim(0), n.bind(value)}}}).sum().realize();
  EXPECT_EQ(schedule_cache_counts().misses, 1);
  EXPECT_EQ(schedule_cache_counts().hits, 2);
}

// What a graph means, by the reference evaluator, is what comes out.
void expect_as_reference(const Tensor& t, double tolerance = 0) {
  const reference::Value expected = reference::evaluate_tensor(t.uop(), [](const UOp& buffer) {
    std::vector<std::byte> raw(static_cast<size_t>(buffer_of(buffer)->bytes()));
    buffer_of(buffer)->copy_out(raw);
    std::vector<Const> values;
    const auto size = static_cast<size_t>(buffer.dtype().bytes());
    for (size_t at = 0; at < raw.size(); at += size) {
      uint64_t bits = 0;
      std::memcpy(&bits, raw.data() + at, size);
      values.push_back(from_bits(bits, buffer.dtype()));
    }
    return values;
  });
  const Floats values = t.to_vector<float>();
  ASSERT_EQ(values.size(), expected.elements.size());
  for (size_t i = 0; i < values.size(); i++)
    EXPECT_NEAR(values[i], expected.elements[i].as_float(), tolerance) << "element " << i;
}

TEST(Realize, AsTheReferenceSays) {
  const Tensor x = counting({4, 6}) * 0.1, w = counting({6, 5}).cos();
  x.realize();
  expect_as_reference(x.matmul(w), 1e-5);
  expect_as_reference(x.softmax(), 1e-6);
  expect_as_reference((x.sum(0, true) - x).pad({1, 2, 0, 1}).flip({1}), 1e-5);
  expect_as_reference(x.reshape({1, 1, 4, 6}).conv2d(counting({2, 1, 3, 3})), 1e-4);
  expect_as_reference(x.cumsum(1), 1e-5);
  expect_as_reference(x.layernorm(), 1e-5);
  expect_as_reference(x.sort(1, true).first);
  const Tensor copy = x.clone();
  copy.set({Slice{Dim(1), Dim(3)}, Dim(2)}, x.max());
  expect_as_reference(copy * x, 1e-6);
}

TEST(Realize, TheSameComputationIsScheduledOnce) {
  clear_schedule_cache();
  for (int i = 0; i < 3; i++)
    EXPECT_THAT((counting({4}) * 5.0 + 1.0).to_vector<float>(), ElementsAre(1, 6, 11, 16));
  EXPECT_EQ(schedule_cache_counts().misses, 1);
  EXPECT_EQ(schedule_cache_counts().hits, 2);
}

TEST(Realize, CountsAndMemory) {
  const int64_t before = GlobalCounters::mem_used;
  {
    const Tensor x = counting({256});
    GlobalCounters::reset();
    const Tensor y = (x + 1.0).realize();
    EXPECT_EQ(GlobalCounters::kernels, 1);
    EXPECT_EQ(GlobalCounters::operations, 256);
    EXPECT_EQ(GlobalCounters::mem_used, before + 2048);
  }
  EXPECT_EQ(GlobalCounters::mem_used, before);
}

TEST(Realize, ErrorsLeaveTensorsAsTheyWere) {
  const Tensor huge = Tensor::full({int64_t{1} << 28, int64_t{1} << 28}, 1.0);
  const UOp before = huge.uop();
  EXPECT_THROW(huge.realize(), Error);
  EXPECT_EQ(huge.uop(), before);
  const Tensor nowhere = counting({2}).to("ABACUS");
  EXPECT_THAT(error_of([&] { nowhere.realize(); }), HasSubstr("there is no device 'ABACUS'"));
}

TEST(Data, BytesBlobsAndItems) {
  EXPECT_THROW(Tensor::from(Floats{1, 2, 3}, Shape{2}), ShapeError);
  EXPECT_THROW(Tensor::from_bytes(nullptr, 4, {1}, dtypes::float32), Error);
  auto owner = std::make_shared<Floats>(Floats{1, 2, 3});
  const Tensor blob = Tensor::from_blob(owner->data(), {3}, dtypes::float32, owner);
  (*owner)[1] = 9;
  EXPECT_THAT(blob.to_vector<float>(), ElementsAre(1, 9, 3));
  EXPECT_EQ(blob.sum().item<float>(), 13);
  EXPECT_THROW(blob.sum().item<int32_t>(), DTypeError);
  EXPECT_THROW(blob.item<float>(), ShapeError);
  EXPECT_THROW(blob.to_vector<int32_t>(), DTypeError);
}

TEST(Data, OtherDevices) {
  const Tensor x = counting({2, 2});
  const Tensor there = x.permute({1, 0}).to("INTERP:1") + 1.0;
  EXPECT_EQ(there.realize().device(), "INTERP:1");
  EXPECT_THAT(there.to_vector<float>(), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT((there.to(x.device()) + x).to_vector<float>(), ElementsAre(1, 4, 4, 7));
  const Tensor null = Tensor::empty({4}, {.dtype = dtypes::float32, .device = "NULL"}) + 1.0;
  null.realize();
  EXPECT_THAT(error_of([&] { null.to_vector<float>(); }), HasSubstr("NULL holds no values"));
}

TEST(Data, Files) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("quern_file_" + std::to_string(::getpid()))).string();
  std::ofstream(path) << "abcdefgh";
  const Tensor file = Tensor::from_file(path);
  EXPECT_THAT(file.to_vector<uint8_t>(), ElementsAre('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'));
  EXPECT_THAT(file.shrink({{{Dim(2), Dim(4)}}}).to_vector<uint8_t>(), ElementsAre('c', 'd'));
  EXPECT_THAT((file.to("INTERP") + 1).shrink({{{Dim(0), Dim(2)}}}).to_vector<uint8_t>(),
              ElementsAre('b', 'c'));
  EXPECT_THROW(Tensor::from_file(path, Shape{9}), ShapeError);
  EXPECT_THROW(Tensor::from_file(path, {}, dtypes::index), DTypeError);
  EXPECT_THROW(Tensor::from_file(path + ".not"), Error);
  EXPECT_THROW(Tensor::from_file("/tmp"), Error);
  std::filesystem::remove(path);
}

TEST(Data, Printing) {
  std::ostringstream out;
  out << counting({2, 3}) << "\n" << Tensor::full({}, 2.5) << "\n" << counting({2000});
  EXPECT_EQ(out.str(), "[[0, 1, 2],\n [3, 4, 5]]\n2.5\n[   0,    1,    2, ..., 1997, 1998, 1999]");
}

TEST(Data, PrintingOfEmptyRowsAndOfManyAxes) {
  std::ostringstream out;
  out << Tensor::zeros({2, 0}) << "\n" << Tensor::zeros({int64_t{1} << 62, 0}) << "\n";
  out << Tensor::full(Shape(65, Dim(1)), 1.0);
  EXPECT_EQ(out.str(), "[[],\n []]\n[[],\n [],\n [],\n ...,\n [],\n [],\n []]\n[...]");
}

TEST(Data, ValuesThatTakeTooManyBytes) {
  const Tensor huge = Tensor::full({int64_t{1} << 31, int64_t{1} << 31}, 1.0);
  EXPECT_THAT(error_of([&] { (void)huge.to_vector<float>(); }), HasSubstr("take more than 2^63 bytes"));
}

TEST(Data, ScheduleAsText) {
  EXPECT_THAT((counting({4}) + 1.0).schedule(), HasSubstr("kernel e_4"));
  EXPECT_EQ(counting({4}).schedule(), "");
}

TEST(Realize, TensorsMadeAlikeHaveMemoryOfTheirOwn) {
  const Tensor a = Tensor::zeros({2}).contiguous(), b = Tensor::zeros({2}).contiguous();
  Tensor::realize_all({a, b});
  a.assign(1.0).realize();
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(Realize, GradientsTellTensorsMadeAlikeApart) {
  const Tensor a = Tensor::full({2}, 3.0), b = Tensor::full({2}, 3.0);
  EXPECT_EQ((a * a * b).sum().gradient({b})[0].to_vector<float>(), (std::vector<float>{9, 9}));
  const Tensor c = Tensor::arange(0.5, 2.5), d = Tensor::arange(0.5, 2.5);
  EXPECT_EQ((c * d).sum().gradient({c})[0].to_vector<float>(), (std::vector<float>{0.5, 1.5}));
}

TEST(Realize, ValuesComputedAlikeAreNotViewsOfEachOther) {
  const Tensor x = counting({2}), a = x + 1.0, b = x + 1.0;
  a.realize();
  a.assign(7.0);
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{1, 2}));
  b.assign(9.0);
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{7, 7}));
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{9, 9}));
}

TEST(Realize, AssignedValuesAreCopiesOfMemory) {
  const Tensor x = Tensor::from<float>({1, 2}), y = Tensor::from<float>({5, 6});
  const Tensor t = x + 1.0;
  t.assign(y);
  y.assign(0.0);
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{5, 6}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 0}));
}

// Values that are read from memory which the same kernel overwrites, in parts, by stores that are unrolled.
TEST(Realize, OldContentsAreReadBeforeAnyOptsOverwriteThem) {
  for (int i = 0; i < 16; i++) {
    const env::Override opts("OPTS", fmt::format("random:{}", i));
    const Tensor memory = Tensor::from(std::vector<int32_t>{0, 0}, Shape{2});
    const Tensor view = memory.flip(Ints{0}), one = Tensor::from(std::vector<int32_t>{1}, Shape{1});
    const Tensor larger = view.maximum(one), less = view.sub(one);
    view.assign(one);
    memory.realize();
    EXPECT_EQ(less.to_vector<int32_t>(), (std::vector<int32_t>{-1, -1})) << i;
    EXPECT_EQ(larger.to_vector<int32_t>(), (std::vector<int32_t>{1, 1})) << i;
  }
}

}  // namespace
}  // namespace quern
