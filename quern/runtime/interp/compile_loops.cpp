// Loops: what ends ranges, and what is accumulated or kept on the way.
#include <list>
#include <ranges>

#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/runtime/interp/compiler.h"

namespace quern::interp {

uint32_t Compiler::loop_node(const UOp& u, Region& at) {
  const uint32_t result = u.op() == Op::REDUCE ? start_reduce(u, at) : kNoSlot;
  std::list<Region> nest;
  Region* inner = &at;
  for (const UOp& range : closed_by(u)) {
    run(range.src(0), *inner);
    inner = &nest.emplace_back(Region{inner, range, emit_.new_slot(), emit_.new_block(), {}});
    inner->slots[range.node()] = inner->variable;
  }
  if (u.op() == Op::REDUCE) {
    add_to_reduce(u, result, *inner);
  } else if (u.op() == Op::STAGE) {
    keep(u, *inner);
  } else {
    const Sources effects = u.op() == Op::END ? u.src().first(1) : u.src();
    for (const UOp& effect : effects) run(effect, *inner);
  }
  for (const Region& region : std::views::reverse(nest))
    emit_.loop(region.parent->block,
               {region.variable, slot(region.range.src(0), *region.parent), region.block});
  return result;
}

void Compiler::keep(const UOp& stage, Region& inner) {
  const UOp& value = stage.src(0);
  run(value, inner);
  const uint32_t area = area_of(stage);
  uint32_t position = index_constant(0);
  for (const UOp& r : stage.src().subspan(1)) {
    if (r.op() != Op::RANGE) continue;
    position = emit_.join_index(inner.block, position, slot(r, inner), slot(r.src(0), inner), area);
  }
  const int lanes = value.dtype().lanes();
  if (lanes > 1)
    position =
        emit_.binary(inner.block, Op::MUL, position, emit_.constant(dtypes::index, Const::of_int(lanes)));
  for (uint32_t lane = 0; lane < static_cast<uint32_t>(lanes); lane++)
    emit_.add(inner.block,
              {store_for(value.dtype().scalar()), 0, position, area, slot(value, inner) + lane, lane});
}

uint32_t Compiler::start_reduce(const UOp& u, Region& at) {
  if (!u.arg().reduce().axes.empty()) refuse(u, "over axes is not of kernel level");
  const UOps identity = Reduction(u).identity();
  int lanes = 0;
  for (const UOp& start : identity) lanes += start.dtype().lanes();
  const uint32_t to = emit_.new_slots(lanes);
  uint32_t slot = to;
  for (const UOp& start : identity) {
    const uint32_t initial = emit_.constant(start.dtype().scalar(), start.value());
    for (int lane = 0; lane < start.dtype().lanes(); lane++) emit_.move(at.block, slot++, initial);
  }
  return to;
}

void Compiler::add_to_reduce(const UOp& u, uint32_t to, Region& inner) {
  const Reduction reduction(u);
  for (const UOp& value : reduction.values) run(value, inner);
  if (reduction.has_several_values()) return combine(u, to, inner);
  const UOp& value = reduction.value();
  const auto lanes = static_cast<uint32_t>(u.dtype().lanes());
  const uint32_t each = static_cast<uint32_t>(value.dtype().lanes()) / lanes;
  for (uint32_t lane = 0; lane < lanes * each; lane++) {
    const uint32_t operands[] = {to + lane % lanes, slot(value, inner) + lane};
    emit_.elementwise(inner.block, reduction.op, u.dtype(), u.dtype(), to + lane % lanes, operands);
  }
}

void Compiler::combine(const UOp& u, uint32_t to, Region& inner) {
  const Reduction reduction(u);
  const size_t states = reduction.values.size();
  const UOp& body = *reduction.combine;
  const auto lanes = static_cast<uint32_t>(reduction.values[0].dtype().lanes());
  for (uint32_t lane = 0; lane < lanes; lane++) {
    std::unordered_map<const detail::Node*, uint32_t> slots;
    walk(body, [&](const UOp& n) {
      if (n.op() == Op::CONST) {
        slots[n.node()] = emit_.constant(n.dtype().scalar(), n.value());
      } else if (n.op() == Op::STATE) {
        const auto i = static_cast<size_t>(n.arg().integer());
        slots[n.node()] =
            lane + (i < states ? to + lanes_before(u, i) : slot(reduction.values[i - states], inner));
      } else if (is_elementwise(n.op())) {
        uint32_t operands[3] = {};
        for (size_t i = 0; i < n.src().size(); i++) operands[i] = slots.at(n.src(i).node());
        const uint32_t result = slots[n.node()] = emit_.new_slot();
        emit_.elementwise(inner.block, n.op(), n.dtype().scalar(), n.src().back().dtype().scalar(), result,
                          {operands, n.src().size()});
      }
    });
    // All of the new state is there before any of the old is overwritten.
    std::vector<uint32_t> results;
    for (size_t s = 0; s < states; s++) {
      results.push_back(emit_.new_slot());
      emit_.move(inner.block, results.back(), slots.at(body.src(s).node()));
    }
    for (size_t s = 0; s < states; s++) emit_.move(inner.block, to + lanes_before(u, s) + lane, results[s]);
  }
}

}  // namespace quern::interp
