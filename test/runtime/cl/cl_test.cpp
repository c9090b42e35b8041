// The CL device: memory and copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "quern/runtime/buffer.h"

namespace quern {
namespace {

class Cl : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device = &Device::get("CL");
    } catch (const DeviceError& e) {
      GTEST_SKIP() << e.what();
    }
  }
  Device* device = nullptr;
};

TEST_F(Cl, MemoryHoldsWhatIsCopiedIn) {
  std::vector<int32_t> in(1000), out(1000);
  std::iota(in.begin(), in.end(), 0);
  auto* memory = static_cast<std::byte*>(device->allocate(4000));
  device->copy_in(memory, in.data(), 4000);
  device->copy_out(out.data(), memory, 4000);
  EXPECT_EQ(in, out);
  device->copy_out(out.data(), memory + 400, 3600);  // a part of it
  EXPECT_EQ(out[0], 100);
  EXPECT_THROW(device->copy_out(out.data(), memory + 400, 4000), DeviceError);
  device->free(memory, 4000);
  EXPECT_THROW(device->copy_out(out.data(), memory, 4000), DeviceError);
}

TEST_F(Cl, NoMemoryIsAnError) {
  EXPECT_THROW(device->allocate(int64_t{1} << 58), Error);
  EXPECT_THROW(device->allocate(-1), Error);
  void* nothing = device->allocate(0);
  EXPECT_NE(nothing, nullptr);
  device->free(nothing, 0);
}

TEST_F(Cl, ADeviceThatIsNotThere) {
  try {
    (void)Device::get("CL:999");
    FAIL();
  } catch (const DeviceError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("there is no such OpenCL device; there are CL:0 "));
  }
}

TEST_F(Cl, Spec) {
  const DeviceSpec& spec = device->spec();
  EXPECT_EQ(&Device::get("cl:0"), device);
  EXPECT_GE(spec.parallel.workgroup, 1);
  EXPECT_GE(spec.memory.group_bytes, 1 << 14);
  EXPECT_FALSE(device->is_host_memory());
}

TEST_F(Cl, CopiesBetweenDevices) {
  Buffer here(Device::get("INTERP"), dtypes::int32, 4), there(*device, dtypes::int32, 4),
      again(*device, dtypes::int32, 4);
  const int32_t values[] = {1, 2, 3, 4};
  here.copy_in(std::as_bytes(std::span(values)));
  copy(there, here);
  copy(again, there);
  int32_t out[4] = {};
  again.copy_out(std::as_writable_bytes(std::span(out)));
  EXPECT_THAT(out, testing::ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace quern
