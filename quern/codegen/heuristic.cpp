#include "quern/codegen/heuristic.h"

#include "quern/codegen/heuristic_workgroups.h"

#include <algorithm>

#include "quern/codegen/rebuild.h"
#include "quern/codegen/strides.h"
#include "quern/ir/linear.h"

namespace quern {
namespace {

constexpr int64_t kFewNodes = 30;        // a kernel of no more is unrolled twice as often
constexpr int64_t kMostNodes = 200;      // a kernel of more is not unrolled beyond its lanes
constexpr int64_t kTooManyNodes = 4000;  // and of so many is left as it is
constexpr int64_t kAccumulators = 8;     // that many sums at once hide the latency of an addition
constexpr int64_t kColumns = 16;         // vectors of a row that are read together, if rows are far apart
constexpr int64_t kCostly = 30;          // nodes that a function stands for
constexpr int64_t kMostUnrolled = 9;     // a reduce of so few steps has no loop
constexpr int64_t kMostInLoop = 128;     // operations in a loop that was unrolled
constexpr int64_t kRowsToPack = 8;       // what is read less often is not copied first
constexpr int64_t kElementsToPack = 2048;
constexpr int64_t kLine = 64;             // bytes of a line of the caches
constexpr int64_t kLinesAtOnce = 2;       // of each row that is written, while others are read across
constexpr double kStepsOfThread = 32768;  // nodes that run in the time in which threads are woken

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
      if (u.op() != Op::LOAD && u.op() != Op::STORE && u.op() != Op::REDUCE) continue;
      const DType d = u.op() == Op::STORE ? u.src(1).dtype() : u.dtype();
      bytes = std::max(bytes, d.is_float() ? std::max<int64_t>(4, d.bytes()) : d.bytes());
    }
    width_ = spec.vector_bytes / bytes;
  }

  Opts run() {
    if (stores_.empty() || std::ssize(order_) > kTooManyNodes) return {};
    if (!reduces_.empty()) find_main();
    choose_threads();
    if (width_ < 2) return opts_;
    if (reduces_.empty()) {
      lanes_of_outputs(loops_.outputs);
      return opts_;
    }
    if (!columns()) rows();
    // loops beside the reduce: what is computed from its result, or for it
    for (const UOp& u : order_) {
      if (u.op() != Op::END) continue;
      UOps beside;
      for (const UOp& r : u.src().subspan(1))
        if (r.op() == Op::RANGE && !is_open(main_, r) && !is_reduced(r)) beside.push_back(r);
      lanes_of_outputs(beside);
    }
    return opts_;
  }

 private:
  // Steps of one thread.
  int64_t size(const UOp& range) const {
    if (!range.src(0).is_int_const()) return 0;
    return static_cast<int64_t>(range.src(0).int_value()) / threads_along(range);
  }
  static int64_t divisor(int64_t of, int64_t most) {
    int64_t d = std::min(of, most);
    while (d > 1 && of % d != 0) d--;
    return std::max<int64_t>(d, 1);
  }
  static int64_t rounded_up(int64_t of, int64_t to) { return (of + to - 1) / to * to; }
  // How many steps of the loop are a vector. The loop is padded if need be, to a little more.
  int64_t lanes(const UOp& range) const {
    const int64_t n = size(range);
    for (int64_t w = width_; w >= std::max<int64_t>(2, width_ / 2); w /= 2)
      if (n % w == 0 && n > 0) return w;
    return n > width_ / 2 && (rounded_up(n, width_) - n) * 4 <= n ? width_ : 1;
  }
  int64_t vectors(const UOp& range) const { return rounded_up(size(range), lanes(range)) / lanes(range); }

  void add(OptKind kind, const UOp& range, int64_t amount) {
    if (amount <= 1) return;
    opts_.push_back({kind, number_of(range), amount});
  }
  void add_lanes(OptKind kind, const UOp& range) {
    if (size(range) % lanes(range) != 0) add(OptKind::PADTO, range, lanes(range));
    add(kind, range, lanes(range));
  }
  int64_t number_of(const UOp& range) const {
    int64_t number = 0;
    for (size_t i = 0; i < loops_.size(); i++)
      if (same(loops_.at(i), range)) number = static_cast<int64_t>(i);
    return number;
  }

  bool is_reduced(const UOp& range) const {
    return std::ranges::find(loops_.reduces, range) != loops_.reduces.end();
  }

  // ---- threads

  // The outermost loop that can be cut, and is around everything.
  void choose_threads() {
    double steps = 0;
    for (const UOp& u : order_) {
      double times = 1;
      for (const UOp& r : u.ranges()) times *= std::max(1.0, static_cast<double>(r.src(0).vmax()));
      if (is_elementwise(u.op()) || u.op() == Op::LOAD || u.op() == Op::STORE) steps += times;
    }
    const int64_t threads = std::min(spec_.compute_units, static_cast<int64_t>(steps / kStepsOfThread));
    if (threads < 2) return;
    // what is packed is best packed by one thread
    UOps candidates = loops_.outputs;
    const UOp packed = width_ > 1 && main_ ? find_columns().packed : UOp();
    if (packed) std::ranges::stable_partition(candidates, [&](const UOp& r) { return is_open(packed, r); });
    for (int64_t n = threads; n > 1; n--)
      for (const UOp& r : candidates) {
        if (!is_around_all(r) || size(r) == 0 || size(r) % n != 0) continue;
        if (packed && is_open(packed, r) && size(r) / n % 2 != 0) continue;  // blocks would be of one step
        // lanes want all of theirs
        if (size(r) / n % width_ != 0 &&
            std::ranges::any_of(stores_, [&](const Access& a) { return a.is_neighbours(r); }))
          continue;
        threaded_ = r, threads_ = n;
        opts_.push_back({OptKind::THREAD, number_of(r), n});
        return;
      }
  }
  bool is_around_all(const UOp& range) const {
    return std::ranges::all_of(order_.back().src(), [&](const UOp& effect) {
      return effect.op() == Op::END && std::ranges::find(effect.src(), range) != effect.src().end();
    });
  }
  int64_t threads_along(const UOp& range) const { return threaded_ && same(threaded_, range) ? threads_ : 1; }

  // ---- lanes

  // What is done in each step of a loop.
  int64_t nodes_in(const UOp& range) const {
    constexpr OpSet costly = {Op::EXP2, Op::LOG2, Op::SIN, Op::POW};
    int64_t nodes = 0;
    for (const UOp& u : order_)
      if (is_open(u, range)) nodes += costly.contains(u.op()) ? kCostly : 1;
    return nodes;
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
    add_lanes(OptKind::UPCAST, best);
    // What is read across the lanes is read in squares, and few rows at once, so that all of a cache line is
    // used. Of what is written, whole lines.
    for (const UOp& r : candidates)
      for (const Access& a : loads_)
        if (!same(r, best) && a.is_neighbours(r) && a.uses(best) && !a.is_neighbours(best)) {
          const int64_t line = divisor(vectors(best), std::max<int64_t>(1, kLine / spec_.vector_bytes));
          const int64_t lines = vectors(best) / line, block = divisor(lines, kLinesAtOnce);
          add(OptKind::UPCAST, best, line);
          if (block < lines && is_around_all(best)) add(OptKind::BLOCK, best, block);
          add(OptKind::UPCAST, r, divisor(size(r), width_));
          return;
        }
    const int64_t nodes = nodes_in(best);
    if (nodes <= kMostNodes) add(OptKind::UPCAST, best, divisor(vectors(best), nodes <= kFewNodes ? 4 : 2));
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
    int64_t rows = 1, columns = 1, others = 1;
  };
  // As much work for what is read as fits into the registers: an accumulator for each place of the tile, and
  // the values of a row and of a column of it.
  Tile tile(int64_t rows, int64_t columns, int64_t others = 1) const {
    Tile best;
    double most = 0;
    for (int64_t c = 1; c <= std::min(columns, spec_.registers); c++)
      for (int64_t o = 1; o <= std::min(others, spec_.registers / c); o++)
        for (int64_t r = 1; r * c * o + r + c * o <= spec_.registers; r++) {
          if (columns % c != 0 || others % o != 0) continue;
          const auto work = static_cast<double>(r * c * o), loaded = static_cast<double>(r + c * o);
          const double used = static_cast<double>(rows) / static_cast<double>(rounded_up(rows, r));
          const double value = used * std::min(work, static_cast<double>(kAccumulators)) * work / loaded;
          if (value > most) most = value, best = {r, c, o};
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

  // Lanes along an output: its loop, that of the other side of a tile, and what is copied first, if anything.
  struct Columns {
    UOp column, row, packed;
  };
  Columns find_columns() const {
    Columns best;
    int64_t most = 0;
    for (const UOp& r : around_) {
      if (lanes(r) == 1) continue;
      const UOp row = row_beside(r), packed = operand_to_pack(r, row);
      if (!all_simple(r) && !packed) continue;
      int64_t points = all_simple(r) ? 2 : 1;
      for (const Access& a : stores_) points += a.is_neighbours(r) ? 2 : 0;
      if (points > most) best = {r, row, packed}, most = points;
    }
    return best;
  }

  bool columns() {
    const auto [column, row, packed] = find_columns();
    if (!column) return false;
    const Block in = packed ? block(packed, column) : Block{vectors(column), {}, 1};
    const int64_t left = in.vectors;
    const Tile t = row ? tile(size(row), left, in.steps) : Tile{1, divisor(left, columns_at_once()), 1};
    if (!packed)
      add_lanes(OptKind::UPCAST, column);
    else
      add(OptKind::UPCAST, column, lanes(column));
    add(OptKind::UPCAST, column, t.columns);
    if (t.others > 1) add(OptKind::UPCAST, in.other, t.others);
    if (row && size(row) % t.rows != 0) add(OptKind::PADTO, row, t.rows);
    if (row) add(OptKind::UPCAST, row, t.rows);
    if (!packed) unroll_small_reduces(t.rows * t.columns);  // packed, they are one loop
    // A tile is wider than it is high: with columns outside, what is read along rows is read again least
    // often. What was packed is near, and what it is multiplied with should be nearer.
    if (row && before(row, column) == !packed && t.rows < size(row) && t.columns < left)
      opts_.push_back({OptKind::SWAP, number_of(row), number_of(column)});
    return true;
  }

  // A reduce that has no loop need not do much in each step of it.
  int64_t columns_at_once() const {
    int64_t steps = 1;
    for (const UOp& r : main_ranges_) steps *= std::max<int64_t>(1, size(r));
    return steps <= kMostUnrolled ? 4 : kColumns;
  }

  // The loop of a tile's other side.
  UOp row_beside(const UOp& column) const {
    UOp row;
    for (const UOp& r : around_)
      if (!same(r, column) && is_reused(r, column) && is_reused(column, r) && (!row || size(r) > size(row)) &&
          size(r) > 1)
        row = r;
    return row;
  }

  // What is read for each row again, and not as lanes want it or from far apart.
  UOp operand_to_pack(const UOp& column, const UOp& row) const {
    if (!row || size(row) < kRowsToPack) return {};
    UOp found;
    for (const Access& a : reads_) {
      if (!a.uses(column)) continue;
      if (a.uses(row)) {
        if (!a.is_simple(column)) return {};
        continue;
      }
      const UOp& memory = storage_of(a.node.src(0));
      const auto loads = std::ranges::count_if(
          loads_, [&](const Access& other) { return same(storage_of(other.node.src(0)), memory); });
      if (found || loads != 1 || memory.op() != Op::PARAM || !is_open_in_order(a)) return {};
      found = a.node;
    }
    if (!found || reduced_elements(found) * size(column) < kElementsToPack) return {};
    return found;
  }
  // Its loops are those over outputs and those of the main reduce.
  bool is_open_in_order(const Access& a) const {
    return std::ranges::all_of(a.node.ranges(), [&](const UOp& r) {
      return size(r) > 0 && (std::ranges::find(around_, r) != around_.end() ||
                             std::ranges::find(main_ranges_, r) != main_ranges_.end());
    });
  }
  int64_t reduced_elements(const UOp& load) const {
    int64_t elements = 1;
    for (const UOp& r : main_ranges_)
      if (is_open(load, r)) elements *= size(r);
    return elements;
  }

  // So many columns that what is packed for them fits into most of the second cache: vectors of a row, and
  // rows of another loop that it has.
  struct Block {
    int64_t vectors = 1;
    UOp other;
    int64_t steps = 1;
  };
  Block block(const UOp& packed, const UOp& column) {
    const int64_t w = lanes(column), all = vectors(column);
    if (all * w != size(column)) add(OptKind::PADTO, column, w);
    const int64_t most = spec_.l2_bytes * 5 / 8 / packed.dtype().bytes() / reduced_elements(packed) / w;
    Block result;
    result.vectors = divisor(all, std::max<int64_t>(4, most));
    UOps others;
    for (const UOp& r : around_)
      if (!same(r, column) && is_open(packed, r)) others.push_back(r);
    if (!others.empty() && result.vectors == all) {
      result.other = others.back();
      result.steps = divisor(size(result.other), std::max<int64_t>(1, most / all));
    }
    for (const UOp& r : others)
      opts_.push_back(
          {OptKind::BLOCK, number_of(r), result.other && same(r, result.other) ? result.steps : 1});
    if (result.vectors < all) opts_.push_back({OptKind::BLOCK, number_of(column), result.vectors * w});
    opts_.push_back({OptKind::PACK, number_of(column), storage_of(packed.src(0)).arg().integer()});
    return result;
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
    add_lanes(OptKind::UNROLL, along);
    for (size_t i = 0; i < around_.size(); i++)
      for (size_t k = i + 1; k < around_.size(); k++) {
        const UOp &a = around_[i], &b = around_[k];
        if (size(a) == 0 || size(b) == 0 || !is_reused(a, b) || !is_reused(b, a)) continue;
        const Tile t = tile(size(a), size(b));
        if (t.rows * t.columns == 1) continue;
        if (size(a) % t.rows != 0) add(OptKind::PADTO, a, t.rows);
        add(OptKind::UPCAST, a, t.rows);
        add(OptKind::UPCAST, b, t.columns);
        return true;
      }
    add(OptKind::UNROLL, along, divisor(vectors(along), nodes_in(along) <= kFewNodes ? 4 : 2));
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
  UOp threaded_;
  int64_t threads_ = 1;
  Opts opts_;
};

}  // namespace

Opts choose_opts(const UOp& program, const DeviceSpec& spec) {
  if (spec.workgroup_threads > 1) return choose_workgroup_opts(program, spec);
  return Chooser(program, spec).run();
}

}  // namespace quern
