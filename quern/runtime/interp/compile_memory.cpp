// Memory of a kernel: which there is, and how it is read and written.
#include <fmt/format.h>

#include "quern/runtime/interp/compiler.h"

namespace quern::interp {

const UOp& Compiler::memory_under(const UOp& x) {
  const UOp* u = &x;
  while (u->op() == Op::AFTER || u->op() == Op::NOOP || u->op() == Op::RESHAPE ||
         (u->op() == Op::CAST && u->dtype().is_ptr()))
    u = &u->src(0);
  return *u;
}

uint32_t Compiler::area_of(const UOp& memory) {
  const auto [known, added] = areas_.try_emplace(memory.node(), static_cast<uint32_t>(code_.areas.size()));
  if (!added) return known->second;
  kept_.push_back(memory);
  Area area;
  area.element = memory.dtype().scalar();
  const int64_t size = memory.dtype().is_ptr() ? memory.dtype().size() : 0;
  switch (memory.op()) {
    case Op::PARAM:
      area.argument = memory.arg().integer();
      area.elements = size < 0 ? DType::kUnsized : size * memory.dtype().lanes();
      area.text = fmt::format("PARAM {}", area.argument);
      break;
    case Op::DEFINE_LOCAL:
    case Op::DEFINE_REG:
      area.elements = size * memory.dtype().lanes();
      if (memory.op() == Op::DEFINE_REG)
        for (const UOp& r : threads_) area.elements *= static_cast<int64_t>(r.src(0).vmax());
      area.text = fmt::format("{} {}", name(memory.op()), memory.arg().integer());
      break;
    case Op::STAGE:
      area.elements = memory.dtype().lanes();
      for (const UOp& s : memory.shape()) area.elements *= static_cast<int64_t>(s.vmax());
      area.text = "STAGE";
      break;
    default: refuse(memory, "it is not memory");
  }
  code_.areas.push_back(std::move(area));
  return known->second;
}

uint32_t Compiler::address(const UOp& index, Region& at) {
  const UOp& memory = memory_under(index.src(0));
  const uint32_t area = area_of(memory);
  const Sources indices = index.src().subspan(1);
  if (indices.empty()) return index_constant(0);
  const int lanes = indices[0].dtype().lanes();
  const UOps sizes = indices.size() > 1 ? index.src(0).shape() : UOps();
  uint32_t first = kNoSlot;
  std::vector<uint32_t> positions;
  for (uint32_t lane = 0; lane < static_cast<uint32_t>(lanes); lane++) {
    uint32_t position = slot(indices[0], at) + lane;
    if (indices.size() > 1) {
      if (sizes.size() != indices.size()) refuse(index, "it has fewer indices than its memory has axes");
      position = index_constant(0);
      for (size_t i = 0; i < indices.size(); i++) {
        run(sizes[i], at);
        position =
            emit_.join_index(at.block, position, slot(indices[i], at) + lane, slot(sizes[i], at), area);
      }
    }
    if (const int width = memory.dtype().lanes(); width > 1)
      position =
          emit_.binary(at.block, Op::MUL, position, emit_.constant(dtypes::index, Const::of_int(width)));
    positions.push_back(position);
  }
  if (lanes == 1) return positions[0];
  first = emit_.new_slots(lanes);
  for (uint32_t lane = 0; lane < positions.size(); lane++)
    emit_.move(at.block, first + lane, positions[lane]);
  return first;
}

uint32_t Compiler::of_thread(const UOp& memory, uint32_t position, uint32_t area, uint32_t block, Region& at,
                             const Threads& threads) {
  if (memory.op() != Op::DEFINE_REG || threads_.empty()) return position;
  uint32_t thread = index_constant(0);
  for (const UOp& r : threads_) {
    uint32_t variable = kNoSlot;
    for (const auto& [range, slot] : threads)
      if (same(range, r)) variable = slot;
    if (const Region* region = loop_over(r, at)) variable = region->variable;
    thread = emit_.binary(block, Op::MUL, thread, index_constant(static_cast<int64_t>(r.src(0).vmax())));
    if (variable != kNoSlot) thread = emit_.binary(block, Op::ADD, thread, variable);
  }
  const uint32_t size = index_constant(memory.dtype().size() * memory.dtype().lanes());
  return emit_.join_index(block, thread, position, size, area);
}

uint32_t Compiler::index_constant(int64_t value) {
  return emit_.constant(dtypes::index, Const::of_int(value));
}

const Region* Compiler::loop_over(const UOp& range, const Region& at) {
  const Region* region = &at;
  while (region != nullptr && (!region->range || !same(region->range, range))) region = region->parent;
  return region;
}

const UOp& Compiler::index_under(const UOp& address) {
  const UOp* u = &address;
  while (u->op() == Op::CAST || u->op() == Op::AFTER || u->op() == Op::NOOP) u = &u->src(0);
  if (u->op() != Op::INDEX) refuse(address, "an address is an INDEX, or a cast of one");
  return *u;
}

Compiler::Access Compiler::access(const UOp& index, Region& at) {
  const UOp& memory = memory_under(index.src(0));
  const uint32_t position = index.dtype().is_ptr() ? slot(index, at) : address(index, at);
  const int gathered = index.src().size() > 1 ? index.src(1).dtype().lanes() : 1;
  return {area_of(memory), position, static_cast<uint32_t>(gathered), memory.dtype().scalar()};
}

uint32_t Compiler::read(const UOp& u, Region& at) {
  const UOp& index = u.op() == Op::LOAD ? index_under(u.src(0)) : u;
  const Access from = access(index, at);
  const auto lanes = static_cast<uint32_t>(u.dtype().lanes());
  const uint32_t to = emit_.new_slots(u.dtype().lanes());
  const uint32_t each = lanes / from.gathered;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    const uint32_t otherwise = u.op() == Op::LOAD && u.src().size() > 1 ? slot(u.src(1), at) + lane : kNoSlot;
    const uint32_t position =
        of_thread(memory_under(index.src(0)), from.position + lane / each, from.area, at.block, at, {});
    emit_.add(at.block, {load_for(from.element), to + lane, position, from.area, otherwise, lane % each});
  }
  return to;
}

uint32_t Compiler::write(const UOp& u, Region& at) {
  const UOp& index = index_under(u.src(0));
  const UOp& memory = memory_under(index.src(0));
  const Access into = access(index, at);
  const auto lanes = static_cast<uint32_t>(u.src(1).dtype().lanes());
  const uint32_t each = lanes / into.gathered;
  // A register that is set outside of the threads' loops is set for all of them.
  Threads threads;
  std::vector<uint32_t> blocks{at.block};
  if (memory.op() == Op::DEFINE_REG)
    for (const UOp& r : threads_)
      if (loop_over(r, at) == nullptr) {
        threads.emplace_back(r, emit_.new_slot());
        blocks.push_back(emit_.new_block());
      }
  for (uint32_t lane = 0; lane < lanes; lane++) {
    const uint32_t position =
        of_thread(memory, into.position + lane / each, into.area, blocks.back(), at, threads);
    emit_.add(blocks.back(),
              {store_for(into.element), 0, position, into.area, slot(u.src(1), at) + lane, lane % each});
  }
  for (size_t i = threads.size(); i-- > 0;)
    emit_.loop(blocks[i],
               {threads[i].second, index_constant(static_cast<int64_t>(threads[i].first.src(0).vmax())),
                blocks[i + 1]});
  return kNoSlot;
}

}  // namespace quern::interp
