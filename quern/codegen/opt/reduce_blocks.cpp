#include "quern/codegen/opt/reduce_blocks.h"

#include <algorithm>
#include <unordered_map>

#include "quern/codegen/memory/near_memory.h"
#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"

namespace quern {
namespace {

UOp reduce_over(const UOp& program, const UOp& range) {
  UOp found;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::REDUCE && closes(u, range)) found = u;
  });
  return found;
}

bool uses(const UOp& u, const UOp& value) {
  bool found = false;
  walk(u, [&](const UOp& below) { found = found || same(below, value); });
  return found;
}

// Where the first of the results goes that this value is used for.
UOp address_of_result(const UOp& program, const UOp& value) {
  UOp address;
  walk(program, [&](const UOp& u) {
    if (!address && u.op() == Op::STORE && uses(u, value)) address = u.src(0);
  });
  return address;
}

}  // namespace

UOps loops_in_blocks(const UOp& reduce, const UOp& blocks) {
  UOps inside;
  for (const UOp& r : reduce.ranges())
    if (before(blocks, r)) inside.push_back(r);
  std::ranges::sort(inside, before);
  return inside;
}

UOp reduce_in_blocks(const UOp& program, const UOp& blocks) {
  const UOp reduce = reduce_over(program, blocks);
  const UOps inside = loops_in_blocks(reduce, blocks);
  const NearMemory acc(program, reduce.dtype(), inside, address_of_result(program, reduce));
  const auto at = [&](const UOp& memory, const UOp& position) {
    return UOp::make(Op::INDEX, acc.memory.dtype(), {memory, position});
  };
  const auto after = [&](const UOp& what) {
    return UOp::make(Op::AFTER, acc.memory.dtype(), {acc.memory, what});
  };
  const auto load = [&](const UOp& address) { return UOp::make(Op::LOAD, reduce.dtype(), {address}); };

  // a block
  const Reduction reduction(reduce);
  UOps left{reduction.value()};
  for (const UOp& r : reduction.ranges)
    if (!same(r, blocks)) left.push_back(r);
  const Op op = reduction.op;
  const UOp neutral = reduction.identity()[0];
  const UOp place = at(after(blocks), acc.position);
  const UOp so_far = UOp::alu(Op::WHERE, {eq(blocks, UOp::index(0)), neutral, load(place)});
  const UOp of_block = left.size() > 1 ? reduce.with_src(left) : left[0];
  UOps end{UOp::make(Op::STORE, dtypes::void_, {place, UOp::alu(op, {so_far, of_block})}), blocks};
  end.insert(end.end(), inside.begin(), inside.end());
  const UOp done = UOp::make(Op::END, dtypes::void_, end);

  // what uses the result
  const UOps others = other_loops(program, inside);
  std::unordered_map<UOp, UOp> moved;
  for (size_t i = 0; i < inside.size(); i++) moved.emplace(inside[i], others[i]);
  const UOp result = load(at(after(done), acc.position));
  UOps effects;
  for (const UOp& effect : program.src()) {
    if (!uses(effect, reduce)) {
      effects.push_back(effect);
      continue;
    }
    UOps sources{effect.src(0).substitute({{reduce, result}}).substitute_open(moved)};
    for (const UOp& r : effect.src().subspan(1)) sources.push_back(moved.contains(r) ? moved.at(r) : r);
    effects.push_back(effect.with_src(sources));
  }
  return program.with_src(effects);
}

}  // namespace quern
