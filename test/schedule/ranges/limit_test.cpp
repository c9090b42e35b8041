// Kernels with more buffers than the device allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/schedule/run.h"

namespace quern {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(BufferLimit, MoreBuffersThanADeviceAllows) {
  DeviceSpec spec = gpu_like();
  spec.max_buffers = 8;
  Tensor sum = input({64});
  for (int i = 0; i < 20; i++) sum = sum + input({64});
  const Schedule s = schedule_of({sum}, spec);
  for (const Step& step : s.steps) EXPECT_LE(step.buffers.size(), 8);
  EXPECT_THAT(reasons(sum, spec), AllOf(testing::Not(IsEmpty()), Each(HasSubstr("buffer limit"))));
}

}  // namespace
}  // namespace quern
