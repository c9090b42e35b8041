#include "quern/codegen/cost/estimate.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "quern/codegen/analysis/strides.h"

namespace quern::cost {
namespace {

constexpr int64_t kMostLanes = 64;
constexpr double kPart = 0.8;   // of a cache: the rest is taken by what else comes along
constexpr int64_t kWay = 4096;  // bytes of a cache after which its sets come again
constexpr double kWays = 12;
constexpr double kOften = 256;      // as expand has it
constexpr double kNear = 8;         // elements between steps that the compiler still makes vectors of
constexpr double kShort = 8;        // steps of a loop that it leaves as it is
constexpr double kFar = 4096;       // bytes of a page: steps so far apart wait for the table of pages
constexpr double kPages = 64;       // that are at hand
constexpr double kStreams = 4;      // places that are written in turn
constexpr double kTemporaries = 4;  // registers for what comes and goes
constexpr double kLongChain = 16;   // additions: what follows waits for them
constexpr double kSpill = 0.1;      // of the time, for each register that is missing
constexpr double kOverlap = 0.15;   // of what takes less time than the slowest, so much is not hidden by it

double steps(int64_t of, int64_t at_once) {
  return std::ceil(static_cast<double>(of) / static_cast<double>(at_once));
}

// A loop as it is nested after all.
struct Level {
  size_t loop = 0;
  double count = 1;
  bool at_once = false;
};

class Pricing {
 public:
  Pricing(const Summary& kernel, const LoopPlan& plan, const DeviceSpec& spec)
      : kernel_(kernel), plan_(plan), splits_(plan.splits), spec_(spec) {
    for (const Split& s : splits_) threads_ = std::max(threads_, s.threads);
  }

  Work work() {
    choose_lanes();
    nest();
    find_vectorized();
    Work w;
    w.threads = threads_;
    compute(w);
    for (const Reduction& r : kernel_.reductions) w.chain += chain(r);
    w.spills = missing_registers();
    traffic(w);
    pack(w);
    return w;
  }

 private:
  int64_t lanes(size_t loop) const { return has(lanes_, loop) ? splits_[loop].first : 1; }
  // Copies besides lanes.
  double copies(size_t loop) const {
    return static_cast<double>(splits_[loop].copies) / static_cast<double>(lanes(loop));
  }
  bool is_packed(const Access& a) const {
    return !a.is_store && a.argument >= 0 &&
           std::ranges::find(plan_.packed, a.argument) != plan_.packed.end();
  }

  // As expand does: those that most accesses are neighbours along, and no two that meet.
  void choose_lanes() {
    std::vector<std::pair<double, size_t>> found;
    for (size_t i = 0; i < splits_.size(); i++) {
      const Split& s = splits_[i];
      if (s.first < 2 || s.first > kMostLanes || !std::has_single_bit(static_cast<uint64_t>(s.first)))
        continue;
      double points = 0;
      for (const Access& a : kernel_.accesses) {
        if (!has(a.loops | a.gated, i)) continue;
        const bool neighbours = is_packed(a) || a.strides[i] == 1;
        double weight = a.is_store ? 3 : 1;
        for (size_t k = 0; k < splits_.size(); k++)
          if (kernel_.loops[k].is_reduce && has(a.loops, k))
            weight *= std::clamp(static_cast<double>(splits_[k].steps / splits_[k].copies), 1.0, kOften);
        points += neighbours ? weight : a.strides[i] == 0 && !has(a.gated, i) ? 0 : -weight;
      }
      if (points > 0) found.emplace_back(points * static_cast<double>(s.first), i);
    }
    std::ranges::stable_sort(found, std::ranges::greater{}, [](const auto& f) { return f.first; });
    for (const auto& [points, i] : found)
      if (!meets_lanes(i)) lanes_ |= bit(i);
  }
  bool meets_lanes(size_t loop) const {
    const auto meets = [&](LoopSet set) { return has(set, loop) && (set & lanes_) != 0; };
    return std::ranges::any_of(kernel_.operations, [&](const Operations& o) { return meets(o.loops); }) ||
           std::ranges::any_of(kernel_.accesses, [&](const Access& a) { return meets(a.loops); }) ||
           std::ranges::any_of(kernel_.reductions,
                               [&](const Reduction& r) { return meets(r.value | r.closed); });
  }

  // Blocks, what is left of outputs, what is left of reduces, what is done at once.
  void nest() {
    for (const size_t i : plan_.blocks) {
      const Split& s = splits_[i];
      levels_.push_back({i, steps(s.steps / s.threads, s.block)});
    }
    for (const size_t i : plan_.order) {
      const Split& s = splits_[i];
      const int64_t inner = s.block > 0 ? s.block : (s.steps + s.threads - 1) / s.threads;
      levels_.push_back({i, steps(inner, s.copies)});
    }
    for (size_t i = 0; i < splits_.size(); i++)
      levels_.push_back({i, static_cast<double>(splits_[i].copies), true});
    std::erase_if(levels_, [](const Level& l) { return l.count <= 1; });
  }

  // Elements from one step of what is left of a loop to the next.
  double distance(const Access& a, size_t loop) const {
    return std::abs(static_cast<double>(*a.strides[loop])) * static_cast<double>(splits_[loop].copies);
  }

  // Loops that stand in each other, with all that is done in the innermost.
  std::vector<LoopSet> nests() const {
    std::vector<LoopSet> found;
    const auto add = [&](LoopSet nest) {
      if (std::ranges::find(found, nest) == found.end()) found.push_back(nest);
    };
    for (const Access& a : kernel_.accesses) add(a.around | a.loops);
    for (const Reduction& r : kernel_.reductions) add(r.around | r.closed);
    return found;
  }

  // Where no opt asked for lanes the compiler of the backend makes some: along an innermost loop that is not
  // short, if steps are near in memory and do not wait for each other.
  void find_vectorized() {
    LoopSet refused = 0, reduced = 0;
    for (const Reduction& r : kernel_.reductions) reduced |= r.closed;
    for (const Access& a : kernel_.accesses) {
      refused |= gates_of(a);
      for (size_t i = 0; i < splits_.size(); i++)
        if (has(a.loops, i) && (!a.strides[i] || distance(a, i) > kNear)) refused |= bit(i);
    }
    for (const LoopSet nest : nests()) {
      bool is_innermost = (nest & lanes_) == 0 && std::ranges::none_of(levels_, [&](const Level& l) {
                            return !l.at_once && has(nest & reduced, l.loop);
                          });
      for (size_t d = levels_.size(); d-- > 0;) {
        const Level& l = levels_[d];
        if (l.at_once || !has(nest, l.loop)) continue;
        (is_innermost && l.count > kShort ? vectorized_ : refused) |= bit(l.loop);
        is_innermost = false;
      }
    }
    vectorized_ &= ~refused;
  }

  // How often something is done that depends on these loops and stands in those: with all that is done at
  // once in one, where `vectors`.
  double times(LoopSet loops, LoopSet around, bool vectors) const {
    size_t deepest = 0;
    for (size_t d = 0; d < levels_.size(); d++)
      if (!levels_[d].at_once && has(loops, levels_[d].loop)) deepest = d + 1;
    double n = 1;
    for (size_t d = 0; d < levels_.size(); d++) {
      const Level& l = levels_[d];
      if (l.at_once) {
        if (!has(loops, l.loop)) continue;
        n *= vectors ? l.count / static_cast<double>(lanes(l.loop)) : l.count;
      } else if (d < deepest && has(around | loops, l.loop)) {
        const bool as_vectors = vectors && has(vectorized_ & loops, l.loop);
        n *= as_vectors ? std::max(1.0, l.count / static_cast<double>(width())) : l.count;
      }
    }
    return n;
  }

  int64_t width() const { return spec_.parallel.vector_bytes / kernel_.widest; }

  // Lanes of what depends on these loops.
  int64_t lanes_of(LoopSet loops) const {
    if ((lanes_ & loops) != 0) return splits_[static_cast<size_t>(std::countr_zero(lanes_ & loops))].first;
    return (vectorized_ & loops) != 0 ? width() : 1;
  }
  size_t lane_loop(LoopSet loops) const {
    return static_cast<size_t>(
        std::countr_zero((lanes_ & loops) != 0 ? lanes_ & loops : vectorized_ & loops));
  }
  double vectors(int64_t lanes, int64_t bytes) const {
    return steps(lanes * bytes, spec_.parallel.vector_bytes);
  }

  void compute(Work& w) const {
    double loads = 0, stores = 0, busy = 0, instructions = 0;
    for (const Operations& o : kernel_.operations) {
      const int64_t lanes = lanes_of(o.loops);
      const double n = times(o.loops, o.around, true) * vectors(lanes, o.bytes);
      for (size_t c = 0; c < kOpClasses; c++) {
        const bool by_lane = c == static_cast<size_t>(OpClass::divide_integers);
        const double each = by_lane ? static_cast<double>(lanes) : 1;
        busy += n * o.counts[c] * each * spec_.rates.cycles[c];
        instructions += n * o.counts[c] * each * std::max(1.0, 2 * spec_.rates.cycles[c]);
      }
    }
    for (const Reduction& r : kernel_.reductions) {
      const LoopSet loops = r.value | r.closed;
      const double n = times(loops, r.around, true) * vectors(lanes_of(loops), r.bytes);
      busy += 0.5 * n, instructions += n;
      if (const int64_t lanes = lanes_of(r.closed); lanes > 1) {  // one half to the other
        const double across = times(r.result, r.around, true) * 2 * std::log2(static_cast<double>(lanes));
        busy += across, instructions += across;
      }
    }
    for (const Access& a : kernel_.accesses) {
      const Cost c = cost_of(a);
      const double n = times(a.loops | gates_of(a), a.around, true);
      (a.is_store ? stores : loads) += n * c.moves;
      busy += n * c.beside * 0.5;
      instructions += n * (c.moves + c.beside);
    }
    const double overhead = loops();
    const Rates& r = spec_.rates;
    w.compute =
        std::max({busy, loads / r.loads, stores / r.stores, instructions / r.instructions}) + overhead;
  }

  // Cycles for going around and beginning anew. Nests that stand side by side share the loops around them.
  double loops() const {
    std::vector<std::pair<size_t, LoopSet>> counted;
    double cycles = 0;
    for (const LoopSet nest : nests()) {
      double entered = 1;
      LoopSet outside = 0;
      for (size_t d = 0; d < levels_.size() && !levels_[d].at_once; d++) {
        if (!has(nest, levels_[d].loop)) continue;
        const Level& l = levels_[d];
        outside |= bit(l.loop);
        const double rounds =
            has(vectorized_, l.loop) ? std::max(1.0, l.count / static_cast<double>(width())) : l.count;
        const std::pair<size_t, LoopSet> level{d, outside};
        if (std::ranges::find(counted, level) == counted.end()) {
          counted.push_back(level);
          cycles += entered * 4 + entered * rounds;
        }
        entered *= rounds;
      }
    }
    return cycles;
  }

  // Of one access to memory, by all of its lanes: how many there are, and what is done beside them.
  struct Cost {
    double moves = 1, beside = 0;
  };
  Cost cost_of(const Access& a) const {
    const LoopSet gated = gates_of(a), on = a.loops | gated;
    const int64_t lanes = lanes_of(on);
    if (is_packed(a)) return {vectors(lanes, a.bytes), 0};
    const double each = vectors(lanes, a.bytes), n = static_cast<double>(lanes);
    if (lanes == 1) return {1, gated == 0 ? 0.0 : a.is_store ? 8.0 : 5.0};
    const size_t i = lane_loop(on);
    const double branches = (gated & ~bit(i)) != 0 ? 3 : 0;
    if (a.strides[i] == 1) return {each, has(gated, i) ? 2 * each : branches};
    if (has(gated, i)) return {n, 6 * n + branches};
    if (a.strides[i] == 0) return {1, 1 + branches};
    if (!a.strides[i]) return {n, 5 * n + branches};
    if (has(vectorized_, i)) {  // whole vectors, of which lanes are picked; nothing is stored that has gaps
      double apart = distance(a, i);
      for (const Level& l : levels_)
        if (l.at_once && l.loop != i && a.strides[l.loop] == 1) apart = std::max(1.0, apart / l.count);
      if (a.is_store && apart > 1) return {n, 2 * n};
      return {each * apart, 2 * each * apart};
    }
    // squares are transposed in registers
    for (size_t k = 0; k < splits_.size(); k++)
      if (k != i && !a.is_store && a.strides[k] == 1 && splits_[k].first >= lanes && gated == 0)
        return {each, std::log2(n)};
    return {n, 2 * n + branches};
  }

  // Loops that decide whether memory is accessed. Those that were padded are among them, but for one whose
  // last step is done apart; and what is read far apart in them is read again by the steps that do nothing.
  LoopSet gates_of(const Access& a) const {
    LoopSet gated = a.gated;
    bool is_apart = kernel_.reductions.empty() && threads_ == 1;
    for (size_t i = 0; i < splits_.size(); i++) {
      if (splits_[i].steps <= kernel_.loops[i].steps) continue;
      is_apart = is_apart && splits_[i].steps / splits_[i].copies > 1;
      const bool is_read_again = !a.is_store && a.gated == 0 && a.strides[i] != 1;
      if (!is_apart && has(a.loops, i) && !is_read_again) gated |= bit(i);
      is_apart = false;
    }
    return gated;
  }

  // A sum waits for the one before it.
  double chain(const Reduction& r) const {
    double n = 1, in_a_row = 1, length = 1;
    for (const Level& l : levels_) {
      if (l.at_once || !has(r.around | r.closed, l.loop)) continue;
      n *= l.count;
      if (has(r.closed, l.loop)) length *= l.count;
    }
    for (size_t i = 0; i < splits_.size(); i++)
      if (has(r.closed, i)) in_a_row *= copies(i);
    double outer = 1;
    for (size_t i = 0; i < splits_.size(); i++)
      if (has(r.result, i)) outer *= copies(i);
    if (in_a_row * outer <= 8) in_a_row = 1;  // each has a sum of its own
    // sums that follow each other overlap, if they are short
    return n * in_a_row * spec_.rates.latency * std::min(1.0, length * in_a_row / kLongChain);
  }

  double missing_registers() const {
    double sums = 0, least = 0;
    for (const Reduction& r : kernel_.reductions) {
      double outer = 1, inner = 1;
      for (size_t i = 0; i < splits_.size(); i++) {
        if (has(r.result, i)) outer *= copies(i);
        if (has(r.closed, i)) inner *= copies(i);
      }
      if (outer * inner <= 8) outer *= inner;
      sums = std::max(sums, outer * vectors(lanes_of(r.value | r.closed), r.bytes));
    }
    int reads = 0;
    LoopSet innermost = 0;
    for (const Level& l : levels_)
      if (!l.at_once) innermost = bit(l.loop);
    for (const Access& a : kernel_.accesses) {
      if (a.is_store) continue;
      double read = vectors(lanes_of(a.loops), a.bytes);
      for (size_t i = 0; i < splits_.size(); i++)
        if (has(a.loops, i)) read *= copies(i);
      if ((a.loops & innermost) == 0 && (a.around & innermost) != 0)
        sums += read;  // it waits outside of the loop
      else
        least = reads++ == 0 ? read : std::min(least, read);
    }
    if (kernel_.reductions.empty()) return 0;
    return std::max(
        0.0, sums + (reads > 1 ? least : 1) + kTemporaries - static_cast<double>(spec_.memory.registers));
  }

  // What some of the innermost levels touch of an argument: bytes of whole lines, and what these take in a
  // cache whose sets are found by the last bits of addresses, as those of the first two are.
  struct Footprint {
    double bytes = 0, taken = 0, pages = 0;
  };
  Footprint footprint(const Access& a, const std::array<double, kMostLoops>& inside) const {
    double lines_apart = 1, waste = 1, pages = 1;
    auto reach = static_cast<double>(a.bytes);
    constexpr double line = kCacheLine;
    const bool packed = is_packed(a);
    for (const uint8_t i : a.by_stride) {
      const auto all = static_cast<double>(has(a.copied, i) ? splits_[i].copies : kernel_.loops[i].steps);
      const double n = std::min(inside[i], all);
      if (n <= 1) continue;
      if (!a.strides[i]) {
        lines_apart *= n;
        continue;
      }
      const wide apart = (*a.strides[i] < 0 ? -*a.strides[i] : *a.strides[i]) * a.bytes;
      const auto stride = static_cast<double>(apart);
      if (packed) {
        reach *= n;
      } else if (stride <= std::max(reach, line)) {
        reach += stride * (n - 1);
      } else {
        lines_apart *= n;
        if (stride >= kFar) pages *= n;
        const auto aligned = static_cast<double>(std::min<wide>(apart & -apart, kWay));
        if (n > kWays) waste = std::max(waste, std::min(n / kWays, aligned / std::max(reach, line)));
      }
    }
    const double bytes = lines_apart * std::ceil(reach / line) * line;
    return {bytes, bytes * waste, pages > kPages ? pages : 0};
  }

  // What comes into each cache: what the outermost levels that fit into it touch, as often as the loops
  // around these say. What fits as a whole stays.
  void traffic(Work& w) const {
    const double caches[] = {static_cast<double>(spec_.memory.l1_bytes),
                             static_cast<double>(spec_.memory.l2_bytes),
                             static_cast<double>(spec_.memory.l3_bytes) / static_cast<double>(threads_)};
    double* const moved[] = {&w.l2_bytes, &w.l3_bytes, &w.memory_bytes};
    std::array<double, kMostLoops> inside;
    inside.fill(1);
    std::vector<Footprint> prints(kernel_.accesses.size()), outer(kernel_.accesses.size());
    size_t cache = 0;
    const auto measure = [&](std::vector<Footprint>& into) {
      Footprint all;
      for (size_t i = 0; i < into.size(); i++) {
        into[i] = footprint(kernel_.accesses[i], inside);
        all.bytes += into[i].bytes, all.taken += into[i].taken;
      }
      return all;
    };
    measure(prints);
    for (size_t depth = levels_.size(); depth > 0 && cache < std::size(caches); depth--) {
      inside[levels_[depth - 1].loop] *= levels_[depth - 1].count;
      const Footprint all = measure(outer);
      const auto fits = [&] { return (cache < 2 ? all.taken : all.bytes) <= caches[cache] * kPart; };
      for (; cache < std::size(caches) && !fits(); cache++)
        *moved[cache] = comes(prints, outer, depth, cache == 0 ? &w.pages : nullptr);
      std::swap(prints, outer);
    }
  }
  // What one step of the level touches fits, and stays until the next step; all of its steps together do not
  // fit.
  double comes(const std::vector<Footprint>& step, const std::vector<Footprint>& all, size_t depth,
               double* pages) const {
    double sum = 0;
    for (size_t i = 0; i < all.size(); i++) {
      const Access& a = kernel_.accesses[i];
      if (a.is_near) continue;
      double times = 1, steps = 1;
      bool stays = true;  // as what is the same in each step of the levels next to it does
      for (size_t d = depth; d-- > 0;) {
        if (!has(a.around | a.loops, levels_[d].loop)) continue;
        stays = stays && !has(a.loops, levels_[d].loop);
        if (!stays) (d + 1 == depth ? steps : times) *= levels_[d].count;
      }
      if (pages != nullptr) *pages += times * steps * step[i].pages;
      sum += times * all[i].bytes * (a.is_store ? 2 * crowded(a) : 1);
    }
    return sum;
  }

  // Many places that are written in turn push each other out.
  double crowded(const Access& a) const {
    double streams = 1;
    for (size_t i = 0; i < splits_.size(); i++)
      if (has(a.loops, i) &&
          (!a.strides[i] ||
           std::abs(static_cast<double>(*a.strides[i])) * static_cast<double>(a.bytes) >= kFar))
        streams *= copies(i);
    return 1 + std::max(0.0, streams - kStreams) / (2 * kStreams);
  }

  // Each element is read, put into order and stored.
  void pack(Work& w) const {
    for (const Access& a : kernel_.accesses) {
      if (!is_packed(a)) continue;
      double elements = 1;
      for (size_t i = 0; i < splits_.size(); i++)
        if (has(a.loops, i)) elements *= static_cast<double>(splits_[i].steps / splits_[i].threads);
      for (const size_t i : plan_.blocks)
        if (!has(a.loops, i)) elements *= steps(splits_[i].steps / splits_[i].threads, splits_[i].block);
      w.once += elements * 0.3;
    }
  }

  const Summary& kernel_;
  const LoopPlan& plan_;
  const std::vector<Split>& splits_;
  const DeviceSpec& spec_;
  std::vector<Level> levels_;
  LoopSet lanes_ = 0, vectorized_ = 0;
  int64_t threads_ = 1;
};

}  // namespace

LoopPlan plan_of(const Summary& kernel) {
  LoopPlan plan;
  for (const Loop& l : kernel.loops) {
    plan.order.push_back(plan.splits.size());
    plan.splits.push_back({.steps = l.steps});
  }
  return plan;
}

std::optional<LoopPlan> plan_of(const Summary& kernel, const Opts& opts) {
  LoopPlan plan = plan_of(kernel);
  for (const Opt& opt : opts) {
    const auto axis = static_cast<size_t>(opt.axis);
    if (opt.kind == OptKind::PACK) {
      plan.packed.push_back(opt.amount);
      continue;
    }
    if (axis >= plan.splits.size()) return {};
    Split& s = plan.splits[axis];
    switch (opt.kind) {
      case OptKind::UPCAST:
      case OptKind::UNROLL:
        do_at_once(kernel, plan, axis, opt.amount == 0 ? s.steps / s.threads / s.copies : opt.amount);
        break;
      case OptKind::PADTO: pad_to(kernel, plan, axis, opt.amount); break;
      case OptKind::THREAD: s.threads = opt.amount; break;
      case OptKind::BLOCK:
        s.block = opt.amount;
        plan.blocks.push_back(axis);
        break;
      case OptKind::SWAP: {
        const auto a = std::ranges::find(plan.order, axis);
        const auto b = std::ranges::find(plan.order, static_cast<size_t>(opt.amount));
        if (a == plan.order.end() || b == plan.order.end()) return {};
        std::iter_swap(a, b);
        plan.swaps.emplace_back(axis, static_cast<size_t>(opt.amount));
        break;
      }
      default: return {};
    }
  }
  return plan;
}

Opts opts_of(const Summary& kernel, const LoopPlan& plan) {
  Opts opts;
  const auto add = [&](OptKind kind, size_t loop, int64_t amount) {
    opts.push_back({kind, static_cast<int64_t>(loop), amount});
  };
  const auto is_first = [&](size_t i) { return kernel.loops[i].sibling == i; };
  for (size_t i = 0; i < plan.splits.size(); i++)
    if (plan.splits[i].pad > 1 && is_first(i)) add(OptKind::PADTO, i, plan.splits[i].pad);
  for (size_t i = 0; i < plan.splits.size(); i++)
    if (plan.splits[i].threads > 1) add(OptKind::THREAD, i, plan.splits[i].threads);
  for (const auto& [a, b] : plan.swaps) add(OptKind::SWAP, a, static_cast<int64_t>(b));
  for (const size_t i : plan.blocks) add(OptKind::BLOCK, i, plan.splits[i].block);
  for (size_t i = 0; i < plan.splits.size(); i++) {
    const Split& s = plan.splits[i];
    const OptKind kind = kernel.loops[i].is_reduce ? OptKind::UNROLL : OptKind::UPCAST;
    if (s.first > 1 && is_first(i)) add(kind, i, s.first);
    if (s.copies > s.first && is_first(i)) add(kind, i, s.copies / s.first);
  }
  return opts;
}

namespace {

// What is done to a loop of a reduce is done to those beside it that have as many steps.
bool goes_with(const Summary& kernel, size_t i, size_t loop) {
  return i == loop || (kernel.loops[loop].is_reduce && kernel.loops[i].sibling == kernel.loops[loop].sibling);
}

}  // namespace

void pad_to(const Summary& kernel, LoopPlan& plan, size_t loop, int64_t amount) {
  for (size_t i = 0; i < plan.splits.size(); i++) {
    if (!goes_with(kernel, i, loop)) continue;
    Split& s = plan.splits[i];
    s.pad = amount;
    s.steps = (s.steps + amount - 1) / amount * amount;
  }
}

void do_at_once(const Summary& kernel, LoopPlan& plan, size_t loop, int64_t amount) {
  for (size_t i = 0; i < plan.splits.size(); i++) {
    if (!goes_with(kernel, i, loop)) continue;
    Split& s = plan.splits[i];
    if (s.copies == 1) s.first = amount;
    s.copies *= amount;
  }
}

Work work_of(const Summary& kernel, const LoopPlan& plan, const DeviceSpec& spec) {
  return Pricing(kernel, plan, spec).work();
}

int64_t picoseconds(const Work& w, const DeviceSpec& spec) {
  const Rates& r = spec.rates;
  const auto threads = static_cast<double>(w.threads);
  const double times[] = {std::max(w.compute, w.chain) + w.once, w.l2_bytes / r.l2_bytes + w.pages * r.page,
                          w.l3_bytes / r.l3_bytes,
                          w.memory_bytes / std::min(r.memory_bytes, r.all_memory_bytes / threads)};
  const double most = *std::ranges::max_element(times);
  double sum = 0;
  for (const double t : times) sum += t;
  const double cycles = (most + kOverlap * (sum - most)) * (1 + w.spills * kSpill);
  const double time = cycles * r.cycle_ps + (w.threads > 1 ? r.wake_us * 1e6 : 0);
  return static_cast<int64_t>(std::min(time, 0x1p62));  // a kernel too long to run has a time, too
}

}  // namespace quern::cost
