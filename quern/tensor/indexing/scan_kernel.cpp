#include "quern/tensor/indexing/scan_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/tensor/core/support.h"

namespace quern::detail {
namespace {

// Elements of a block, and blocks whose totals are a block of their own. No power of two: blocks that are
// gone along together must not fall into the same sets of a cache.
constexpr int64_t kBlock = 1040, kBlockOfTotals = 136;
constexpr int64_t kTogether =
    4;  // rows or blocks in one loop, so that none waits for the sum of its last step
constexpr int64_t kMostColumns = 32, kFewestColumns = 8;  // that are lanes of one loop
constexpr int64_t kManyUnits = 64;                        // as many keep all cores busy without being cut

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Where the elements of an axis are: `inner` apart.
struct Layout {
  int64_t outer = 1, n = 1, inner = 1;
};

// A block of a row, or of neighbouring columns, which does not depend on the others; or one for each lane.
struct Part {
  UOp unit, block, steps;
  UOp lane;
  int64_t lanes;
  UOps around;  // the loops that are open

  UOp closed(const UOp& effect) const { return ended(effect, {lane}); }
};

enum class Shows { result, state_before };

class Scan {
 public:
  Scan(const Accumulation& a, const Layout& layout, bool reversed, int64_t block, Shows shows)
      : a_(a), layout_(layout), reversed_(reversed), block_(a.in_order ? layout.n : block), shows_(shows) {
    if (layout.inner >= kFewestColumns)
      for (columns_ = kMostColumns; columns_ > layout.inner;) columns_ /= 2;
  }

  // Rows, or groups of neighbouring columns.
  int64_t units() const {
    return layout_.outer * (columns_ > 1 ? ceil_div(layout_.inner, columns_) : layout_.inner);
  }
  int64_t blocks() const { return ceil_div(layout_.n, block_); }
  Layout layout_of_totals() const { return {units(), blocks(), columns_}; }
  bool is_cut() const { return blocks() > 1 && units() < kManyUnits; }

  // Each row in one go.
  UOp whole(const UOps& out, const UOps& in) {
    return over_parts(false, [&](const Part& part) {
      if (blocks() == 1)
        return along(part, part.around, in,
                     [&](const UOp& at, const UOps& before, const UOps& next) {
                       return shown(out, at, shows_ == Shows::result ? next : before);
                     })
            .effect;
      UOps carry, waits = part.around;
      for (size_t k = 0; k < a_.states.size(); k++) {
        carry.push_back(build_.registers(a_.states[k], part.lanes));
        waits.push_back(part.closed(write(seen_after(carry[k], part.around), part.lane, a_.neutral[k])));
      }
      Part now = part;
      now.block = build_.loop(blocks());
      now.steps = length_of(now.block);
      now.around.push_back(now.block);
      waits.push_back(now.block);
      UOps so_far, effects;
      for (const UOp& c : carry) so_far.push_back(read(seen_after(c, waits), part.lane));
      const Run run = along(now, now.around, in, [&](const UOp& at, const UOps& before, const UOps& next) {
        return shown(out, at, a_.combine(so_far, shows_ == Shows::result ? next : before));
      });
      const UOps joined = a_.combine(so_far, run.state);
      for (size_t k = 0; k < carry.size(); k++)
        effects.push_back(write(seen_after(carry[k], waits), part.lane, joined[k]));
      return ended(part.closed(together(effects)), {now.block});
    });
  }

  // The state of each block.
  UOp totals(const UOps& out, const UOps& in) {
    return over_parts(true, [&](const Part& part) {
      const Run run =
          along(part, part.around, in, [](const UOp&, const UOps&, const UOps&) { return UOps(); });
      UOps effects;
      for (size_t k = 0; k < out.size(); k++)
        effects.push_back(write(out[k], place_of_total(part), run.state[k]));
      return part.closed(together(effects));
    });
  }

  // Each block from the state before it.
  UOp blocks_from(const UOps& out, const UOps& in, const UOps& before_block) {
    return over_parts(true, [&](const Part& part) {
      UOps so_far;
      for (const UOp& b : before_block) so_far.push_back(read(b, place_of_total(part)));
      return along(part, part.around, in,
                   [&](const UOp& at, const UOps&, const UOps& next) {
                     return shown(out, at, a_.combine(so_far, next));
                   })
          .effect;
    });
  }

 private:
  UOp length_of(const UOp& block) const { return quern::min(UOp::index(block_), layout_.n - block * block_); }

  // Where the first element of a part's row is.
  UOp start_of(const Part& part) const {
    const int64_t step = layout_.n * layout_.inner;
    const UOp& unit = part.unit;
    if (columns_ == 1)
      return layout_.inner == 1 ? unit * step : unit / layout_.inner * step + unit % layout_.inner;
    // the last group begins early enough to be full: some columns are computed twice, to the same
    const int64_t groups = ceil_div(layout_.inner, columns_);
    const UOp column = quern::min(unit % groups * columns_, UOp::index(layout_.inner - columns_));
    return unit / groups * step + column + part.lane;
  }
  UOp place_of_total(const Part& part) const {
    const UOp number = part.unit * blocks() + part.block;
    return columns_ == 1 ? number : number * columns_ + part.lane;
  }

  UOps shown(const UOps& out, const UOp& at, const UOps& state) const {
    const UOps values = shows_ == Shows::result ? a_.result(state) : state;
    UOps effects;
    for (size_t k = 0; k < out.size(); k++) effects.push_back(write(out[k], at, values[k]));
    return effects;
  }

  // One loop from the neutral state on.
  struct Run {
    UOp effect;
    UOps state;  // after it
  };
  template <class Emit>
  Run along(const Part& part, const UOps& around, const UOps& in, const Emit& emit) {
    UOps state, waits = around, before, effects;
    for (size_t k = 0; k < a_.states.size(); k++) {
      state.push_back(build_.registers(a_.states[k], part.lanes));
      waits.push_back(part.closed(write(seen_after(state[k], around), part.lane, a_.neutral[k])));
    }
    const UOp step = build_.loop(part.steps);
    waits.push_back(step);
    for (const UOp& s : state) before.push_back(read(seen_after(s, waits), part.lane));
    const UOp passed = part.block * block_ + step, position = reversed_ ? layout_.n - 1 - passed : passed;
    const UOp at = start_of(part) + position * layout_.inner;
    UOps elements;
    for (const UOp& memory : in) elements.push_back(read(memory, at));
    const UOps next = a_.combine(before, a_.first(elements, position));
    for (size_t k = 0; k < state.size(); k++)
      effects.push_back(write(seen_after(state[k], waits), part.lane, next[k]));
    for (UOp& e : emit(at, before, next)) effects.push_back(std::move(e));
    Run run{ended(part.closed(together(effects)), {step}), {}};
    for (const UOp& s : state) run.state.push_back(read(seen_after(s, {run.effect}), part.lane));
    return run;
  }

  // All rows, or all blocks of all rows, several in a step of the outermost loop. In the last group
  // of a kind one may be gone along several times, to the same results.
  template <class Body>
  UOp over_parts(bool by_block, const Body& body) {
    const int64_t each = by_block ? blocks() : 1, last = layout_.n - (blocks() - 1) * block_;
    if (columns_ > 1) {
      const UOp part = build_.loop(units() * each, AxisKind::GLOBAL), block = part % each;
      const UOp lane = build_.loop(columns_, AxisKind::UPCAST);
      return ended(body(Part{part / each, block, length_of(block), lane, columns_, {part}}), {part});
    }
    if (each == 1) {
      const int64_t lanes = std::min(kTogether, units());
      const UOp group = build_.loop(ceil_div(units(), lanes), AxisKind::GLOBAL);
      const UOp lane = build_.loop(lanes, AxisKind::UPCAST);
      const UOp unit = quern::min(group * lanes + lane, UOp::index(units() - 1));
      return ended(body(Part{unit, UOp::index(0), length_of(UOp::index(0)), lane, lanes, {group}}), {group});
    }
    // the last blocks of all rows, which are as long as each other, stand behind all others
    const int64_t full = units() * (each - 1), lanes = std::min(kTogether, full);
    const int64_t groups = ceil_div(full, lanes), last_groups = ceil_div(units(), lanes);
    const UOp group = build_.loop(groups + last_groups, AxisKind::GLOBAL);
    const UOp lane = build_.loop(lanes, AxisKind::UPCAST);
    const UOp is_full = group < groups;
    const UOp part = quern::min(group * lanes + lane, UOp::index(full - 1)),
              row = quern::min((group - groups) * lanes + lane, UOp::index(units() - 1));
    return ended(body(Part{where(is_full, part / (each - 1), row),
                           where(is_full, part % (each - 1), UOp::index(each - 1)),
                           where(is_full, UOp::index(block_), UOp::index(last)),
                           lane,
                           lanes,
                           {group}}),
                 {group});
  }
  const Accumulation& a_;
  const Layout layout_;
  const bool reversed_;
  const int64_t block_;
  const Shows shows_;
  int64_t columns_ = 1;
  LoopBuilder build_;
};

UOps first_of(const UOps& memory, size_t count) {
  return {memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(count)};
}
UOps from(const UOps& memory, size_t first) {
  return {memory.begin() + static_cast<std::ptrdiff_t>(first), memory.end()};
}

}  // namespace

std::vector<Tensor> accumulated_along(const Accumulation& a, const std::vector<Tensor>& inputs, int64_t axis,
                                      bool reversed, const LoopGradient& gradient) {
  const Shape shape = inputs.at(0).shape();
  Layout layout;
  for (int64_t i = 0; i < std::ssize(shape); i++)
    (i < axis ? layout.outer : i == axis ? layout.n : layout.inner) *= shape[static_cast<size_t>(i)].value();
  std::vector<KernelOutput> results, states;
  for (const DType d : a.results) results.push_back({d, shape});
  const std::string key = fmt::format("{} {} {}", a.name, axis, reversed);
  const Scan plan(a, layout, reversed, kBlock, Shows::result);
  if (!plan.is_cut())
    return run_loops(
        a.name, results, inputs,
        [&](const UOps& memory) {
          return Scan(plan).whole(first_of(memory, results.size()), from(memory, results.size()));
        },
        gradient, key);
  const Layout of_totals = plan.layout_of_totals();
  for (const DType d : a.states) states.push_back({d, {of_totals.outer, of_totals.n, of_totals.inner}});
  std::vector<Tensor> detached;  // the gradient is that of the last kernel
  for (const Tensor& x : inputs) detached.push_back(x.detach());
  const std::vector<Tensor> totals = run_loops(a.name + "_blocks", states, detached, [&](const UOps& memory) {
    return Scan(plan).totals(first_of(memory, states.size()), from(memory, states.size()));
  });
  Accumulation of_states = a;
  of_states.first = [](const UOps& elements, const UOp&) { return elements; };
  const std::vector<Tensor> before = run_loops(a.name + "_totals", states, totals, [&](const UOps& memory) {
    return Scan(of_states, of_totals, false, kBlockOfTotals, Shows::state_before)
        .whole(first_of(memory, states.size()), from(memory, states.size()));
  });
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), before.begin(), before.end());
  const LoopGradient without_states = [gradient, n = inputs.size(),
                                       m = before.size()](const KernelValues& v) {
    KernelValues values = v;
    values.inputs.resize(n, values.inputs[0]);
    std::vector<std::optional<Tensor>> found = gradient(values);
    found.resize(n + m);
    return found;
  };
  return run_loops(
      a.name, results, all,
      [&](const UOps& memory) {
        const UOps rest = from(memory, results.size());
        return Scan(plan).blocks_from(first_of(memory, results.size()), first_of(rest, inputs.size()),
                                      from(rest, inputs.size()));
      },
      gradient ? without_states : LoopGradient(), key);
}

}  // namespace quern::detail
