// Every rule of the algebraic lists is proved, by being in a list. See prover.h for how.
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "quern/ir/symbolic.h"
#include "test/ir/prover.h"

namespace quern {
namespace {

class ProveProperty : public ::testing::TestWithParam<NamedRules> {
 protected:
  static void expect(const Proof& proof, const Effort& effort) {
    std::cout << GetParam().name << ": " << proof.summary() << ", seed " << effort.seed << "\n";
    for (const std::string& text : proof.unproved) std::cout << "  not proved: " << text << "\n";
    for (const std::string& text : proof.failures) ADD_FAILURE() << text;
  }
};

TEST_P(ProveProperty, Instances) {
  const Effort effort = usual_effort();
  expect(check_instances(*GetParam().rules, effort), effort);
}

INSTANTIATE_TEST_SUITE_P(Symbolic, ProveProperty, ::testing::ValuesIn(algebraic_lists()),
                         [](const auto& list) { return std::string(list.param.name); });

}  // namespace
}  // namespace quern
