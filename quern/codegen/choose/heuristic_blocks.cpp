// A product whose reduce is long: in blocks, with both operands packed.
#include "quern/codegen/choose/heuristic_chooser.h"

namespace quern::heuristic {

namespace {
constexpr int64_t kShort = 8;        // vectors in L2 for a whole reduce: it needs no blocks
constexpr int64_t kLeastBlock = 64;  // steps of the reduce
constexpr int64_t kGoodBlock = 256;  // so that the sums, which wait in memory between blocks, are little work
constexpr int64_t kLeastColumns = 192;  // of those, a row that is packed is used for
constexpr int64_t kLeastTiles = 4;      // of rows in a block
constexpr int64_t kRowsUnpacked = 8;    // so few are near in any order
}  // namespace

Chooser::Split Chooser::split(int64_t tiles, int64_t most) {
  const int64_t each = divisor(tiles, std::max<int64_t>(1, most));
  if (tiles <= most || 2 * each > most) return {each, tiles};
  const int64_t blocks = (tiles + most - 1) / most, even = (tiles + blocks - 1) / blocks;
  const bool few_more = 16 * blocks * even <= 17 * tiles;
  return few_more ? Split{even, blocks * even} : Split{each, tiles};
}

// What is read for each column again, if that is one argument, read in one way.
UOp Chooser::other_operand(const UOp& row, const UOp& column) const {
  UOp found;
  for (const Access& a : reads_) {
    if (!a.uses(row)) continue;
    if (a.uses(column) || found || !is_packable(a)) return {};
    found = a.node;
  }
  return found;
}

// Of a block of the reduce, the columns of a tile are half of the first cache (or more, where vectors are so
// long that a block would be short: they are read in order, and come from the second in time), the rows of
// many tiles most of the second, and all columns a part of the third; so are the sums that wait for the next
// block.
bool Chooser::in_blocks(const Columns& of) {
  const auto& [column, row, packed] = of;
  if (!row || !packed || main_ranges_.size() != 1) return false;
  const UOp &reduced = main_ranges_[0], rows_of = other_operand(row, column);
  const auto [w, all, multiple] = padded(column);
  const int64_t bytes = packed.dtype().bytes(), cache = spec_.memory.l2_bytes * 5 / 8;
  if (cache / bytes / std::max<int64_t>(1, size(reduced)) / w >= kShort) return false;
  if (!rows_of && size(row) > kRowsUnpacked) return false;
  // the sums wait in the order of what is stored: else they would be no vectors
  if (!is_stored_along(column)) return false;
  const Tile t = tile(size(row), all, 1);
  const int64_t k =
      divisor(size(reduced), std::max(kGoodBlock, spec_.memory.l1_bytes / 2 / (t.columns * w * bytes)));
  if (k < kLeastBlock || k == size(reduced) || all * w < kLeastColumns) return false;
  const int64_t row_tiles = rounded_up(size(row), t.rows) / t.rows, sum_bytes = main_.dtype().bytes();
  const Split columns =
      split(all / t.columns, std::min(spec_.memory.l3_bytes / 2 / (row_tiles * t.rows * sum_bytes),
                                      spec_.memory.l3_bytes / 8 / (k * bytes)) /
                                 (t.columns * w));
  const Split rows = split(row_tiles, std::max(kLeastTiles, cache / (k * bytes) / t.rows));
  const bool blocks_of_columns = columns.each < columns.all;
  const bool blocks_of_rows = rows_of && rows.each < rows.all && rows.each >= kLeastTiles;
  const auto pad = [&](const UOp& range, int64_t multiple_of) {
    if (size(range) % multiple_of != 0) add(OptKind::PADTO, range, multiple_of);
  };

  pad(column, blocks_of_columns ? columns.each * t.columns * w : multiple);
  pad(row, blocks_of_rows ? rows.each * t.rows : t.rows);
  for (const UOp& r : around_)
    if (!same(r, column) && !same(r, row) && size(r) > 1) opts_.push_back({OptKind::BLOCK, number_of(r), 1});
  if (blocks_of_columns) add(OptKind::BLOCK, column, columns.each * t.columns * w);
  add(OptKind::BLOCK, reduced, k);
  if (blocks_of_rows) add(OptKind::BLOCK, row, rows.each * t.rows);
  const auto pack = [&](const UOp& load, const UOp& inside) {
    opts_.push_back({OptKind::PACK, number_of(inside), storage_of(load.src(0)).arg().integer()});
  };
  pack(packed, reduced);
  if (rows_of) pack(rows_of, blocks_of_rows ? row : reduced);
  add(OptKind::UPCAST, column, w);
  add(OptKind::UPCAST, column, t.columns);
  add(OptKind::UPCAST, row, t.rows);
  // columns outside: those of a tile stay in the first cache
  if (before(row, column) && t.rows < (blocks_of_rows ? rows.each * t.rows : size(row)) && columns.each > 1)
    opts_.push_back({OptKind::SWAP, number_of(row), number_of(column)});
  return true;
}

}  // namespace quern::heuristic
