// Shapes, open ranges and devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/ir/node/uop.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

UOp shaped(const UOps& sizes, int slot = 0, DType dtype = dtypes::float32) {
  return UOp::make(Op::PARAM, dtype, sizes, slot);
}
UOps numbers(const Ints& values) {
  UOps all;
  for (const int64_t v : values) all.push_back(UOp::index(v));
  return all;
}
UOp shaped(const Ints& sizes, int slot = 0) { return shaped(numbers(sizes), slot); }

UOp moved_by(Op op, const UOp& x, const UOps& numbers) {
  UOps sources = {x};
  sources.insert(sources.end(), numbers.begin(), numbers.end());
  return UOp::make(op, x.dtype(), sources);
}
UOp moved(Op op, const UOp& x, const Ints& values) { return moved_by(op, x, numbers(values)); }

std::string shape_error(const UOp& u) {
  try {
    (void)u.shape();
  } catch (const ShapeError& e) {
    return e.what();
  }
  return "";
}

// ---- shapes
// ----------------------------------------------------------------------------------------------------------

TEST(Shape, OfLeaves) {
  const UOp unique = UOp::make(Op::UNIQUE, dtypes::void_, {}, 0);
  const UOp device = UOp::make(Op::DEVICE, dtypes::void_, {}, Texts{"CPU"});
  EXPECT_EQ(UOp::make(Op::BUFFER, dtypes::float32, {unique, device}, 12).int_shape(), Ints{12});
  EXPECT_THAT(UOp::index(3).shape(), IsEmpty());
  EXPECT_THAT(UOp::variable("n", 0, 3).shape(), IsEmpty());
  EXPECT_EQ(UOp::make(Op::DEFINE_LOCAL, dtypes::int8.ptr(9, AddrSpace::LOCAL), {}, 0).int_shape(), Ints{9});
  EXPECT_EQ(UOp::make(Op::PARAM, dtypes::int8.ptr(9), {}, 0).int_shape(), Ints{9});
  EXPECT_FALSE(UOp::make(Op::PARAM, dtypes::int8.ptr(), {}, 0).has_shape());
  EXPECT_EQ(UOp::make(Op::PARAM, dtypes::int8, {UOp::index(2), UOp::index(3), device}, 0).int_shape(),
            (Ints{2, 3}));
  EXPECT_FALSE(device.has_shape());
  EXPECT_EQ(shape_error(UOp::sink({})), "SINK has no shape");
}

TEST(Shape, Reshape) {
  EXPECT_EQ(moved(Op::RESHAPE, shaped(Ints{2, 6}), {3, 4}).int_shape(), (Ints{3, 4}));
  EXPECT_THAT(moved(Op::RESHAPE, shaped(Ints{1, 1}), Ints{}).shape(), IsEmpty()) << "rank 0";
  EXPECT_EQ(moved(Op::RESHAPE, shaped(Ints{}), {1}).int_shape(), Ints{1});
  EXPECT_EQ(moved(Op::RESHAPE, shaped(Ints{0, 3}), {5, 0}).int_shape(), (Ints{5, 0}))
      << "nothing stays nothing";
  EXPECT_EQ(shape_error(moved(Op::RESHAPE, shaped(Ints{2, 6}), {3, 5})),
            "RESHAPE: (2, 6) has 12 elements, (3, 5) has 15");
  EXPECT_EQ(shape_error(moved(Op::RESHAPE, shaped(Ints{2, 6}), {-3, -4})),
            "RESHAPE: negative size -3 in (-3, -4)");
  EXPECT_EQ(shape_error(moved(Op::RESHAPE, shaped(Ints{0, 3}), {1})),
            "RESHAPE: (0, 3) has 0 elements, (1) has 1");
  EXPECT_EQ(shape_error(moved(Op::RESHAPE, UOp::sink({}), {1})), "RESHAPE: source SINK has no shape");
}

TEST(Shape, Expand) {
  EXPECT_EQ(moved(Op::EXPAND, shaped(Ints{1, 3}), {5, 3}).int_shape(), (Ints{5, 3}));
  EXPECT_EQ(moved(Op::EXPAND, shaped(Ints{1}), {0}).int_shape(), (Ints{0}));
  EXPECT_EQ(shape_error(moved(Op::EXPAND, shaped(Ints{2, 3}), {4, 3})),
            "EXPAND: (2, 3) to (4, 3): axis 0 is neither 1 nor the same");
  EXPECT_THAT(shape_error(moved(Op::EXPAND, shaped(Ints{3}), {4, 3})), HasSubstr("keeps the number of axes"));
  EXPECT_THAT(shape_error(moved(Op::EXPAND, shaped(Ints{1}), {-1})), HasSubstr("negative size -1"));
}

TEST(Shape, PadAndShrink) {
  EXPECT_EQ(moved(Op::PAD, shaped(Ints{2, 3}), {1, 0, 4, 3}).int_shape(), (Ints{4, 3}));
  EXPECT_EQ(moved(Op::SHRINK, shaped(Ints{4, 3}), {1, 0, 2, 3}).int_shape(), (Ints{2, 3}));
  EXPECT_EQ(moved(Op::SHRINK, shaped(Ints{4}), {4, 0}).int_shape(), (Ints{0})) << "an empty part at the end";
  EXPECT_THAT(moved(Op::PAD, shaped(Ints{}), Ints{}).shape(), IsEmpty());
  EXPECT_EQ(shape_error(moved(Op::PAD, shaped(Ints{2}), {2, 3})),
            "PAD: axis 0: size 2 at offset 2 does not lie within size 3");
  EXPECT_THAT(shape_error(moved(Op::SHRINK, shaped(Ints{4}), {2, 3})), HasSubstr("size 3 at offset 2"));
  EXPECT_THAT(shape_error(moved(Op::SHRINK, shaped(Ints{4}), {-1, 3})), HasSubstr("negative size -1"));
  EXPECT_EQ(shape_error(moved(Op::PAD, shaped(Ints{2}), {1, 2, 3})), "PAD: 1 axes need 2 numbers, got 3");
}

TEST(Shape, PermuteAndFlip) {
  const auto permute = [](const Ints& order) {
    return UOp::make(Op::PERMUTE, dtypes::float32, {shaped(Ints{2, 3, 4})}, order);
  };
  const auto flip = [](const Ints& axes) {
    return UOp::make(Op::FLIP, dtypes::float32, {shaped(Ints{2, 3, 4})}, axes);
  };
  EXPECT_EQ(permute({2, 0, 1}).int_shape(), (Ints{4, 2, 3}));
  EXPECT_EQ(flip({0, 2}).int_shape(), (Ints{2, 3, 4}));
  EXPECT_EQ(shape_error(permute({0, 1})), "PERMUTE: [0, 1] is not a permutation of the axes of (2, 3, 4)");
  EXPECT_THAT(shape_error(permute({0, 1, 1})), HasSubstr("not a permutation"));
  EXPECT_EQ(shape_error(flip({3})), "FLIP: axis 3 of shape (2, 3, 4)");
  EXPECT_EQ(shape_error(flip({-1})), "FLIP: axis -1 of shape (2, 3, 4)");
}

TEST(Shape, OfSymbolicSizes) {
  const UOp n = UOp::variable("n", 1, 8), m = UOp::variable("m", 1, 8);
  const UOp x = shaped(UOps{n, UOp::index(4)});
  EXPECT_THAT(x.shape(), ElementsAre(n, UOp::index(4)));
  EXPECT_THROW((void)x.int_shape(), ShapeError);
  const UOp flat = moved_by(Op::RESHAPE, x, UOps{n * 4});
  EXPECT_EQ(flat.shape().size(), 1U);
  EXPECT_EQ(shape_error(flat), "");
  EXPECT_THAT(shape_error(moved_by(Op::RESHAPE, x, UOps{UOp::index(33)})), HasSubstr("elements"))
      << "at most 32";
  EXPECT_EQ(shape_error(x + shaped(UOps{n, UOp::index(4)}, 1)), "");
  EXPECT_NE(shape_error(x + shaped(UOps{m, UOp::index(4)}, 1)), "") << "not known to be equal";
  EXPECT_EQ(shape_error(shaped(UOps{n + m}) + shaped(UOps{m + n}, 1)), "") << "equal after simplification";
  EXPECT_THAT(shape_error(shaped(UOps{n - 2})), HasSubstr("a size may be negative, -1"));
  EXPECT_EQ(shape_error(moved_by(Op::SHRINK, x, {n - 1, UOp::index(0), UOp::index(1), UOp::index(4)})), "");
  EXPECT_EQ(shape_error(moved_by(Op::EXPAND, shaped(Ints{1}), {n})), "");
  EXPECT_THAT(shape_error(shaped(UOps{UOp::constant(dtypes::int32, 3)})),
              HasSubstr("dtype int32, not index"));
}

TEST(Shape, OfLargeSizesIsExact) {
  const int64_t big = int64_t{1} << 40;
  EXPECT_THAT(shape_error(moved(Op::RESHAPE, shaped(Ints{big, big}), {0})), HasSubstr("elements"))
      << "2^80 elements are not 0 elements";
}

TEST(Shape, OfElementwise) {
  EXPECT_EQ((shaped(Ints{2, 3}, 0) + shaped(Ints{2, 3}, 1)).int_shape(), (Ints{2, 3}));
  EXPECT_EQ(shape_error(shaped(Ints{2, 3}, 0) + shaped(Ints{3, 2}, 1)),
            "ADD: shapes (2, 3) and (3, 2) differ");
  EXPECT_EQ(shape_error(shaped(Ints{2, 3}, 0) + shaped(Ints{3}, 1)), "ADD: shapes (2, 3) and (3) differ");
  EXPECT_EQ(shaped(Ints{2}).cast(dtypes::int8).int_shape(), Ints{2});
}

TEST(Shape, OfReduce) {
  const auto sum = [](const UOp& x, const Ints& axes) {
    return UOp::make(Op::REDUCE, x.dtype(), {x}, ReduceArg{Op::ADD, axes, 1});
  };
  EXPECT_EQ(sum(shaped(Ints{2, 3, 4}), {0, 2}).int_shape(), (Ints{1, 3, 1}))
      << "reduced axes stay, with size 1";
  EXPECT_EQ(shape_error(sum(shaped(Ints{2, 3}), {2})), "REDUCE: axis 2 of shape (2, 3)");
  EXPECT_EQ(shape_error(sum(shaped(Ints{2, 3}), {-1})), "REDUCE: axis -1 of shape (2, 3)");
}

// max and the sum of exponentials, over axes or ranges.
UOp max_and_sum(const UOp& a, const UOp& b, const Ints& axes, const UOps& ranges) {
  const auto state = [](int i) { return UOp::make(Op::STATE, dtypes::float32, {}, i); };
  const UOp body = UOp::make(Op::TUPLE, dtypes::void_, {max(state(0), state(2)), state(1) + state(3)});
  UOps sources = {a, b, UOp::constant(dtypes::float32, 0.0), UOp::constant(dtypes::float32, 0.0), body};
  sources.insert(sources.end(), ranges.begin(), ranges.end());
  return UOp::make(Op::REDUCE, dtypes::void_, sources, ReduceArg{Op::NOOP, axes, 2});
}

TEST(Shape, OfTuples) {
  const UOp a = shaped(Ints{2}, 0), b = shaped(Ints{3, 4}, 1);
  const auto pick = [](const UOp& x, int i) { return UOp::make(Op::GETTUPLE, dtypes::float32, {x}, i); };
  const UOp tuple = UOp::make(Op::TUPLE, dtypes::void_, {a, b});
  EXPECT_EQ(pick(tuple, 1).int_shape(), (Ints{3, 4}));
  EXPECT_EQ(pick(UOp::make(Op::FUNCTION, dtypes::void_, {tuple}, FunctionArg{}), 0).int_shape(), Ints{2});
  EXPECT_EQ(shape_error(pick(tuple, 2)), "GETTUPLE: value 2 of 2");
  EXPECT_EQ(shape_error(pick(tuple, -1)), "GETTUPLE: value -1 of 2");
  const UOp reduce = max_and_sum(b, b, {1}, {});
  EXPECT_FALSE(reduce.has_shape());
  EXPECT_EQ(pick(reduce, 1).int_shape(), (Ints{3, 1}));
  EXPECT_EQ(shape_error(pick(reduce, 2)), "GETTUPLE: value 2 of 2")
      << "what follows the values is not one of them";
}

TEST(Shape, OfMemory) {
  const UOp p = UOp::make(Op::PARAM, dtypes::float32.ptr(24), {}, 0), r = UOp::range(4, 0),
            s = UOp::range(6, 1);
  const UOp shaped = moved(Op::RESHAPE, p, {4, 6});
  const auto index = [](const UOps& sources) { return UOp::make(Op::INDEX, dtypes::float32, sources); };
  EXPECT_THAT(index({p, r}).shape(), IsEmpty());
  EXPECT_EQ(index({shaped, r}).int_shape(), Ints{6});
  EXPECT_THAT(index({shaped, r, s}).shape(), IsEmpty());
  EXPECT_EQ(shape_error(index({p, r, s})), "INDEX: 2 indices into shape (24)");
  EXPECT_EQ(UOp::make(Op::STAGE, dtypes::float32, {index({p, r}), r, UOp::index(0)}, StageArg{}).int_shape(),
            (Ints{4, 1}));
  EXPECT_FALSE(UOp::make(Op::STORE, dtypes::void_, {index({p, r}), index({p, r})}).has_shape());
}

TEST(Shape, OfShards) {
  const UOp unique = UOp::make(Op::UNIQUE, dtypes::void_, {}, 0);
  const UOp devices = UOp::make(Op::DEVICE, dtypes::void_, {}, Texts{"CPU:0", "CPU:1", "CPU:2"});
  const UOp buffer = UOp::make(Op::BUFFER, dtypes::float32, {unique, devices}, 12);
  const UOp x = UOp::make(Op::MULTI, dtypes::float32, {moved(Op::RESHAPE, buffer, {3, 4})}, 1);
  EXPECT_EQ(x.int_shape(), (Ints{3, 12}));
  EXPECT_EQ(shape_error(UOp::make(Op::MULTI, dtypes::float32, {buffer}, 1)), "MULTI: axis 1 of shape (12)");
  EXPECT_EQ(x.device(), (Texts{"CPU:0", "CPU:1", "CPU:2"}));
  EXPECT_EQ(UOp::make(Op::MSELECT, dtypes::float32, {buffer}, 1).device(), Texts{"CPU:1"});
  const UOp copy =
      UOp::make(Op::COPY, dtypes::float32, {x, UOp::make(Op::DEVICE, dtypes::void_, {}, Texts{"CUDA"})});
  EXPECT_EQ((copy + copy).device(), Texts{"CUDA"});
  EXPECT_EQ(UOp::index(3).device(), Texts{});
}

// ---- ranges
// ----------------------------------------------------------------------------------------------------------

class Ranges : public testing::Test {
 protected:
  UOp p = UOp::make(Op::PARAM, dtypes::float32.ptr(64), {}, 0);
  UOp i = UOp::range(4, 0), j = UOp::range(4, 1), k = UOp::range(4, 2, AxisKind::REDUCE);
  static UOp at(const UOp& memory, const UOp& index) {
    return UOp::make(Op::INDEX, dtypes::float32, {memory, index});
  }
};

TEST_F(Ranges, AreOpenAboveTheirUse) {
  EXPECT_THAT(i.ranges(), ElementsAre(i));
  EXPECT_THAT((j * 4 + i).ranges(), ElementsAre(i, j)) << "outermost first";
  EXPECT_THAT(at(p, i + j).ranges(), ElementsAre(i, j));
  EXPECT_THAT(p.ranges(), IsEmpty());
  EXPECT_THAT(UOp::index(3).ranges(), IsEmpty());
}

TEST_F(Ranges, EndAtEnd) {
  const UOp store = UOp::make(Op::STORE, dtypes::void_, {at(p, i * 4 + j), at(p, k)});
  EXPECT_THAT(store.ranges(), ElementsAre(i, j, k));
  const UOp inner = UOp::make(Op::END, dtypes::void_, {store, j});
  EXPECT_THAT(inner.ranges(), ElementsAre(i, k));
  EXPECT_THAT(UOp::make(Op::END, dtypes::void_, {inner, i, k}).ranges(), IsEmpty());
  EXPECT_THAT(UOp::make(Op::END, dtypes::void_, {store, UOp::index(0)}).ranges(), ElementsAre(i, j, k));
  EXPECT_THAT(UOp::make(Op::END, dtypes::void_, {store, i * 4 + j}).ranges(), ElementsAre(k))
      << "an expression of both";
}

TEST_F(Ranges, EndAtReduceAndStage) {
  const UOp sum = UOp::make(Op::REDUCE, dtypes::float32, {at(p, i * 4 + k), k}, ReduceArg{Op::ADD, {}, 1});
  EXPECT_THAT(sum.ranges(), ElementsAre(i));
  EXPECT_THAT((sum + at(p, j)).ranges(), ElementsAre(i, j));
  EXPECT_THAT(max_and_sum(at(p, i * 4 + k), at(p, k), {}, {k}).ranges(), ElementsAre(i));
  const UOp stage = UOp::make(Op::STAGE, dtypes::float32, {sum, i, UOp::index(0)}, StageArg{});
  EXPECT_THAT(stage.ranges(), IsEmpty());
  EXPECT_THAT(at(stage, j).ranges(), ElementsAre(j));
}

TEST_F(Ranges, WhatTheEndDependsOnStaysOpen) {
  const UOp inner = UOp::range(i + 1, 5, AxisKind::REDUCE);  // a triangle
  EXPECT_THAT(inner.ranges(), ElementsAre(i, inner));
  const UOp sum = UOp::make(Op::REDUCE, dtypes::float32, {at(p, inner), inner}, ReduceArg{Op::ADD, {}, 1});
  EXPECT_THAT(sum.ranges(), ElementsAre(i));
}

}  // namespace
}  // namespace quern
