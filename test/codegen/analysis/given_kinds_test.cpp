// Kinds that users give to ranges: refused where a step may need what another one stored.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "quern/base/error.h"
#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"

namespace quern {
namespace {

constexpr const char* kKinds[] = {"UPCAST", "LOCAL", "GLOBAL", "THREAD"};

// A kernel that stores in each of 8 steps at `place`, which is made of the range r0.
void check_stores_at(const std::string& place, const char* kind) {
  const UOp kernel =
      parse(fmt::format("%x = INDEX(PARAM(; 1):float32*[8], r0[8, {}]):float32\n"
                        "SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], {}), %x), r0))",
                        kind, place));
  (void)lower_until(kernel, DeviceSpec{}, "check kinds");
}

TEST(GivenKinds, PlacesOfTheirOwn) {
  for (const char* kind : kKinds) EXPECT_NO_THROW(check_stores_at("r0", kind)) << kind;
}

TEST(GivenKinds, OnePlaceForSeveralSteps) {
  EXPECT_NO_THROW(check_stores_at("r0 // 2", "LOOP"));
  for (const char* kind : kKinds) EXPECT_THROW(check_stores_at("r0 // 2", kind), Error) << kind;
}

}  // namespace
}  // namespace quern
