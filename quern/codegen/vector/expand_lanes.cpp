// Ranges as lanes of vectors.
#include <algorithm>
#include <bit>
#include <unordered_map>

#include "quern/codegen/analysis/strides.h"
#include "quern/codegen/memory/near_memory.h"
#include "quern/codegen/vector/expand.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

constexpr int64_t kMostLanes = 64;
constexpr int64_t kOften = 256;  // steps of a reduce beside which nothing else counts

int lanes_in(const UOp& range) { return static_cast<int>(range.src(0).int_value()); }

// ---- which ranges

bool may_be_lanes(const UOp& range) {
  const wide n = range.src(0).is_int_const() ? range.src(0).int_value() : 0;
  return n > 1 && n <= kMostLanes && std::has_single_bit(static_cast<uint64_t>(n));
}

bool is_in_loop(const UOp& access) {
  return std::ranges::any_of(access.ranges(), [](const UOp& r) { return !is_at_once(r); });
}

// More than 0: accesses to neighbours outweigh those that go elsewhere, which are made lane by lane. The more
// lanes, the more of them are one. Beside accesses in a loop those outside of all loops count nothing, as
// those of a last step that is apart.
int64_t score(const NodeList& order, const UOp& range) {
  std::vector<const UOp*> accesses;
  for (const UOp& u : order)
    if ((u.op() == Op::LOAD || u.op() == Op::STORE) && is_open(u.src(0), range)) accesses.push_back(&u);
  const bool any_in_loop = std::ranges::any_of(accesses, [](const UOp* u) { return is_in_loop(*u); });
  int64_t total = 0;
  for (const UOp* access : accesses) {
    const UOp& u = *access;
    if (any_in_loop && !is_in_loop(u)) continue;
    const UOp& index = index_of_address(u.src(0));
    const std::optional<wide> stride = stride_of(position_of(index), range);
    const bool by_lane = !stride || (*stride != 1 && *stride != 0) ||
                         (*stride == 0 && has_gate(index) && is_open(gate_of(index), range));
    int64_t weight = u.op() == Op::STORE ? 3 : 1;
    for (const UOp& r : u.ranges())  // what is done often counts more
      if (r.arg().range().kind == AxisKind::REDUCE) weight *= std::clamp<int64_t>(steps(r), 2, kOften);
    total += by_lane ? -weight : stride == 1 ? weight : 0;
  }
  return total * lanes_in(range);
}

// Ranges that are never open together.
UOps chosen_lanes(const UOp& program) {
  const NodeList order = program.toposort();
  std::vector<std::pair<int64_t, UOp>> candidates;
  for (const UOp& u : order)
    if (u.op() == Op::RANGE && is_at_once(u) && may_be_lanes(u))
      if (const int64_t points = score(order, u); points > 0) candidates.emplace_back(points, u);
  std::ranges::stable_sort(candidates, std::ranges::greater{}, [](const auto& c) { return c.first; });
  UOps chosen;
  for (const auto& [points, range] : candidates) {
    const bool meets = std::ranges::any_of(order, [&](const UOp& u) {
      const UOp& inside = u.op() == Op::REDUCE || u.op() == Op::END ? u.src(0) : u;
      const auto has = [&](const UOp& r) {
        return is_open(inside, r) || std::ranges::find(u.src(), r) != u.src().end();
      };
      return has(range) && std::ranges::any_of(chosen, has);
    });
    if (!meets) chosen.push_back(range);
  }
  return chosen;
}

// ---- nodes with lanes

UOp broadcast(const UOp& u, int lanes) {
  if (u.dtype().lanes() == lanes) return u;
  if (u.is_const()) return UOp::constant(u.dtype().vec(lanes), u.value());
  return UOp::make(Op::VECTORIZE, u.dtype().vec(lanes), UOps(static_cast<size_t>(lanes), u));
}

UOp lane_of(const UOp& u, int lane) {
  if (u.dtype().lanes() == 1) return u;
  if (u.is_const()) return UOp::constant(u.dtype().scalar(), u.value());
  if (u.op() == Op::VECTORIZE) return u.src(static_cast<size_t>(lane));
  return UOp::make(Op::GEP, u.dtype().scalar(), {u}, Ints{lane});
}

// One half with the other, until one lane is left.
UOp across(Op op, UOp u) {
  while (u.dtype().lanes() > 1) {
    const int half = u.dtype().lanes() / 2;
    Ints low, high;
    for (int i = 0; i < half; i++) low.push_back(i), high.push_back(half + i);
    const DType dtype = u.dtype().scalar().vec(half);
    u = UOp::alu(op, {UOp::make(Op::GEP, dtype, {u}, low), UOp::make(Op::GEP, dtype, {u}, high)});
  }
  return u;
}

class Lanes {
 public:
  explicit Lanes(UOps ranges) : ranges_(std::move(ranges)) {}

  UOp range(const UOp& u, Sources sources) {
    if (is_lane_range(u)) {
      UOps steps;
      for (int i = 0; i < lanes_in(u); i++) steps.push_back(UOp::index(i));
      return UOp::make(Op::VECTORIZE, u.dtype().vec(lanes_in(u)), steps);
    }
    // its size may be loaded from memory that lanes write
    if (!same(sources[0], u.src(0))) ranges_now_.emplace(u, u.with_src(sources));
    return {};
  }

  UOp value(const UOp& u, Sources sources) const {
    const UOp range = open_in(u);
    if (!range) return {};
    const int lanes = lanes_in(range);
    UOps now;
    for (const UOp& s : sources) now.push_back(broadcast(s, lanes));
    return UOp::make(u.op(), u.dtype().vec(lanes), now, u.arg(), u.tag());
  }

  // LOAD and STORE look at it: the memory as it is now, and an address that still has lanes. With a gate that
  // is open for some of the lanes: TUPLE(the address of the first lane, which lanes).
  UOp index(const UOp& u, Sources sources) const {
    const UOp range = open_in(u);
    if (!range) return {};
    UOp now = u.with_src(UOps{sources[0], u.src(1).substitute_open(ranges_now_)});
    if (!gate_varies(now, range) || stride_of(position_of(now), range) != 1) return now;
    const UOp first = position_of(now).substitute_open({{range, UOp::index(0)}});
    return UOp::make(Op::TUPLE, dtypes::void_, {u.with_src(UOps{sources[0], first}), sources[1].src(0)});
  }

  UOp load(const UOp& u, Sources sources) const {
    const UOp range = open_in(u);
    if (!range) return {};
    const int lanes = lanes_in(range);
    const Access where = access(sources[0], range);
    const auto loaded = [&](const UOp& address, const UOp& otherwise, DType dtype) {
      return UOp::make(Op::LOAD, dtype, otherwise ? UOps{address, otherwise} : UOps{address});
    };
    const bool has_otherwise = sources.size() > 1;
    if (where.mask) {
      const DType dtype = u.dtype().vec(lanes);
      const UOp otherwise =
          has_otherwise ? broadcast(sources[1], lanes) : UOp::constant(dtype, make_const(u.dtype(), 0));
      return UOp::make(Op::LOAD, dtype, {address_of(where.together, dtype), otherwise, where.mask});
    }
    if (where.together && !where.is_same) {
      const DType dtype = u.dtype().vec(lanes);
      return loaded(address_of(where.together, dtype), has_otherwise ? broadcast(sources[1], lanes) : UOp(),
                    dtype);
    }
    if (where.together && (!has_otherwise || sources[1].dtype().lanes() == 1))
      return broadcast(loaded(where.together, has_otherwise ? sources[1] : UOp(), u.dtype()), lanes);
    UOps values;
    for (int i = 0; i < lanes; i++)
      values.push_back(loaded(where.together ? where.together : where.one_by_one[static_cast<size_t>(i)],
                              has_otherwise ? lane_of(sources[1], i) : UOp(), u.dtype()));
    return UOp::make(Op::VECTORIZE, u.dtype().vec(lanes), values);
  }

  UOp store(const UOp& u, Sources sources) const {
    const UOp range = open_in(u);
    if (!range) return {};
    const int lanes = lanes_in(range);
    const Access where = access(sources[0], range);
    if (where.together && !where.is_same) {
      const UOp value = broadcast(sources[1], lanes);
      UOps now{address_of(where.together, value.dtype()), value};
      if (where.mask) now.push_back(where.mask);
      return UOp::make(Op::STORE, dtypes::void_, now);
    }
    if (where.together)  // the last one stays
      return UOp::make(Op::STORE, dtypes::void_, {where.together, lane_of(sources[1], lanes - 1)});
    UOps stores;
    for (int i = 0; i < lanes; i++)
      stores.push_back(UOp::make(Op::STORE, dtypes::void_,
                                 {where.one_by_one[static_cast<size_t>(i)], lane_of(sources[1], i)}));
    return UOp::make(Op::GROUP, dtypes::void_, stores);
  }

  UOp end(const UOp& u, Sources sources) const {
    UOps now{sources[0]};
    for (const UOp& r : closed(u, sources)) now.push_back(r);
    return now.size() == 1 ? now[0] : u.with_src(now);
  }
  UOp reduce(const UOp& u, Sources sources) const {
    UOp range;
    for (const UOp& s : Reduction(u).ranges)
      if (is_lane_range(s)) range = s;
    UOps now{range ? broadcast(sources[0], lanes_in(range)) : sources[0]};
    for (const UOp& r : closed(u, sources)) now.push_back(r);
    const UOp result = UOp::make(Op::REDUCE, now[0].dtype(), now, u.arg(), u.tag());
    return range ? across(u.arg().reduce().op, result) : result;
  }

 private:
  bool is_lane_range(const UOp& u) const { return std::ranges::find(ranges_, u) != ranges_.end(); }
  UOp open_in(const UOp& u) const {
    for (const UOp& r : u.ranges())
      if (is_lane_range(r)) return r;
    return {};
  }

  static bool gate_varies(const UOp& index, const UOp& range) {
    return has_gate(index) && is_open(gate_of(index), range);
  }

  struct Access {
    UOp together;     // one address for all lanes
    bool is_same;     // the lanes have the same address
    UOp mask;         // those lanes that are accessed; none: all
    UOps one_by_one;  // else an address for each
  };
  static Access access(const UOp& address, const UOp& range) {
    if (address.op() == Op::TUPLE) return {address.src(0), false, address.src(1), {}};
    const std::optional<wide> stride = stride_of(position_of(address), range);
    const auto step = [&](int64_t i) { return address.substitute_open({{range, UOp::index(i)}}); };
    if (!gate_varies(address, range) && (stride == 0 || stride == 1)) return {step(0), stride == 0, {}, {}};
    Access result{{}, false, {}, {}};
    for (int i = 0; i < lanes_in(range); i++) result.one_by_one.push_back(step(i));
    return result;
  }
  static UOp address_of(const UOp& index, DType dtype) {
    if (dtype.lanes() == 1) return index;
    return index.cast(dtype.ptr(index.dtype().size(), index.dtype().space()));
  }

  // What is closed besides lanes.
  UOps closed(const UOp& u, Sources sources) const {
    UOps left;
    for (size_t i = 1; i < sources.size(); i++)
      if (!is_lane_range(u.src(i))) left.push_back(sources[i]);
    return left;
  }
  const UOps ranges_;
  std::unordered_map<UOp, UOp> ranges_now_;  // of those that are no lanes and have changed
};

const Rules lanes_of_ranges = [] {
  using L = Lanes;
  return RuleList{
      {op(Op::RANGE), [](L& l, const UOp& u, Sources now) { return l.range(u, now); },
       "a range -> a vector of its steps"},
      {op(Op::INDEX), [](L& l, const UOp& u, Sources now) { return l.index(u, now); },
       "an address in each lane -> that of the first, where lanes are neighbours"},
      {op(Op::LOAD), [](L& l, const UOp& u, Sources now) { return l.load(u, now); },
       "a LOAD in each lane -> of a vector, or of each"},
      {op(Op::STORE), [](L& l, const UOp& u, Sources now) { return l.store(u, now); },
       "a STORE in each lane -> of a vector, or of each"},
      {op(Op::END), [](L& l, const UOp& u, Sources now) { return l.end(u, now); },
       "the end of lanes -> nothing"},
      {op(Op::REDUCE), [](L& l, const UOp& u, Sources now) { return l.reduce(u, now); },
       "a REDUCE over lanes -> across a vector"},
      {op(ops::elementwise), [](L& l, const UOp& u, Sources now) { return l.value(u, now); },
       "a value in each lane -> a vector"},
  };
};

}  // namespace

UOp ranges_to_lanes(const UOp& program) {
  const UOps ranges = chosen_lanes(program);
  if (ranges.empty()) return program;
  Lanes lanes(ranges);
  return graph_rewrite(program, lanes_of_ranges, lanes, {.order = Order::once, .name = "ranges to lanes"});
}

}  // namespace quern
