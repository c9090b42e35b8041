#include "quern/codegen/memory/fetch_ahead.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "quern/codegen/analysis/strides.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

constexpr size_t kMostNodesToFetch = 1000;  // of a kernel that is looked at
constexpr wide kShortestRow = 256;          // bytes

// What a LOAD reads in the loops around it: the row that its innermost loop goes along, and how far the next
// one is.
struct LoadedRow {
  UOp along;
  wide stride = 0, next = 0;
};

std::optional<LoadedRow> row_of(const UOp& load) {
  const UOp& position = position_of(index_of_address(load.src(0)));
  LoadedRow row;
  UOp across;
  for (const UOp& r : load.ranges()) {
    const std::optional<wide> stride = stride_of(position, r);
    if (!stride || *stride < 0 || steps(r) == 0) return {};
    if (*stride == 0) continue;
    if (!row.along || *stride < row.stride) {
      across = row.along, row.next = row.stride;
      row.along = r, row.stride = *stride;
    } else if (!across || *stride < row.next) {
      across = r, row.next = *stride;
    }
  }
  const bool in_order = across && across.arg().range().kind != AxisKind::THREAD;
  return in_order && row.next >= row.stride * steps(row.along) ? std::optional(row) : std::nullopt;
}

class LoadFinder {
 public:
  LoadFinder(const UOp& program, const DeviceSpec& spec) : order_(program.toposort()), spec_(spec) {
    for (const UOp& u : order_)
      if (u.op() == Op::LOAD) add(u);
  }

  // The LOADs that are marked, each with a distance.
  std::unordered_map<UOp, int64_t> find() const {
    std::unordered_map<UOp, int64_t> result;
    NodeSet looked_at;
    for (const Read& first : reads_) {
      if (!looked_at.insert(first.row.along)) continue;
      const std::unordered_set<UOp> later = loops_behind(first.row.along);
      for (const Read& r : reads_) {
        const bool again = same(r.memory, first.memory) && r.row.next == first.row.next &&
                           r.row.stride == first.row.stride && steps(r.row.along) == steps(first.row.along) &&
                           later.contains(r.row.along);
        const wide at = spot_of(index_of_address(r.load.src(0))).offset * r.memory.dtype().base().bytes();
        if (again && at % kCacheLine == 0) result.emplace(r.load, static_cast<int64_t>(r.row.next));
      }
      if (!result.empty()) break;  // what a third loop reads is near already
    }
    return result;
  }

 private:
  struct Read {
    UOp load, memory;
    LoadedRow row;
  };

  void add(const UOp& load) {
    const UOp& memory = storage_of(load.src(0));
    if (memory.op() != Op::PARAM || load.src().size() > 1 || has_gate(index_of_address(load.src(0)))) return;
    const wide bytes = memory.dtype().base().bytes();
    if (memory.dtype().size() * bytes < spec_.memory.l2_bytes) return;
    const std::optional<LoadedRow> row = row_of(load);
    if (!row) return;
    const wide length = row->stride * steps(row->along) * bytes;
    if (length >= kShortestRow && length * 4 <= spec_.memory.l2_bytes) reads_.push_back({load, memory, *row});
  }

  // Those in which something is needed that `range` was reduced to.
  std::unordered_set<UOp> loops_behind(const UOp& range) const {
    NodeSet behind;
    std::unordered_set<UOp> loops;
    for (const UOp& u : order_) {
      bool is_behind = u.op() == Op::REDUCE && closes(u, range);
      for (const UOp& s : u.src()) is_behind |= behind.contains(s);
      if (!is_behind) continue;
      behind.insert(u);
      for (const UOp& r : u.ranges()) loops.insert(r);
    }
    return loops;
  }

  const NodeList order_;
  const DeviceSpec& spec_;
  std::vector<Read> reads_;
};

struct Fetching {
  std::unordered_map<UOp, int64_t> marked;  // LOADs, each with a distance
};

UOp load_that_fetches(const Fetching& c, const UOp& u, Sources now) {
  const auto found = c.marked.find(u);
  return found != c.marked.end() ? u.with_src(now).with_hint(&Hints::prefetch, found->second) : UOp();
}

}  // namespace

const Rules fetching_loads = [] {
  return RuleList{
      {op(Op::LOAD), load_that_fetches, "a LOAD of a row again -> one that fetches the next row"},
  };
};

UOp fetch_ahead(const UOp& program, const DeviceSpec& spec) {
  if (!program.ops_below().contains(Op::REDUCE)) return program;
  if (program.toposort().size() > kMostNodesToFetch) return program;
  Fetching fetching{LoadFinder(program, spec).find()};
  if (fetching.marked.empty()) return program;
  return graph_rewrite(program, fetching_loads, fetching, {.order = Order::once, .name = "fetch ahead"});
}

}  // namespace quern
