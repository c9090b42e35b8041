#include "quern/schedule/kernels/merge.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <unordered_map>

#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/schedule/facts/memory_view.h"
#include "quern/schedule/kernels/kernels.h"
#include "quern/schedule/ranges/limit.h"

namespace quern {
namespace {

constexpr size_t kMostOutputs = 8;

class Merger {
 public:
  Merger(const UOp& sink, const SpecOf& spec_of)
      : spec_of_(spec_of),
        sink_(sink),
        order_(sink.toposort([&](const UOp& u) { return u.op() != Op::SINK || same(u, sink); })) {}

  UOp run() {
    measure_depths();
    std::vector<size_t> by_depth(order_.size());
    std::iota(by_depth.begin(), by_depth.end(), size_t{0});
    std::ranges::stable_sort(by_depth, [&](size_t a, size_t b) { return depth_[a] < depth_[b]; });
    for (size_t i = 0; i < by_depth.size();) {
      const int depth = depth_[by_depth[i]];
      std::vector<const UOp*> effects;
      for (; i < by_depth.size() && depth_[by_depth[i]] == depth; i++) {
        const UOp& u = order_[by_depth[i]];
        rebuild(u);
        if (is_effect_.contains(u)) effects.push_back(&u);
      }
      merge(effects);
    }
    return *done_.find(sink_);
  }

 private:
  // How many kernels must have run before a node can be computed, by what it reads.
  void measure_depths() {
    NodeMap<int> depth;
    depth_.reserve(order_.size());
    for (const UOp& u : order_) {
      int d = 0;
      if (u.op() != Op::SINK || same(u, sink_))
        for (const UOp& s : u.src()) d = std::max(d, *depth.find(s));
      if (u.op() == Op::AFTER && is_memory(memory_under(u))) {
        d++;
        for (const UOp& e : u.src().subspan(1))
          if (e.op() == Op::END && e.src(0).op() == Op::STORE && e.src(0).src(1).op() != Op::COPY)
            is_effect_.insert(e);
      }
      if (same(u, sink_)) d++;
      depth.emplace(u, d);
      depth_.push_back(d);
    }
  }

  void rebuild(const UOp& u) {
    UOps sources;
    const bool inside = u.op() != Op::SINK || same(u, sink_);
    for (const UOp& s : u.src()) sources.push_back(inside ? *done_.find(s) : s);
    done_.emplace(u, u.src().empty() ? u : u.with_src(sources));
  }

  struct Group {
    std::vector<const UOp*> members;
    UOps stores;  // in the loops of the first member
    UOps reads;   // states of memory
  };

  static bool is_state(const UOp& u) {
    return is_memory(u) || (u.op() == Op::AFTER && is_memory(memory_under(u)));
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
  static const UOp& target_of(const UOp& store) { return memory_under(store.src(0).src(0)); }

  // Does one read what the other writes, other than at the place that it writes itself?
  static bool clash(const UOp& a, const UOp& b) {
    if (same(target_of(a), target_of(b))) return true;
    auto reads_elsewhere = [](const UOp& reader, const UOp& writer) {
      bool elsewhere = false;
      walk(
          reader.src(1), [](const UOp& u) { return !is_state(u); },
          [&](const UOp& u) {
            elsewhere |= u.op() == Op::INDEX && same(memory_under(u.src(0)), target_of(writer)) &&
                         !same(u.src(1), writer.src(0).src(1));
          });
      return elsewhere;
    };
    return reads_elsewhere(a, b) || reads_elsewhere(b, a);
  }

  // Its STORE in the loops of another effect: each of its own is one of those, or several of them in a row.
  // None if they do not match.
  static UOp in_loops_of(const UOp& effect, const UOp& other) {
    std::unordered_map<UOp, UOp> ranges;
    const Sources loops = other.src().subspan(1);
    size_t next = 0;
    for (const UOp& range : effect.src().subspan(1)) {
      if (next == loops.size()) return {};
      UOp size = loops[next].src(0), place = loops[next];
      for (next++; !same(size, range.src(0)); next++) {
        if (next == loops.size() || !size.is_int_const() || !loops[next].src(0).is_int_const()) return {};
        place = place * loops[next].src(0) + loops[next];
        size = (size * loops[next].src(0)).simplify();
        if (size.int_value() > range.src(0).vmax()) return {};
      }
      ranges.emplace(range, place);
    }
    return next == loops.size() ? effect.src(0).substitute_open(ranges) : UOp();
  }

  // Those with most loops first: the others can be put into theirs.
  std::vector<const UOp*> finest_first(std::vector<const UOp*> effects) {
    std::ranges::stable_sort(effects, std::greater(), [](const UOp* e) { return e->src().size(); });
    return effects;
  }

  void merge(const std::vector<const UOp*>& effects) {
    std::map<std::string, std::vector<Group>> by_shape;
    for (const UOp* e : finest_first(effects)) {
      const UOp& made = *done_.find(*e);
      UOps sizes;
      for (const UOp& r : made.src().subspan(1)) sizes.push_back(r.src(0));
      std::string shape = elements_in(sizes).key();
      for (const std::string& device : target_of(made.src(0)).device()) shape += device;
      const int64_t most = most_buffers(target_of(made.src(0)).device(), spec_of_);
      auto& groups = by_shape[shape];
      UOps reads = states_read(made);
      UOp store = made.src(0);
      auto fits = [&](const Group& g) {
        if (g.members.size() == kMostOutputs ||
            std::ssize(g.reads) + std::ssize(reads) + std::ssize(g.members) > most)
          return false;
        if (std::ranges::none_of(
                reads, [&](const UOp& r) { return std::ranges::find(g.reads, r) != g.reads.end(); }))
          return false;
        const UOp moved = in_loops_of(made, *done_.find(*g.members[0]));
        if (!moved) return false;
        if (std::ranges::any_of(g.stores, [&](const UOp& s) { return clash(s, moved); })) return false;
        store = moved;
        return true;
      };
      auto at = std::ranges::find_if(groups, fits);
      if (at == groups.end()) at = groups.insert(groups.end(), Group{});
      at->members.push_back(e);
      at->stores.push_back(store);
      at->reads.insert(at->reads.end(), reads.begin(), reads.end());
    }
    for (const auto& [shape, groups] : by_shape)
      for (const Group& g : groups)
        if (g.members.size() > 1) join(g);
  }

  void join(const Group& g) {
    const UOp first = *done_.find(*g.members[0]);
    UOps sources{UOp::make(Op::GROUP, dtypes::void_, g.stores)};
    sources.insert(sources.end(), first.src().begin() + 1, first.src().end());
    const UOp joined = UOp::make(Op::END, dtypes::void_, sources);
    for (const UOp* m : g.members) *done_.find(*m) = joined;
  }

  const SpecOf& spec_of_;
  const UOp sink_;
  const NodeList order_;
  std::vector<int> depth_;
  NodeSet is_effect_;
  NodeMap<UOp> done_;
};

}  // namespace

UOp merge_outputs(const UOp& sink, const SpecOf& spec_of) { return Merger(sink, spec_of).run(); }

}  // namespace quern
