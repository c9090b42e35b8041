#include "quern/engine/run.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "quern/engine/describe.h"
#include "quern/engine/programs.h"
#include "quern/ir/env.h"
#include "quern/ir/node_map.h"
#include "quern/ir/sharding.h"
#include "quern/runtime/buffer.h"
#include "quern/runtime/counters.h"

namespace quern {
namespace {

// The memory of one run: that of the user, and arenas for what the schedule needs itself.
class Memory {
 public:
  Memory(const Prepared& prepared, const UOps& memory) : plan_(prepared.plan), memory_(memory) {
    for (const auto& [device, bytes] : plan_.arenas)
      arenas_[device] = std::make_shared<Buffer>(Device::get(device), dtypes::uint8, bytes);
  }

  // What a node of a step stands for on a device, by its number among those of the node.
  BufferPtr find(const UOp& node, size_t device) {
    if (node.op() == Op::PARAM) return user(memory_.at(static_cast<size_t>(node.arg().integer())), device);
    if (node.op() == Op::MSELECT) return find(node.src(0), static_cast<size_t>(node.arg().integer()));
    if (node.op() == Op::MSTACK) return find(node.src(device), 0);
    if (node.op() == Op::SLICE) {
      const UOp offset = node.src(1).simplify();
      QUERN_CHECK(offset.is_int_const(), "a SLICE at an offset that is not constant");
      return std::make_shared<Buffer>(find(node.src(0), device), node.dtype(), node.arg().integer(),
                                      static_cast<int64_t>(offset.int_value()) * node.dtype().bytes());
    }
    if (node.op() == Op::BUFFER && node.src(0).op() == Op::UNIQUE) return user(node, device);
    const auto known = plan_.places.find(node);
    QUERN_CHECK(known != plan_.places.end(), "a step on what is no memory: " + std::string(name(node.op())));
    const MemoryPlan::Place& place = known->second[one_of(known->second.size(), device)];
    return std::make_shared<Buffer>(arenas_.at(place.device), node.dtype(), node.arg().integer(),
                                    place.offset);
  }

 private:
  // Memory on one device is the same for all: the device that runs the kernel refuses it if it is another's.
  static size_t one_of(size_t devices, size_t device) { return devices == 1 ? 0 : device; }
  static BufferPtr user(const UOp& buffer, size_t device) {
    return buffer_of(buffer, one_of(buffer.src(1).arg().texts().size(), device));
  }

  const MemoryPlan& plan_;
  const UOps& memory_;
  std::map<std::string, BufferPtr> arenas_;
};

// Operations on values (not on indices), each as often as the loops around it run.
int64_t estimated_operations(const UOp& kernel, const VariableValues& variables) {
  double total = 0;
  walk(kernel, [&](const UOp& u) {
    const bool counts =
        (is_alu(u.op()) && !u.dtype().is_index() && !is_comparison(u.op())) || u.op() == Op::REDUCE;
    if (!counts) return;
    double times = u.dtype().lanes();
    auto add = [&](const UOp& range) {
      const UOp& end = range.src(0);
      if (end.op() == Op::DEFINE_VAR && variables.contains(end.arg().variable().name))
        times *= static_cast<double>(variables.at(end.arg().variable().name));
      else
        times *= static_cast<double>(end.vmax());
    };
    for (const UOp& r : u.op() == Op::REDUCE ? u.src(0).ranges() : u.ranges()) add(r);
    total += times;
  });
  return total < 9e18 ? static_cast<int64_t>(total) : INT64_MAX;
}

// A kernel, or a copy, on one of the devices that the step is for.
int64_t run_step(const Step& step, const std::vector<BufferPtr>& buffers, const VariableValues& variables,
                 Texts& opts) {
  if (step.program.op() == Op::COPY) {
    copy(*buffers[0], *buffers[1]);
    return 0;
  }
  const auto program = program_for(buffers[0]->device(), step.program);
  std::vector<Argument> arguments;
  for (const BufferPtr& buffer : buffers) {
    if (&buffer->device() != &buffers[0]->device())
      throw DeviceError(fmt::format("a kernel on {} cannot use memory of {}: move it first, with to()",
                                    buffers[0]->device().name(), buffer->device().name()));
    arguments.push_back(buffer->argument());
  }
  program->run(arguments, variables);
  if (env::DEBUG() >= 2) opts = program->opts();
  GlobalCounters::kernels++;
  return estimated_operations(step.program, variables);
}

}  // namespace

void run_schedule(const Prepared& prepared, const UOps& memory, const VariableValues& given) {
  Memory all(prepared, memory);
  VariableValues variables = given;
  for (const Step& step : prepared.schedule.steps) {
    QUERN_CHECK(!step.buffers.empty(), "a step without memory");
    const bool tells = env::DEBUG() >= 2;
    const auto start = std::chrono::steady_clock::now();
    int64_t operations = 0, bytes = 0;
    Texts opts;
    const size_t devices = step.buffers[0].device().size();
    for (size_t device = 0; device < devices; device++) {
      std::vector<BufferPtr> buffers;
      for (const UOp& node : step.buffers) {
        buffers.push_back(all.find(node, device));
        bytes += buffers.back()->bytes();
      }
      if (devices > 1) variables[kDeviceNumber] = static_cast<int64_t>(device);
      operations += run_step(step, buffers, variables, opts);
    }
    GlobalCounters::operations += operations;
    GlobalCounters::bytes += bytes;
    if (tells) {
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      std::string text = describe(step, env::DEBUG() >= 3, env::DEBUG() >= 4) + "\n";
      text.insert(
          text.find('\n'),
          fmt::format(" {:>10.3f} ms {:>8.3f} GFLOPS {:>8.3f} GB/s  mem {:.3f} GB  {}", time.count() * 1e3,
                      static_cast<double>(operations) / time.count() * 1e-9,
                      static_cast<double>(bytes) / time.count() * 1e-9,
                      static_cast<double>(GlobalCounters::mem_used.load()) * 1e-9, fmt::join(opts, " ")));
      std::fputs(text.c_str(), stderr);
    }
  }
}

}  // namespace quern
