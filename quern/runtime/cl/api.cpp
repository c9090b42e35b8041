#include "quern/runtime/cl/api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>

#include "quern/base/error.h"
#include "quern/base/fork.h"

namespace quern::cl {
namespace {

Api load() {
  void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw DeviceError(
        "CL: there is no OpenCL loader, libOpenCL.so.1. Install one and a driver; on Debian for the "
        "processor: "
        "apt install ocl-icd-libopencl1 pocl-opencl-icd");
  Api api;
#define X(name)                                                                       \
  api.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); /* NOLINT */ \
  if (api.name == nullptr) throw DeviceError("CL: libOpenCL.so.1 has no function " #name);
  QUERN_CL_FUNCTIONS(X)
#undef X
  return api;
}

}  // namespace

namespace {
constinit std::atomic<bool> loaded_before_fork{false};
constinit std::atomic<bool> is_loaded{false};
}  // namespace

bool is_lost() { return loaded_before_fork.load(std::memory_order_relaxed); }

const Api& api() {
  static const Api loaded = [] {  // tried again the next time if it throws
    const Api made = load();
    in_forked_child([] { loaded_before_fork = is_loaded.load(); });
    is_loaded = true;
    return made;
  }();
  if (is_lost())
    throw DeviceError(
        "CL: OpenCL cannot be used in a process that was forked from one that uses it; start it with "
        "multiprocessing's method 'spawn'");
  return loaded;
}

std::string error_text(cl_int code) {
  const char* name = "error";
  switch (code) {
#define X(code) \
  case code: name = #code; break;
    X(CL_DEVICE_NOT_AVAILABLE)
    X(CL_COMPILER_NOT_AVAILABLE)
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    X(CL_OUT_OF_RESOURCES)
    X(CL_OUT_OF_HOST_MEMORY)
    X(CL_BUILD_PROGRAM_FAILURE)
    X(CL_INVALID_VALUE)
    X(CL_INVALID_BUFFER_SIZE)
    X(CL_INVALID_KERNEL_ARGS)
    X(CL_INVALID_WORK_GROUP_SIZE)
    X(CL_INVALID_WORK_ITEM_SIZE)
    X(CL_INVALID_GLOBAL_WORK_SIZE)
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
#undef X
    default: break;
  }
  return fmt::format("{} ({})", name, code);
}

void check_status(cl_int code, const char* what) {
  if (code != CL_SUCCESS) throw DeviceError(fmt::format("CL: {} failed: {}", what, error_text(code)));
}

}  // namespace quern::cl
