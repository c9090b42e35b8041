// Where the device that the environment asks for is not there, tests are skipped, and say why.
#include <gtest/gtest.h>

#include "quern/runtime/device.h"

namespace quern {
namespace {

class NeedsDevice : public testing::Environment {
 public:
  void SetUp() override {
    try {
      (void)Device::get(Device::default_name());
    } catch (const DeviceError& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

const testing::Environment* const kNeedsDevice =
    testing::AddGlobalTestEnvironment(new NeedsDevice);  // NOLINT

}  // namespace
}  // namespace quern
