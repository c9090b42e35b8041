#include "quern/codegen/workgroup/workgroups.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "quern/codegen/analysis/given_kinds.h"
#include "quern/codegen/analysis/strides.h"
#include "quern/codegen/workgroup/group_reduce.h"
#include "quern/codegen/workgroup/spread_loops.h"
#include "quern/codegen/workgroup/thread_slots.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

constexpr int64_t kMostGroups = INT32_MAX, kMostGroupsOfOthers = 65535;  // in the first dimension, in others

UOp special(const UOp& size, char kind, size_t dimension) {
  return UOp::make(Op::SPECIAL, dtypes::index, {size}, fmt::format("{}idx{}", kind, dimension));
}

// ---- GLOBAL

// The loops that an effect of the kernel is in, all of it.
UOps loops_around(const UOp& effect) {
  UOps loops;
  const UOp* u = &effect;
  for (; u->op() == Op::END; u = &u->src(0))
    for (const UOp& r : u->src().subspan(1))
      if (r.op() == Op::RANGE) loops.push_back(r);
  return loops;
}

class GlobalLoops {
 public:
  explicit GlobalLoops(const UOp& program) : program_(program), order_(program.toposort()) {
    const bool has_opts = !program.arg().none() && !program.arg().kernel().opts.empty();
    is_of_a_user_ = !has_opts && std::ranges::any_of(order_, [](const UOp& u) {
      return u.op() == Op::DEFINE_REG ||
             (u.op() == Op::RANGE && (is_of_threads(u) || u.arg().range().kind == AxisKind::GLOBAL));
    });
    walk(
        program, [](const UOp& u) { return u.op() != Op::BARRIER; },
        [&](const UOp& u) {
          if (u.op() == Op::REDUCE) reduces_.push_back(u);
        });
    for (const UOp& u : order_)
      if (u.op() == Op::STORE) stores_[storage_of(u.src(0))].push_back(u);
  }

  // Outermost first.
  UOps run() const {
    UOps found;
    if (program_.src().empty() || program_.ops_below().contains(Op::SPECIAL)) return found;
    for (const UOp& r : loops_around(program_.src(0))) {
      const AxisKind kind = r.arg().range().kind;
      if (kind == AxisKind::GLOBAL || (kind == AxisKind::LOOP && encloses_all(r) && has_independent_steps(r)))
        found.push_back(r);
    }
    std::ranges::sort(found, before);
    found.erase(std::ranges::unique(found).begin(), found.end());
    // In a kernel with LOCAL memory the innermost loop that does not fill it is that of the threads.
    for (size_t i = found.size(); i-- > 0;)
      if (has_barrier() && found[i].arg().range().kind == AxisKind::LOOP && !is_in_barrier(found[i])) {
        found.erase(found.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
    return found;
  }

 private:
  bool has_barrier() const { return program_.ops_below().contains(Op::BARRIER); }
  bool is_in_barrier(const UOp& r) const {
    return std::ranges::any_of(order_, [&](const UOp& u) { return u.op() == Op::BARRIER && is_open(u, r); });
  }
  bool encloses_all(const UOp& r) const {
    return std::ranges::all_of(program_.src(), [&](const UOp& e) { return contains(loops_around(e), r); });
  }
  // Its steps do not meet, and what they share is no reduce.
  bool has_independent_steps(const UOp& r) const {
    if (!r.src(0).ranges().empty()) return false;
    // Registers, and loops beside ranges of threads, are a user's: nobody has looked yet what is apart there.
    if (is_of_a_user_ && !why_steps_depend(program_, r).empty()) return false;
    if (!std::ranges::all_of(reduces_, [&](const UOp& u) { return is_open(u, r); })) return false;
    for (const auto& [memory, stores] : stores_) {
      const auto inside = std::ranges::count_if(stores, [&](const UOp& s) {
        return is_open(memory.op() == Op::PARAM ? index_of_address(s.src(0)).src(1) : s, r);
      });
      if (inside != std::ssize(stores) && (memory.op() == Op::PARAM || inside != 0)) return false;
    }
    return true;
  }

  const UOp program_;
  const NodeList order_;
  bool is_of_a_user_ = false;
  UOps reduces_;  // that are not in what fills LOCAL memory
  std::unordered_map<UOp, UOps> stores_;
};

// Hardware indices for GLOBAL ranges, the innermost first. What does not fit stays a loop.
std::unordered_map<UOp, UOp> group_indices(UOps ranges) {
  std::unordered_map<UOp, UOp> values;
  const auto most = [](const UOp& r) { return r.src(0).vmax(); };
  wide all = 1;
  size_t fitting = 0;
  std::ranges::reverse(ranges);
  for (; fitting < ranges.size() && all <= kMostGroups / std::max<wide>(1, most(ranges[fitting])); fitting++)
    all *= std::max<wide>(1, most(ranges[fitting]));
  ranges.resize(fitting);
  bool fits = ranges.size() <= 3;
  for (size_t i = 1; i < ranges.size(); i++) fits &= most(ranges[i]) <= kMostGroupsOfOthers;
  if (fits) {
    for (size_t i = 0; i < ranges.size(); i++) values.emplace(ranges[i], special(ranges[i].src(0), 'g', i));
    return values;
  }
  UOp size = UOp::index(1);
  for (const UOp& r : ranges) size = size * r.src(0);
  UOp left = special(size.simplify(), 'g', 0);
  for (size_t i = 0; i < ranges.size(); i++) {
    values.emplace(ranges[i], i + 1 == ranges.size() ? left : left % ranges[i].src(0));
    left = left / ranges[i].src(0);
  }
  return values;
}

// ---- all of it

class Workgroups {
 public:
  Workgroups(const UOp& program, const UOps& global, const DeviceSpec& spec)
      : slots_(thread_slots(program)), values_(group_indices(global)) {
    if (const int64_t threads = threads_of(slots_); threads > spec.parallel.workgroup)
      throw Error(fmt::format("kernel: workgroups of {} threads, {} has at most {}", threads, spec.name,
                              spec.parallel.workgroup));
    walk(program, [&](const UOp& u) {
      if (u.op() == Op::DEFINE_LOCAL) next_local_ = std::max(next_local_, u.arg().integer() + 1);
      if (u.op() == Op::RANGE) next_range_ = std::max(next_range_, u.arg().range().id + 1);
    });
    thread_indices();
  }

  UOp index_of(const UOp& range) const {
    const auto found = values_.find(range);
    return found != values_.end() ? found->second : UOp();
  }

  UOp closed(const UOp& u, Sources sources) const {
    UOps now{sources[0]};
    for (size_t i = 1; i < sources.size(); i++)
      if (!is_gone(u.src(i))) now.push_back(sources[i]);
    return now.size() == 1 ? now[0] : u.with_src(now);
  }

  UOp reduce(const UOp& u, Sources sources) {
    const Op op = u.arg().reduce().op;
    UOps left, over;
    for (size_t i = 0; i < sources.size(); i++) {
      if (i >= sources_before_ranges(u) && is_gone(u.src(i)))
        over.push_back(u.src(i));
      else
        left.push_back(sources[i]);
    }
    if (over.empty()) return {};
    if (op == Op::NOOP)
      throw Error("kernel: a REDUCE of several values cannot go over the threads of a workgroup");
    UOp value = u.with_src(left);
    for (const UOp& r : over) {
      size_t slot = 0;
      while (slot < slots_.size() && !contains(slots_[slot].ranges, r)) slot++;
      if (slot == slots_.size()) throw Error("kernel: a REDUCE cannot go over workgroups");
      value = combine_in_group(op, value,
                               {.index = index_,
                                .count = threads_of(slots_),
                                .along = indices_[slot],
                                .steps = slots_[slot].size,
                                .stride = strides_[slot]},
                               next_local_, next_range_);
    }
    return value;
  }

  // Where a thread index plays no part, the first of these threads stores.
  UOp store(const UOp& u, Sources sources) const {
    if (storage_of(u.src(0)).op() == Op::DEFINE_REG) return {};
    UOp gate;
    for (size_t i = 0; i < slots_.size(); i++) {
      const bool plays = std::ranges::any_of(slots_[i].ranges, [&](const UOp& r) { return is_open(u, r); });
      if (plays) continue;
      const UOp first = eq(indices_[i], UOp::index(0));
      gate = gate ? gate & first : first;
    }
    if (!gate) return {};
    // under casts
    UOps casts;
    UOp address = sources[0];
    for (; address.op() != Op::INDEX; address = address.src(0)) casts.push_back(address);
    const UOp now = has_gate(address) ? gate & gate_of(address) : gate;
    address = address.with_src(UOps{address.src(0), where(now, position_of(address), UOp::invalid())});
    for (size_t i = casts.size(); i-- > 0;) {
      UOps with{address};
      with.insert(with.end(), casts[i].src().begin() + 1, casts[i].src().end());
      address = casts[i].with_src(with);
    }
    UOps now_stored(sources.begin(), sources.end());
    now_stored[0] = address;
    return u.with_src(now_stored);
  }

 private:
  void thread_indices() {
    const bool fits = slots_.size() <= 3;
    UOp left = fits ? UOp() : special(UOp::index(threads_of(slots_)), 'l', 0);
    int64_t stride = 1;
    index_ = UOp::index(0);
    for (size_t i = 0; i < slots_.size(); i++) {
      const int64_t size = slots_[i].size;
      indices_.push_back(fits                     ? special(UOp::index(size), 'l', i)
                         : i + 1 == slots_.size() ? left
                                                  : left % size);
      if (!fits) left = left / size;
      index_ = index_ + indices_[i] * stride;
      strides_.push_back(stride);
      stride *= size;
      for (const UOp& r : slots_[i].ranges) values_.emplace(r, indices_[i]);
    }
  }

  bool is_gone(const UOp& u) const { return values_.contains(u); }

  const std::vector<ThreadSlot> slots_;
  std::unordered_map<UOp, UOp> values_;  // what becomes of ranges
  UOps indices_;                         // of the slots
  std::vector<int64_t> strides_;
  UOp index_;  // of the thread in its workgroup
  int64_t next_local_ = 0, next_range_ = 0;
};

using W = Workgroups;

}  // namespace

const Rules workgroup_indices = [] {
  return RuleList{
      {op(Op::RANGE), [](W& w, const UOp& u, Sources) { return w.index_of(u); },
       "a GLOBAL, LOCAL or GROUP_REDUCE range -> the index of a workgroup or thread"},
      {op(Op::END), [](W& w, const UOp& u, Sources now) { return w.closed(u, now); },
       "the end of such a range -> nothing"},
      {op(Op::REDUCE), [](W& w, const UOp& u, Sources now) { return w.reduce(u, now); },
       "a REDUCE over threads -> through LOCAL memory"},
      {op(Op::STORE), [](W& w, const UOp& u, Sources now) { return w.store(u, now); },
       "a STORE in which a thread plays no part -> by the first thread"},
  };
};

std::string must_be_in_order(const UOp& program) {
  bool given = program.ops_below().contains(Op::SPECIAL);  // whoever says what is done at once knows why
  std::unordered_map<UOp, UOp> stored;
  std::string why;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::RANGE) given |= is_of_threads(u) || u.arg().range().kind == AxisKind::GLOBAL;
    if (u.op() != Op::STORE || storage_of(u.src(0)).op() != Op::PARAM) return;
    const UOp& index = index_of_address(u.src(0));
    const auto [known, added] = stored.emplace(storage_of(index), u.src(0));
    if (!added && !same(known->second, u.src(0))) why = "it writes memory in several ways";
    if (index.src(1).ops_below().contains(Op::LOAD)) why = "it writes where memory says";
  });
  if (given) return "";
  if (may_store_twice(program)) return "its steps may write the same place";
  walk(program, [&](const UOp& u) {
    if (u.op() != Op::LOAD) return;
    const auto known = stored.find(storage_of(u.src(0)));
    if (known != stored.end() && !same(known->second, u.src(0))) why = "it reads memory that it writes";
  });
  return why;
}

UOp ranges_to_workgroups(const UOp& program, const DeviceSpec& spec) {
  const UOps global = GlobalLoops(program).run();
  const UOp spread = spread_loops(program, global, spec);
  Workgroups groups(spread, global, spec);
  const UOp result =
      graph_rewrite(spread, workgroup_indices, groups, {.order = Order::once, .name = "workgroups"});
  int64_t bytes = 0;
  walk(result, [&](const UOp& u) {
    if (u.op() == Op::DEFINE_LOCAL) bytes += u.dtype().size() * u.dtype().base().bytes();
  });
  if (bytes > spec.memory.group_bytes)
    throw Error(fmt::format("kernel: {} bytes of LOCAL memory, {} has {}", bytes, spec.name,
                            spec.memory.group_bytes));
  return result;
}

void add_barriers_to_loops(LinearProgram& program) {
  UOps list;
  struct Loop {
    UOp range;  // none: a gate
    bool has_barrier = false;
  };
  std::vector<Loop> open;
  for (const UOp& u : program.list) {
    if (u.op() == Op::BARRIER)
      for (Loop& loop : open) {
        if (loop.range)
          walk(loop.range.src(0), [&](const UOp& s) {
            if (s.op() == Op::LOAD || (s.op() == Op::SPECIAL && s.arg().text().starts_with("l")))
              throw Error(fmt::format("kernel {}: a BARRIER in a loop that is not the same for all threads",
                                      program.name));
          });
        loop.has_barrier = true;
      }
    if (u.op() == Op::RANGE) open.push_back({u});
    if (u.op() == Op::IF) open.push_back({});
    if (u.op() == Op::END || u.op() == Op::ENDIF) {
      if (open.back().has_barrier) list.push_back(UOp::make(Op::BARRIER, dtypes::void_));
      open.pop_back();
    }
    list.push_back(u);
  }
  program.list = std::move(list);
}

}  // namespace quern
