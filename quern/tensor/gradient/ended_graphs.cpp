#include "quern/tensor/gradient/ended_graphs.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <ranges>
#include <unordered_map>

#include "quern/base/fork.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/live.h"
#include "quern/tensor/gradient/gradient_rules.h"

namespace quern {
namespace {

// Calls f(source) for the sources that a gradient of u flows to, and maybe for some that it does not reach.
template <class F>
void each_flow(const UOp& u, const F& f) {
  const auto to_floats = [&](Sources sources) {
    for (const UOp& s : sources)
      if (s.dtype().is_float() || s.dtype().is_void()) f(s);
  };
  if (u.op() == Op::STORE) return f(u.src(1));
  if (u.op() == Op::AFTER) {  // nothing is left of what was there before all was written
    const UOps writes = writes_to_memory(u);
    for (const UOp& write : std::ranges::reverse_view(writes)) {
      f(write);
      if (write.op() == Op::CALL || overwrites_all(u, write)) return;
    }
    return f(u.src(0));
  }
  if (const GradientRule* rule = gradient_rule(u.op())) {
    for (size_t i = 0; i < u.src().size(); i++)
      if (flows(*rule, u, i)) f(u.src(i));
  } else if (!kGradientStops.contains(u.op()) && u.op() != Op::SINK) {
    to_floats(u.src());
  }
}

// The identity of what gradients can be asked for although nothing is computed; 0 if it has none.
int64_t identity_of(const UOp& u) {
  if (u.op() == Op::BUFFER && u.src(0).op() == Op::UNIQUE) return u.src(0).arg().integer() + 1;
  const bool has_own = (u.op() == Op::CONST || u.op() == Op::NOOP) && !u.src().empty();
  return has_own && u.src().back().op() == Op::UNIQUE ? u.src().back().arg().integer() + 1 : 0;
}

// A UNIQUE that is made to ask and that nobody else holds was gone.
bool is_gone(int64_t identity) {
  const UOp u = UOp::make(Op::UNIQUE, dtypes::void_, {}, identity - 1);
  return u.node()->refs.load(std::memory_order_acquire) == 1;
}

using Identities = std::vector<int64_t>;

// What memory was computed of, in order: identities, and since when they are on the list, to tell whether
// they stand for other contents by now. Null: it is not known.
struct Origin {
  int64_t identity;
  uint64_t when;
  bool certain;  // else another value that was realized with it was computed of this
  friend auto operator<=>(const Origin&, const Origin&) = default;
};
using OriginList = std::vector<Origin>;
using Origins = std::shared_ptr<const OriginList>;

struct Ended {
  ProcessMutex mutex{LockOrder::ended_graphs};
  std::unordered_map<int64_t, Origins> by_identity;
  std::unordered_map<int64_t, uint64_t> written;  // when memory got the contents that it has
  std::atomic<size_t> count{0};                   // of by_identity
  std::atomic<uint64_t> now{0};
};

// Never freed: nodes may go after static objects have.
Ended& ended() {
  static auto* const made = [] {
    on_identity_freed([](int64_t identity) noexcept {
      Ended& all = ended();
      if (all.count.load(std::memory_order_relaxed) == 0) return;
      Origins last;
      const std::lock_guard lock(all.mutex);
      all.written.erase(identity + 1);
      const auto found = all.by_identity.find(identity + 1);
      if (found == all.by_identity.end()) return;
      last = std::move(found->second);
      all.by_identity.erase(found);
      all.count.store(all.by_identity.size(), std::memory_order_relaxed);
    });
    return new Ended;  // NOLINT(cppcoreguidelines-owning-memory)
  }();
  return *made;
}

void note(Sources buffers, const Origins& origins) {
  Ended& all = ended();
  const std::lock_guard lock(all.mutex);
  for (const UOp& buffer : buffers) all.by_identity[identity_of(buffer)] = origins;
  all.count.store(all.by_identity.size(), std::memory_order_relaxed);
}

// What gradients of some values flow to, at the ends of their graph and beyond.
struct Reached {
  Identities own;        // in order; of the graph
  OriginList before;     // and of the graphs that ended in its memory, with what they stood for still there
  bool unknown = false;  // one of these was not known
};

template <class List>
void in_order(List& list) {
  std::ranges::sort(list);
  const auto rest = std::ranges::unique(list);
  list.erase(rest.begin(), rest.end());
}

Reached reached_from(const UOps& values) {
  Reached result;
  NodeSet seen;
  UOps open = values;
  while (!open.empty()) {
    const UOp u = std::move(open.back());
    open.pop_back();
    if (!seen.insert(u)) continue;
    if (const int64_t identity = identity_of(u); identity != 0) result.own.push_back(identity);
    each_flow(u, [&](const UOp& s) { open.push_back(s); });
  }
  in_order(result.own);
  Ended& all = ended();
  if (all.count.load(std::memory_order_relaxed) == 0) return result;
  std::vector<Origins> lists;
  {
    const std::lock_guard lock(all.mutex);
    for (const int64_t identity : result.own)
      if (const auto found = all.by_identity.find(identity); found != all.by_identity.end()) {
        result.unknown = result.unknown || !found->second;
        if (found->second && std::ranges::find(lists, found->second) == lists.end())
          lists.push_back(found->second);
      }
  }
  const std::lock_guard lock(all.mutex);
  for (const Origins& list : lists)
    for (const Origin& origin : *list) {
      const auto written = all.written.find(origin.identity);
      if (written == all.written.end() || written->second < origin.when) result.before.push_back(origin);
    }
  in_order(result.before);
  return result;
}

}  // namespace

bool leads_to_live_tensor(const UOps& nodes) {
  constexpr int kMostNodes = 4096;
  NodeSet seen;
  UOps open;
  int count = 0;
  for (const UOp& u : nodes) each_flow(u, [&](const UOp& s) { open.push_back(s); });
  while (!open.empty()) {
    const UOp u = std::move(open.back());
    open.pop_back();
    if (!seen.insert(u)) continue;
    if (++count > kMostNodes || (u.dtype().is_float() && is_live_value(u))) return true;
    each_flow(u, [&](const UOp& s) { open.push_back(s); });
  }
  return false;
}

void end_graphs(const UOps& values, const UOps& buffers) {
  constexpr size_t kFew = 4;  // one walk for each value; more of them share one
  if (values.size() > 1 && values.size() <= kFew) {
    for (size_t i = 0; i < values.size(); i++) end_graphs({values[i]}, {buffers[i]});
    return;
  }
  Reached reached = reached_from(values);
  auto origins = std::make_shared<OriginList>(std::move(reached.before));
  const bool certain = values.size() == 1;
  const uint64_t now = ++ended().now;
  for (Origin& origin : *origins) origin.certain = origin.certain && certain;
  for (const int64_t identity : reached.own) origins->push_back({identity, now, certain});
  in_order(*origins);
  // A loop adds to the list in each round; of what is gone nobody can ask for a gradient.
  constexpr size_t kMany = 256;
  if (origins->size() > kMany) std::erase_if(*origins, [](const Origin& o) { return is_gone(o.identity); });
  note(buffers, reached.unknown ? Origins() : Origins(std::move(origins)));
}

void end_unknown_graph(const UOp& buffer) { note(Sources(&buffer, 1), {}); }

void end_contents(const UOps& buffers) {
  Ended& all = ended();
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  const uint64_t now = ++all.now;
  const std::lock_guard lock(all.mutex);
  for (const UOp& buffer : buffers) all.written[identity_of(buffer)] = now;
}

bool is_graph_lost(const UOp& loss, const UOp& target, bool found) {
  const Reached of_loss = reached_from({loss});
  if (of_loss.unknown) return !found;
  if (of_loss.before.empty()) return false;
  const auto is_before = [&](int64_t identity) -> bool {
    auto at = std::ranges::lower_bound(of_loss.before, identity, {}, &Origin::identity);
    for (; at != of_loss.before.end() && at->identity == identity; ++at)
      if (at->certain || !found) return true;
    return false;
  };
  if (found) return is_before(identity_of(under_reshapes(target)));
  const Reached of_target = reached_from({target});
  return std::ranges::any_of(of_target.own, is_before) ||
         std::ranges::any_of(of_target.before, is_before, &Origin::identity);
}

bool has_lost_graphs(const UOp& loss) {
  const Reached reached = reached_from({loss});
  return reached.unknown || !reached.before.empty();
}

}  // namespace quern
