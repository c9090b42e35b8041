#include "test/schedule/run.h"

#include <fmt/format.h>

#include <cstring>

#include "quern/base/error.h"
#include "quern/codegen/lower.h"
#include "quern/engine/realize/outputs.h"
#include "quern/engine/realize/programs.h"
#include "quern/ir/node/node_map.h"
#include "quern/runtime/device.h"
#include "quern/runtime/interp/program.h"

namespace quern {
namespace {

size_t width(DType dtype) { return static_cast<size_t>(dtype.bytes()); }

std::vector<std::byte> to_bytes(const std::vector<Const>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * width(dtype));
  for (size_t i = 0; i < values.size(); i++) {
    std::byte* at = bytes.data() + i * width(dtype);
    if (dtype == dtypes::float32) {
      const auto v = static_cast<float>(values[i].as_float());
      std::memcpy(at, &v, sizeof v);
    } else if (dtype == dtypes::int32) {
      const auto v = static_cast<int32_t>(values[i].integer(dtype));
      std::memcpy(at, &v, sizeof v);
    } else {
      QUERN_CHECK(dtype.is_bool(), dtype.name());
      *at = static_cast<std::byte>(values[i].integer(dtype) != 0 ? 1 : 0);
    }
  }
  return bytes;
}

std::vector<Const> from_bytes(const std::vector<std::byte>& bytes, DType dtype) {
  std::vector<Const> values;
  for (size_t at = 0; at < bytes.size(); at += width(dtype)) {
    if (dtype == dtypes::float32) {
      float v = 0;
      std::memcpy(&v, bytes.data() + at, sizeof v);
      values.push_back(Const::of_float(v));
    } else if (dtype == dtypes::int32) {
      int32_t v = 0;
      std::memcpy(&v, bytes.data() + at, sizeof v);
      values.push_back(make_const(dtype, static_cast<wide>(v)));
    } else {
      values.push_back(make_const(dtype, static_cast<wide>(bytes[at])));
    }
  }
  return values;
}

// All loops shared by threads, as far as that goes.
UOp with_threads(const UOp& kernel, const DeviceSpec& spec) {
  KernelArg arg = kernel.arg().none() ? KernelArg() : kernel.arg().kernel();
  arg.opts.clear();
  for (int loop = 0; loop < 5; loop++)
    for (const char* opt : {"LOCAL", "GROUP", "GROUPTOP"})
      for (const int amount : {0, 2}) {
        arg.opts.push_back(fmt::format("{}({}, {})", opt, loop, amount));
        try {
          (void)lower_to_program(kernel.replace({.arg = arg}), spec);
        } catch (const InternalError&) {
          throw;
        } catch (const Error&) {
          arg.opts.pop_back();
        }
      }
  return kernel.replace({.arg = arg});
}

void run_in_line(const UOp& kernel, std::span<const Argument> arguments, const VariableValues& variables) {
  DeviceSpec spec = gpu_like();
  spec.has_float16 = spec.has_bfloat16 = spec.has_fp8 = false;
  spec.parallel.workgroup = 32;
  const LinearProgram program = lower(with_threads(kernel, spec), spec, OptChoice::best);
  check(program);
  interp::InterpProgram(program).run(arguments, variables);
}

// On a device with memory of its own.
void run_there(Device& device, const UOp& kernel, std::span<const Argument> host,
               const VariableValues& variables) {
  std::vector<Argument> there;
  for (const Argument& a : host) {
    there.push_back({device.allocate(a.bytes), a.bytes});
    device.copy_in(there.back().memory, a.memory, a.bytes);
  }
  program_for(device, kernel)->run(there, variables);
  for (size_t i = 0; i < host.size(); i++) {
    device.copy_out(host[i].memory, there[i].memory, host[i].bytes);
    device.free(there[i].memory, there[i].bytes);
  }
}

}  // namespace

DeviceSpec gpu_like() {
  return {.name = "GPU",
          .parallel = {.cores = 32, .threads_per_core = 1024, .workgroup = 256, .warp = 32},
          .memory = {.registers = 255, .thread_bytes = 0, .group_bytes = 32768, .l2_bytes = 4 << 20}};
}
DeviceSpec cpu_like() { return {.name = "CPU", .parallel = {.cores = 8, .vector_bytes = 32}}; }

reference::Contents Memory::contents() {
  return [this](const UOp& buffer) { return contents_.at(buffer.key()); };
}

void run(const Schedule& schedule, Memory& memory, const std::map<std::string, int64_t>& variables,
         const std::string& device) {
  for (const Step& step : schedule.steps) {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<Argument> arguments;
    for (const UOp& b : step.buffers) {
      QUERN_CHECK(b.op() == Op::BUFFER, b.text());
      auto& values = memory[b];
      if (values.empty())
        values.assign(static_cast<size_t>(b.arg().integer()),
                      make_const(b.dtype(), wide{b.dtype().is_bool() ? 1 : 77}));
      bytes.push_back(to_bytes(values, b.dtype()));
    }
    for (auto& b : bytes) arguments.push_back({b.data(), static_cast<int64_t>(b.size())});
    if (step.program.op() == Op::COPY)
      bytes[0] = bytes[1];
    else if (device == "WORKGROUPS")
      run_in_line(step.program, arguments, variables);
    else
      run_there(Device::get(device), step.program, arguments, variables);
    for (size_t i = 0; i < bytes.size(); i++)
      memory[step.buffers[i]] = from_bytes(bytes[i], step.buffers[i].dtype());
  }
}

Tensor input(const Shape& shape) {
  return Tensor::empty(shape, {.dtype = dtypes::float32, .device = "INTERP"});
}

int64_t local_bytes(const UOp& kernel) {
  int64_t bytes = 0;
  for (const UOp& u : kernel.toposort())
    if (u.op() == Op::DEFINE_LOCAL) bytes += u.dtype().size() * DType(u.dtype().kind()).bytes();
  return bytes;
}

Schedule schedule_of(const std::vector<Tensor>& tensors, const DeviceSpec& spec) {
  UOps roots;
  for (const Tensor& t : tensors) roots.push_back(t.uop());
  return make_schedule(outputs_for(roots, Roots::realized, {}).sink,
                       [&](const std::string&) -> const DeviceSpec& { return spec; });
}
size_t kernels(const Tensor& t, const DeviceSpec& spec) { return schedule_of({t}, spec).steps.size(); }

Texts reasons(const Tensor& t, const DeviceSpec& spec) {
  Texts all;
  for (const Step& step : schedule_of({t}, spec).steps)
    if (step.program.op() == Op::SINK)
      for (const std::string& r : step.reasons) all.push_back(r);
  return all;
}

}  // namespace quern
