#include "quern/engine/realize/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "quern/base/env.h"
#include "quern/base/profile.h"
#include "quern/engine/host.h"
#include "quern/engine/realize/describe.h"
#include "quern/engine/realize/programs.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/runtime/buffer.h"
#include "quern/runtime/counters.h"
#include "quern/runtime/host/may_stop.h"

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
    const MemoryPlan::ArenaOffset& place = known->second[one_of(known->second.size(), device)];
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

// The host is asked between steps, and within one that takes long, as long as the schedule can be left where
// it is and run again from its start: until memory is written that had values before.
class Stops {
 public:
  Stops(const Schedule& schedule, const UOps& memory) : schedule_(schedule) {
    if (!has_host()) return;
    for (const UOp& m : memory) had_values_.push_back(has_buffer(m));
  }

  void before(size_t step) {
    step_ = step;
    ask_after(step);
  }
  static void within(const void* self) {
    const auto* stops = static_cast<const Stops*>(self);
    stops->ask_after(stops->step_ + 1);
  }

 private:
  // That many steps are done, or begun.
  void ask_after(size_t steps) const {
    if (!is_check_due()) return;
    for (; safe_ && looked_at_ < steps; looked_at_++) safe_ = !overwrites(schedule_.steps[looked_at_]);
    if (safe_) check_host();
  }
  bool overwrites(const Step& step) const {
    if (step.program.op() == Op::COPY) return had_values(step.buffers[0]);
    const std::vector<bool> written = written_params(step.program, step.buffers.size());
    for (size_t i = 0; i < written.size(); i++)
      if (written[i] && had_values(step.buffers[i])) return true;
    return false;
  }
  bool had_values(const UOp& node) const {
    if (node.op() == Op::PARAM) return had_values_.at(static_cast<size_t>(node.arg().integer()));
    if (node.op() == Op::BUFFER) return node.src(0).op() == Op::UNIQUE;
    return std::ranges::any_of(node.src(), [&](const UOp& s) { return had_values(s); });
  }

  const Schedule& schedule_;
  std::vector<bool> had_values_;  // by number of the user's memory
  size_t step_ = 0;               // that is run now
  mutable size_t looked_at_ = 0;
  mutable bool safe_ = true;
};

// A kernel, or a copy, on one of the devices that the step is for.
void run_step(const Step& step, const std::vector<BufferPtr>& buffers, const VariableValues& variables,
              Ran& ran) {
  for (const BufferPtr& buffer : buffers) ran.bytes += buffer->bytes();
  const bool copies = step.program.op() == Op::COPY;
  const auto program = copies ? nullptr : program_for(buffers[0]->device(), step.program);
  std::vector<Argument> arguments;
  for (const BufferPtr& buffer : buffers) {
    if (copies) break;
    if (&buffer->device() != &buffers[0]->device())
      throw DeviceError(fmt::format("a kernel on {} cannot use memory of {}: move it first, with to()",
                                    buffers[0]->device().name(), buffer->device().name()));
    arguments.push_back(buffer->argument());
  }
  const auto start = std::chrono::steady_clock::now();
  if (copies)
    copy(*buffers[0], *buffers[1]);
  else
    program->run(arguments, variables);
  ran.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (copies) return;
  if (env::DEBUG() >= 2) ran.opts = program->opts();
  GlobalCounters::kernels++;
  ran.operations += estimated_operations(step.program, variables);
}

// The first time that a schedule is run: several kernels are compiled at once.
void compile_kernels(const Prepared& prepared) {
  if (prepared.compiled.exchange(true)) return;
  std::vector<std::pair<Device*, UOp>> kernels;
  for (const Step& step : prepared.schedule.steps)
    if (step.program.op() == Op::SINK && !step.buffers.empty())
      for (const std::string& device : step.buffers[0].device())
        kernels.emplace_back(&Device::get(device), step.program);
  compile_ahead(kernels);
}

}  // namespace

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
    for (const UOp& r : u.op() == Op::REDUCE ? Reduction(u).values[0].ranges() : u.ranges()) add(r);
    total += times;
  });
  return total < 9e18 ? static_cast<int64_t>(total) : INT64_MAX;
}

void run_schedule(const Prepared& prepared, const UOps& memory, const VariableValues& given) {
  compile_kernels(prepared);
  Memory all(prepared, memory);
  Stops stops(prepared.schedule, memory);
  const MayStop may_stop(&Stops::within, &stops);
  VariableValues variables = given;
  for (size_t i = 0; i < prepared.schedule.steps.size(); i++) {
    const Step& step = prepared.schedule.steps[i];
    stops.before(i);
    QUERN_CHECK(!step.buffers.empty(), "a step without memory");
    Ran ran;
    const size_t devices = step.buffers[0].device().size();
    for (size_t device = 0; device < devices; device++) {
      std::vector<BufferPtr> buffers;
      for (const UOp& node : step.buffers) buffers.push_back(all.find(node, device));
      if (devices > 1) variables[kDeviceNumber] = static_cast<int64_t>(device);
      run_step(step, buffers, variables, ran);
    }
    GlobalCounters::operations += ran.operations;
    GlobalCounters::bytes += ran.bytes;
    GlobalCounters::nanoseconds += static_cast<int64_t>(ran.seconds * 1e9);
    if (env::DEBUG() >= 2 || profile::is_on()) {
      ran.devices = std::ssize(step.buffers[0].device());
      note_run(step, ran);
    }
  }
}

}  // namespace quern
