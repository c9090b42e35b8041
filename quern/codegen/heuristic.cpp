#include "quern/codegen/heuristic.h"

#include "quern/codegen/heuristic_workgroups.h"

#include <algorithm>

#include "quern/codegen/rebuild.h"
#include "quern/codegen/strides.h"
#include "quern/ir/linear.h"

namespace quern {
namespace {

constexpr int64_t kFewNodes = 40;        // a kernel of no more is unrolled twice as often
constexpr int64_t kMostNodes = 200;      // a kernel of more is not unrolled beyond its lanes
constexpr int64_t kTooManyNodes = 4000;  // and of so many is left as it is
constexpr int64_t kAccumulators = 8;     // that many sums at once hide the latency of an addition
constexpr int64_t kMostUnrolled = 9;     // a reduce of so few steps has no loop
constexpr int64_t kMostInLoop = 128;     // operations in a loop that was unrolled

// A load or a store, and how its address changes with the loops.
struct Access {
  UOp node;
  UOp index;

  bool uses(const UOp& range) const { return is_open(index, range); }
  // Lanes along the range: one access for all of them.
  bool is_neighbours(const UOp& range) const {
    return !gate_varies(range) && stride_of(position_of(index), range) == 1;
  }
  bool is_simple(const UOp& range) const { return !uses(range) || is_neighbours(range); }
  bool gate_varies(const UOp& range) const { return has_gate(index) && is_open(gate_of(index), range); }
};

class Chooser {
 public:
  Chooser(const UOp& program, const DeviceSpec& spec)
      : order_(program.toposort()), spec_(spec), loops_(loops_of(program)) {
    int64_t bytes = 1;
    for (const UOp& u : order_) {
      if (u.op() == Op::LOAD) loads_.push_back({u, index_of_address(u.src(0))});
      if (u.op() == Op::STORE) stores_.push_back({u, index_of_address(u.src(0))});
      if (u.op() == Op::REDUCE) reduces_.push_back(u);
      const DType d = u.dtype();
      const bool is_value =
          (u.op() == Op::LOAD || is_elementwise(u.op())) && !d.is_index() && !d.is_ptr() && !d.is_bool();
      if (is_value) bytes = std::max(bytes, d.is_float() ? std::max<int64_t>(4, d.bytes()) : d.bytes());
    }
    width_ = spec.vector_bytes / bytes;
  }

  Opts run() {
    if (width_ < 2 || stores_.empty() || std::ssize(order_) > kTooManyNodes) return {};
    if (reduces_.empty()) {
      lanes_of_outputs(loops_.outputs);
      return opts_;
    }
    find_main();
    if (!columns()) rows();
    // loops beside the reduce: what is computed from its result
    UOps beside;
    for (const UOp& r : loops_.outputs)
      if (!is_open(main_, r)) beside.push_back(r);
    lanes_of_outputs(beside);
    return opts_;
  }

 private:
  static int64_t size(const UOp& range) {
    return range.src(0).is_int_const() ? static_cast<int64_t>(range.src(0).int_value()) : 0;
  }
  static int64_t divisor(int64_t of, int64_t most) {
    int64_t d = std::min(of, most);
    while (d > 1 && of % d != 0) d--;
    return std::max<int64_t>(d, 1);
  }
  int64_t lanes(const UOp& range) const {
    for (int64_t w = width_; w >= std::max<int64_t>(2, width_ / 2); w /= 2)
      if (size(range) % w == 0 && size(range) > 0) return w;
    return 1;
  }

  void add(OptKind kind, const UOp& range, int64_t amount) {
    if (amount <= 1) return;
    opts_.push_back({kind, number_of(range), amount});
  }
  int64_t number_of(const UOp& range) const {
    int64_t number = 0;
    for (size_t i = 0; i < loops_.size(); i++)
      if (same(loops_.at(i), range)) number = static_cast<int64_t>(i);
    return number;
  }

  // Elementwise: the loop along which most accesses are to neighbours.
  void lanes_of_outputs(const UOps& candidates) {
    UOp best;
    int64_t most = 0;
    for (const UOp& r : candidates) {
      int64_t points = 0;
      for (const std::vector<Access>* all : {&stores_, &loads_})
        for (const Access& a : *all)
          if (a.uses(r)) points += (a.is_neighbours(r) ? 1 : -1) * (all == &stores_ ? 3 : 1);
      if (lanes(r) > 1 && points > most) best = r, most = points;
    }
    if (!best) return;
    add(OptKind::UPCAST, best, lanes(best));
    // what is read across the lanes is read in squares, so that all of a cache line is used
    for (const UOp& r : candidates)
      for (const Access& a : loads_)
        if (!same(r, best) && a.is_neighbours(r) && a.uses(best) && !a.is_neighbours(best)) {
          add(OptKind::UPCAST, r, divisor(size(r), width_));
          return;
        }
    const auto nodes = std::ssize(order_);
    if (nodes <= kMostNodes)
      add(OptKind::UPCAST, best, divisor(size(best) / lanes(best), nodes <= kFewNodes ? 4 : 2));
  }

  // The reduce that most is done in, and what it reads.
  void find_main() {
    double most = -1;
    for (const UOp& u : reduces_) {
      double steps = 1;
      for (const UOp& r : u.src(0).ranges()) steps *= std::max(1.0, static_cast<double>(r.src(0).vmax()));
      if (steps > most) most = steps, main_ = u;
    }
    for (const UOp& s : main_.src().subspan(1))
      if (s.op() == Op::RANGE) main_ranges_.push_back(s);
    for (const Access& a : loads_)
      if (std::ranges::any_of(main_ranges_, [&](const UOp& r) { return a.uses(r); })) reads_.push_back(a);
    for (const UOp& r : main_.ranges())
      if (r.arg().range().kind == AxisKind::LOOP) around_.push_back(r);
  }

  bool all_simple(const UOp& range) const {
    return std::ranges::all_of(reads_, [&](const Access& a) { return a.is_simple(range); }) &&
           std::ranges::any_of(reads_, [&](const Access& a) { return a.is_neighbours(range); });
  }
  // Something that is read does not change with the one but with the other: doing several steps of the first
  // at once reads it once.
  bool is_reused(const UOp& along, const UOp& other) const {
    return std::ranges::any_of(reads_, [&](const Access& a) { return !a.uses(along) && a.uses(other); });
  }

  struct Tile {
    int64_t rows = 1, columns = 1;
  };
  // As much work for what is read as fits into the registers: an accumulator for each place of the tile, the
  // values of a row of it, and one of a column.
  Tile tile(int64_t rows, int64_t columns) const {
    Tile best;
    double most = 0;
    for (int64_t c = 1; c <= spec_.registers; c++)
      for (int64_t r = 1; r * c + std::min(r, c) + 1 <= spec_.registers; r++) {
        if (rows % r != 0 || columns % c != 0) continue;
        const auto work = static_cast<double>(r * c), loaded = static_cast<double>(r + c);
        const double value = std::min(work, static_cast<double>(kAccumulators)) * work / loaded;
        if (value > most) most = value, best = {r, c};
      }
    return best;
  }

  void unroll_small_reduces(int64_t at_once) {
    for (const UOp& r : main_ranges_) {
      if (size(r) < 2 || size(r) > kMostUnrolled || at_once * size(r) > kMostInLoop) continue;
      add(OptKind::UNROLL, r, size(r));
      at_once *= size(r);
    }
  }

  // Lanes along an output.
  bool columns() {
    UOp column;
    int64_t most = 0;
    for (const UOp& r : around_) {
      if (lanes(r) == 1 || !all_simple(r)) continue;
      int64_t points = 1;
      for (const Access& a : stores_) points += a.is_neighbours(r) ? 2 : 0;
      if (points > most) column = r, most = points;
    }
    if (!column) return false;
    UOp row;
    for (const UOp& r : around_)
      if (!same(r, column) && is_reused(r, column) && is_reused(column, r) && (!row || size(r) > size(row)) &&
          size(r) > 1)
        row = r;
    const int64_t w = lanes(column), left = size(column) / w;
    const Tile t = row ? tile(size(row), left) : Tile{1, divisor(left, kAccumulators)};
    add(OptKind::UPCAST, column, w);
    add(OptKind::UPCAST, column, t.columns);
    if (row) add(OptKind::UPCAST, row, t.rows);
    unroll_small_reduces(t.rows * t.columns);
    if (!row) return true;
    // A tile is wider than it is high: with columns outside, what is read along rows is read again least
    // often.
    if (before(row, column) && t.rows < size(row) && t.columns < left)
      opts_.push_back({OptKind::SWAP, number_of(row), number_of(column)});
    return true;
  }

  // Lanes along a reduce.
  bool rows() {
    UOp along;
    for (const UOp& r : main_ranges_)
      if (lanes(r) > 1 && all_simple(r) && (!along || size(r) > size(along))) along = r;
    if (!along) {
      unroll_small_reduces(1);
      return false;
    }
    const int64_t w = lanes(along);
    add(OptKind::UNROLL, along, w);
    for (size_t i = 0; i < around_.size(); i++)
      for (size_t k = i + 1; k < around_.size(); k++) {
        const UOp &a = around_[i], &b = around_[k];
        if (size(a) == 0 || size(b) == 0 || !is_reused(a, b) || !is_reused(b, a)) continue;
        const Tile t = tile(size(a), size(b));
        if (t.rows * t.columns == 1) continue;
        add(OptKind::UPCAST, a, t.rows);
        add(OptKind::UPCAST, b, t.columns);
        return true;
      }
    add(OptKind::UNROLL, along, divisor(size(along) / w, std::ssize(order_) <= kFewNodes ? 4 : 2));
    return true;
  }

  const NodeList order_;
  const DeviceSpec& spec_;
  const Loops loops_;
  int64_t width_ = 1;
  std::vector<Access> loads_, stores_;
  UOps reduces_;
  UOp main_;  // the reduce
  UOps main_ranges_, around_;
  std::vector<Access> reads_;
  Opts opts_;
};

}  // namespace

Opts choose_opts(const UOp& program, const DeviceSpec& spec) {
  if (!not_optimisable(program).empty()) return {};
  if (spec.workgroup_threads > 1) return choose_workgroup_opts(program, spec);
  return Chooser(program, spec).run();
}

}  // namespace quern
