#include "quern/engine/jit/jit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "quern/base/env.h"
#include "quern/engine/host.h"
#include "quern/engine/jit/jit_outputs.h"
#include "quern/engine/realize/realize.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/tensor/gradient/ended_graphs.h"

namespace quern::detail {
namespace {

// ---- tensors that a function changes, and that it makes

// Runs the function; its results, and tensors that were there before and that it changed, are in memory then.
JitArguments run_and_realize(const std::function<JitArguments()>& function,
                             std::vector<Tensor>* changed = nullptr) {
  const LiveMark before = live_mark();
  JitArguments outputs = function();
  std::vector<Tensor> now;
  for (std::shared_ptr<TensorState>& state : changed_since(before))
    now.push_back(Tensor::of_state(std::move(state)));
  UOps roots;
  for (const auto& t : outputs.tensors) roots.push_back(t->uop());
  for (const Tensor& t : now) roots.push_back(t.uop());
  realize(roots);
  const UOps asked = roots;
  // Equal values are computed once, but what is written into one of the tensors is not to be seen in the
  // other: each of them has memory of its own.
  roots.clear();
  for (const auto& t : outputs.tensors) roots.push_back(t->uop());
  for (const Tensor& t : now) roots.push_back(t.uop());
  std::erase_if(roots, [](const UOp& u) { return memory_base(u).op() != Op::NOOP; });
  if (!roots.empty()) realize(roots);
  for (size_t i = 0; i < outputs.tensors.size(); i++) {  // no gradient flows through them, as in replays
    const UOp u = outputs.tensors[i]->uop(), &memory = memory_base(u);
    const bool is_new = memory_base(asked[i]).op() != Op::BUFFER && memory.op() == Op::BUFFER;
    if (is_new) end_unknown_graph(memory);
  }
  if (changed != nullptr) *changed = std::move(now);
  return outputs;
}

// A tensor that was there before has to have memory that was there before.
void check_changed(const std::vector<Tensor>& changed, const Recording& recording) {
  for (const Tensor& t : changed) {
    const UOp u = t.uop(), &memory = memory_base(u);
    if (memory.op() == Op::BUFFER && recording.made(memory))
      throw Error(fmt::format(
          "jit: a tensor of shape {} that was made outside is another one after the call (a gradient "
          "that was not cleared, replace(), or assign() to what had no memory): replays could not do "
          "that; realize() it before, and change it with assign()",
          shape_text(u.shape())));
  }
}

// Tensors made in the function that somebody still has, and that replays will not compute.
std::vector<std::weak_ptr<TensorState>> left_behind(const Recording& recording, const JitArguments& outputs,
                                                    const UOps& inputs) {
  std::vector<std::weak_ptr<TensorState>> result;
  for (const std::weak_ptr<TensorState>& weak : states_made_inside(recording.number())) {
    const auto state = weak.lock();
    if (!state) continue;
    bool is_output = false;
    for (const auto& t : outputs.tensors) is_output = is_output || t->state() == state;
    const UOp u = state->get(), &memory = memory_base(u);
    const bool is_view_of_old = memory.op() == Op::BUFFER && !recording.made(memory) &&
                                std::ranges::find(inputs, memory) == inputs.end();
    if (!is_output && !is_view_of_old && u.ops_below().contains(Op::BUFFER)) result.push_back(weak);
  }
  return result;
}

// Tensors that are there and whose gradient is one of the outputs: by its number.
using ReturnedGradient = std::pair<std::weak_ptr<TensorState>, size_t>;
std::vector<ReturnedGradient> returned_gradients(const JitArguments& outputs) {
  std::vector<ReturnedGradient> found;
  for (const std::shared_ptr<TensorState>& state : states_whose_grad_is_there())
    for (size_t i = 0; i < outputs.tensors.size(); i++)
      if (outputs.tensors[i]->state() == state->grad) found.emplace_back(state, i);
  return found;
}

// From now on whoever reads it is told why that cannot be.
void forbid(TensorState& state) {
  const UOp u = state.get();
  const Texts devices = u.device();
  const UOp memory = new_buffer(u.dtype(), 1, device_node(devices.empty() ? default_device() : devices[0]));
  buffer_of(memory)->forbid(fmt::format(
      "a tensor of shape {} was computed inside a function given to jit(), which did not return it: "
      "replays do not compute it; return it, or assign() it to a tensor that was made outside",
      shape_text(u.shape())));
  state.set(expand(reshape(memory, UOps(u.shape().size(), UOp::index(1))), u.shape()));
}

}  // namespace

// ---- a captured function

struct JitCalls::Captured {
  Captured(JitInputs in, JitOutputs out, const Recording& recording)
      : inputs(std::move(in)),
        outputs(std::move(out)),
        replay(recording, given(), inputs.buffers().size(), inputs.variables()) {
    for (const UOp& buffer : replay.bound()) {
      used.insert(buffer);
      if (recording.written().contains(buffer)) written.insert(buffer);
    }
  }

  UOps given() const {
    UOps all = inputs.buffers();
    all.insert(all.end(), outputs.made().begin(), outputs.made().end());
    return all;
  }

  // Inputs and outputs of the call that was captured are not to live as long as this does.
  void forget_memory() {
    std::unordered_map<UOp, UOp> map;
    for (const UOp& buffer : given()) {
      const UOp size = UOp::index(buffer.arg().integer());
      map.emplace(buffer, UOp::make(Op::PARAM, buffer.dtype(), {size, buffer.src(1)},
                                    static_cast<int64_t>(map.size())));
    }
    inputs.forget_memory(map);
    outputs.forget_memory(map);
  }

  // What is not run yet and reads memory that the replay overwrites, or writes memory that it uses.
  void settle(const JitArguments& arguments, bool other_memory) {
    const uint64_t version = lazy_uops_version();
    if (version == settled && !(other_memory && inputs.writes())) return;
    std::unordered_set<UOp> input_memory, written_input;
    for (size_t i = 0; i < arguments.tensors.size(); i++) {
      const UOp u = arguments.tensors[i]->uop();
      input_memory.insert(memory_base(u));
      if (inputs.is_written(i)) written_input.insert(memory_base(u));
    }
    UOps pending;
    for (const UOp& u : lazy_uops()) {
      bool found = false;
      walk(u, [&](const UOp& n) {
        if (found) return;
        if (n.op() == Op::BUFFER) found = written.contains(n) || written_input.contains(n);
        if (n.op() != Op::AFTER) return;
        const UOp& memory = memory_under_states(n);
        found = used.contains(memory) || input_memory.contains(memory);
      });
      if (found) pending.push_back(u);
    }
    if (!pending.empty()) realize(pending);
    settled = lazy_uops_version();
  }
  static const UOp& memory_under_states(const UOp& state) {
    const UOp* u = &state;
    while (u->op() != Op::BUFFER && !u->src().empty())
      u = u->op() == Op::AFTER ? &memory_under(*u) : &u->src(0);
    return *u;
  }

  JitInputs inputs;
  JitOutputs outputs;
  Replay replay;
  std::unordered_set<UOp> used, written;  // BUFFERs that are bound
  std::vector<std::weak_ptr<TensorState>> left;
  std::vector<ReturnedGradient> gradients;
  uint64_t settled = UINT64_MAX;
};

JitCalls::JitCalls() = default;
JitCalls::~JitCalls() = default;

// Threads may share a jit, so what it remembers is read and written by who has the engine.
void JitCalls::reset() {
  const auto lock = lock_engine();
  captured_.reset();
  has_run_ = false;
}
bool JitCalls::is_captured() const {
  const auto lock = lock_engine();
  return captured_ != nullptr;
}
int64_t JitCalls::kernels() const {
  const auto lock = lock_engine();
  return captured_ ? captured_->replay.kernels() : 0;
}
int64_t JitCalls::memory_bytes() const {
  const auto lock = lock_engine();
  return captured_ ? captured_->replay.arena_bytes() : 0;
}

JitCalls::Replayed JitCalls::replay(const JitArguments& given) {
  if (env::JIT() == 0 || Recording::current() != nullptr) return {};
  Replayed result{.lock = lock_engine(), .captured = captured_};
  if (!result.captured) return {};
  Captured& c = *result.captured;
  const bool other = c.inputs.read(given, c.replay);
  c.settle(given, other);
  for (const std::weak_ptr<TensorState>& weak : std::exchange(c.left, {}))
    if (const auto state = weak.lock()) forbid(*state);
  result.kept = c.outputs.take(c.replay, c.inputs.buffers().size(), c.inputs, given, other, result.own);
  result.lengths = c.outputs.lengths();
  try {
    c.replay.run(c.inputs.apart());
  } catch (...) {  // it was stopped: no result is returned
    c.inputs.let_go();
    throw;
  }
  c.inputs.let_go();
  for (const auto& [weak, output] : c.gradients)
    if (const auto state = weak.lock()) state->grad = result.results().tensor[output].state();
  return result;
}

void JitCalls::run(const JitArguments& given, const std::function<JitArguments()>& function) {
  // A jit within one that is captured is part of it.
  bool captures = env::JIT() != 0 && Recording::current() == nullptr;
  std::vector<uint64_t> numbers;
  {
    const auto lock = lock_engine();
    captures = captures && has_run_ && !captured_;
    if (captures) numbers = numbers_;
  }
  if (captures) {
    auto captured = capture(given, function, numbers);
    const auto lock = lock_engine();
    captured_ = std::move(captured);
    return;
  }
  NumbersSeen seen;
  (void)run_and_realize(function);
  const auto lock = lock_engine();
  numbers_ = seen.hashes;
  has_run_ = true;
}

std::shared_ptr<JitCalls::Captured> JitCalls::capture(const JitArguments& given,
                                                      const std::function<JitArguments()>& function,
                                                      const std::vector<uint64_t>& numbers) {
  const std::vector<bool> copied = JitInputs::prepare(given);
  JitInputs inputs(given, copied);
  Recording recording(numbers);
  std::vector<Tensor> changed;
  const JitArguments outputs = run_and_realize(function, &changed);
  check_changed(changed, recording);
  changed.clear();
  inputs.recorded(recording);
  std::vector<std::weak_ptr<TensorState>> left = left_behind(recording, outputs, inputs.buffers());
  JitOutputs made(outputs, recording, inputs);
  auto captured = std::make_shared<Captured>(std::move(inputs), std::move(made), recording);
  captured->left = std::move(left);
  captured->gradients = returned_gradients(outputs);
  captured->forget_memory();
  if (env::DEBUG() >= 1)
    std::fputs(fmt::format("jit: captured, {} kernels, {} bytes between them\n", captured->replay.kernels(),
                           captured->replay.arena_bytes())
                   .c_str(),
               stderr);
  return captured;
}

}  // namespace quern::detail
