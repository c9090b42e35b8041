#include "quern/engine/jit/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "quern/base/env.h"
#include "quern/base/profile.h"
#include "quern/base/small_vector.h"
#include "quern/engine/host.h"
#include "quern/engine/realize/describe.h"
#include "quern/engine/realize/programs.h"
#include "quern/engine/realize/run.h"
#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/shape/sharding.h"
#include "quern/runtime/counters.h"
#include "quern/runtime/host/may_stop.h"
#include "quern/schedule/facts/memory_view.h"

namespace quern {

Replay::Replay(const Recording& recording, const UOps& given, size_t inputs, VariableValues variables)
    : inputs_(inputs),
      given_(given.size()),
      variables_(std::move(variables)),
      conditions_(recording.conditions()) {
  words_ = detail::random_state().drawn - recording.random().drawn;
  std::vector<Step> steps = joined(recording, given);
  plan_ = plan_memory(Schedule{steps});
  place_memory(given);
  size_t next = 0;
  for (const Recording::Ran& ran : recording.ran())
    for (size_t i = 0; i < ran.prepared->schedule.steps.size(); i++)
      add_work(ran, std::move(steps[next++]), recording);
  segments_ = prepared(work_);
  for (const Work& w : work_) {
    kernels_ += w.step.program.op() == Op::COPY ? 0 : std::ssize(w.parts);
    operations_ += w.operations, bytes_ += w.bytes;
  }
}

// ---- memory

// The steps of all that ran as steps of one schedule. PARAMs are what is given, then what is bound; what was
// made in the recording and is not given is memory of the schedule's own.
std::vector<Step> Replay::joined(const Recording& recording, const UOps& given) {
  std::unordered_map<UOp, UOp> known;
  int64_t next_param = 0, next_own = 0;
  auto param = [&](const UOp& buffer) {
    const UOp size = UOp::index(buffer.arg().integer());
    return UOp::make(Op::PARAM, buffer.dtype(), {size, buffer.src(1)}, next_param++);
  };
  auto own = [&](const UOp& buffer) {
    return buffer.with_src(UOps{UOp::make(Op::LUNIQUE, dtypes::void_, {}, next_own++), buffer.src(1)});
  };
  for (const UOp& buffer : given) known.emplace(buffer, param(buffer));
  auto stands_for = [&](const UOp& buffer) {
    UOp& found = known[buffer];
    if (found) return found;
    const bool in_file = buffer.device()[0].starts_with("DISK");
    if (recording.made(buffer) && recording.written().contains(buffer) && !in_file)
      return found = own(buffer);
    bound_.push_back(buffer);
    return found = param(buffer);
  };
  std::vector<Step> steps;
  for (const Recording::Ran& ran : recording.ran()) {
    std::unordered_map<UOp, UOp> map;
    for (const Step& step : ran.prepared->schedule.steps) {
      Step made{step.program, {}};
      for (const UOp& used : step.buffers) {
        for (const UOp& u : states_under(used)) {
          if (map.contains(u)) continue;
          if (u.op() == Op::PARAM)
            map.emplace(u, stands_for(ran.memory.at(static_cast<size_t>(u.arg().integer()))));
          else if (u.op() == Op::BUFFER)
            map.emplace(u, u.src(0).op() == Op::UNIQUE ? stands_for(u) : own(u));
        }
        made.buffers.push_back(used.substitute(map));
      }
      steps.push_back(std::move(made));
    }
  }
  return steps;
}

void Replay::place_memory(const UOps& given) {
  auto add = [&](const UOp& buffer) {
    first_.push_back(memory_.size());
    devices_.push_back(buffer.src(1).arg().texts().size());
    memory_.resize(memory_.size() + devices_.back());
  };
  for (const UOp& buffer : given) add(buffer);
  for (const UOp& buffer : bound_) {
    add(buffer);
    for (size_t d = 0; d < devices_.back(); d++) {
      kept_.push_back(buffer_of(buffer, d));
      memory_[first_.back() + d] = kept_.back()->memory();
      if (kept_.back()->is_external()) foreign_.push_back(kept_.back());
    }
  }
  for (const auto& [device, bytes] : plan_.arenas) {
    kept_.push_back(std::make_shared<Buffer>(Device::get(device), dtypes::uint8, bytes));
    arenas_.emplace(device, memory_.size());
    memory_.push_back(kept_.back()->memory());
  }
}

int64_t Replay::arena_bytes() const {
  int64_t total = 0;
  for (const auto& [device, bytes] : plan_.arenas) total += bytes;
  return total;
}

// What a node of a step stands for on a device, by its number among those of the node.
MemoryPart Replay::find(const UOp& node, size_t device) const {
  if (node.op() == Op::MSELECT) return find(node.src(0), static_cast<size_t>(node.arg().integer()));
  if (node.op() == Op::MSTACK) return find(node.src(device), 0);
  const int64_t element = node.dtype().bytes();
  if (node.op() == Op::SLICE) {
    const UOp offset = node.src(1).simplify();
    QUERN_CHECK(offset.is_int_const(), "a SLICE at an offset that is not constant");
    const MemoryPart base = find(node.src(0), device);
    return {base.memory, base.offset + static_cast<int64_t>(offset.int_value()) * element,
            node.arg().integer() * element};
  }
  if (node.op() == Op::PARAM) {
    const auto i = static_cast<size_t>(node.arg().integer());
    return {first_[i] + (devices_[i] == 1 ? 0 : device), 0,
            static_cast<int64_t>(node.src(0).int_value()) * element};
  }
  const auto known = plan_.places.find(node);
  QUERN_CHECK(known != plan_.places.end(), "a step on what is no memory: " + std::string(name(node.op())));
  const MemoryPlan::ArenaOffset& place = known->second[known->second.size() == 1 ? 0 : device];
  return {arenas_.at(place.device), place.offset, node.arg().integer() * element};
}

// Whether it writes memory that had values: what is bound, or an input.
bool Replay::overwrites(const Step& step) const {
  const auto had_values = [&](const UOp& node) {
    bool found = false;
    walk(node, [&](const UOp& u) {
      if (u.op() != Op::PARAM) return;
      const auto number = static_cast<size_t>(u.arg().integer());
      found = found || number < inputs_ || number >= given_;
    });
    return found;
  };
  if (step.program.op() == Op::COPY) return had_values(step.buffers[0]);
  bool found = false;
  walk(step.program, [&](const UOp& u) {
    if (u.op() != Op::STORE) return;
    const UOp& target = storage_of(u.src(0));
    found = found || (target.op() == Op::PARAM &&
                      had_values(step.buffers.at(static_cast<size_t>(target.arg().integer()))));
  });
  return found;
}

// ---- values of variables

// Where a value stands: what is given by the call, what random numbers advance, and what never changes.
size_t Replay::value(const std::string& name, int64_t recorded, const Recording& recording) {
  auto add = [&](int64_t v) {
    values_.push_back(v);
    return values_.size() - 1;
  };
  if (const auto known = variables_.find(name); known != variables_.end()) {
    if (known->second != recorded)
      throw Error(
          fmt::format("jit: variable {} is {} by the arguments of the function, and bound to {} inside it",
                      name, known->second, recorded));
    const auto [at, added] = rebound_.emplace(name, 0);
    if (added) at->second = add(recorded);
    return at->second;
  }
  if (name.starts_with(detail::kKey) && static_cast<uint64_t>(recorded) == recording.random().key) {
    keys_.push_back(add(recorded));
    return keys_.back();
  }
  const uint64_t offset = static_cast<uint64_t>(recorded) - recording.random().drawn;
  if (name.starts_with(detail::kDrawn) && offset < words_) {  // drawn inside
    drawn_.push_back({add(recorded), static_cast<int64_t>(offset)});
    return drawn_.back().value;
  }
  const auto [at, added] = constants_.emplace(recorded, 0);
  if (added) at->second = add(recorded);
  return at->second;
}

// Conditions hold for what variables were bound to; only those of the call have other values now.
void Replay::check_sizes(const VariableValues& variables) const {
  const auto now = [&](const UOp& bind) {
    const auto [variable, recorded] = bind.unbind();
    const auto given = variables.find(variable.arg().variable().name);
    return Const::of_int(given == variables.end() ? recorded : given->second);
  };
  for (const detail::SizeCondition& condition : conditions_) {
    NodeMap<Const> values;
    walk(
        condition.number, [](const UOp& u) { return u.op() != Op::BIND; },
        [&](const UOp& u) {
          if (u.is_const() || u.op() == Op::BIND) {
            values.emplace(u, u.is_const() ? u.value() : now(u));
            return;
          }
          SmallVector<Const, 4> operands;
          for (const UOp& s : u.src()) operands.push_back(*values.find(s));
          values.emplace(
              u, eval(u.op(), u.dtype(), u.src().back().dtype(), {operands.begin(), operands.size()}));
        });
    if (values.find(condition.number)->integer(condition.number.dtype()) >= 0) continue;
    std::string sizes, text = condition.text;
    walk(condition.number, [&](const UOp& u) {
      if (u.op() != Op::BIND) return;
      const std::string& name = u.src(0).arg().variable().name;
      sizes += fmt::format("{}{} = {}", sizes.empty() ? "" : ", ", name, now(u).as_int());
      const std::string bound = u.text();  // with the value that it had
      for (size_t at = 0; (at = text.find(bound, at)) != std::string::npos; at += name.size())
        text.replace(at, bound.size(), name);
    });
    throw ShapeError(fmt::format(
        "jit: the function was captured with other sizes and cannot be replayed with {}: {}", sizes, text));
  }
}

void Replay::bind(const VariableValues& variables) {
  check_sizes(variables);
  for (const auto& [name, at] : rebound_) values_[at] = variables.at(name);
}

// ---- what runs

void Replay::add_work(const Recording::Ran& ran, Step step, const Recording& recording) {
  Work work{std::move(step), {}};
  const bool copies = work.step.program.op() == Op::COPY;
  const Texts names = work.step.buffers.at(0).device();
  std::vector<std::pair<std::string, size_t>> variables;
  if (!copies)
    for (const auto& [name, v] : ran.variables) variables.emplace_back(name, value(name, v, recording));
  for (size_t device = 0; device < names.size(); device++) {
    Part part{&Device::get(names[device]), {nullptr, {}, variables}};
    for (const UOp& node : work.step.buffers) {
      part.launch.arguments.push_back(find(node, device));
      work.bytes += part.launch.arguments.back().bytes;
    }
    if (copies) {
      const Texts from = work.step.buffers[1].device();
      part.from = &Device::get(from[from.size() == 1 ? 0 : device]);
    } else {
      part.launch.program = program_for(*part.device, work.step.program);
      work.opts = part.launch.program->opts();
      work.operations += estimated_operations(work.step.program, ran.variables);
      if (names.size() > 1)
        part.launch.variables.emplace_back(kDeviceNumber,
                                           value(kDeviceNumber, static_cast<int64_t>(device), recording));
    }
    work.parts.push_back(std::move(part));
  }
  work_.push_back(std::move(work));
}

std::vector<Replay::Segment> Replay::prepared(std::span<const Work> work) const {
  std::vector<Segment> segments;
  std::vector<Launch> launches;
  Device* device = nullptr;
  bool overwrote = false;
  auto close = [&] {
    if (!launches.empty())
      segments.push_back(
          {env::JIT() == 2 ? run_each(launches) : device->prepare(std::move(launches)), nullptr, overwrote});
    launches.clear();
  };
  for (const Work& w : work)
    for (const Part& part : w.parts) {
      const bool first_to_overwrite = !overwrote && overwrites(w.step);
      if (part.device != device || part.from != nullptr || first_to_overwrite) close();
      overwrote = overwrote || first_to_overwrite;
      device = part.device;
      if (part.from != nullptr)
        segments.push_back({nullptr, &part, overwrote});
      else
        launches.push_back(part.launch);
    }
  close();
  return segments;
}

void Replay::run_segments(std::span<const Segment> segments, bool apart) {
  const auto last = std::ranges::find_if(segments, &Segment::overwrites);
  {
    const MayStop may_stop([](const void*) { check_host(); }, nullptr);
    for (auto s = segments.begin(); s != last; ++s) run_segment(*s, apart);
  }
  for (auto s = last; s != segments.end(); ++s) run_segment(*s, apart);
}
void Replay::run_segment(const Segment& s, bool apart) {
  if (s.batch) {
    s.batch->run(memory_, values_, apart);
    return;
  }
  const MemoryPart &to = s.copy->launch.arguments[0], &from = s.copy->launch.arguments[1];
  copy(*s.copy->device, to.in(memory_), *s.copy->from, from.in(memory_), from.bytes);
}

void Replay::run(bool apart) {
  for (const BufferPtr& buffer : foreign_) (void)buffer->memory();  // which may be lost by now
  if (words_ > 0) {
    const detail::RandomState now = detail::draw_words(words_);
    for (const Drawn& d : drawn_) values_[d.value] = static_cast<int64_t>(now.drawn) + d.offset;
    for (const size_t key : keys_) values_[key] = static_cast<int64_t>(now.key);
  }
  if (env::DEBUG() >= 2 ||
      profile::is_on()) {  // else reading the clock would be a good part of a small replay
    const auto start = std::chrono::steady_clock::now();
    run_and_tell(apart && foreign_.empty());
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
    GlobalCounters::nanoseconds += time.count();
  } else {
    run_segments(segments_, apart && foreign_.empty());
  }
  GlobalCounters::kernels += kernels_;
  GlobalCounters::operations += operations_;
  GlobalCounters::bytes += bytes_;
}

// One step after the other, so that it can be told what each did.
void Replay::run_and_tell(bool apart) {
  for (const Work& work : work_) {
    const std::vector<Segment> segments = prepared({&work, 1});
    const auto start = std::chrono::steady_clock::now();
    run_segments(segments, apart);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    const auto devices = std::ssize(work.parts);
    note_run(work.step, {work.operations, work.bytes, devices, time.count(), work.opts});
  }
}

}  // namespace quern
