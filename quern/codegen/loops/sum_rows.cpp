#include "quern/codegen/loops/sum_rows.h"

#include <algorithm>

#include "quern/codegen/analysis/strides.h"
#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

constexpr int64_t kRowsAtOnce = 8;
constexpr int64_t kFewRows = 64;
constexpr int64_t kPage = 4096;       // rows that are so many bytes apart
constexpr int64_t kLeastPart = 1024;  // bytes of a row

struct Kernel {
  UOp store, reduce;
  UOp column, row;  // ranges
  UOps around;      // other loops over outputs
};

// The index along neighbours goes with `column`, and steps of `row` are pages apart. Nothing else is read
// that lanes along the columns would not read together.
bool goes_across(const Kernel& k) {
  bool across = false, simple = true;
  walk(Reduction(k.reduce).value(), [&](const UOp& u) {
    if (u.op() != Op::LOAD) return;
    const UOp& index = index_of_address(u.src(0));
    if (!is_open(index, k.column)) return;
    const std::optional<wide> down = stride_of(position_of(index), k.row);
    simple &= !has_gate(index) && stride_of(position_of(index), k.column) == 1 && down.has_value();
    // rows of other outputs would read this again
    simple &= std::ranges::all_of(k.around, [&](const UOp& r) { return is_open(index, r); });
    across |= down && (*down < 0 ? -*down : *down) * u.dtype().bytes() >= kPage;
  });
  return across && simple;
}

Kernel find(const UOp& program) {
  if (program.src().size() != 1 || program.src(0).op() != Op::END || program.src(0).src(0).op() != Op::STORE)
    return {};
  Kernel k;
  const UOp& end = program.src(0);
  k.store = end.src(0);
  size_t reduces = 0;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::REDUCE) k.reduce = u, reduces++;
  });
  const UOp& index = index_of_address(k.store.src(0));
  if (reduces != 1 || has_gate(index)) return {};
  const Sources rows = Reduction(k.reduce).ranges;
  if (rows.size() != 1 || rows[0].op() != Op::RANGE) return {};
  k.row = rows[0];
  if (steps(k.row) < kFewRows || steps(k.row) % kRowsAtOnce != 0) return {};
  for (const UOp& r : end.src().subspan(1)) {
    if (r.op() != Op::RANGE || steps(r) == 0) return {};
    if (stride_of(position_of(index), r) == 1)
      k.column = r;
    else
      k.around.push_back(r);
  }
  if (!k.column || !is_open(k.reduce, k.column) || !goes_across(k)) return {};
  return k;
}

// How many columns at once.
int64_t part_of(const Kernel& k, const DeviceSpec& spec) {
  const int64_t columns = steps(k.column), bytes = k.reduce.dtype().bytes();
  const int64_t units = k.around.empty() ? spec.parallel.cores : 1;
  for (int64_t n = std::min(columns / units, spec.memory.l1_bytes / 2 / bytes); n * bytes >= kLeastPart; n--)
    if (columns % n == 0 && n * bytes % (4 * spec.parallel.vector_bytes) == 0 && columns / n % units == 0)
      return n;
  return 0;
}

}  // namespace

UOp sum_rows(const UOp& program, const DeviceSpec& spec) {
  const Kernel k = find(program);
  if (!k.store) return program;
  const int64_t part = part_of(k, spec);
  if (part == 0) return program;
  int64_t next = 0;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::RANGE) next = std::max(next, u.arg().range().id + 1);
  });
  const DType dtype = k.reduce.dtype();
  const Op op = k.reduce.arg().reduce().op;
  const UOp memory = UOp::make(Op::DEFINE_LOCAL, dtype.ptr(part, AddrSpace::LOCAL), {}, 0);
  const auto at = [&](const UOps& behind, const UOp& index) {
    UOps sources{memory};
    sources.insert(sources.end(), behind.begin(), behind.end());
    const UOp now = behind.empty() ? memory : UOp::make(Op::AFTER, memory.dtype(), sources);
    return UOp::make(Op::INDEX, memory.dtype(), {now, index});
  };
  const auto load = [&](const UOp& address) { return UOp::make(Op::LOAD, dtype, {address}); };
  const auto store = [](const UOp& address, const UOp& value) {
    return UOp::make(Op::STORE, dtypes::void_, {address, value});
  };
  const auto end = [](const UOp& effect, const UOps& ranges) {
    UOps sources{effect};
    sources.insert(sources.end(), ranges.begin(), ranges.end());
    return UOp::make(Op::END, dtypes::void_, sources);
  };
  const int64_t parts = steps(k.column) / part;
  const UOp outer = UOp::range(parts, k.column.arg().range().id, AxisKind::LOOP);
  const auto column = [&](const UOp& inner) { return parts == 1 ? inner : outer * part + inner; };
  UOps around = k.around;  // what is set to 0 again
  if (parts > 1) around.push_back(outer);
  // all are 0
  const UOp first = UOp::range(part, next++, AxisKind::LOOP);
  const UOp start = UOp::constant(dtype, identity_element(op, dtype));
  const UOp zeros = end(store(at(around, first), start), {first});
  // some rows
  const UOp rows = UOp::range(steps(k.row) / kRowsAtOnce, next++, AxisKind::LOOP);
  const UOp second = UOp::range(part, next++, AxisKind::LOOP);
  const UOp row = UOp::range(kRowsAtOnce, next++, AxisKind::REDUCE);
  const UOp value = Reduction(k.reduce).value().substitute_open(
      {{k.column, column(second)}, {k.row, rows * kRowsAtOnce + row}});
  const UOp sum = UOp::make(Op::REDUCE, dtype, {value, row}, k.reduce.arg());
  const UOp place = at({zeros, rows}, second);
  const UOp added = end(store(place, UOp::alu(op, {load(place), sum})), {rows, second});
  // what becomes of them
  const UOp last = UOp::range(part, next++, AxisKind::LOOP);
  const UOp result =
      k.store.substitute({{k.reduce, load(at({added}, last))}}).substitute_open({{k.column, column(last)}});
  UOps closed = around;
  closed.push_back(last);
  return graph_rewrite(program.with_src(UOps{end(result, closed)}), symbolic, {.name = "sum rows"});
}

}  // namespace quern
