// Loops: what ends ranges, and what is accumulated or kept on the way.
#include <list>
#include <ranges>

#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
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
  const ReduceArg& arg = u.arg().reduce();
  if (!arg.axes.empty()) refuse(u, "over axes is not of kernel level");
  if (arg.op != Op::NOOP) {
    const uint32_t to = emit_.new_slots(u.dtype().lanes());
    const uint32_t identity =
        emit_.constant(u.dtype().scalar(), identity_element(arg.op, u.dtype().scalar()));
    for (int lane = 0; lane < u.dtype().lanes(); lane++)
      emit_.move(at.block, to + static_cast<uint32_t>(lane), identity);
    return to;
  }
  const auto states = static_cast<size_t>(arg.states);
  const uint32_t to = emit_.new_slots(static_cast<int>(lanes_before(u, states)));
  uint32_t slot = to;
  for (size_t s = 0; s < states; s++) {
    const uint32_t initial = emit_.constant(u.src(s).dtype().scalar(), u.src(states + s).value());
    for (int lane = 0; lane < u.src(s).dtype().lanes(); lane++) emit_.move(at.block, slot++, initial);
  }
  return to;
}

void Compiler::add_to_reduce(const UOp& u, uint32_t to, Region& inner) {
  const ReduceArg& arg = u.arg().reduce();
  const size_t states = arg.op == Op::NOOP ? static_cast<size_t>(arg.states) : 1;
  for (const UOp& value : u.src().first(states)) run(value, inner);
  if (arg.op != Op::NOOP) {
    const auto lanes = static_cast<uint32_t>(u.dtype().lanes());
    const uint32_t each = static_cast<uint32_t>(u.src(0).dtype().lanes()) / lanes;
    for (uint32_t lane = 0; lane < lanes * each; lane++) {
      const uint32_t operands[] = {to + lane % lanes, slot(u.src(0), inner) + lane};
      emit_.elementwise(inner.block, arg.op, u.dtype(), u.dtype(), to + lane % lanes, operands);
    }
    return;
  }
  combine(u, to, inner);
}

void Compiler::combine(const UOp& u, uint32_t to, Region& inner) {
  const auto states = static_cast<size_t>(u.arg().reduce().states);
  const UOp& body = u.src(2 * states);
  const auto lanes = static_cast<uint32_t>(u.src(0).dtype().lanes());
  for (uint32_t lane = 0; lane < lanes; lane++) {
    std::unordered_map<const detail::Node*, uint32_t> slots;
    walk(body, [&](const UOp& n) {
      if (n.op() == Op::CONST) {
        slots[n.node()] = emit_.constant(n.dtype().scalar(), n.value());
      } else if (n.op() == Op::STATE) {
        const auto i = static_cast<size_t>(n.arg().integer());
        slots[n.node()] = lane + (i < states ? to + lanes_before(u, i) : slot(u.src(i - states), inner));
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
