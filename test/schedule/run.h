// Runs a schedule on a device whose memory is that of the host, with memory that tests can look at.
#pragma once

#include <map>

#include "quern/schedule/schedule.h"
#include "quern/tensor/core/tensor.h"
#include "test/tensor/reference.h"

namespace quern {

DeviceSpec gpu_like();  // 32 compute units, LOCAL memory of 32768 bytes
DeviceSpec cpu_like();  // 8 cores, no LOCAL memory

// Values of int32, float32 or bool in each BUFFER.
class Memory {
 public:
  std::vector<Const>& operator[](const UOp& buffer) { return contents_[buffer.key()]; }
  reference::Contents contents();

 private:
  std::map<std::string, std::vector<Const>> contents_;
};

// Memory that is not there yet begins with a value that no program expects. "WORKGROUPS" is no device: INTERP
// runs what codegen makes for one like gpu_like(), with opts that split all loops among threads, where they
// apply.
void run(const Schedule& schedule, Memory& memory, const std::map<std::string, int64_t>& variables = {},
         const std::string& device = "INTERP");

Tensor input(const Shape& shape);  // float32, on INTERP

// The kernels that tensors become, how many they are, and why the memory between them exists (that of the
// outputs is not among it).
Schedule schedule_of(const std::vector<Tensor>& tensors, const DeviceSpec& spec);
size_t kernels(const Tensor& t, const DeviceSpec& spec);
Texts reasons(const Tensor& t, const DeviceSpec& spec);

// What each kernel asks for in LOCAL memory.
int64_t local_bytes(const UOp& kernel);

}  // namespace quern
