// What expressions simplify to, and that equal indices from different chains of views become one node.
#include "quern/ir/symbolic/symbolic.h"

#include <gtest/gtest.h>

#include "quern/ir/text/parse.h"
#include "quern/ir/text/print.h"
#include "test/ir/views.h"

namespace quern {
namespace {

// ---- tables of simplifications

struct Row {
  const char* reason;
  const char* before;
  const char* after;
};

void check(std::initializer_list<Row> rows) {
  for (const auto& [reason, before, after] : rows) {
    const UOp result = parse(before).simplify();
    EXPECT_TRUE(same(result, parse(after)))
        << reason << "\n  " << before << "\n  becomes  " << result << "\n  and not  " << after;
  }
}

TEST(Simplify, Sums) {
  check({
      {"like terms add up", "$a[0..9] * 3 + $a", "$a[0..9] * 4"},
      {"terms cancel", "($a[0..9] + $b[0..9]) - $a", "$b[0..9]"},
      {"terms are in order, whatever the tree", "1 + (r1[4] + ($a[0..9] + r0[4]))",
       "$a[0..9] + r0[4] + r1[4] + 1"},
      {"factors are multiplied in", "(r0[4] * 2 + 1) * 3", "r0[4] * 6 + 3"},
      {"products of symbols have one order", "r0[4] * $n[1..9] - $n * r0 + 1", "1"},
      {"a product of a sum is multiplied out", "(r0[4] + 1) * $n[1..9]", "$n[1..9] + $n * r0[4]"},
      {"quotient and remainder make the whole", "r0[20] // 4 * 4 + r0 % 4", "r0[20]"},
      {"with a scale", "r0[20] // 4 * 12 + r0 % 4 * 3", "r0[20] * 3"},
      {"and with a shift inside", "(r0[20] + 3) // 4 * 4 + (r0 + 3) % 4", "r0[20] + 3"},
      {"what is left of a quotient is a remainder", "r0[20] - r0 // 4 * 4", "r0[20] % 4"},
      {"digits of a number are joined", "r0[60] // 5 % 4 * 5 + r0 % 5", "r0[60] % 20"},
      {"digits of a flipped number", "r0[60] // 5 * -5 + (r0 * -1 + 4) % 5", "r0[60] * -1 + 4"},
      {"three digits are joined", "r0[60] // 20 * 20 + r0 // 5 % 4 * 5 + r0 % 5", "r0[60]"},
  });
}

TEST(Simplify, Divisions) {
  check({
      {"multiples come out", "(r0[5] * 8 + r1[8]) // 8", "r0[5]"},
      {"and go from a remainder", "(r0[5] * 8 + r1[8]) % 8", "r1[8]"},
      {"a common factor", "(r0[5] * 6 + 4) // 4", "r0[5] * 3 // 2 + 1"},
      {"a common factor of a remainder", "r0[9] * 6 % 4", "r0[9] % 2 * 2"},
      {"two divisions are one", "r0[100] // 3 // 5", "r0[100] // 15"},
      {"the division of a remainder", "r0[100] % 12 // 3", "r0[100] // 3 % 4"},
      {"the remainder of a remainder", "r0[100] % 12 % 3", "r0[100] % 3"},
      {"a remainder that is not one", "r0[8] % 8", "r0[8]"},
      {"bounds with an offset", "(r0[4] + 8) % 8", "r0[4]"},
      {"one quotient only", "(r0[4] + 8) // 8", "1"},
      {"what is too small does not matter", "(r0[5] * 12 + r1[3]) // 6", "r0[5] * 2"},
      {"the same in a remainder", "(r0[5] * 4 + r1[4]) % 8", "r1[4] + r0[5] % 2 * 4"},
      {"negative multiples", "($a[-9..9] * -4 + r0[4]) // 4", "$a[-9..9] * -1"},
      {"a negative divisor", "$a[0..9] // -1", "$a[0..9] * -1"},
      {"floor of a negative number", "($a[-9..9] * 4 - 1) // 4", "$a[-9..9] + -1"},
      {"a sign comes out of a division", "(7 - r0[8]) // 4", "r0[8] // 4 * -1 + 1"},
      {"and out of a remainder", "(7 - r0[8]) % 4", "r0[8] % 4 * -1 + 3"},
      {"a quotient in a sum", "(r0[9] // 2 + r1[9] * 3) // 4", "(r0[9] + r1[9] * 6) // 8"},
      {"its remainder", "($a[-9..9] * 4 - 1) % 4", "3"},
      {"by a symbol", "(r0[5] * $n[1..9] + r1[$n]) // $n", "r0[5]"},
      {"remainder by a symbol", "(r0[5] * $n[1..9] + r1[$n]) % $n", "r1[$n[1..9]]"},
      {"by a symbol with a factor", "(r0[5] * $n[1..9] * 4 + r1[4] * $n + r2[$n]) // ($n * 4)", "r0[5]"},
  });
}

TEST(Simplify, TruncatingDivisionsAreKeptApart) {
  check({
      {"the same where nothing is negative", "truncdiv(r0[9], 4)", "r0[9] // 4"},
      {"the same remainder", "truncmod(r0[9], 4)", "r0[9] % 4"},
      {"not where a dividend may be negative", "truncdiv($a[-9..9], 4)", "truncdiv($a[-9..9], 4)"},
      {"nor its remainder", "truncmod($a[-9..9], 4)", "truncmod($a[-9..9], 4)"},
      {"towards zero from below", "truncdiv($a[-9..0], 4)", "($a[-9..0] + 3) // 4"},
      {"(4a - 1) / 4 is no a here", "truncdiv($a[-9..9] * 4 - 1, 4)", "truncdiv($a[-9..9] * 4 + -1, 4)"},
      {"the sign of a divisor comes out", "truncdiv($a[-9..9], -4)", "truncdiv($a[-9..9], 4) * -1"},
  });
}

TEST(Simplify, Comparisons) {
  check({
      {"always", "r0[8] < 8", "true"},
      {"never", "r0[8] < 0", "false"},
      {"a constant moves to the right", "r0[8] + 3 < 7", "r0[8] < 4"},
      {"a sign moves over", "5 - r0[8] < 2", "!(r0[8] < 4)"},
      {"<= is the other <", "3 <= r0[8]", "!(r0[8] < 3)"},
      {"a common factor", "r0[8] * 4 < 14", "r0[8] < 4"},
      {"digits below do not matter", "r0[8] * 4 + r1[4] < 12", "r0[8] < 3"},
      {"a quotient", "r0[64] // 8 < 3", "r0[64] < 24"},
      {"equal terms go", "r0[8] + $a[0..9] < $a + 3", "r0[8] < 3"},
      {"equality by bounds", "r0[8] == 9", "false"},
      {"equality by divisibility", "r0[8] * 2 == 5", "false"},
      {"equality of a multiple", "r0[8] * 2 == 6", "r0[8] == 3"},
      {"both sides", "$a[0..9] + 1 == $a + r0[4]", "r0[4] == 1"},
      {"the same from both sides", "r0[4] < r1[4]", "r0[4] < r1[4]"},
  });
}

TEST(Simplify, Conditions) {
  check({
      {"the narrower bound stays", "(r0[9] < 3) & (r0 < 5)", "r0[9] < 3"},
      {"contradiction", "(r0[9] < 3) & (5 <= r0)", "false"},
      {"not not", "!(!(r0[9] < 3))", "r0[9] < 3"},
      {"not of an equality", "!(r0[9] == 3)", "r0[9] != 3"},
      {"a and not a", "(r0[9] < 3) & !(r0 < 3)", "false"},
      {"a or not a", "(r0[9] < 3) | !(r0 < 3)", "true"},
      {"absorbed", "(r0[9] < 3) | ((r0 < 3) & (r1[9] < 3))", "r0[9] < 3"},
      {"a condition as a number, asked", "CAST(r0[9] < 3):index != 0", "r0[9] < 3"},
  });
}

TEST(Simplify, SelectsAndExtremes) {
  check({
      {"both the same", "where(r0[9] < 3, r1[4], r1)", "r1[4]"},
      {"a condition that holds", "where(r0[9] < 9, r1[4], 0)", "r1[4]"},
      {"a not in front goes", "where(!(r0[9] < 3), r1[4], 0)", "where(r0[9] < 3, 0, r1[4])"},
      {"the same question again", "where(r0[9] < 3, where(r0 < 3, r1[4], 7), 0)",
       "where(r0[9] < 3, r1[4], 0)"},
      {"a common term comes out", "where(r0[9] < 3, r1[4] + 1, r1 + 2)", "r1[4] + where(r0[9] < 3, 1, 2)"},
      {"max by bounds", "max(r0[9], 0)", "r0[9]"},
      {"min by bounds of the difference", "min($a[0..99] + r0[4], $a + 3)", "$a[0..99] + r0[4]"},
      {"chains are flat", "max(max(r0[9], 3), 5)", "max(r0[9], 5)"},
      {"and in order", "min(r1[9], min($a[0..9], r0[9]))", "min(min($a[0..9], r0[9]), r1[9])"},
  });
}

TEST(Simplify, Gates) {
  check({
      {"two gates are one", "where(r0[9] < 3, where(r1[9] < 4, r0, invalid), invalid)",
       "where((r0[9] < 3) & (r1[9] < 4), r0, invalid)"},
      {"a gate comes out", "where(r0[9] < 3, r0, invalid) * 4 + 1", "where(r0[9] < 3, r0 * 4 + 1, invalid)"},
      {"what the gate says is used", "where(r0[9] < 3, r0 % 4, invalid)", "where(r0[9] < 3, r0, invalid)"},
      {"and from below", "where(4 <= r0[9], (r0 + 4) // 8, invalid)", "where(!(r0[9] < 4), 1, invalid)"},
      {"a gate that holds", "where(r0[9] < 9, r0, invalid)", "r0[9]"},
      {"what is read on the way keeps its gate",
       "where(r0[9] < 3, CAST(INDEX(PARAM(; 0):int32*[3], where(r0 < 3, r0, invalid))):index, invalid)",
       "where(r0[9] < 3, CAST(INDEX(PARAM(; 0):int32*[3], where(r0 < 3, r0, invalid))):index, invalid)"},
      {"one that never does", "where(r0[9] < 0, r0, invalid)", "invalid"},
      {"a gate stays around a constant", "where(r0[9] < 3, r1[4], invalid) * 0",
       "where(r0[9] < 3, 0, invalid)"},
      {"a gate in one branch comes out", "where(r0[9] < 3, where(r1[4] < 2, r1, invalid), 0)",
       "where(!(r0[9] < 3) | (r1[4] < 2), where(r0 < 3, r1, 0), invalid)"},
      {"a condition is never invalid", "where(r0[9] < 3, r0, invalid) < 2", "r0[9] < 2"},
      {"an equality is a value", "where(r0[9] == 3, r0 * 5, invalid)", "where(r0[9] == 3, 15, invalid)"},
  });
}

TEST(SimplifyUnder, UsesWhatTheConditionSays) {
  struct Case {
    const char *reason, *condition, *before, *after;
  };
  for (const auto& [reason, condition, before, after] : {
           Case{"an upper bound", "r0[16] < 4", "r0[16] % 4", "r0[16]"},
           {"a lower bound", "!(r0[16] < 8)", "r0[16] // 8", "1"},
           {"both", "(r0[16] < 8) & !(r0 < 4)", "r0[16] // 4", "1"},
           {"an equality", "r0[16] == 3", "r0[16] * 2 + r1[4]", "r1[4] + 6"},
           {"a sum", "r0[16] + r1[4] < 8", "(r0[16] + r1[4]) // 8", "0"},
           {"two facts", "(r0[16] < 4) & (r1[16] < 2)", "(r0[16] + r1[16] * 4) // 8", "0"},
           {"a comparison", "r0[16] < 4", "where(r0[16] < 5, r0, 9)", "r0[16]"},
           {"nothing about this", "r0[16] < 4", "r1[16] % 4", "r1[16] % 4"},
           {"nothing at all", "(r0[16] < 4) | (r1[16] < 4)", "r1[16] % 4", "r1[16] % 4"},
       }) {
    const UOp result = simplify_under(parse(before), parse(condition));
    EXPECT_TRUE(same(result, parse(after)))
        << reason << "\n  " << before << "\n  under  " << condition << "\n  becomes  " << result;
  }
}

TEST(Simplify, FixedWidthIntegersWrap) {
  for (const char* kept : {
           "($a[0..100]:int8 + 100) // 4",     // 127 + 1 is -128
           "$a[0..100]:int8 * 4 // 4",         // 64 * 4 is 0
           "$a[0..100]:int8 * 4 < 8",          //
           "$a[0..255]:uint8 + 1 < $a",        // true for 255
           "$a[-128..127]:int8 * -1 < 0",      // -(-128) is -128
           "$a[0..200]:uint8 * 2 % 2 == 1",    //
           "max($a[-128..127]:int8, $a + 1)",  //
           "$a[15..39]:int8 * ($a % 5) < 0",   // 34 * 4 is -120
           "$a[-128..127]:int8 + 1 < 5",       //
       }) {
    const UOp result = parse(kept).simplify();
    EXPECT_TRUE(result.ops_below().intersects({Op::FLOORDIV, Op::CMPLT, Op::FLOORMOD, Op::MAX, Op::CMPEQ}))
        << kept << " becomes " << result;
  }
  check({
      {"sums are sums modulo 256", "$a[0..255]:uint8 * 255 + $a", "0:uint8"},
      {"even large factors", "$a[0..9]:uint64 * 18446744073709551615 * 18446744073709551615",
       "$a[0..9]:uint64"},
      {"factors wrap", "$a[0..255]:uint8 * 16 * 16", "0:uint8"},
      {"what cannot wrap is an integer", "$a[0..20]:int8 * 4 // 4", "$a[0..20]:int8"},
      {"and is compared as one", "$a[0..20]:int8 * 4 < 8", "$a[0..20]:int8 < 2"},
  });
}

TEST(Simplify, FloatsKeepTheirBits) {
  for (const char* kept : {
           "PARAM(; 0):float32 + 0.0",        // -0.0 + 0.0 is 0.0
           "PARAM(; 0):float32 * 0.0",        // nan, inf, -1.0
           "PARAM(; 0):float32 + 1.0 + 2.0",  // rounds twice
           "PARAM(; 0):float32 / 3.0",        //
           "PARAM(; 0):float32 == 1.0",       //
       }) {
    const UOp before = parse(kept);
    EXPECT_TRUE(same(before.simplify(), before)) << kept << " becomes " << before.simplify();
  }
  const UOp x = UOp::make(Op::PARAM, dtypes::float32, {}, int64_t{0}), minus_x = x * -1.0;
  EXPECT_TRUE((x + minus_x).simplify().ops_below().contains(Op::ADD)) << "inf - inf is nan";
  EXPECT_TRUE(same(eq(x, x).simplify(), eq(x, x))) << "nan is not nan";
  EXPECT_TRUE(same((x * 1.0).simplify(), x));
  EXPECT_TRUE(same((x + -0.0).simplify(), x));
  EXPECT_TRUE(same((x / 4.0).simplify(), x * 0.25));
}

// ---- views

struct SameViews {
  const char* reason;
  View a, b;
  const char* offset = "";  // what both come to
};

void check(const std::vector<SameViews>& rows) {
  for (const auto& [reason, a, b, expected] : rows) {
    const UOp x = a.offset().simplify(), y = b.offset().simplify();
    EXPECT_TRUE(same(x, y)) << reason << "\n  " << x << "\n  is not  " << y;
    if (*expected != 0) {
      EXPECT_TRUE(same(x, parse(expected))) << reason << "\n  " << x << "\n  is not  " << expected;
    }
    // Where a gate stands, and how many axes there are at the other end, may differ.
    const UOps i = a.indices(), j = b.indices();
    if (i.size() != j.size() || x.op() == Op::WHERE) continue;
    for (size_t k = 0; k < i.size(); k++)
      EXPECT_TRUE(same(i[k].simplify(), j[k].simplify()))
          << reason << ", axis " << k << "\n  " << i[k].simplify() << "\n  is not  " << j[k].simplify();
  }
}

TEST(Views, Reshapes) {
  const View a({4, 6}), b({3, 5, 7}), c({16, 9}), d({2, 3, 4, 5});
  check({
      {"of a reshape", a.reshape({8, 3}).reshape({2, 12}), a.reshape({2, 12}), "r0[2] * 12 + r1[12]"},
      {"there and back", a.reshape({24}).reshape({4, 6}), a, "r0[4] * 6 + r1[6]"},
      {"there and back through what does not fit", a.reshape({3, 8}).reshape({4, 6}), a},
      {"odd sizes", b.reshape({15, 7}).reshape({5, 21}).reshape({3, 5, 7}), b},
      {"odd sizes, through one axis", b.reshape({105}).reshape({7, 15}).reshape({21, 5}), b.reshape({21, 5})},
      {"through many", d.reshape({6, 20}).reshape({120}).reshape({8, 15}).reshape({2, 60}),
       d.reshape({2, 60})},
      {"split and merged", c.split(0, {4, 4}).merge(1, 2).split(1, {4, 9}).merge(0, 2), c},
      {"split in two ways", c.split(0, {2, 8}).split(1, {2, 4}), c.split(0, {4, 4}).split(0, {2, 2})},
      {"with axes of one", a.reshape({4, 1, 6}).reshape({1, 4, 6, 1}).reshape({4, 6}), a},
  });
}

TEST(Views, Permutes) {
  const View a({4, 6}), b({3, 5, 7}), d({2, 3, 4, 5});
  check({
      {"twice is not at all", a.permute({1, 0}).permute({1, 0}), a, "r0[4] * 6 + r1[6]"},
      {"round", b.permute({1, 2, 0}).permute({1, 2, 0}).permute({1, 2, 0}), b},
      {"joined", d.permute({1, 0, 3, 2}).permute({2, 3, 0, 1}), d.permute({3, 2, 1, 0})},
      {"flattened and back in between", a.permute({1, 0}).reshape({24}).reshape({6, 4}).permute({1, 0}), a},
      {"of merged axes", b.permute({2, 0, 1}).merge(1, 2), b.merge(0, 2).permute({1, 0})},
      {"of split axes", View({15, 7}).permute({1, 0}).split(1, {3, 5}),
       View({15, 7}).split(0, {3, 5}).permute({2, 0, 1})},
      {"through one flat axis", b.permute({2, 0, 1}).reshape({105}).reshape({7, 3, 5}).permute({1, 2, 0}), b},
      {"through other axes",
       b.permute({2, 0, 1}).reshape({15, 7}).reshape({7, 15}).split(1, {3, 5}).permute({1, 2, 0}), b},
      {"powers of two", View({8, 16}).permute({1, 0}).reshape({4, 32}).reshape({16, 8}).permute({1, 0}),
       View({8, 16})},
      {"flattened in another order, twice", d.permute({3, 1, 0, 2}).reshape({15, 8}).reshape({120}),
       d.permute({3, 1, 0, 2}).reshape({120})},
      {"the same flat order by two ways", d.permute({2, 3, 0, 1}).reshape({20, 6}).reshape({120}),
       d.merge(2, 2).permute({2, 0, 1}).reshape({120})},
  });
}

TEST(Views, Flips) {
  const View a({4, 6}), b({3, 5, 7});
  check({
      {"twice", a.flip({0}).flip({0}), a, "r0[4] * 6 + r1[6]"},
      {"once", a.flip({1}), a.permute({1, 0}).flip({0}).permute({1, 0}), "r0[4] * 6 + r1[6] * -1 + 5"},
      {"of all is that of the flat one", b.flip({0, 1, 2}), b.reshape({105}).flip({0}).reshape({3, 5, 7})},
      {"of two that are merged", b.flip({0, 1}), b.merge(0, 2).flip({0}).split(0, {3, 5})},
      {"around a reshape", b.flip({0}).reshape({15, 7}).reshape({3, 5, 7}).flip({0}), b},
      {"of a flat one, twice", b.reshape({105}).flip({0}).reshape({21, 5}).reshape({105}).flip({0}),
       b.reshape({105})},
      {"of one axis through a flat one", a.flip({1}).reshape({24}).reshape({4, 6}).flip({1}), a},
  });
}

TEST(Views, Shrinks) {
  const View a({12, 10});
  check({
      {"of a shrink", a.shrink({{2, 10}, {1, 9}}).shrink({{1, 5}, {2, 4}}), a.shrink({{3, 7}, {3, 5}}),
       "r0[4] * 10 + r1[2] + 33"},
      {"of a flip", a.flip({0}).shrink({{0, 5}, {0, 10}}), a.shrink({{7, 12}, {0, 10}}).flip({0})},
      {"every third row", a.split(0, {4, 3}).shrink({{0, 4}, {1, 2}, {0, 10}}).merge(0, 2),
       a.reshape({4, 30}).shrink({{0, 4}, {10, 20}}), "r0[4] * 30 + r1[10] + 10"},
      {"every second of every second",
       View({16})
           .split(0, {8, 2})
           .shrink({{0, 8}, {0, 1}})
           .merge(0, 2)
           .split(0, {4, 2})
           .shrink({{0, 4}, {0, 1}})
           .merge(0, 2),
       View({16}).split(0, {4, 4}).shrink({{0, 4}, {0, 1}}).merge(0, 2), "r0[4] * 4"},
      {"part of a flat axis, split", View({60}).shrink({{12, 36}}).reshape({4, 6}),
       View({10, 6}).shrink({{2, 6}, {0, 6}})},
      {"the diagonal",
       View({5, 5}).reshape({25}).pad({{0, 5}}).reshape({5, 6}).shrink({{0, 5}, {0, 1}}).reshape({5}),
       View({5, 5}).reshape({25}).pad({{0, 5}}).split(0, {5, 6}).shrink({{0, 5}, {0, 1}}).merge(0, 2),
       "r0[5] * 6"},
  });
}

TEST(Views, Pads) {
  const View a({6, 5});
  check({
      {"and back", a.pad({{2, 3}, {1, 1}}).shrink({{2, 8}, {1, 6}}), a, "r0[6] * 5 + r1[5]"},
      {"of a pad", a.pad({{1, 0}, {0, 2}}).pad({{1, 2}, {0, 1}}), a.pad({{2, 2}, {0, 3}})},
      {"one axis after the other", a.pad({{1, 1}, {0, 0}}).pad({{0, 0}, {2, 2}}),
       a.pad({{0, 0}, {2, 2}}).pad({{1, 1}, {0, 0}})},
      {"of an axis of one", View({1}).pad({{1, 1}}),
       View({1}).reshape({1, 1}).pad({{1, 1}, {0, 0}}).reshape({3}),
       "where(!(r0[3] < 1) & (r0 < 2), 0, invalid)"},
      {"of a flip", a.flip({0}).pad({{1, 2}, {0, 0}}), a.pad({{2, 1}, {0, 0}}).flip({0})},
      {"shrunk on one side", a.pad({{2, 2}, {0, 0}}).shrink({{2, 10}, {0, 5}}), a.pad({{0, 2}, {0, 0}}),
       "where(r0[8] < 6, r0 * 5 + r1[5], invalid)"},
      {"of rows, flat", a.pad({{1, 1}, {0, 0}}).reshape({40}), a.reshape({30}).pad({{5, 5}}),
       "where(!(r0[40] < 5) & (r0 < 35), r0 + -5, invalid)"},
      {"of a permuted one", a.permute({1, 0}).pad({{1, 1}, {2, 2}}), a.pad({{2, 2}, {1, 1}}).permute({1, 0})},
      {"through a reshape that keeps the axis", a.pad({{1, 1}, {0, 0}}).reshape({8, 5, 1}).reshape({8, 5}),
       a.pad({{1, 1}, {0, 0}})},
      {"and reshaped there and back", a.pad({{1, 1}, {1, 2}}).reshape({64}).reshape({8, 8}),
       a.pad({{1, 1}, {1, 2}})},
  });
}

// repeat, reshape, shrink: windows of `window` elements, `stride` apart, with `dilation` between their
// elements.
View windows(const View& x, int size, int window, int stride, int dilation) {
  const int count = (size - dilation * (window - 1) - 1) / stride + 1;
  const int row = size + dilation;
  const int copies = (window * row + size - 1) / size;
  const int whole = count * stride;
  QUERN_CHECK(whole <= row, "windows so far apart need longer rows");
  return x.reshape({1, size})
      .expand({copies, size})
      .reshape({copies * size})
      .shrink({{0, window * row}})
      .reshape({window, row})
      .shrink({{0, window}, {0, whole}})
      .reshape({window, count, stride})
      .shrink({{0, window}, {0, count}, {0, 1}})
      .reshape({window, count})
      .permute({1, 0});
}

TEST(Views, Windows) {
  struct Case {
    int size, window, stride, dilation;
  };
  for (const auto& [size, window, stride, dilation] : {Case{10, 3, 1, 1},
                                                       {10, 3, 2, 1},
                                                       {12, 2, 2, 1},
                                                       {9, 3, 3, 1},
                                                       {16, 5, 1, 2},
                                                       {15, 4, 3, 2},
                                                       {7, 7, 1, 1},
                                                       {32, 3, 1, 1}}) {
    const View pooled = windows(View({size}), size, window, stride, dilation);
    const UOp expected =
        (UOp::range(pooled.shape()[0], 0) * stride + UOp::range(window, 1) * dilation).simplify();
    const UOp result = pooled.offset().simplify();
    EXPECT_TRUE(same(result, expected)) << "windows of " << window << " in " << size << ", stride " << stride
                                        << ", dilation " << dilation << "\n"
                                        << result;
  }
  // Behind a padding of one on each side the gate is all that is added.
  const View padded = windows(View({10}).pad({{1, 1}}), 12, 3, 1, 1);
  EXPECT_TRUE(same(padded.offset().simplify(),
                   parse("where(!(r0[10] + r1[3] < 1) & (r0 + r1 < 11), r0 + r1 + -1, invalid)")))
      << padded.offset().simplify();
}

TEST(Views, OfSymbolicSizes) {
  const UOp n = UOp::variable("n", 1, 64), m = UOp::variable("m", 1, 64);
  const View a({4, n}), b({n, 6}), c({n, m}), d({3, n, 5});
  check({
      {"flat and back", a.reshape({n * 4}).reshape({4, n}), a},
      {"flat and back, inner axis known", b.reshape({n * 6}).reshape({n, 6}), b},
      {"two symbols", c.reshape({n * m}).reshape({n, m}), c},
      {"in the middle", d.reshape({n * 15}).reshape({3, n, 5}), d},
      {"in the middle, one pair merged", d.merge(0, 2).split(0, {3, n}), d},
      {"in the middle, the other pair merged", d.merge(1, 2).split(1, {n, 5}), d},
      {"permuted and back", c.permute({1, 0}).reshape({n * m}).reshape({m, n}).permute({1, 0}), c},
      {"flipped twice", a.flip({1}).flip({1}), a},
      {"flipped flat", a.flip({0, 1}), a.reshape({n * 4}).flip({0}).reshape({4, n})},
      {"padded and back", b.pad({{1, 2}, {0, 0}}).shrink({{1, n + 1}, {0, 6}}), b},
      {"shrunk", b.shrink({{0, n}, {2, 6}}).shrink({{0, n}, {1, 3}}), b.shrink({{0, n}, {3, 5}})},
      {"padded along the symbol, flat", b.pad({{0, 0}, {1, 1}}).reshape({n * 8}).reshape({n, 8}),
       b.pad({{0, 0}, {1, 1}})},
  });
}

}  // namespace
}  // namespace quern
