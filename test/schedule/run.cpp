#include "test/schedule/run.h"

#include <cstring>

#include "quern/engine/programs.h"
#include "quern/ir/error.h"
#include "quern/ir/node_map.h"
#include "quern/runtime/device.h"

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

}  // namespace

DeviceSpec gpu_like() {
  return {.name = "GPU",
          .compute_units = 32,
          .threads_per_unit = 1024,
          .workgroup_threads = 256,
          .warp = 32,
          .local_bytes = 32768,
          .registers = 255,
          .l2_bytes = 4 << 20};
}
DeviceSpec cpu_like() { return {.name = "CPU", .compute_units = 8, .vector_bytes = 32}; }

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
    else
      program_for(Device::get(device), step.program)->run(arguments, variables);
    for (size_t i = 0; i < bytes.size(); i++)
      memory[step.buffers[i]] = from_bytes(bytes[i], step.buffers[i].dtype());
  }
}

int64_t local_bytes(const UOp& kernel) {
  int64_t bytes = 0;
  for (const UOp& u : kernel.toposort())
    if (u.op() == Op::DEFINE_LOCAL) bytes += u.dtype().size() * DType(u.dtype().kind()).bytes();
  return bytes;
}

}  // namespace quern
