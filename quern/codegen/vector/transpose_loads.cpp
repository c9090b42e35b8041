#include "quern/codegen/vector/transpose_loads.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <unordered_map>

#include "quern/ir/node/node_map.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

// An index as something, and a constant behind it.
struct OffsetIndex {
  UOp start;  // none: 0
  wide offset = 0;
};
OffsetIndex offset_index_of(const UOp& load) {
  const UOp& position = load.src(0).src(1);
  if (position.is_int_const()) return {{}, position.int_value()};
  if (position.op() == Op::ADD && position.src(1).is_int_const())
    return {position.src(0), position.src(1).int_value()};
  return {position, 0};
}

// A vector of which each lane is a load of its own.
struct Column {
  UOp vector;
  std::vector<OffsetIndex> lanes;

  // How much further than the other it is, in every lane.
  std::optional<wide> distance(const Column& other) const {
    if (lanes.size() != other.lanes.size() || vector.dtype() != other.vector.dtype() ||
        !same(memory(), other.memory()))
      return {};
    for (size_t i = 0; i < lanes.size(); i++)
      if (!same(lanes[i].start, other.lanes[i].start) ||
          lanes[i].offset - other.lanes[i].offset != lanes[0].offset - other.lanes[0].offset)
        return {};
    return lanes[0].offset - other.lanes[0].offset;
  }
  const UOp& memory() const { return vector.src(0).src(0).src(0); }
};

std::optional<Column> column_of(const UOp& u) {
  if (u.op() != Op::VECTORIZE || u.src().size() < 2 || !std::has_single_bit(u.src().size())) return {};
  Column column{u, {}};
  for (const UOp& s : u.src()) {
    const bool plain = s.op() == Op::LOAD && s.dtype().lanes() == 1 && s.src().size() == 1 &&
                       s.src(0).op() == Op::INDEX && !has_gate(s.src(0));
    if (!plain || !same(s.src(0).src(0), u.src(0).src(0).src(0))) return {};
    column.lanes.push_back(offset_index_of(s));
  }
  return column;
}

// Lanes of two vectors, those of the second behind those of the first.
UOp picked(const UOp& a, const UOp& b, const Ints& lanes) {
  const UOp both = UOp::make(Op::VECTORIZE, a.dtype().scalar().vec(2 * a.dtype().lanes()), {a, b});
  return UOp::make(Op::GEP, a.dtype(), {both}, lanes);
}

// Rows to columns: blocks beside the diagonal change places, of half the square, a quarter, and so on.
void transpose(UOps& rows) {
  const size_t n = rows.size();
  for (size_t size = n / 2; size > 0; size /= 2)
    for (size_t i = 0; i < n; i++) {
      if ((i & size) != 0) continue;
      Ints upper, lower;
      for (size_t lane = 0; lane < n; lane++) {
        const bool right = (lane & size) != 0;
        upper.push_back(static_cast<int64_t>(right ? n + lane - size : lane));
        lower.push_back(static_cast<int64_t>(right ? n + lane : lane + size));
      }
      const UOp a = rows[i], b = rows[i + size];
      rows[i] = picked(a, b, upper), rows[i + size] = picked(a, b, lower);
    }
}

struct Squares {
  std::unordered_map<UOp, UOp> rows;  // what is read along memory in the place of a column
};

UOp row_of_square(const Squares& c, const UOp& u, Sources) {
  const auto found = c.rows.find(u);
  return found != c.rows.end() ? found->second : UOp();
}

}  // namespace

const Rules transposed_loads = [] {
  return RuleList{{op(Op::VECTORIZE), row_of_square, "a column of a square -> lanes of its rows"}};
};

UOp transpose_loads(const UOp& program) {
  if (!program.ops_below().contains(Op::VECTORIZE)) return program;
  // columns that differ by a constant, by that
  struct Family {
    Column first;
    std::map<wide, UOp> members;
  };
  std::vector<Family> families;
  walk(program, [&](const UOp& u) {
    const std::optional<Column> column = column_of(u);
    if (!column) return;
    for (Family& family : families)
      if (const std::optional<wide> distance = column->distance(family.first)) {
        family.members.emplace(*distance, u);
        return;
      }
    families.push_back({*column, {{0, u}}});
  });
  Squares squares;
  for (const Family& family : families) {
    const DType dtype = family.first.vector.dtype();
    const auto n = static_cast<size_t>(dtype.lanes());
    for (auto at = family.members.begin(); at != family.members.end();) {
      UOps square;  // neighbours from here on
      for (auto next = at; next != family.members.end() && square.size() < n &&
                           next->first == at->first + static_cast<wide>(square.size());
           ++next)
        square.push_back(next->second);
      if (square.size() < n) {
        ++at;
        continue;
      }
      UOps rows;
      for (const UOp& load : square[0].src()) {
        const UOp& index = load.src(0);
        rows.push_back(
            UOp::make(Op::LOAD, dtype, {index.cast(dtype.ptr(index.dtype().size(), index.dtype().space()))}));
      }
      transpose(rows);
      for (size_t i = 0; i < n; i++) squares.rows.emplace(square[i], rows[i]);
      std::advance(at, static_cast<int64_t>(n));
    }
  }
  if (squares.rows.empty()) return program;
  return graph_rewrite(program, transposed_loads, squares, {.order = Order::once, .name = "transpose loads"});
}

}  // namespace quern
