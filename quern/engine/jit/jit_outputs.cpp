#include "quern/engine/jit/jit_outputs.h"

#include <algorithm>

#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/tensor/gradient/ended_graphs.h"

namespace quern {

using detail::JitArguments;

namespace {

// The same view of other memory. Cheaper than substitute(), and all there is to do where sizes are numbers.
UOp rebased(const UOp& view, const UOp& memory) {
  std::vector<const UOp*> chain;
  for (const UOp* u = &view; is_view(*u) || u->op() == Op::MULTI; u = &u->src(0)) chain.push_back(u);
  UOp result = memory;
  for (size_t i = chain.size(); i-- > 0;) {
    UOps sources(chain[i]->src().begin(), chain[i]->src().end());
    sources[0] = std::move(result);
    result = chain[i]->with_src(sources);
  }
  return result;
}

}  // namespace

JitOutputs::JitOutputs(const JitArguments& outputs, const Recording& recording, const JitInputs& inputs) {
  lengths_.assign(outputs.lengths.begin(), outputs.lengths.end());
  int64_t bytes = 0;
  auto place_in = [](const UOps& list, const UOp& u) {
    const auto found = std::ranges::find(list, u);
    return found == list.end() ? int64_t{-1} : static_cast<int64_t>(found - list.begin());
  };
  for (const auto& t : outputs.tensors) {
    const UOp u = t->uop(), &buffer = memory_base(u);
    QUERN_CHECK(buffer.op() == Op::BUFFER,
                "an output that is not in memory: " + std::string(name(buffer.op())));
    Output output{u, place_in(inputs.buffers(), buffer), -1};
    if (output.input < 0 && recording.made(buffer)) {
      output.made = place_in(made_, buffer);
      if (output.made < 0) {
        output.made = std::ssize(made_);
        made_.push_back(buffer);
        bytes += buffer.arg().integer() * buffer.dtype().bytes();
      }
    }
    is_symbolic_ = is_symbolic_ || u.ops_below().contains(Op::BIND);
    if (output.input >= 0) keeps_ = false;  // that would keep the input
    outputs_.push_back(std::move(output));
  }
  keeps_ = keeps_ && bytes <= kMostBytes;
}

void JitOutputs::forget_memory(const std::unordered_map<UOp, UOp>& stands_for) {
  for (Output& output : outputs_) output.view = output.view.substitute(stands_for);
  for (UOp& buffer : made_) buffer = stands_for.at(buffer);
}

UOps JitOutputs::views(const Set& set, const JitInputs& inputs, const JitArguments& given) const {
  UOps result;
  std::unordered_map<UOp, UOp> bound;
  if (is_symbolic_) bound = inputs.bindings();
  for (const Output& o : outputs_) {
    const auto input = static_cast<size_t>(o.input), made = static_cast<size_t>(o.made);
    const UOp view = bound.empty() ? o.view : o.view.substitute(bound);
    result.push_back(o.input >= 0  ? rebased(view, inputs.flat(input, given.tensors[input]->uop()))
                     : o.made >= 0 ? rebased(view, set.buffers[made])
                                   : view);
  }
  return result;
}

JitOutputs::Set JitOutputs::make(const JitInputs& inputs, const JitArguments& given) const {
  Set set;
  for (const UOp& m : made_) {
    set.buffers.push_back(new_buffer(m.dtype(), static_cast<int64_t>(m.src(0).int_value()), m.src(1)));
    end_unknown_graph(set.buffers.back());
    for (size_t d = 0; d < m.src(1).arg().texts().size(); d++)
      set.memory.push_back(buffer_of(set.buffers.back(), d));
  }
  set.views = views(set, inputs, given);
  for (const UOp& v : set.views) set.tensors.emplace_back(v);
  set.binding = binding_;
  return set;
}

// ---- whether somebody holds them

void JitOutputs::count(Set& set) const {
  set.counts.clear();
  for (size_t i = 0; i < outputs_.size(); i++) {
    if (outputs_[i].made < 0) continue;
    const UOp* u = &set.views[i];
    for (; u->op() != Op::BUFFER; u = &u->src(0)) set.counts.push_back({u->node(), 0});
    set.counts.push_back({u->node(), 0});
  }
  for (Set::Count& c : set.counts) c.references = c.node->refs.load(std::memory_order_acquire);
}

bool JitOutputs::is_free(const Set& set) const {
  for (const Set::Count& c : set.counts)
    if (c.node->refs.load(std::memory_order_acquire) != c.references) return false;
  for (const BufferPtr& m : set.memory)
    if (m.use_count() != 2) return false;  // here, and where it is found by its node
  for (size_t i = 0; i < outputs_.size(); i++) {
    const auto& state = set.tensors[i].state();
    if (state.use_count() != 1 || state->requires_grad || state->grad || !same(state->get(), set.views[i]))
      return false;
  }
  return true;
}

const std::vector<Tensor>* JitOutputs::take(Replay& replay, size_t first, const JitInputs& inputs,
                                            const JitArguments& given, bool rebound,
                                            std::vector<Tensor>& own) {
  if (rebound && is_symbolic_) binding_++;
  auto give = [&](const Set& set) {
    size_t next = 0;
    for (size_t i = 0; i < made_.size(); i++)
      for (void*& address : replay.memory_of(first + i)) address = set.memory[next++]->memory();
  };
  if (!keeps_) {
    Set set = make(inputs, given);
    give(set);
    own = std::move(set.tensors);
    return nullptr;
  }
  auto found = std::ranges::find_if(kept_, [&](const Set& set) { return is_free(set); });
  if (found == kept_.end()) {
    if (kept_.size() == kMostKept) kept_.erase(kept_.begin());
    kept_.push_back(make(inputs, given));
    found = kept_.end() - 1;
    count(*found);
  } else if (found->binding != binding_) {
    found->views = views(*found, inputs, given);
    for (size_t i = 0; i < found->views.size(); i++) found->tensors[i].state()->set(found->views[i]);
    found->binding = binding_;
    count(*found);
  }
  give(*found);
  return &found->tensors;
}

}  // namespace quern
