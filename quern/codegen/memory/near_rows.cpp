#include "quern/codegen/memory/near_rows.h"

#include <algorithm>
#include <unordered_map>

#include "quern/codegen/analysis/strides.h"
#include "quern/codegen/memory/near_memory.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

constexpr size_t kMostNodesToKeep = 1000;  // of a kernel that is looked at
constexpr OpSet kCostly = {Op::EXP2, Op::LOG2, Op::SIN, Op::COS, Op::POW};

// A value in the loop `range`, and the same value in other loops.
struct KeptRow {
  UOp range, value;
  std::vector<std::pair<UOp, UOp>> again;  // range and value
};

class RowFinder {
 public:
  RowFinder(const UOp& program, const DeviceSpec& spec) : order_(program.toposort()), spec_(spec) {
    for (const UOp& u : order_) {
      nodes_.insert(u);
      if (u.op() == Op::RANGE) ranges_.push_back(u);
      if (u.op() == Op::REDUCE)
        for (const UOp& r : Reduction(u).ranges)
          if (r.op() == Op::RANGE) reduced_.push_back(r);
    }
  }

  KeptRow find() const {
    if (order_.size() > kMostNodesToKeep) return {};
    for (const UOp& range : reduced_) {
      KeptRow best;
      for (const UOp& other : ranges_)
        if (!same(range, other) && steps(range) > 1 && steps(range) == steps(other)) add(range, other, best);
      if (best.value) return best;
    }
    return {};
  }

 private:
  // Nodes of the loop `range` that stand in the loop `other`, too: of those the outermost that costs much.
  void add(const UOp& range, const UOp& other, KeptRow& row) const {
    NodeMap<UOp> there;
    for (const UOp& u : order_) {
      if (!is_open(u, range) || is_open(u, other)) continue;
      UOps sources;
      bool changed = false;
      for (const UOp& s : u.src()) {
        const UOp* moved = same(s, range) ? &other : there.find(s);
        sources.push_back(moved != nullptr ? *moved : s);
        changed |= moved != nullptr;
      }
      const UOp now = same(u, range) ? other : changed ? u.with_src(sources) : UOp();
      if (!now || !nodes_.contains(now)) continue;
      there.emplace(u, now);
      const bool fits = steps(range) * u.dtype().bytes() * 2 <= spec_.memory.l1_bytes;
      if (!is_elementwise(u.op()) || !costs_much(u, range) || !fits || u.dtype().is_index()) continue;
      if (row.again.empty() || !same(row.again.back().first, other)) {
        if (row.value && !same(row.value, u)) continue;  // a third loop wants the same value
        row.range = range, row.value = u;
        row.again.emplace_back(other, now);
      } else if (row.again.size() == 1) {
        row.value = u;
        row.again.back().second = now;
      }
    }
  }

  // Something costly is computed in this very loop.
  static bool costs_much(const UOp& u, const UOp& range) {
    if ((u.ops_below() & kCostly).empty()) return false;
    UOps stack{u};
    NodeSet seen;
    while (!stack.empty()) {
      const UOp v = std::move(stack.back());
      stack.pop_back();
      if (!is_open(v, range) || !seen.insert(v)) continue;
      if (kCostly.contains(v.op())) return true;
      stack.insert(stack.end(), v.src().begin(), v.src().end());
    }
    return false;
  }

  const NodeList order_;
  const DeviceSpec& spec_;
  NodeSet nodes_;
  UOps ranges_, reduced_;
};

// In the loop in which it is first needed; separate_loops makes one of both.
UOp with_row_kept(const UOp& program, const KeptRow& row) {
  int64_t local = 0;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::DEFINE_LOCAL) local = std::max(local, u.arg().integer() + 1);
  });
  const UOp memory =
      UOp::make(Op::DEFINE_LOCAL, row.value.dtype().ptr(steps(row.range), AddrSpace::LOCAL), {}, local);
  const auto at = [&](const UOp& where, const UOp& index) {
    return UOp::make(Op::INDEX, memory.dtype(), {where, index});
  };
  const UOp store = UOp::make(Op::STORE, dtypes::void_, {at(memory, row.range), row.value});
  const UOp kept =
      UOp::make(Op::AFTER, memory.dtype(), {memory, UOp::make(Op::END, dtypes::void_, {store, row.range})});
  std::unordered_map<UOp, UOp> now;
  for (const auto& [other, value] : row.again)
    now.emplace(value, UOp::make(Op::LOAD, row.value.dtype(), {at(kept, other)}));
  return program.substitute(now);
}

}  // namespace

namespace {

// Its steps are neighbours in other memory: they may become lanes.
bool is_along_memory(const UOp& program, const UOp& range) {
  bool found = false;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::INDEX && storage_of(u).op() == Op::PARAM && is_open(u, range))
      found |= stride_of(position_of(u), range) == 1;
  });
  return found;
}

struct Enlarging {
  UOp program;
  std::unordered_map<UOp, UOps> copied;  // of memory, the ranges around what is stored
  std::unordered_map<UOp, UOp> larger;   // what becomes of memory
};

UOp memory_for_copies(const Enlarging& c, const UOp& u, Sources) {
  const auto found = c.larger.find(u);
  return found != c.larger.end() ? found->second : UOp();
}

UOp after_in_larger(const Enlarging&, const UOp& u, Sources now) {
  if (u.dtype() == now[0].dtype()) return {};
  return u.replace({.dtype = now[0].dtype(), .src = now});
}

UOp address_of_copy(const Enlarging& c, const UOp& u, Sources sources) {
  const auto found = c.copied.find(storage_of(u));
  if (found == c.copied.end()) return {};
  const UOp now = u.with_src(sources);
  UOp position = position_of(now);
  int64_t scale = found->first.dtype().size();
  for (const UOp& r : found->second) {
    if (is_along_memory(c.program, r)) continue;
    position = r * scale + position;
    scale *= steps(r);
  }
  for (const UOp& r : found->second)
    if (is_along_memory(c.program, r)) position = position * steps(r) + r;
  if (has_gate(now)) position = where(gate_of(now), position, UOp::invalid());
  return UOp::make(Op::INDEX, sources[0].dtype(), {sources[0], position});
}

const Rules memory_of_copies = [] {
  return RuleList{
      {op(Op::DEFINE_LOCAL), memory_for_copies, "memory that copies write -> memory for all of them"},
      {op(Op::AFTER), after_in_larger, "memory after an effect -> the larger memory"},
      {op(Op::INDEX), address_of_copy, "an address -> the address of a copy"},
  };
};

}  // namespace

UOp rows_for_each_copy(const UOp& program) {
  if (!program.ops_below().contains(Op::DEFINE_LOCAL)) return program;
  Enlarging context{program, {}, {}};
  std::unordered_map<UOp, UOps>& copied = context.copied;
  walk(program, [&](const UOp& u) {
    if (u.op() != Op::STORE || storage_of(u.src(0)).op() != Op::DEFINE_LOCAL) return;
    UOps& found = copied[storage_of(u.src(0))];
    for (const UOp& r : u.ranges())
      if (is_at_once(r) && !is_open(position_of(u.src(0)), r) && std::ranges::find(found, r) == found.end())
        found.push_back(r);
  });
  std::erase_if(copied, [](const auto& found) { return found.second.empty(); });
  if (copied.empty()) return program;
  for (const auto& [memory, ranges] : copied) {
    int64_t elements = memory.dtype().size();
    for (const UOp& r : ranges) elements *= steps(r);
    const DType dtype = memory.dtype().base().ptr(elements, AddrSpace::LOCAL);
    context.larger.emplace(memory, memory.replace({.dtype = dtype}));
  }
  return graph_rewrite(program, memory_of_copies, context,
                       {.order = Order::once, .name = "rows for each copy"});
}

UOp rows_to_near_memory(const UOp& program, const DeviceSpec& spec) {
  UOp result = program;
  while (!(result.ops_below() & kCostly).empty()) {
    const RowFinder finder(result, spec);
    const KeptRow row = finder.find();
    if (!row.value) break;
    result = with_row_kept(result, row);
  }
  return result;
}

}  // namespace quern
