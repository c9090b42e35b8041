// The CL device: OpenCL, whatever it runs on.
#include <fmt/format.h>

#include <cstdio>
#include <set>
#include <unordered_map>

#include "quern/base/env.h"
#include "quern/base/profile.h"
#include "quern/render/c_style/opencl.h"
#include "quern/runtime/arguments.h"
#include "quern/runtime/cl/queue.h"
#include "quern/runtime/devices.h"

namespace quern {
namespace {

using cl::api;
using cl::check_status;
using cl::Queue;

// ---- programs

// A kernel of OpenCL, built for a device.
class Kernel {
 public:
  Kernel(Queue& queue, const LinearProgram& program, const DeviceSpec& spec, bool no_alias)
      : queue_(queue), text_(render_opencl(program, no_alias)) {
    int64_t threads = 1;
    for (const UOp& t : text_.threads) threads *= static_cast<int64_t>(t.int_value());
    if (threads > spec.parallel.workgroup)
      throw Error(fmt::format("kernel {}: workgroups of {} threads, {} has at most {}", program.name, threads,
                              spec.name, spec.parallel.workgroup));
    if (text_.local_bytes > spec.memory.group_bytes)
      throw Error(fmt::format("kernel {}: {} bytes of LOCAL memory, {} has {}", program.name,
                              text_.local_bytes, spec.name, spec.memory.group_bytes));
    if (env::DEBUG() >= 7) std::fputs(text_.source.c_str(), stderr);
    build(program.name);
    size_t most = 0;
    check_status(api().clGetKernelWorkGroupInfo(kernel_, queue_.device(), CL_KERNEL_WORK_GROUP_SIZE,
                                                sizeof most, &most, nullptr),
                 "clGetKernelWorkGroupInfo");
    if (static_cast<size_t>(threads) > most) {
      release();
      throw Error(fmt::format("kernel {}: workgroups of {} threads, with its registers {} has at most {}",
                              program.name, threads, spec.name, most));
    }
  }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() { release(); }

  const OpenClProgram& text() const { return text_; }

  void run(std::span<const Argument> arguments, const std::vector<int64_t>& variables,
           const std::unordered_map<UOp, UOp>& values) const {
    size_t global[3] = {1, 1, 1}, local[3] = {1, 1, 1};
    for (size_t i = 0; i < text_.threads.size(); i++)
      local[i] = static_cast<size_t>(text_.threads[i].int_value());
    for (size_t i = 0; i < text_.groups.size(); i++) {
      const UOp size =
          text_.groups[i].is_const() ? text_.groups[i] : text_.groups[i].substitute(values).simplify();
      QUERN_CHECK(size.is_int_const(), "a number of workgroups that is not known:\n" + size.text());
      if (size.int_value() <= 0) return;
      global[i] = static_cast<size_t>(size.int_value());
    }
    for (size_t i = 0; i < 3; i++) global[i] *= local[i];
    const std::lock_guard lock(mutex_);  // arguments belong to the kernel
    cl_uint next = 0;
    const auto set = [&](const void* value, size_t size) {
      check_status(api().clSetKernelArg(kernel_, next++, size, value), "clSetKernelArg");
    };
    for (const UOp& p : text_.params) {
      const Argument& given = arguments[static_cast<size_t>(p.arg().integer())];
      const cl::BufferOffset place = queue_.place(given.memory, given.bytes);
      const cl_long offset = place.offset;
      set(static_cast<const void*>(&place.buffer), sizeof(cl_mem));
      set(&offset, sizeof offset);
    }
    for (size_t i = 0; i < variables.size(); i++) {
      const cl_long wide = variables[i];
      const auto narrow = static_cast<cl_int>(wide);
      if (text_.variables[i].dtype().bits() == 64)
        set(&wide, sizeof wide);
      else
        set(&narrow, sizeof narrow);
    }
    check_status(
        api().clEnqueueNDRangeKernel(queue_.queue(), kernel_, 3, nullptr, global, local, 0, nullptr, nullptr),
        text_.kernel.c_str());
    check_status(api().clFlush(queue_.queue()), "clFlush");
    if (env::DEBUG() >= 2 || profile::is_on())
      check_status(api().clFinish(queue_.queue()), text_.kernel.c_str());  // its time is told
  }

 private:
  void build(const std::string& name) {
    const profile::Timer timer("OpenCL");
    cl_int status = CL_SUCCESS;
    const char* source = text_.source.c_str();
    program_ = api().clCreateProgramWithSource(queue_.context(), 1, &source, nullptr, &status);
    check_status(status, "clCreateProgramWithSource");
    cl_device_id device = queue_.device();
    status = api().clBuildProgram(program_, 1, &device, queue_.build_options().c_str(), nullptr, nullptr);
    if (status != CL_SUCCESS) {
      std::string log(65536, '\0');
      size_t size = 0;
      if (api().clGetProgramBuildInfo(program_, device, CL_PROGRAM_BUILD_LOG, log.size(), log.data(),
                                      &size) != CL_SUCCESS)
        size = 0;
      log.resize(std::min(size, log.size()));
      release();
      throw DeviceError(fmt::format("CL: kernel {} does not compile: {}\n{}\n{}", name,
                                    cl::error_text(status), log.c_str(), text_.source));
    }
    kernel_ = api().clCreateKernel(program_, text_.kernel.c_str(), &status);
    if (status == CL_SUCCESS) return;
    release();
    check_status(status, "clCreateKernel");
  }
  void release() {
    if (cl::is_lost()) return;
    if (kernel_ != nullptr) api().clReleaseKernel(kernel_);
    if (program_ != nullptr) api().clReleaseProgram(program_);
    kernel_ = nullptr, program_ = nullptr;
  }

  Queue& queue_;
  const OpenClProgram text_;
  cl_program program_ = nullptr;
  cl_kernel kernel_ = nullptr;
  mutable std::mutex mutex_;
};

class ClProgram : public Program {
 public:
  ClProgram(Queue& queue, LinearProgram program, const DeviceSpec& spec)
      : queue_(queue), spec_(spec), program_(std::move(program)), kernel_(queue, program_, spec, true) {
    std::set<int64_t> written;
    for (const UOp& u : program_.list)
      if (u.op() == Op::STORE && storage_of(u.src(0)).op() == Op::PARAM)
        written.insert(storage_of(u.src(0)).arg().integer());
    for (const UOp& p : kernel_.text().params) {
      const int64_t slot = p.arg().integer();
      const DType element = p.dtype().base();
      params_.push_back(
          {slot, p.dtype().size(), element.bytes(), written.contains(slot), std::string(element.name())});
    }
  }

  void run(std::span<const Argument> arguments, const VariableValues& variables) const override {
    for (const Parameter& p : params_) argument_of(p, arguments, program_.name);
    const Kernel& kernel = overlap(params_, arguments) ? kernel_for_overlaps() : kernel_;
    std::vector<int64_t> values;
    std::unordered_map<UOp, UOp> known;
    for (const UOp& v : kernel.text().variables) {
      const VariableArg& variable = v.arg().variable();
      values.push_back(value_of(variable.name, variable.min, variable.max, variables, program_.name));
      known.emplace(v, UOp::constant(v.dtype(), values.back()));
    }
    kernel.run(arguments, values, known);
  }
  Texts opts() const override { return program_.opts; }

 private:
  const Kernel& kernel_for_overlaps() const {
    const std::lock_guard lock(mutex_);
    if (!overlapping_)
      overlapping_ =
          std::make_unique<Kernel>(queue_, program_.in_order ? program_.in_order() : program_, spec_, false);
    return *overlapping_;
  }

  Queue& queue_;
  const DeviceSpec& spec_;
  const LinearProgram program_;
  const Kernel kernel_;
  std::vector<Parameter> params_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Kernel> overlapping_;
};

// ---- the device

class ClDevice : public Device {
 public:
  ClDevice(const std::string& name, cl_device_id device)
      : Device(name, cl::spec_of(device, name)), queue_(device) {}

  bool takes_programs() const override { return true; }
  using Device::compile;
  std::shared_ptr<const Program> compile(const LinearProgram& program) override {
    return std::make_shared<ClProgram>(queue_, program, spec());
  }
  std::string source(const LinearProgram& program) const override { return render_opencl(program).source; }

  std::string hardware() const override { return "CL " + cl::name_of(queue_.device()); }

  void* allocate(int64_t bytes) override { return queue_.allocate(bytes, name()); }
  void free(void* memory, int64_t /*bytes*/) noexcept override { queue_.free(memory); }
  void copy_in(void* to, const void* from, int64_t bytes) override {
    if (bytes <= 0) return;
    const cl::BufferOffset place = queue_.place(to, bytes);
    check_status(
        api().clEnqueueWriteBuffer(queue_.queue(), place.buffer, CL_TRUE, static_cast<size_t>(place.offset),
                                   static_cast<size_t>(bytes), from, 0, nullptr, nullptr),
        "copying to the device");
  }
  void copy_out(void* to, const void* from, int64_t bytes) override {
    if (bytes <= 0) return;
    const cl::BufferOffset place = queue_.place(from, bytes);
    check_status(
        api().clEnqueueReadBuffer(queue_.queue(), place.buffer, CL_TRUE, static_cast<size_t>(place.offset),
                                  static_cast<size_t>(bytes), to, 0, nullptr, nullptr),
        "copying from the device");
  }

 private:
  Queue queue_;
};

}  // namespace

std::unique_ptr<Device> open_cl(const std::string& name, const std::string& detail) {
  const std::vector<cl_device_id> all = cl::devices();
  const auto number = static_cast<size_t>(std::stoi(detail));
  if (number >= all.size()) {
    std::vector<std::string> names;
    names.reserve(all.size());
    for (cl_device_id device : all)
      names.push_back(fmt::format("CL:{} {}", names.size(), cl::name_of(device)));
    throw DeviceError(
        fmt::format("{}: there is no such OpenCL device; there are {}", name, fmt::join(names, ", ")));
  }
  return std::make_unique<ClDevice>(name, all[number]);
}

}  // namespace quern
