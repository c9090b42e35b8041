// Lanes along outputs of a reduce: tiles in registers, and what is packed for them.
#include <tuple>

#include "quern/codegen/choose/heuristic_chooser.h"

namespace quern::heuristic {

namespace {
constexpr int64_t kAccumulators = 8;  // that many sums at once hide the latency of an addition
constexpr int64_t kColumns = 16;      // vectors of a row that are read together, if rows are far apart
constexpr int64_t kTransposedColumns = 2;
constexpr int64_t kRowsToPack = 8;  // what is read less often is not copied first
constexpr int64_t kRows = 5;        // of a tile: a loop of no fewer steps will do
constexpr int64_t kTemporaries = 4;
constexpr double kPadded = 0.9;  // of what a tile would be worth: its last step has masks
constexpr wide kFar = wide{1} << 62;
constexpr int64_t kFewRows = 64;
constexpr int64_t kLeastVectors = 4, kFewRowsVectors = 8;  // of a row, that are packed together
constexpr int64_t kElementsToPack = 2048;
constexpr int64_t kLongReduce = 128;  // for each store
}  // namespace

// As much work for what is read as fits into the registers: an accumulator for each place of the tile, the
// values of a row or of a column of it, and a few that come and go.
Chooser::Tile Chooser::tile(int64_t rows, int64_t columns, int64_t others) const {
  Tile best;
  double most = 0;
  for (int64_t c = 1; c <= std::min(columns, spec_.memory.registers); c++)
    for (int64_t o = 1; o <= std::min(others, spec_.memory.registers / c); o++)
      for (int64_t r = 1; r * c * o + std::min(r, c * o) + kTemporaries <= spec_.memory.registers; r++) {
        if (columns % c != 0 || others % o != 0) continue;
        const auto work = static_cast<double>(r * c * o), loaded = static_cast<double>(r + c * o);
        double used = static_cast<double>(rows) / static_cast<double>(rounded_up(rows, r));
        if (used < 1) used *= kPadded;
        const double value = used * std::min(work, static_cast<double>(kAccumulators)) * work / loaded;
        if (value > most) most = value, best = {r, c, o};
      }
  return best;
}

// Best are lanes along what is read and written. What has to be transposed to be packed costs more than
// stores that are not to neighbours, if the reduce is long: then it is the loop for which least is packed.
Chooser::Columns Chooser::find_columns() const {
  Columns best;
  std::tuple<int64_t, double, int64_t> most{0, 0, 0};
  for (const UOp& r : around_) {
    const UOp row = row_beside(r), packed = operand_to_pack(r, row);
    if ((packed ? padded(r).lanes : lanes(r)) == 1) continue;
    if (!all_simple(r) && !packed) continue;
    const UOp index = packed ? index_of_address(packed.src(0)) : UOp();
    const bool is_turned = packed && !has_gate(index) && stride_of(position_of(index), r) != 1 &&
                           reduced_elements(packed) >= kLongReduce;
    const auto stored =
        2 * std::ranges::count_if(stores_, [&](const Access& a) { return a.is_neighbours(r); });
    int64_t points = (all_simple(r) ? 2 : 1) + (is_turned ? 0 : stored);
    if (packed && padded(r).lanes < width_) points = 1;  // vectors would be half as long
    const std::tuple value{points, packed ? -copied_elements(packed) : 0.0, stored};
    if (!best.column || value > most) best = {r, row, packed}, most = value;
  }
  return best;
}

bool Chooser::is_stored_along(const UOp& range) const {
  return std::ranges::any_of(stores_, [&](const Access& a) { return a.is_neighbours(range); });
}

bool Chooser::lanes_along_output() {
  const Columns found = find_columns();
  const auto& [column, row, packed] = found;
  if (!column) return false;
  if (in_blocks(found)) return true;
  const Block in = packed ? block(packed, column) : Block{vectors(column), {}, 1};
  const int64_t left = in.vectors;
  const bool only_packed = in.other && std::ranges::none_of(reads_, [&](const Access& a) {
                             return a.uses(row) && a.uses(in.other);
                           });
  Tile t =
      row ? tile(size(row), left, only_packed ? in.steps : 1) : Tile{1, divisor(left, columns_at_once()), 1};
  // What is not stored along lanes is stored one by one: most of the code, for little more speed.
  if (packed && !is_stored_along(column) && t.columns > kTransposedColumns &&
      t.columns % kTransposedColumns == 0)
    t.columns = kTransposedColumns;
  if (!packed)
    add_lanes(OptKind::UPCAST, column);
  else
    add(OptKind::UPCAST, column, padded(column).lanes);
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
int64_t Chooser::columns_at_once() const {
  int64_t steps = 1;
  for (const UOp& r : main_ranges_) steps *= std::max<int64_t>(1, size(r));
  return steps <= kMostUnrolled ? 4 : kColumns;
}

// The loop of a tile's other side: of those that are long enough the one whose steps are nearest in memory.
UOp Chooser::row_beside(const UOp& column) const {
  UOp row;
  for (const UOp& r : around_) {
    if (same(r, column) || !is_reused(r, column) || !is_reused(column, r) || size(r) <= 1) continue;
    const int64_t now = row ? std::min(size(row), kRows) : 0, then = std::min(size(r), kRows);
    if (then > now || (then == now && reach(r) < reach(row))) row = r;
  }
  return row;
}

// How far apart in memory the steps of a loop are.
wide Chooser::reach(const UOp& range) const {
  wide most = 0;
  for (const Access& a : reads_)
    if (a.uses(range)) most = std::max(most, stride_of(position_of(a.index), range).value_or(kFar));
  return most;
}

// What is read for each row again, and not as lanes want it or from far apart.
UOp Chooser::operand_to_pack(const UOp& column, const UOp& row) const {
  if (!row) return {};
  UOp found;
  for (const Access& a : reads_) {
    if (!a.uses(column)) continue;
    if (a.uses(row)) {
      if (!a.is_simple(column)) return {};
      continue;
    }
    if (found || !is_packable(a)) return {};
    found = a.node;
  }
  if (!found || times_read(found) < kRowsToPack) return {};
  if (reduced_elements(found) * size(column) < kElementsToPack) return {};
  return found;
}

// An argument that is read in one way, in loops over outputs and those of the main reduce.
bool Chooser::is_packable(const Access& a) const {
  const UOp& memory = storage_of(a.node.src(0));
  const auto loads = std::ranges::count_if(
      loads_, [&](const Access& other) { return same(storage_of(other.node.src(0)), memory); });
  return loads == 1 && memory.op() == Op::PARAM && std::ranges::all_of(a.node.ranges(), [&](const UOp& r) {
           return size(r) > 0 && (std::ranges::find(around_, r) != around_.end() ||
                                  std::ranges::find(main_ranges_, r) != main_ranges_.end());
         });
}

// How often it is read again, with the same loops of the reduce.
int64_t Chooser::times_read(const UOp& load) const {
  int64_t times = 1;
  for (const UOp& r : around_)
    if (!is_open(load, r)) times *= std::max<int64_t>(1, size(r));
  return times;
}

int64_t Chooser::reduced_elements(const UOp& load) const {
  int64_t elements = 1;
  for (const UOp& r : main_ranges_)
    if (is_open(load, r)) elements *= size(r);
  return elements;
}

double Chooser::copied_elements(const UOp& load) const {
  double elements = 1;
  for (const UOp& r : load.ranges()) elements *= static_cast<double>(std::max<int64_t>(1, size(r)));
  return elements;
}

Chooser::Block Chooser::block(const UOp& packed, const UOp& column) {
  const auto [w, all, multiple] = padded(column);
  if (all * w != size(column)) add(OptKind::PADTO, column, multiple);
  const int64_t most = spec_.memory.l2_bytes * 5 / 8 / packed.dtype().bytes() / reduced_elements(packed) / w;
  Block result;
  // for few rows the copying takes longest: it reads longer pieces
  const int64_t least = times_read(packed) <= kFewRows ? kFewRowsVectors : kLeastVectors;
  const int64_t limit = std::max(least, most), part = divisor(all, limit);
  result.vectors = part * 2 < limit && all <= limit * 2 ? all : part;
  UOps others;
  for (const UOp& r : around_)
    if (!same(r, column) && is_open(packed, r)) others.push_back(r);
  if (!others.empty() && result.vectors == all) {
    result.other = others.back();
    result.steps = divisor(size(result.other), std::max<int64_t>(1, most / all));
  }
  for (const UOp& r : others)
    opts_.push_back({OptKind::BLOCK, number_of(r), result.other && same(r, result.other) ? result.steps : 1});
  if (result.vectors < all) opts_.push_back({OptKind::BLOCK, number_of(column), result.vectors * w});
  opts_.push_back({OptKind::PACK, number_of(column), storage_of(packed.src(0)).arg().integer()});
  return result;
}

}  // namespace quern::heuristic
