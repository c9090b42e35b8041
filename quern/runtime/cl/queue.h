// An OpenCL device with its queue and its memory.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "quern/ir/pass/device_spec.h"
#include "quern/runtime/cl/api.h"

namespace quern::cl {

// All devices of all platforms, GPUs first. A DeviceError that says what to install if there are none.
std::vector<cl_device_id> devices();
std::string name_of(cl_device_id device);
DeviceSpec spec_of(cl_device_id device, const std::string& name);

// Memory has addresses that nobody can read: they say which buffer it is, and where in it.
struct BufferOffset {
  cl_mem buffer;
  int64_t offset;
};

class Queue {
 public:
  explicit Queue(cl_device_id device);

  cl_device_id device() const { return device_; }
  cl_context context() const { return context_; }
  cl_command_queue queue() const { return queue_; }
  const std::string& build_options() const { return options_; }

  void* allocate(int64_t bytes, const std::string& name);
  void free(void* memory) noexcept;
  BufferOffset place(const void* memory, int64_t bytes) const;  // an Error if no such memory is here

 private:
  struct Allocation {
    cl_mem buffer;
    int64_t bytes;
  };
  cl_device_id device_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::string options_;
  mutable std::mutex mutex_;
  std::map<uintptr_t, Allocation> allocations_;  // by their first address
  uintptr_t next_ = uintptr_t{1} << 40;
};

}  // namespace quern::cl
