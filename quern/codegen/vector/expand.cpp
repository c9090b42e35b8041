// Ranges as copies of what depends on them.
#include "quern/codegen/vector/expand.h"

#include <algorithm>

#include "quern/codegen/memory/near_memory.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

constexpr size_t kMostAccumulators = 8;  // of one REDUCE and its copies, if more only hide latency

bool is_copied(const UOp& u) { return u.op() == Op::RANGE && is_at_once(u) && u.src(0).is_int_const(); }

bool is_of_group(const UOp& u) {
  return u.op() == Op::RANGE && u.arg().range().kind == AxisKind::GROUP_REDUCE;
}

// What became of a node: a value for each combination of steps of the ranges that it depends on, the last
// range fastest.
struct Copies {
  std::vector<size_t> ranges;  // by number, ascending
  UOps values;
};

class Copier {
 public:
  explicit Copier(const UOp& program) : order_(program.toposort()) {
    for (const UOp& u : order_)
      if (is_copied(u)) ranges_.push_back(u);
  }

  UOp run() {
    if (ranges_.empty()) return order_.back();
    done_.reserve(order_.size());
    for (const UOp& u : order_) done_.emplace(u, copies_of(u));
    const Copies& all = *done_.find(order_.back());
    return all.values[0];
  }

 private:
  size_t steps(size_t range) const { return static_cast<size_t>(ranges_[range].src(0).int_value()); }
  size_t count(const std::vector<size_t>& ranges) const {
    size_t n = 1;
    for (const size_t r : ranges) n *= steps(r);
    return n;
  }

  // The value of `copies` at the steps of `ranges` that `number` stands for.
  const UOp& at(const Copies& copies, const std::vector<size_t>& ranges, size_t number) const {
    if (copies.ranges.empty()) return copies.values[0];
    size_t position = 0, scale = 1, k = copies.ranges.size();
    for (size_t i = ranges.size(); i-- > 0 && k > 0;) {
      const size_t step = number % steps(ranges[i]);
      number /= steps(ranges[i]);
      if (copies.ranges[k - 1] != ranges[i]) continue;
      position += step * scale;
      scale *= steps(ranges[i]);
      k--;
    }
    return copies.values[position];
  }

  static std::vector<size_t> united(std::vector<size_t> a, const std::vector<size_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    std::ranges::sort(a);
    a.erase(std::ranges::unique(a).begin(), a.end());
    return a;
  }

  Copies copies_of(const UOp& u) {
    if (is_copied(u)) {
      const auto number = static_cast<size_t>(std::ranges::find(ranges_, u) - ranges_.begin());
      Copies result{{number}, {}};
      for (size_t i = 0; i < steps(number); i++)
        result.values.push_back(UOp::constant(u.dtype(), static_cast<wide>(i)));
      return result;
    }
    if (u.op() == Op::END || u.op() == Op::REDUCE) return closing(u);
    std::vector<const Copies*> sources;
    std::vector<size_t> ranges;
    for (const UOp& s : u.src()) {
      sources.push_back(done_.find(s));
      if (!sources.back()->ranges.empty()) ranges = united(std::move(ranges), sources.back()->ranges);
    }
    Copies result{ranges, {}};
    UOps now(u.src().size());
    for (size_t i = 0; i < count(ranges); i++) {
      for (size_t k = 0; k < now.size(); k++) now[k] = at(*sources[k], ranges, i);
      result.values.push_back(now.empty() ? u : u.with_src(now));
    }
    return result;
  }

  // END and REDUCE: of what is closed, the copied ranges are gone.
  Copies closing(const UOp& u) {
    const Copies& inside = *done_.find(u.src(0));
    std::vector<size_t> closed;
    UOps left;
    for (const UOp& s : u.src().subspan(1)) {
      if (is_copied(s))
        closed.push_back(static_cast<size_t>(std::ranges::find(ranges_, s) - ranges_.begin()));
      else
        left.push_back(done_.find(s)->values[0]);
    }
    std::ranges::sort(closed);
    Copies result;
    std::ranges::set_difference(inside.ranges, closed, std::back_inserter(result.ranges));
    // all steps of the others, and in each of them all steps of what is closed
    for (size_t i = 0; i < count(result.ranges); i++) {
      UOps parts;
      for (size_t k = 0; k < count(closed); k++) parts.push_back(at(inside, result.ranges, i, closed, k));
      result.values.push_back(u.op() == Op::END ? ended(u, parts, left)
                                                : reduced(u, parts, left, count(result.ranges)));
    }
    return result;
  }
  const UOp& at(const Copies& copies, const std::vector<size_t>& outer, size_t i,
                const std::vector<size_t>& inner, size_t k) const {
    size_t position = 0;
    std::vector<size_t> step(ranges_.size());
    for (size_t r = outer.size(); r-- > 0; i /= steps(outer[r])) step[outer[r]] = i % steps(outer[r]);
    for (size_t r = inner.size(); r-- > 0; k /= steps(inner[r])) step[inner[r]] = k % steps(inner[r]);
    for (const size_t r : copies.ranges) position = position * steps(r) + step[r];
    return copies.values[position];
  }

  static UOp ended(const UOp& u, const UOps& parts, const UOps& left) {
    UOps effects;
    for (const UOp& part : parts) {
      if (part.op() == Op::GROUP)
        effects.insert(effects.end(), part.src().begin(), part.src().end());
      else
        effects.push_back(part);
    }
    UOps now{effects.size() == 1 ? effects[0] : UOp::make(Op::GROUP, dtypes::void_, effects)};
    now.insert(now.end(), left.begin(), left.end());
    return left.empty() ? now[0] : u.with_src(now);
  }

  static UOp reduced(const UOp& u, const UOps& parts, const UOps& left, size_t copies) {
    const auto over = [&](const UOp& value, const UOps& ranges) {
      if (ranges.empty() && value.dtype() == u.dtype()) return value;
      UOps now{value};
      now.insert(now.end(), ranges.begin(), ranges.end());
      return u.with_src(now);
    };
    if (parts.size() == 1) return over(parts[0], left);
    const bool loops = std::ranges::any_of(left, [](const UOp& r) { return r.op() == Op::RANGE; });
    if (!loops || parts.size() * copies > kMostAccumulators)
      return over(
          UOp::make(Op::VECTORIZE, u.dtype().scalar().vec(static_cast<int>(parts.size()) * u.dtype().lanes()),
                    parts),
          left);
    // Threads combine what they have of all copies: once.
    UOps own, group;
    for (const UOp& r : left) (is_of_group(r) ? group : own).push_back(r);
    UOps values;
    for (const UOp& part : parts) values.push_back(over(part, own));
    while (values.size() > 1) {  // in pairs
      UOps pairs;
      for (size_t i = 0; i + 1 < values.size(); i += 2)
        pairs.push_back(UOp::alu(u.arg().reduce().op, {values[i], values[i + 1]}));
      if (values.size() % 2 == 1) pairs.push_back(values.back());
      values = std::move(pairs);
    }
    return over(values[0], group);
  }

  const NodeList order_;
  UOps ranges_;
  NodeMap<Copies> done_;
};

}  // namespace

UOp ranges_to_copies(const UOp& program) { return Copier(program).run(); }

UOp expand(const UOp& program) {
  bool any = false;
  walk(program, [&](const UOp& u) { any |= is_copied(u); });
  if (!any) return program;
  return graph_rewrite(ranges_to_copies(ranges_to_lanes(program)), symbolic, {.name = "simplify expanded"});
}

}  // namespace quern
