#include "quern/codegen/opt/pack.h"

#include <algorithm>
#include <unordered_map>

#include "quern/codegen/memory/near_memory.h"

namespace quern {

UOp pack(const UOp& program, const UOp& load, const UOps& tile) {
  const NearMemory copy(program, load.dtype(), tile, load.src(0));
  UOps through = tile;
  std::ranges::stable_sort(through, [&](const UOp& a, const UOp& b) {
    return distance(load.src(0), a) > distance(load.src(0), b);
  });
  UOps closed = other_loops(program, through);
  std::unordered_map<UOp, UOp> copying;
  for (size_t i = 0; i < through.size(); i++) {
    const AxisKind kind = is_at_once(through[i]) ? AxisKind::UPCAST : AxisKind::LOOP;
    closed[i] = closed[i].replace({.arg = RangeArg{closed[i].arg().range().id, kind}});
    copying.emplace(through[i], closed[i]);
  }
  const auto at = [&](const UOp& memory, const UOp& where) {
    return UOp::make(Op::INDEX, copy.memory.dtype(), {memory, where});
  };
  UOps end{
      UOp::make(Op::STORE, dtypes::void_,
                {at(copy.memory, copy.position.substitute_open(copying)), load.substitute_open(copying)})};
  end.insert(end.end(), closed.begin(), closed.end());
  const UOp copied =
      UOp::make(Op::AFTER, copy.memory.dtype(), {copy.memory, UOp::make(Op::END, dtypes::void_, end)});
  return program.substitute({{load, UOp::make(Op::LOAD, load.dtype(), {at(copied, copy.position)})}});
}

}  // namespace quern
