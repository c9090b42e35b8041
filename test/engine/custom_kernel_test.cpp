// Kernels written by hand: what they compute, and that they never leave their memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/ir/text/parse.h"
#include "quern/quern.h"
#include "test/error_of.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

UOp element(const UOp& memory, const UOp& i) {
  return UOp::make(Op::INDEX, memory.dtype().base(), {memory, i});
}
UOp address(const UOp& memory, const UOp& i) { return UOp::make(Op::INDEX, memory.dtype(), {memory, i}); }
UOp store(const UOp& memory, const UOp& i, const UOp& value) {
  return UOp::make(Op::STORE, dtypes::void_, {address(memory, i), value});
}
UOp loop(const UOp& effect, const UOp& range) {
  return UOp::sink(UOps{UOp::make(Op::END, dtypes::void_, {effect, range})});
}
UOp reshaped(const UOp& memory, int64_t rows, int64_t columns) {
  return UOp::make(Op::RESHAPE, memory.dtype(), {memory, UOp::index(rows), UOp::index(columns)});
}

class CustomKernel : public testing::TestWithParam<const char*> {
 protected:
  Tensor given(const std::vector<float>& values) const {
    return Tensor::from(values, {}, {.device = GetParam()});
  }
  Tensor indices(const std::vector<int64_t>& values) const {
    return Tensor::from(values, {}, {.device = GetParam()});
  }
  Tensor full(int64_t n, double value) const {
    return Tensor::full({n}, value, {.dtype = dtypes::float32, .device = GetParam()}).contiguous();
  }
  static std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }
};

TEST_P(CustomKernel, WhatItWritesIsInItsResultAndNotInItsArgument) {
  const Tensor out = full(4, -1).contiguous().realize(), in = given({1, 2, 3, 4}).contiguous().realize();
  const auto results = custom_kernel({out, in}, [](const UOps& p) {
    const UOp i = UOp::range(4, 0);
    return loop(store(p[0], i, element(p[1], i)), i);
  });
  EXPECT_THAT(values(results[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(out), ElementsAre(-1, -1, -1, -1));
  EXPECT_THAT(values(results[1]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(in), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(results[0]), ElementsAre(1, 2, 3, 4));
}

TEST_P(CustomKernel, IndicesFromMemoryReadNothingOutside) {  // out[i] = in[indices[i]]
  const auto result = custom_kernel(
      {full(5, -1), given({10, 11, 12}), indices({2, 3, -1, 0, int64_t{1} << 60})}, [](const UOps& p) {
        const UOp i = UOp::range(5, 0), at = element(p[2], i).cast(dtypes::index);
        return loop(store(p[0], i, element(p[1], at)), i);
      });
  EXPECT_THAT(values(result[0]), ElementsAre(12, 0, 0, 10, 0));
}

TEST_P(CustomKernel, IndicesFromMemoryWriteNothingOutside) {  // out[indices[i]] = i
  const auto result =
      custom_kernel({full(4, -1), indices({3, 4, -1, 0, -(int64_t{1} << 60)})}, [](const UOps& p) {
        const UOp i = UOp::range(5, 0), at = element(p[1], i).cast(dtypes::index);
        return loop(store(p[0], at, i.cast(dtypes::float32)), i);
      });
  EXPECT_THAT(values(result[0]), ElementsAre(3, -1, -1, 0));
}

TEST_P(CustomKernel, WhatCertainlyLeavesItsMemoryIsAnError) {
  auto run = [&](const std::function<UOp(const UOps&)>& body) {
    return error_of<IndexError>([&] { custom_kernel({full(4, 0), full(4, 1)}, body); });
  };
  const UOp i = UOp::range(4, 0);
  EXPECT_THAT(run([&](const UOps& p) { return loop(store(p[0], i, element(p[1], i + 1)), i); }),
              HasSubstr("goes from 1 to 4, argument 1 has 4 elements"));
  EXPECT_THAT(run([&](const UOps& p) { return loop(store(p[0], i - 1, element(p[1], i)), i); }),
              HasSubstr("goes from -1 to 2, argument 0 has 4 elements"));
  EXPECT_THAT(run([&](const UOps& p) { return loop(store(p[0], i * 2, element(p[1], i)), i); }),
              HasSubstr("goes from 0 to 6"));
  EXPECT_THAT(run([&](const UOps& p) {
                return UOp::sink(UOps{store(p[0], UOp::index(4), element(p[1], UOp::index(0)))});
              }),
              HasSubstr("goes from 4 to 4"));
  EXPECT_THAT(run([&](const UOps& p) {
                const UOp three = UOp::make(Op::DEFINE_REG, dtypes::float32.ptr(3, AddrSpace::REG), {}, 0);
                return loop(store(three, i, element(p[1], i)), i);
              }),
              HasSubstr("goes from 0 to 3, DEFINE_REG has 3 elements"));
  EXPECT_THAT(
      run([&](const UOps& p) {
        const UOp j = UOp::range(2, 1);
        return UOp::sink(UOps{UOp::make(
            Op::END, dtypes::void_,
            {UOp::make(Op::STORE, dtypes::void_,
                       {UOp::make(Op::INDEX, p[0].dtype(), {reshaped(p[0], 2, 2), i, j}), element(p[1], j)}),
             i, j})});
      }),
      HasSubstr("goes from 0 to 3, argument 0 has 2 elements"));
}

TEST_P(CustomKernel, GatesOfTheUserAreKept) {  // the one before, 0 for the first
  const auto result = custom_kernel({full(4, -1), given({1, 2, 3, 4})}, [](const UOps& p) {
    const UOp i = UOp::range(4, 0), before = where(i > 0, i - 1, UOp::invalid());
    return loop(store(p[0], i, element(p[1], before)), i);
  });
  EXPECT_THAT(values(result[0]), ElementsAre(0, 1, 2, 3));
  const auto wrong =
      custom_kernel({full(4, -1), given({1, 2, 3, 4})}, [](const UOps& p) {  // the gate is too wide
        const UOp i = UOp::range(4, 0);
        return loop(store(p[0], i, element(p[1], where(i > 0, i - 2, UOp::invalid()))), i);
      });
  EXPECT_THAT(values(wrong[0]), ElementsAre(0, 0, 1, 2));
}

TEST_P(CustomKernel, RowsAndColumns) {  // each axis for itself: (0, 2) is not (1, 0)
  const auto result =
      custom_kernel({full(3, -1), given({1, 2, 3, 4}), indices({0, 1, 2})}, [](const UOps& p) {
        const UOp i = UOp::range(3, 0), at = element(p[2], i).cast(dtypes::index);
        return loop(
            store(p[0], i, UOp::make(Op::INDEX, dtypes::float32, {reshaped(p[1], 2, 2), UOp::index(0), at})),
            i);
      });
  EXPECT_THAT(values(result[0]), ElementsAre(1, 2, 0));
}

TEST_P(CustomKernel, OtherMemoryIsRefused) {
  const UOp i = UOp::range(4, 0);
  EXPECT_THROW(custom_kernel({full(4, 0)},
                             [&](const UOps& p) {
                               const UOp more = UOp::make(Op::PARAM, dtypes::float32.ptr(400), {}, 0);
                               return loop(store(p[0], i, element(more, i)), i);
                             }),
               Error);
  EXPECT_THROW(custom_kernel({full(4, 0)},
                             [&](const UOps& p) {
                               const UOp more = UOp::make(Op::CAST, dtypes::float32.ptr(400), {p[0]});
                               return loop(store(p[0], i, element(more, i * 100)), i);
                             }),
               Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, CustomKernel, testing::Values("CPU", "INTERP"));

}  // namespace
}  // namespace quern
