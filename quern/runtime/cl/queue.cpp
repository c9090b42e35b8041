#include "quern/runtime/cl/queue.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/base/error.h"

namespace quern::cl {
namespace {

constexpr int64_t kMostThreads = 1024;  // of a workgroup: what all GPUs can do, and more never pays

template <class T>
T number(cl_device_id device, cl_device_info what) {
  T value{};
  check_status(api().clGetDeviceInfo(device, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}
std::string text(cl_device_id device, cl_device_info what) {
  size_t size = 0;
  check_status(api().clGetDeviceInfo(device, what, 0, nullptr, &size), "clGetDeviceInfo");
  std::string value(size, ' ');
  check_status(api().clGetDeviceInfo(device, what, size, value.data(), nullptr), "clGetDeviceInfo");
  while (!value.empty() && value.back() == '\0') value.pop_back();
  return value;
}
bool is_gpu(cl_device_id device) {
  return (number<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) != 0;
}
bool has_extension(cl_device_id device, std::string_view name) {
  return (" " + text(device, CL_DEVICE_EXTENSIONS) + " ").find(fmt::format(" {} ", name)) !=
         std::string::npos;
}

}  // namespace

std::vector<cl_device_id> devices() {
  std::vector<cl_device_id> found;
  cl_uint count = 0;
  // a loader without drivers says -1001
  if (api().clGetPlatformIDs(0, nullptr, &count) == CL_SUCCESS && count > 0) {
    std::vector<cl_platform_id> platforms(count);
    check_status(api().clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
    for (cl_platform_id platform : platforms) {
      cl_uint here = 0;
      if (api().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &here) != CL_SUCCESS || here == 0)
        continue;
      std::vector<cl_device_id> list(here);
      check_status(api().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, here, list.data(), nullptr),
                   "clGetDeviceIDs");
      found.insert(found.end(), list.begin(), list.end());
    }
  }
  if (found.empty())
    throw DeviceError(
        "CL: there is no OpenCL device. Install a driver; on Debian for the processor: apt install "
        "pocl-opencl-icd");
  std::ranges::stable_sort(found, std::ranges::greater{}, is_gpu);
  return found;
}

std::string name_of(cl_device_id device) { return text(device, CL_DEVICE_NAME); }

DeviceSpec spec_of(cl_device_id device, const std::string& name) {
  const bool gpu = is_gpu(device);
  const auto number_of = [&](cl_device_info what) {
    return static_cast<int64_t>(number<cl_ulong>(device, what));
  };
  DeviceSpec spec;
  spec.name = name;
  spec.parallel.cores = std::max<int64_t>(1, number<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS));
  spec.parallel.threads_per_core = gpu ? 1024 : 1;
  size_t sizes[16] = {};  // of each dimension
  const auto dimensions = number<cl_uint>(device, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS);
  if (dimensions >= 3 && dimensions <= 16)
    check_status(api().clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, dimensions * sizeof(size_t),
                                       sizes, nullptr),
                 "clGetDeviceInfo");
  spec.parallel.workgroup =
      std::min(kMostThreads, static_cast<int64_t>(number<size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE)));
  for (const size_t size : {sizes[0], sizes[1], sizes[2]})
    spec.parallel.workgroup = std::min(spec.parallel.workgroup, static_cast<int64_t>(size));
  spec.parallel.workgroup = std::max<int64_t>(1, spec.parallel.workgroup);
  spec.parallel.warp = gpu ? 32 : 1;
  spec.memory.group_bytes = number_of(CL_DEVICE_LOCAL_MEM_SIZE);
  spec.memory.thread_bytes = 0;
  spec.memory.registers = gpu ? 128 : 16;
  spec.parallel.vector_bytes =
      gpu ? 16 : 4 * static_cast<int64_t>(number<cl_uint>(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT));
  if (const int64_t cache = number_of(CL_DEVICE_GLOBAL_MEM_CACHE_SIZE); cache > 0)
    spec.memory.l2_bytes = cache;
  // each buffer is an address and an offset
  spec.max_buffers = std::max<int64_t>(
      8, static_cast<int64_t>(number<size_t>(device, CL_DEVICE_MAX_PARAMETER_SIZE)) / 16 - 8);
  spec.has_float16 = spec.has_bfloat16 = spec.has_fp8 = false;
  spec.converts_float16 = has_extension(device, "cl_khr_fp16");
  spec.has_float64 = number<cl_device_fp_config>(device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  spec.has_fma = (number<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_FMA) != 0;
  return spec;
}

Queue::Queue(cl_device_id device) : device_(device) {
  cl_int status = CL_SUCCESS;
  context_ = api().clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
  check_status(status, "clCreateContext");
  queue_ = api().clCreateCommandQueue(context_, device_, 0, &status);
  check_status(status, "clCreateCommandQueue");
  options_ = "-cl-std=CL1.2";
  if ((number<cl_device_fp_config>(device_, CL_DEVICE_SINGLE_FP_CONFIG) &
       CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0)
    options_ += " -cl-fp32-correctly-rounded-divide-sqrt";
}

void* Queue::allocate(int64_t bytes, const std::string& name) {
  cl_int status = CL_OUT_OF_RESOURCES;
  cl_mem buffer = nullptr;
  const auto most = static_cast<int64_t>(number<cl_ulong>(device_, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  if (bytes >= 0 && bytes <= most)
    buffer = api().clCreateBuffer(context_, CL_MEM_READ_WRITE,
                                  static_cast<size_t>(std::max<int64_t>(bytes, 1)), nullptr, &status);
  if (status != CL_SUCCESS)
    throw MemoryError(fmt::format(
        "{}: out of memory, {} bytes were asked for; one piece of memory has at most {}", name, bytes, most));
  const std::lock_guard lock(mutex_);
  const uintptr_t at = next_;
  next_ += (static_cast<uintptr_t>(bytes) / 256 + 2) * 256;
  allocations_.emplace(at, Allocation{buffer, bytes});
  return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
}

void Queue::free(void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(memory));  // NOLINT(*-reinterpret-cast)
  if (found == allocations_.end()) return;
  if (!is_lost()) api().clReleaseMemObject(found->second.buffer);  // kernels that still use it keep it
  allocations_.erase(found);
}

BufferOffset Queue::place(const void* memory, int64_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(memory);  // NOLINT(*-reinterpret-cast)
  const std::lock_guard lock(mutex_);
  auto found = allocations_.upper_bound(at);
  if (found != allocations_.begin()) {
    --found;
    const auto offset = static_cast<int64_t>(at - found->first);
    if (offset <= found->second.bytes && bytes <= found->second.bytes - offset)
      return {found->second.buffer, offset};
  }
  throw DeviceError(fmt::format("CL: {} bytes at {} are no memory of this device", bytes, memory));
}

}  // namespace quern::cl
