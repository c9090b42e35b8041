#include "quern/schedule/kernels/forward.h"

#include <algorithm>
#include <unordered_map>

#include "quern/ir/node/node_map.h"
#include "quern/schedule/facts/memory_view.h"
#include "quern/schedule/ranges/limit.h"

namespace quern {
namespace {

bool is_state(const UOp& u) { return is_memory(u) || (u.op() == Op::AFTER && is_memory(memory_under(u))); }

bool is_stored_in_loops(const UOp& effect) {
  return effect.op() == Op::END && effect.src(0).op() == Op::STORE && effect.src(0).src(1).op() != Op::COPY;
}

class Forwarder {
 public:
  Forwarder(const UOp& sink, const SpecOf& spec_of) : sink_(sink), spec_of_(spec_of) {}

  UOp run() {
    const auto inside = [&](const UOp& u) { return u.op() != Op::SINK || same(u, sink_); };
    walk(sink_, inside, [&](const UOp& u) {
      UOp now = u;
      if (inside(u) && !u.src().empty()) {
        sources_.clear();
        for (const UOp& s : u.src()) sources_.push_back(*done_.find(s));
        now = u.with_src(sources_);
      }
      if (is_stored_in_loops(now)) now = with_values(std::move(now));
      measure(now);
      done_.emplace(u, std::move(now));
    });
    return *done_.find(sink_);
  }

 private:
  // The depth of a node: how many kernels must run one after the other before it can be computed.
  int depth_of(const UOp& u) {
    const int* known = depth_.find(u);
    return known ? *known : 0;
  }
  void measure(const UOp& u) {
    int d = 0;
    if (is_stored_in_loops(u)) {
      d = depth_of(u.src(0).src(0));
      for (const UOp& state : states_read(u)) d = std::max(d, depth_of(state));
    } else {
      for (const UOp& s : u.src()) d = std::max(d, depth_of(s));
    }
    if (u.op() == Op::AFTER && is_memory(memory_under(u))) d++;
    if (d == 0) return;
    kept_.push_back(u);
    depth_.emplace(u, d);
  }

  static UOps states_read(const UOp& effect) {
    UOps states;
    walk(
        effect.src(0).src(1), [](const UOp& u) { return !is_state(u); },
        [&](const UOp& u) {
          if (is_state(u)) states.push_back(u);
        });
    return states;
  }

  UOp with_values(UOp effect) {
    for (const UOp& state : states_read(effect)) {
      if (state.op() != Op::AFTER || state.src().size() != 2 || !is_stored_in_loops(state.src(1))) continue;
      if (!waits_only_for(effect, state) || too_many_buffers(effect, state)) continue;
      if (UOp forwarded = with_value_of(effect, state)) effect = std::move(forwarded);
    }
    return effect;
  }

  // Does it wait for nothing else that comes as late?
  bool waits_only_for(const UOp& effect, const UOp& state) {
    const int before = depth_of(state.src(1));
    return depth_of(effect.src(0).src(0)) <= before &&
           std::ranges::all_of(states_read(effect),
                               [&](const UOp& s) { return same(s, state) || depth_of(s) <= before; });
  }

  // What both kernels read and write, as one.
  bool too_many_buffers(const UOp& effect, const UOp& state) const {
    const auto count = std::ssize(states_read(effect)) + std::ssize(states_read(state.src(1))) + 1;
    return count > most_buffers(memory_under(state).device(), spec_of_);
  }

  // The value with those instead; what stands under states, all that ran before, is not looked at.
  static UOp with_values(const UOp& value, const std::unordered_map<UOp, UOp>& values) {
    NodeMap<UOp> done;
    UOps sources;
    walk(
        value, [](const UOp& u) { return !is_state(u); },
        [&](const UOp& u) {
          if (const auto found = values.find(u); found != values.end()) {
            done.emplace(u, found->second);
            return;
          }
          sources.clear();
          bool changed = false;
          for (const UOp& s : u.src()) {
            const UOp* now = is_state(u) ? nullptr : done.find(s);
            sources.push_back(now != nullptr ? *now : s);
            changed |= now != nullptr && !same(*now, s);
          }
          if (changed) done.emplace(u, u.with_src(sources));
        });
    const UOp* now = done.find(value);
    return now != nullptr ? *now : value;
  }

  // None when the loops differ, or it reads elsewhere than what the same iteration stores.
  static UOp with_value_of(const UOp& effect, const UOp& state) {
    const UOp& made = state.src(1);
    if (made.src().size() != effect.src().size()) return {};
    std::unordered_map<UOp, UOp> loops, values;
    for (size_t i = 1; i < made.src().size(); i++) {
      if (!same(made.src(i).src(0), effect.src(i).src(0))) return {};
      loops.emplace(made.src(i), effect.src(i));
    }
    const UOp store = made.src(0).substitute_open(loops);
    const UOp place = store.src(0).src(1).simplify();
    bool elsewhere = false;
    walk(
        effect.src(0).src(1), [](const UOp& u) { return !is_state(u); },
        [&](const UOp& u) {
          for (size_t i = 0; i < u.src().size(); i++) {
            if (!same(u.src(i), state)) continue;
            if (u.op() != Op::INDEX || u.src().size() != 2 || !same(u.src(1).simplify(), place))
              elsewhere = true;
            else
              values.emplace(u, store.src(1));
          }
        });
    if (elsewhere || values.empty()) return {};
    UOps sources(effect.src().begin(), effect.src().end());
    sources[0] = sources[0].with_src(UOps{sources[0].src(0), with_values(sources[0].src(1), values)});
    return effect.with_src(sources);
  }

  const UOp& sink_;
  const SpecOf& spec_of_;
  NodeMap<UOp> done_;
  NodeMap<int> depth_;
  UOps sources_, kept_;
};

}  // namespace

UOp forward_values(const UOp& sink, const SpecOf& spec_of) { return Forwarder(sink, spec_of).run(); }

}  // namespace quern
