// Kernels that are prepared once and run often.
#include "quern/runtime/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/runtime/buffer.h"

namespace quern {
namespace {

using testing::ElementsAre;

// Writes down what it is given.
struct Told {
  std::vector<Argument> arguments;
  VariableValues variables;
};
class Teller : public Program {
 public:
  explicit Teller(std::vector<Told>& told) : told_(told) {}
  void run(std::span<const Argument> arguments, const VariableValues& variables) const override {
    told_.push_back({{arguments.begin(), arguments.end()}, variables});
  }

 private:
  std::vector<Told>& told_;
};

TEST(Batch, EachRunHasItsMemoryAndValues) {
  std::vector<Told> told;
  const auto program = std::make_shared<Teller>(told);
  const auto batch = Device::get("INTERP").prepare(
      {{program, {{0, 0, 16}, {1, 8, 4}}, {{"n", 1}}}, {program, {{1, 0, 4}}, {{"n", 0}, {"m", 1}}}});
  std::array<std::byte, 64> memory{};
  const std::array<void*, 2> first = {memory.data(), &memory[32]}, second = {&memory[16], nullptr};
  batch->run(first, std::array<int64_t, 2>{3, 4}, true);
  batch->run(second, std::array<int64_t, 2>{5, 6}, true);
  ASSERT_EQ(told.size(), 4U);
  EXPECT_EQ(told[0].arguments[0].memory, memory.data());
  EXPECT_EQ(told[0].arguments[1].memory, &memory[40]);
  EXPECT_EQ(told[0].arguments[1].bytes, 4);
  EXPECT_EQ(told[0].variables, (VariableValues{{"n", 4}}));
  EXPECT_EQ(told[1].variables, (VariableValues{{"n", 3}, {"m", 4}}));
  EXPECT_EQ(told[2].arguments[0].memory, &memory[16]);
  EXPECT_EQ(told[2].arguments[1].memory, nullptr);  // devices without values have no addresses
  EXPECT_EQ(told[3].variables, (VariableValues{{"n", 5}, {"m", 6}}));
}

TEST(Batch, ForbiddenMemorySaysWhy) {
  Buffer buffer(Device::get("INTERP"), dtypes::float32, 4);
  buffer.forbid("not here");
  try {
    buffer.memory();
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "not here");
  }
}

}  // namespace
}  // namespace quern
