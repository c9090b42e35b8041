// The heuristic of devices without workgroups. Its parts are files: threads in heuristic.cpp, then lanes
// along outputs (elementwise), tiles of a reduce (products, blocks) and lanes along a reduce (rows).
#pragma once

#include <algorithm>
#include <vector>

#include "quern/codegen/analysis/strides.h"
#include "quern/codegen/opt/opt.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/pass/linear_program.h"

namespace quern::heuristic {

constexpr int64_t kFewNodes = 30;     // a kernel of no more is unrolled twice as often
constexpr int64_t kMostUnrolled = 9;  // a reduce of so few steps has no loop

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
  Chooser(const UOp& program, const DeviceSpec& spec);
  Opts run();

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
  // Tiles in blocks of at most so many; with a few tiles more where their number has no fitting divisor.
  struct Split {
    int64_t each, all;
  };
  static Split split(int64_t tiles, int64_t most);
  static int64_t rounded_up(int64_t of, int64_t to) { return (of + to - 1) / to * to; }
  // How many steps of the loop are a vector. The loop is padded if need be, to a little more.
  int64_t lanes(const UOp& range) const {
    const int64_t n = size(range);
    for (int64_t w = width_; w >= std::max<int64_t>(2, width_ / 2); w /= 2)
      if (n % w == 0 && n > 0) return w;
    return n > width_ / 2 && (rounded_up(n, width_) - n) * 4 <= n ? width_ : 1;
  }
  int64_t vectors(const UOp& range) const { return rounded_up(size(range), lanes(range)) / lanes(range); }
  // The same where it is packed: a copy is padded at no cost. With a count of vectors that a tile can have.
  struct Padded {
    int64_t lanes = 1, vectors = 1, multiple = 1;  // of steps: what the loop is padded to
  };
  Padded padded(const UOp& range) const {
    const int64_t n = size(range), over = rounded_up(n, width_) - n, half = width_ / 2;
    int64_t w = n > half && over * 8 <= n ? width_ : lanes(range);
    if (w == 1 && half > 1 && n > half / 2 && (rounded_up(n, half) - n) * 4 <= n) w = half;
    const int64_t count = rounded_up(n, w) / w;
    const bool is_even = count <= 8 || count % 2 == 0 || count % 3 == 0 || count % 5 == 0;
    return {w, is_even ? count : count + 1, is_even ? w : 2 * w};
  }
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
  void choose_threads();
  double read_by_all(const UOp& range, const UOp& packed) const;
  bool is_around_all(const UOp& range) const;
  int64_t threads_along(const UOp& range) const { return threaded_ && same(threaded_, range) ? threads_ : 1; }

  // ---- elementwise
  int64_t nodes_in(const UOp& range) const;
  void lanes_of_outputs(const UOps& candidates);

  // ---- the reduce
  void find_main();
  bool all_simple(const UOp& range) const;
  bool is_reused(const UOp& along, const UOp& other) const;

  // ---- lanes along an output, products
  struct Tile {
    int64_t rows = 1, columns = 1, others = 1;
  };
  Tile tile(int64_t rows, int64_t columns, int64_t others = 1) const;
  // Lanes along an output: its loop, that of the other side of a tile, and what is copied first, if anything.
  struct Columns {
    UOp column, row, packed;
  };
  Columns find_columns() const;
  bool lanes_along_output();
  int64_t columns_at_once() const;
  UOp row_beside(const UOp& column) const;
  bool is_stored_along(const UOp& range) const;
  UOp operand_to_pack(const UOp& column, const UOp& row) const;
  UOp other_operand(const UOp& row, const UOp& column) const;
  bool in_blocks(const Columns& of);
  bool is_packable(const Access& a) const;
  wide reach(const UOp& range) const;
  int64_t times_read(const UOp& load) const;
  int64_t reduced_elements(const UOp& load) const;
  double copied_elements(const UOp& load) const;
  // So many columns that what is packed for them fits into most of L2: vectors of a row, and
  // rows of another loop that it has.
  struct Block {
    int64_t vectors = 1;
    UOp other;
    int64_t steps = 1;
  };
  Block block(const UOp& packed, const UOp& column);

  // ---- lanes along a reduce
  bool lanes_along_reduce();
  void unroll_small_reduces(int64_t at_once);

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

}  // namespace quern::heuristic
