#include "quern/engine/realize/own_memory.h"

#include <algorithm>
#include <unordered_map>

#include "quern/engine/host.h"
#include "quern/engine/realize/outputs.h"
#include "quern/engine/realize/recording.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/runtime/buffer.h"
#include "quern/tensor/core/live.h"

namespace quern {
namespace {

class Owners {
 public:
  explicit Owners(const UOps& seen) {
    for (const UOp& u : seen) seen_.insert(memory_base(u));
  }

  // Which nodes became others: AFTERs.
  std::unordered_map<UOp, UOp> run(const UOp& all) {
    const auto enter = [](const UOp& u) { return !is_kernel(u); };
    walk(all, enter, [&](const UOp& u) {
      if (u.op() == Op::STORE) stored_.insert(memory_base(u.src(0)));
    });
    std::unordered_map<UOp, UOp> changed;
    NodeMap<UOp> done;
    UOps sources;
    walk(all, enter, [&](const UOp& u) {
      if (is_kernel(u)) {
        done.emplace(u, u);
        return;
      }
      sources.clear();
      bool other = false;
      for (size_t i = 0; i < u.src().size(); i++) {
        sources.push_back(*done.find(u.src(i)));
        other |= !same(sources.back(), u.src(i));
      }
      UOp now = u;
      if (u.op() == Op::CALL)
        now = with_copies(u, std::move(sources));
      else if (u.op() == Op::AFTER)
        now = after_copies(u, sources);
      else if (other)
        now = u.with_src(sources);
      if (u.op() == Op::AFTER && !same(u, now)) changed.emplace(u, now);
      done.emplace(u, std::move(now));
    });
    return changed;
  }

 private:
  UOp with_copies(const UOp& call, UOps sources) {
    for (const UOp& state : written_arguments(call)) {
      if (memory_base(state).op() != Op::BUFFER && memory_base(state).op() != Op::AFTER) continue;
      if (!seen_.contains(state) && !stored_.contains(state) && called_.insert(state)) continue;
      UOp copy;
      for (size_t i = 1; i < sources.size(); i++) {
        if (!same(call.src(i), state)) continue;
        if (!copy) copy = copy_of(sources[i]);
        sources[i] = copy;
      }
      copies_[call].emplace_back(state, copy);
    }
    return std::ranges::equal(sources, call.src(), [](const UOp& a, const UOp& b) { return same(a, b); })
               ? call
               : call.with_src(sources);
  }

  // What was never asked for holds nothing yet that could be copied.
  static UOp copy_of(const UOp& state) {
    const auto elements = static_cast<int64_t>(elements_in(state.shape()).int_value());
    const UOp device = UOp::make(Op::DEVICE, dtypes::void_, {}, state.device());
    const UOp memory = new_buffer(state.dtype(), elements, device);
    const bool holds_nothing = state.op() == Op::BUFFER && device.arg().texts().size() == 1 &&
                               state.src(0).op() == Op::UNIQUE && !has_buffer(state);
    return holds_nothing ? memory : after(memory, UOps{store(memory, state)});
  }

  UOp after_copies(const UOp& u, UOps& sources) {
    for (const UOp& effect : u.src().subspan(1))
      if (const auto found = copies_.find(effect); found != copies_.end())
        for (const auto& [state, copy] : found->second)
          if (same(state, u.src(0))) sources[0] = copy;
    return u.with_src(sources);
  }

  NodeSet seen_, stored_, called_;
  std::unordered_map<UOp, std::vector<std::pair<UOp, UOp>>> copies_;  // of a CALL: states, and their copies
};

bool has_call(const UOp& u) { return u.ops_below().contains(Op::CALL); }

}  // namespace

UOps with_own_memory_for_kernels(const UOps& roots, UOps& live) {
  if (std::ranges::none_of(live, has_call) && std::ranges::none_of(roots, has_call)) return roots;
  UOps all = roots;
  for (const UOp& u : live)
    if (u.ops_below().contains(Op::AFTER)) all.push_back(u);
  const std::unordered_map<UOp, UOp> changed = Owners(live).run(UOp::sink(all));
  if (changed.empty()) return roots;
  if (Recording* recording = Recording::current()) recording->rename(changed);
  with_gil([&] { replace_live(changed); });
  live = live_uops();
  const UOp now = UOp::sink(roots).substitute(changed);
  return {now.src().begin(), now.src().end()};
}

}  // namespace quern
