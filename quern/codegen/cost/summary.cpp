#include "quern/codegen/cost/summary.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "quern/codegen/analysis/strides.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"

namespace quern::cost {
namespace {

OpClass class_of(const UOp& u) {
  switch (u.op()) {
    case Op::EXP2: return OpClass::exp2;
    case Op::LOG2: return OpClass::log2;
    case Op::SIN:
    case Op::COS: return OpClass::sin;
    case Op::POW: return OpClass::pow;
    case Op::RECIP:
    case Op::FDIV: return OpClass::divide;
    case Op::SQRT: return OpClass::root;
    case Op::THREEFRY: return OpClass::random;
    case Op::FLOORDIV:
    case Op::FLOORMOD:
    case Op::TRUNCDIV:
    case Op::TRUNCMOD: return u.src(1).is_const() ? OpClass::divide_by_constant : OpClass::divide_integers;
    default: return OpClass::simple;
  }
}

class Summarizing {
 public:
  explicit Summarizing(const UOp& program) : order_(program.toposort()), loops_(loops_of(program)) {}

  std::optional<Summary> run() {
    if (loops_.size() > kMostLoops) return {};
    for (size_t i = 0; i < loops_.size(); i++) {
      const UOp& range = loops_.at(i);
      number_.emplace(range, i);
      const bool is_reduce = i >= loops_.outputs.size() && i < loops_.outputs.size() + loops_.reduces.size();
      summary_.loops.push_back(
          {.steps = static_cast<int64_t>(std::clamp<wide>(range.src(0).vmax(), 1, wide{1} << 40)),
           .is_symbolic = !range.src(0).is_int_const(),
           .is_reduce = is_reduce});
    }
    summary_.nodes = std::ssize(order_);
    summary_.around_all = ~LoopSet{0};
    for (const UOp& effect : order_.back().src())
      summary_.around_all &= effect.op() == Op::END ? closed_by(effect) : 0;
    find_places();
    for (size_t i = 0; i < order_.size(); i++)
      if (places_[i].is_needed) add(order_[i], places_[i]);
    find_siblings();
    std::vector<int64_t> written;
    for (const Access& a : summary_.accesses)
      if (a.is_store) written.push_back(a.argument);
    for (Access& a : summary_.accesses)
      a.is_stored_too = std::ranges::find(written, a.argument) != written.end();
    return std::move(summary_);
  }

 private:
  // Where a node stands: in these loops, if it depends on them or not.
  struct Place {
    LoopSet around = 0;
    bool is_needed = false;    // something uses it
    bool is_computed = false;  // a value uses it; else only addresses do
    int users = 0;
  };

  LoopSet loops_in(const UOp& u) const {
    LoopSet set = 0;
    for (const UOp& r : u.ranges())
      if (const auto found = number_.find(r); found != number_.end()) set |= bit(found->second);
    return set;
  }
  LoopSet closed_by(const UOp& u) const {
    LoopSet set = 0;
    for (const UOp& s : closed_ranges(u))
      if (const auto found = number_.find(s); found != number_.end()) set |= bit(found->second);
    return set;
  }

  // What a REDUCE stands in at most: loops that it depends on, and those over outputs around these.
  LoopSet loops_around(const UOp& u) const {
    const LoopSet own = loops_in(u), outputs = own & (bit(loops_.outputs.size()) - 1);
    return own | (outputs == 0 ? 0 : bit(static_cast<size_t>(std::bit_width(outputs)) - 1) - 1);
  }

  // Whether what a node computes uses its k-th source as a value.
  static bool computes(const UOp& u, const Place& place, size_t k) {
    if (u.op() == Op::INDEX) return k == 1 && u.src(1).ops_below().contains(Op::LOAD);
    return !is_elementwise(u.op()) || place.is_computed;
  }

  // From users to sources.
  void find_places() {
    NodeMap<size_t> position;
    position.reserve(order_.size());
    for (size_t i = 0; i < order_.size(); i++) position.emplace(order_[i], i);
    places_.resize(order_.size());
    places_.back().is_needed = true;
    for (size_t i = order_.size(); i-- > 0;) {
      const UOp& u = order_[i];
      Place& place = places_[i];
      if (!place.is_needed) continue;
      if (u.op() == Op::REDUCE) place.around &= loops_around(u);
      const bool closes = u.op() == Op::END || u.op() == Op::REDUCE;
      const LoopSet inside = place.around | (closes ? closed_by(u) : 0);
      for (size_t k = 0; k < u.src().size(); k++) {
        const UOp& s = u.src(k);
        Place& below = places_[*position.find(s)];
        const LoopSet own = loops_in(s);
        // what comes before stands in no more loops than it needs
        const LoopSet around = u.op() == Op::AFTER && k > 0 ? own : inside;
        below.around = (below.is_needed ? below.around & around : around) | own;
        below.is_needed = true;
        below.is_computed |= computes(u, place, k);
        below.users++;
      }
    }
  }

  void add(const UOp& u, const Place& place) {
    if (u.op() == Op::LOAD || u.op() == Op::STORE)
      add_access(u, place);
    else if (u.op() == Op::REDUCE)
      add_reduction(u, place);
    else if (is_elementwise(u.op()))
      add_operation(u, place);
  }

  void add_access(const UOp& u, const Place& place) {
    const UOp& index = index_of_address(u.src(0));
    const DType dtype = u.op() == Op::STORE ? u.src(1).dtype() : u.dtype();
    Access a;
    a.loops = loops_in(index), a.around = place.around;
    a.bytes = dtype.bytes(), a.is_store = u.op() == Op::STORE;
    if (has_gate(index)) a.gated = loops_in(gate_of(index));
    if (a.is_store) a.around |= loops_in(u.src(1));
    const UOp& memory = storage_of(u.src(0));
    if (memory.op() == Op::PARAM) a.argument = memory.arg().integer();
    for (size_t i = 0; i < loops_.size(); i++)
      a.strides.push_back(has(a.loops, i) ? stride_of(position_of(index), loops_.at(i))
                                          : std::optional<wide>(0));
    a.is_near = memory.op() == Op::DEFINE_LOCAL;
    if (a.is_near) {
      LoopSet& copied = near_[memory];
      if (a.is_store) copied |= loops_in(u.src(1)) & ~a.loops;
      a.copied = copied & ~a.loops;
      a.loops |= a.copied;
      for (size_t i = 0; i < loops_.size(); i++)
        if (has(a.copied, i)) a.strides[i] = 1;
    }
    for (size_t i = 0; i < loops_.size(); i++)
      if (has(a.loops, i)) a.by_stride.push_back(static_cast<uint8_t>(i));
    std::ranges::stable_sort(a.by_stride, {}, [&](uint8_t i) {
      const wide stride = a.strides[i].value_or(0);
      return stride < 0 ? -stride : stride;
    });
    widen(dtype);
    summary_.accesses.push_back(std::move(a));
  }

  void add_reduction(const UOp& u, const Place& place) {
    const LoopSet closed = closed_by(u);
    const DType dtype = u.dtype();
    const quern::Reduction reduction(u);
    const UOp& value = reduction.value();
    const bool fused = reduction.op == Op::ADD && value.op() == Op::MUL && dtype.is_float();
    summary_.reductions.push_back({.closed = closed,
                                   .result = loops_in(u),
                                   .value = loops_in(value),
                                   .around = place.around,
                                   .bytes = dtype.bytes(),
                                   .is_fused = fused});
    widen(dtype);
  }

  void add_operation(const UOp& u, const Place& place) {
    const OpClass kind = class_of(u);
    if (!place.is_computed && kind != OpClass::divide_by_constant && kind != OpClass::divide_integers) return;
    if (u.op() == Op::NOOP || u.op() == Op::BITCAST) return;
    // of a product and its sum one instruction is made
    if (u.op() == Op::MUL && u.dtype().is_float() && place.users == 1) {
      const UOp& user = only_user(u);
      if (user && (user.op() == Op::ADD || user.op() == Op::SUB)) return;
      if (user && user.op() == Op::REDUCE && user.arg().reduce().op == Op::ADD) return;
    }
    const LoopSet loops = loops_in(u);
    int64_t bytes = u.dtype().bytes();
    for (const UOp& s : u.src()) bytes = std::max<int64_t>(bytes, s.dtype().bytes());
    for (Operations& known : summary_.operations)
      if (known.loops == loops && known.around == place.around && known.bytes == bytes) {
        known.counts[static_cast<size_t>(kind)]++;
        return;
      }
    Operations fresh{.loops = loops, .around = place.around, .counts = {}, .bytes = bytes};
    fresh.counts[static_cast<size_t>(kind)]++;
    summary_.operations.push_back(fresh);
  }

  const UOp& only_user(const UOp& u) {
    static const UOp kNone;
    if (users_.empty())
      for (const UOp& v : order_)
        for (const UOp& s : v.src())
          if (s.op() == Op::MUL) users_.insert_or_assign(s, v);
    const auto found = users_.find(u);
    return found == users_.end() ? kNone : found->second;
  }

  void find_siblings() {
    for (size_t i = 0; i < summary_.loops.size(); i++) summary_.loops[i].sibling = i;
    for (const Reduction& a : summary_.reductions)
      for (const Reduction& b : summary_.reductions) {
        if (&a >= &b || a.around != b.around || std::popcount(a.closed) != std::popcount(b.closed)) continue;
        for (LoopSet left = a.closed, right = b.closed; left != 0; left &= left - 1, right &= right - 1) {
          const auto i = static_cast<size_t>(std::countr_zero(left)),
                     k = static_cast<size_t>(std::countr_zero(right));
          Loop &first = summary_.loops[i], &second = summary_.loops[k];
          if (first.steps == second.steps)
            second.sibling = first.sibling = std::min(first.sibling, second.sibling);
        }
      }
  }

  // As vectors are counted in floats of 32 bits at least: narrower ones are computed in those.
  void widen(DType dtype) {
    summary_.widest = std::max(summary_.widest, dtype.is_float() ? std::max<int64_t>(4, dtype.bytes())
                                                                 : static_cast<int64_t>(dtype.bytes()));
  }

  const NodeList order_;
  const Loops loops_;
  std::unordered_map<UOp, size_t> number_;
  std::vector<Place> places_;
  std::unordered_map<UOp, UOp> users_;
  std::unordered_map<UOp, LoopSet> near_;  // of memory, the loops of which each copy has its own
  Summary summary_;
};

}  // namespace

std::optional<Summary> summary_of(const UOp& program) { return Summarizing(program).run(); }

}  // namespace quern::cost
