#include "quern/ir/node/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "quern/base/error.h"

namespace quern {
namespace {

std::vector<DType> promotable() {
  std::vector<DType> types(std::begin(dtypes::all), std::end(dtypes::all));
  types.push_back(dtypes::index);
  return types;
}

std::vector<DType> scalars() {
  std::vector<DType> types = promotable();
  types.push_back(dtypes::void_);
  return types;
}

TEST(DTypeName, IsWhatTheHeaderSays) {
  EXPECT_EQ(dtypes::float32.name(), "float32");
  EXPECT_EQ(dtypes::int8.vec(4).name(), "int8x4");
  EXPECT_EQ(dtypes::index.vec(2).name(), "indexx2");
  EXPECT_EQ(dtypes::float32.ptr(1024).name(), "float32*[1024]");
  EXPECT_EQ(dtypes::float32.vec(4).ptr(16, AddrSpace::LOCAL).name(), "float32x4*[16]@LOCAL");
  EXPECT_EQ(dtypes::int32.ptr().name(), "int32*");
  EXPECT_EQ(dtypes::int32.ptr(DType::kUnsized, AddrSpace::REG).name(), "int32*@REG");
}

TEST(DTypeName, ReadsBack) {
  std::set<std::string> names;
  size_t count = 0;
  const auto check = [&](DType type) {
    EXPECT_EQ(DType::parse(type.name()), type) << type.name();
    names.insert(type.name());
    count++;
  };
  for (const DType scalar : scalars()) {
    check(scalar);
    if (scalar.is_void()) continue;
    for (const int lanes : {1, 2, 3, 16, 1024}) {
      const DType vector = scalar.vec(lanes);
      if (lanes > 1) check(vector);
      for (const AddrSpace space : {AddrSpace::GLOBAL, AddrSpace::LOCAL, AddrSpace::REG})
        for (const int64_t size : {DType::kUnsized, int64_t{0}, int64_t{1}, INT64_MAX})
          check(vector.ptr(size, space));
    }
  }
  EXPECT_EQ(names.size(), count) << "two types share a name";
}

TEST(DTypeName, IsRefusedIfMalformed) {
  for (const char* text : {"",
                           " ",
                           "float",
                           "Float32",
                           "float32 ",
                           " float32",
                           "float33",
                           "float320",
                           "x4",
                           "*",
                           "float32x",
                           "float32x0",
                           "float32x1",
                           "float32x-2",
                           "float32x+2",
                           "float32x04",
                           "float32x1025",
                           "float32x99999999999999999999",
                           "float32x4x4",
                           "float32**",
                           "float32*[]",
                           "float32*[-1]",
                           "float32*[+1]",
                           "float32*[01]",
                           "float32*[1",
                           "float32*1]",
                           "float32*[9223372036854775808]",
                           "float32*@GLOBAL",
                           "float32*[4]@GLOBAL",
                           "float32*@",
                           "float32*@local",
                           "float32*@LOCAL@LOCAL",
                           "float32*@LOCAL[4]",
                           "float32@LOCAL",
                           "float32[4]",
                           "voidx2",
                           "void*",
                           "int8x4*[1] ",
                           "indexx",
                           "int8x4*[1]x2"})
    EXPECT_THROW(DType::parse(text), DTypeError) << "'" << text << "'";
}

TEST(DTypeName, MutatedIsRefusedOrIsTheNameOfWhatItReads) {
  const std::string alphabet = "abdefilnotuvx0123456789*[]@LOCAREG -+\n";
  const std::vector<std::string> seeds = {"float32", "int8x4", "indexx16", "bfloat16x2*[1024]@LOCAL",
                                          "uint64*@REG"};
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return random() % n; };
  int accepted = 0;
  for (int i = 0; i < 5000; i++) {
    std::string text = seeds[below(seeds.size())];
    for (size_t edits = 1 + below(3); edits > 0; edits--) {
      const size_t at = below(text.size() + 1);
      const char letter = alphabet[below(alphabet.size())];
      switch (below(4)) {
        case 0: text.insert(at, 1, letter); break;
        case 1: text.erase(at, 1); break;
        case 2: text.resize(at); break;
        default:
          if (at < text.size()) text[at] = letter;
      }
    }
    try {
      EXPECT_EQ(DType::parse(text).name(), text);
      accepted++;
    } catch (const DTypeError&) {
    }
  }
  EXPECT_GT(accepted, 50) << "hardly any mutation is a dtype: the test tests too little";
}

TEST(DTypeParseError, NamesTheTextAndThePlace) {
  try {
    DType::parse("float32x4!");
    FAIL();
  } catch (const DTypeError& error) {
    EXPECT_STREQ(error.what(), "'float32x4!' is not a dtype: unexpected text at '!'");
  }
}

TEST(DType, IsSixteenBytes) { EXPECT_EQ(sizeof(DType), 16u); }

TEST(DType, KnowsItsSize) {
  EXPECT_EQ(dtypes::void_.bits(), 0);
  EXPECT_EQ(dtypes::void_.bytes(), 0);
  EXPECT_EQ(dtypes::bool_.bits(), 1);
  EXPECT_EQ(dtypes::bool_.vec(4).bytes(), 4);
  EXPECT_EQ(dtypes::index.bits(), 64);
  EXPECT_EQ(dtypes::fp8e5m2.bytes(), 1);
  EXPECT_EQ(dtypes::bfloat16.vec(3).bytes(), 6);
  EXPECT_EQ(dtypes::float64.vec(1024).bytes(), 8192);
  EXPECT_EQ(dtypes::int8.vec(4).ptr(100).bits(), 64);
  EXPECT_EQ(dtypes::int8.vec(4).ptr(100).bytes(), 8);
  for (const DType type : dtypes::all) {
    if (type.is_bool()) continue;
    const std::string name = type.name();
    const bool is_fp8 = name.starts_with("fp8");
    EXPECT_EQ(type.bits(), is_fp8 ? 8 : std::stoi(name.substr(name.find_first_of("0123456789")))) << name;
  }
}

TEST(DType, PointerIsNoNumber) {
  for (const DType scalar : promotable()) {
    const DType pointer = scalar.ptr(4);
    EXPECT_FALSE(pointer.is_void() || pointer.is_bool() || pointer.is_index() || pointer.is_int() ||
                 pointer.is_unsigned() || pointer.is_signed() || pointer.is_float() || pointer.is_fp8());
  }
}

TEST(DType, ScalarIsOfOneKind) {
  for (const DType type : scalars()) {
    EXPECT_EQ(type.is_void() + type.is_bool() + type.is_int() + type.is_float(), 1) << type.name();
    EXPECT_EQ(type.is_signed() + type.is_unsigned(), type.is_int()) << type.name();
    EXPECT_EQ(type.is_unsigned(), type.name().starts_with("uint")) << type.name();
    EXPECT_EQ(type.is_float(),
              type.name().find("fp8") == 0 || type.name().find("float") != std::string::npos);
  }
}

TEST(DType, HasParts) {
  const DType pointer = dtypes::float16.vec(4).ptr(8, AddrSpace::LOCAL);
  EXPECT_EQ(pointer.base(), dtypes::float16.vec(4));
  EXPECT_EQ(pointer.scalar(), dtypes::float16);
  EXPECT_EQ(pointer.lanes(), 4);
  EXPECT_EQ(pointer.size(), 8);
  EXPECT_EQ(pointer.space(), AddrSpace::LOCAL);
  EXPECT_EQ(dtypes::float16.vec(4).base(), dtypes::float16.vec(4));
  EXPECT_EQ(dtypes::float16.vec(4).vec(8), dtypes::float16.vec(8));
  EXPECT_EQ(dtypes::float16.vec(4).vec(1), dtypes::float16);
}

TEST(DType, ThatCannotBeIsRefused) {
  for (const int lanes : {-1, 0, 1025, 65537}) EXPECT_THROW(dtypes::int8.vec(lanes), DTypeError) << lanes;
  EXPECT_THROW(dtypes::int8.ptr().vec(2), DTypeError);
  EXPECT_THROW(dtypes::void_.vec(2), DTypeError);
  EXPECT_THROW(dtypes::void_.ptr(), DTypeError);
  EXPECT_THROW(dtypes::int8.ptr().ptr(), DTypeError);
  EXPECT_THROW(dtypes::int8.ptr(-2), DTypeError);
}

// Row and column in the order of dtypes::all. This is what tinygrad's least_upper_dtype gives, but for uint64
// with a signed integer: there it is a weak float, that gives way to every float; here it is uint64.
constexpr const char* kPromotions = R"(
b1 i8  u8  i16 u16 i32 u32 i64 u64 e4  e5  f16 b16 f32 f64
i8 i8  i16 i16 i32 i32 i64 i64 u64 e4  e5  f16 b16 f32 f64
u8 i16 u8  i16 u16 i32 u32 i64 u64 e4  e5  f16 b16 f32 f64
i16 i16 i16 i16 i32 i32 i64 i64 u64 e4 e5  f16 b16 f32 f64
u16 i32 u16 i32 u16 i32 u32 i64 u64 e4 e5  f16 b16 f32 f64
i32 i32 i32 i32 i32 i32 i64 i64 u64 e4 e5  f16 b16 f32 f64
u32 i64 u32 i64 u32 i64 u32 i64 u64 e4 e5  f16 b16 f32 f64
i64 i64 i64 i64 i64 i64 i64 i64 u64 e4 e5  f16 b16 f32 f64
u64 u64 u64 u64 u64 u64 u64 u64 u64 e4 e5  f16 b16 f32 f64
e4 e4  e4  e4  e4  e4  e4  e4  e4  e4  f16 f16 b16 f32 f64
e5 e5  e5  e5  e5  e5  e5  e5  e5  f16 e5  f16 b16 f32 f64
f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f32 f64
b16 b16 b16 b16 b16 b16 b16 b16 b16 b16 b16 f32 b16 f32 f64
f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64
f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64
)";

TEST(Promotion, FollowsTheTable) {
  const char* short_names[] = {"b1",  "i8", "u8", "i16", "u16", "i32", "u32", "i64",
                               "u64", "e4", "e5", "f16", "b16", "f32", "f64"};
  std::istringstream table(kPromotions);
  for (const DType a : dtypes::all)
    for (const DType b : dtypes::all) {
      std::string expected;
      ASSERT_TRUE(table >> expected);
      const auto found = std::ranges::find(dtypes::all, promote(a, b)) - std::begin(dtypes::all);
      EXPECT_EQ(short_names[found], expected) << a.name() << " with " << b.name();
    }
}

TEST(Promotion, IsCommutativeAndIdempotent) {
  for (const DType a : promotable()) {
    EXPECT_EQ(promote(a, a), a);
    for (const DType b : promotable())
      EXPECT_EQ(promote(a, b), promote(b, a)) << a.name() << " with " << b.name();
  }
}

TEST(Promotion, GivesAnUpperBound) {
  for (const DType a : promotable())
    for (const DType b : promotable()) EXPECT_EQ(promote(a, promote(a, b)), promote(a, b));
}

TEST(Promotion, IsAssociativeButForBothEightBitFloatsWithBFloat16) {
  const auto is_exception = [](DType a, DType b, DType c) {
    const auto has = [&](DType type) { return a == type || b == type || c == type; };
    return has(dtypes::fp8e4m3) && has(dtypes::fp8e5m2) && has(dtypes::bfloat16);
  };
  for (const DType a : promotable())
    for (const DType b : promotable())
      for (const DType c : promotable())
        if (!is_exception(a, b, c)) {
          EXPECT_EQ(promote(promote(a, b), c), promote(a, promote(b, c)))
              << a.name() << ", " << b.name() << ", " << c.name();
        }
  EXPECT_EQ(promote(promote(dtypes::fp8e4m3, dtypes::fp8e5m2), dtypes::bfloat16), dtypes::float32);
  EXPECT_EQ(promote(dtypes::fp8e4m3, promote(dtypes::fp8e5m2, dtypes::bfloat16)), dtypes::bfloat16);
}

TEST(Promotion, OfIndexGivesWayToAllButBool) {
  for (const DType type : dtypes::all)
    EXPECT_EQ(promote(dtypes::index, type), type.is_bool() ? dtypes::index : type);
}

TEST(Promotion, OfVectorsNeedsEqualLanes) {
  EXPECT_EQ(promote(dtypes::int8.vec(4), dtypes::uint8.vec(4)), dtypes::int16.vec(4));
  EXPECT_THROW(promote(dtypes::int8.vec(4), dtypes::int8), DTypeError);
  EXPECT_THROW(promote(dtypes::int8.vec(4), dtypes::int8.vec(2)), DTypeError);
}

TEST(Promotion, OfPointersAndVoidIsRefused) {
  for (const DType bad : {dtypes::void_, dtypes::int8.ptr(), dtypes::float32.ptr(4)}) {
    EXPECT_THROW(promote(bad, bad), DTypeError);
    for (const DType type : dtypes::all) EXPECT_THROW(promote(bad, type), DTypeError);
  }
  try {
    promote(dtypes::int8.ptr(4), dtypes::float32);
    FAIL();
  } catch (const DTypeError& error) {
    EXPECT_STREQ(error.what(), "int8*[4] and float32 have no common type");
  }
}

}  // namespace
}  // namespace quern
