// Every rule of the algebraic lists is proved, or stands in unproved.txt, by being in a list. See prover.h
// for how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "quern/ir/symbolic/symbolic.h"
#include "test/fuzz.h"
#include "test/ir/evaluate.h"
#include "test/ir/instance.h"
#include "test/ir/prover.h"
#include "test/ir/unproved.h"

namespace quern {

void PrintTo(const NamedRules& list, std::ostream* out) { *out << list.name; }

namespace {

using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ProveProperty : public ::testing::TestWithParam<NamedRules> {
 protected:
  static void expect(const Proof& proof, const Effort& effort) {
    std::cout << GetParam().name << ": " << proof.summary() << ", seed " << effort.seed << "\n";
    for (const std::string& text : proof.failures) ADD_FAILURE() << text;
  }
};

TEST_P(ProveProperty, Instances) {
  const Effort effort = usual_effort();
  expect(check_instances(*GetParam().rules, effort), effort);
}

TEST_P(ProveProperty, Solver) {
  if (!have_solver()) GTEST_SKIP() << "built without z3";
  if (kSanitized) GTEST_SKIP() << "proofs are the same without sanitizers, and quicker";
  const Effort effort = usual_effort();
  const Proof proof = solve(*GetParam().rules, effort);
  expect(proof, effort);
  if (effort.scale == 1) expect_unproved(std::string(GetParam().name), proof.unproved);
}

INSTANTIATE_TEST_SUITE_P(Symbolic, ProveProperty, ::testing::ValuesIn(algebraic_lists()),
                         [](const auto& list) { return std::string(list.param.name); });

// ---- the prover itself: what is wrong is caught, what is right is not
// ----------------------------------------------

Effort small_effort() {
  Effort effort = usual_effort();
  effort.scale = std::min(effort.scale, 0.2);
  return effort;
}

std::vector<std::string> failures_of(const Rule& rule) {
  return check_instances(Rules(RuleList{rule}), small_effort()).failures;
}
std::vector<std::string> failures_by_solver(const Rule& rule) {
  Effort effort = small_effort();
  effort.scale = 0.2;  // by how this is compiled the solver is not slowed down
  return solve(Rules(RuleList{rule}), effort).failures;
}

class ProverProperty : public ::testing::Test {
 protected:
  const Pat i = ints("i"), j = ints("j"), n = ints("n"), x = floats("x"), a = bools("a");
  const Pat c0 = int_const("c0"), c1 = int_const("c1"), s = var("s", types::index),
            t = var("t", types::index);
};

TEST_F(ProverProperty, RightRulesPass) {
  EXPECT_THAT(failures_of({i + 0, i}), IsEmpty());
  EXPECT_THAT(failures_of({s + 1 < t + 1, s < t}), IsEmpty());
  EXPECT_THAT(failures_of({i / n, 0, vmin(i) >= 0 && vmax(i) < vmin(n)}), IsEmpty());
  EXPECT_THAT(failures_of({(i / c0) / c1, i / exact(c0 * c1), c0 > 0 && c1 > 0}), IsEmpty());
  EXPECT_THAT(failures_of({x + -0.0, x}), IsEmpty());
  EXPECT_THAT(failures_of({where(a, i, invalid()), i}), IsEmpty());  // where it was Invalid, anything goes
}

TEST_F(ProverProperty, RightForSizesOnly) {
  EXPECT_THAT(failures_of({i + 1 < j + 1, i < j}), Not(IsEmpty()));
}

TEST_F(ProverProperty, WrongConditions) {
  EXPECT_THAT(failures_of({i / n, 0, vmin(i) >= 0 && vmax(i) <= vmin(n)}), Not(IsEmpty()));
  EXPECT_THAT(failures_of({i / i, 1, vmin(i) >= 0}), Not(IsEmpty()));
  EXPECT_THAT(failures_of({truncdiv(i, n), i / n, vmin(n) >= 0}), Not(IsEmpty()));
}

TEST_F(ProverProperty, ConstantsThatWrap) {
  EXPECT_THAT(failures_of({(i / c0) / c1, i / fold(c0 * c1), c0 > 0 && c1 > 0}), Not(IsEmpty()));
}

TEST_F(ProverProperty, SignedZerosAndNaN) {
  EXPECT_THAT(failures_of({x + 0, x}), ElementsAre(HasSubstr("-0.0"), _, _));
  EXPECT_THAT(failures_of({x * 0, 0}), Not(IsEmpty()));
  EXPECT_THAT(failures_of({x == x, true}), Not(IsEmpty()));
}

TEST_F(ProverProperty, Functions) {
  const auto off_by_one = [](const UOp& u, const UOp& c) {
    return c.equals(3) ? u + UOp::constant(c.dtype(), 4) : u + c;
  };
  EXPECT_THAT(failures_of({op(Op::SUB, {i, c0}), off_by_one, "off by one"}), Not(IsEmpty()));
  const auto rare = [](const UOp& u) { return u.src(0).equals(7) ? u.src(1) : UOp(); };
  EXPECT_THAT(failures_of({op(Op::MAX).of(types::ints).as("u"), rare, "max(7, x) -> x"}), Not(IsEmpty()));
  const auto another_dtype = [](const UOp& u) { return u.cast(dtypes::float32); };
  EXPECT_THAT(failures_of({(i + 0), another_dtype, "to float"}), Contains(HasSubstr("another dtype")));
  const auto new_leaf = [](const UOp& u) { return u * 0 + UOp::variable("new", 0, 0, u.dtype()); };
  EXPECT_THAT(failures_of({i * 0, new_leaf, "a new variable"}),
              Contains(HasSubstr("a leaf that was not there")));
  const auto throws = [](const UOp&) -> UOp { throw Error("this rule gave up"); };
  EXPECT_THAT(failures_of({i * 0, throws, "throws"}), Contains(HasSubstr("this rule gave up")));
}

TEST_F(ProverProperty, RulesThatNeverApply) {
  const auto refuses = [](const UOp&) { return UOp(); };
  EXPECT_THAT(failures_of({i * 0, refuses, "refuses"}), ElementsAre(HasSubstr("no instance was found")));
  EXPECT_THAT(failures_of({i * 0, 0, vmin(i) > vmax(i)}), ElementsAre(HasSubstr("no instance was found")));
}

TEST_F(ProverProperty, InvalidInPlaceOfAValue) {
  EXPECT_THAT(failures_of({where(a, i, invalid()), where(~a, i, 0)}), Not(IsEmpty()));
  const auto lose = [](const UOp& u) { return UOp::invalid(u.dtype()); };
  EXPECT_THAT(failures_of({i * 1, lose, "x -> invalid"}), Not(IsEmpty()));
}

TEST_F(ProverProperty, SolverFindsCounterexamples) {
  if (!have_solver()) GTEST_SKIP() << "built without z3";
  if (kSanitized) GTEST_SKIP() << "proofs are the same without sanitizers, and quicker";
  const Types few{Scalar::Index, Scalar::Int8, Scalar::UInt8};
  const Pat e = var("e", few), f = var("f", few), k = constant("k", few), k1 = constant("k1", few);
  EXPECT_THAT(failures_by_solver({e + 1 < f + 1, e < f}),
              ElementsAre(HasSubstr("of int8"), HasSubstr("of uint8")));
  EXPECT_THAT(failures_by_solver({e / f, 0, vmin(e) >= 0 && vmax(e) <= vmin(f)}), SizeIs(3));
  EXPECT_THAT(failures_by_solver({e / f, 0, vmin(e) >= 0 && vmax(e) < vmin(f)}), IsEmpty());
  EXPECT_THAT(failures_by_solver({e < e + k, true, k > 0}), SizeIs(2));
  EXPECT_THAT(failures_by_solver({e + k < k1, e < fold(k1 + k * -1), no_wrap(e + k)}), SizeIs(2));
  EXPECT_THAT(failures_by_solver({e + k < k1, e < exact(k1 + k * -1), no_wrap(e + k)}), IsEmpty());
  EXPECT_THAT(failures_by_solver({e + e, e, no_wrap(e * 3)}), SizeIs(3));
  EXPECT_THAT(failures_by_solver({(e / k) / k1, e / fold(k * k1), k > 0 && k1 > 0}), SizeIs(2));
}

// ---- rules that are not exact
// --------------------------------------------------------------------------------------

// Ordinary numbers come out within a few units in the last place of the largest number that takes part.
TEST(RelaxedProperty, OrdinaryNumbers) {
  for (const Rule& rule : relaxed.list()) {
    const Rules single(RuleList{rule});
    int64_t applied = 0;
    for (DType dtype : {dtypes::float16, dtypes::bfloat16, dtypes::float32, dtypes::float64}) {
      Random random(1);
      auto ordinary = [&] {
        const double magnitude = 0.5 + static_cast<double>(random.between(0, 1 << 20)) / (1 << 18);
        return make_const(dtype, random.chance(50) ? magnitude : -magnitude);
      };
      Choices choices;
      choices.free_type = [&] { return dtype; };
      choices.variable = [&](const std::string& name, DType d) { return value_leaf(d, name[0]); };
      choices.constant = [&](const std::string&, DType d) { return UOp::constant(d, ordinary()); };
      for (int round = 0; round < 200; round++) {
        const UOp before = instantiate(rule.left(), dtype, choices);
        const UOp after = before ? single.apply(before).result : UOp();
        if (!after) continue;
        applied++;
        const UOp sides[] = {before, after};
        Evaluator evaluator(sides);
        std::vector<Const> values;
        for (size_t k = 0; k < evaluator.leaves().size(); k++) values.push_back(ordinary());
        ASSERT_TRUE(evaluator.run(values));
        const double was = evaluator.result(0).value.as_float(), is = evaluator.result(1).value.as_float();
        if (std::isnan(was)) continue;  // the logarithm of a negative number
        EXPECT_NEAR(was, is, 8 * epsilon(dtype) * std::max(32.0, std::fabs(was)))
            << rule.location() << ": " << rule.text() << "\n"
            << before.text() << " at " << evaluator.point();
      }
    }
    EXPECT_GT(applied, 0) << rule.location() << ": " << rule.text();
  }
}

}  // namespace
}  // namespace quern
