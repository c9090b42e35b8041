#include "quern/runtime/interp/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <unordered_map>

#include "quern/ir/eval.h"
#include "quern/ir/node_map.h"
#include "quern/runtime/interp/emit.h"

namespace quern::interp {
namespace {

[[noreturn]] void refuse(const UOp& u, const std::string& why) {
  throw Error(fmt::format("INTERP: {}: {}", name(u.op()), why));
}

bool is_thread(const UOp& range) {
  const AxisKind kind = range.arg().range().kind;
  return kind == AxisKind::LOCAL || kind == AxisKind::WARP;
}

bool contains(const UOps& ranges, const UOp& range) {
  return std::ranges::any_of(ranges, [&](const UOp& r) { return same(r, range); });
}

bool is_loop(const UOp& u) {
  return u.op() == Op::END || u.op() == Op::REDUCE || u.op() == Op::STAGE || u.op() == Op::BARRIER;
}

// Whether a node runs inside the loop over a range that is open in it.
bool needs(const UOp& u, const UOp& range) { return u.op() != Op::BARRIER || !is_thread(range); }

// A part of the body of a REDUCE: it has no value of its own.
bool is_of_body(const UOp& u) {
  return u.ops_below().contains(Op::STATE) && !u.ops_below().contains(Op::REDUCE);
}

size_t values_before_ranges(const UOp& u) {
  if (u.op() != Op::REDUCE || u.arg().reduce().op != Op::NOOP) return 1;
  return 2 * static_cast<size_t>(u.arg().reduce().states) + 1;
}

// The ranges that a loop node goes over, outermost first.
UOps closed_by(const UOp& u) {
  UOps closed;
  auto add = [&](const UOp& r) {
    if (!contains(closed, r)) closed.push_back(r);
  };
  if (u.op() == Op::BARRIER) {
    for (const UOp& r : u.ranges())
      if (is_thread(r)) add(r);
  } else {
    for (const UOp& s : u.src().subspan(values_before_ranges(u))) {
      if (s.op() == Op::RANGE)
        add(s);
      else
        for (const UOp& r : s.ranges()) add(r);
    }
  }
  std::ranges::sort(closed, before);
  return closed;
}

// One loop of the tree, or the kernel itself.
struct Region {
  Region* parent;
  UOp range;  // none: the kernel
  uint32_t variable;
  uint32_t block;
  std::unordered_map<const detail::Node*, uint32_t>
      slots;  // the first slot of what runs here; kNoSlot: an effect
};

class Compiler {
 public:
  explicit Compiler(const UOp& kernel) {
    if (kernel.op() != Op::SINK)
      throw Error(fmt::format("INTERP runs kernels, SINKs; given {}", name(kernel.op())));
    code_.name = kernel.arg().none() ? "" : kernel.arg().kernel().name;
    walk(kernel, [&](const UOp& u) {
      if (u.op() == Op::RANGE && is_thread(u)) threads_.push_back(u);
    });
    std::ranges::sort(threads_, before);
    Region root{nullptr, {}, kNoSlot, emit_.new_block(), {}};
    code_.first_block = root.block;
    for (const UOp& effect : kernel.src()) run(effect, root);
  }
  Code result() { return std::move(code_); }

 private:
  // ---- where things run

  static Region& home_of(const UOp& u, Region& from) {
    const UOps& open = u.ranges();
    Region* region = &from;
    while (region->parent != nullptr && !(contains(open, region->range) && needs(u, region->range)))
      region = region->parent;
    return *region;
  }

  static bool runs_outside(const UOp& u, const Region& region, const UOps& closed) {
    for (const UOp& r : u.ranges()) {
      if (!needs(u, r)) continue;
      if (contains(closed, r)) return false;
      const Region* at = &region;
      while (at != nullptr && (!at->range || !same(at->range, r))) at = at->parent;
      if (at == nullptr) return false;
    }
    return true;
  }

  // What a loop node needs and can be run before it. This keeps recursion to the depth of loops in loops: a
  // chain of a thousand reduces, each needing the one before, is run in order, not from within.
  static UOps outer_needs(const UOp& loop, const Region& region) {
    const UOps closed = closed_by(loop);
    UOps result;
    walk(
        loop,
        [&](const UOp& u) { return same(u, loop) || !(is_of_body(u) || runs_outside(u, region, closed)); },
        [&](const UOp& u) {
          if (!same(u, loop) && !is_of_body(u) && runs_outside(u, region, closed)) result.push_back(u);
        });
    return result;
  }

  // Sees to it that u has run, in the region or one around it.
  void run(const UOp& u, Region& region) {
    struct Frame {
      UOp node;
      Region* region;
      UOps needs;
      size_t next = 0;
    };
    std::vector<Frame> stack;
    auto enter = [&](const UOp& node, Region& from) {
      Region& home = home_of(node, from);
      if (home.slots.contains(node.node())) return;
      kept_.push_back(node);
      if (is_of_body(node)) refuse(node, "a STATE outside the body of a REDUCE");
      if (node.op() == Op::RANGE) refuse(node, fmt::format("range {} is not closed", node.arg().range().id));
      stack.push_back({node, &home, is_loop(node) ? outer_needs(node, home) : sources(node)});
    };
    enter(u, region);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.needs.size()) {
        const UOp need = top.needs[top.next++];
        Region& from = *top.region;
        enter(need, from);
      } else {
        const UOp node = top.node;
        Region& home = *top.region;
        stack.pop_back();
        if (home.slots.contains(node.node())) continue;
        const uint32_t slot = is_loop(node) ? loop_node(node, home) : plain_node(node, home);
        home.slots[node.node()] = slot;
      }
    }
  }

  static UOps sources(const UOp& u) {
    if (u.op() == Op::CONST || u.op() == Op::BIND) return {};
    if (u.op() == Op::STORE && u.src(0).op() == Op::INDEX && !u.src(0).dtype().is_ptr()) {
      UOps result(u.src(0).src().begin(),
                  u.src(0).src().end());  // a place, written as an element: it is not read
      result.push_back(u.src(1));
      return result;
    }
    return {u.src().begin(), u.src().end()};
  }

  // The first slot of a value that has run.
  uint32_t slot(const UOp& u, Region& region) {
    const auto& slots = home_of(u, region).slots;
    const auto found = slots.find(u.node());
    QUERN_CHECK(found != slots.end(), "a value that has not run: " + std::string(name(u.op())));
    return found->second;
  }

  // ---- nodes

  uint32_t plain_node(const UOp& u, Region& at) {
    if (is_elementwise(u.op())) {
      if (u.dtype().is_ptr()) return kNoSlot;  // an address: whoever uses it looks through the cast
      return elementwise(u, at);
    }
    switch (u.op()) {
      case Op::CONST: return emit_.constant(u.dtype(), u.value());
      case Op::BIND:
        if (u.src().size() == 2) return emit_.constant(u.dtype(), u.src(1).value());
        refuse(u, "its value was stripped");
      case Op::DEFINE_VAR: {
        const VariableArg& v = u.arg().variable();
        const uint32_t to = emit_.new_slot();
        code_.variables.push_back({v.name, to, v.min, v.max});
        return to;
      }
      case Op::NOOP:
      case Op::AFTER: return u.dtype().is_void() || u.dtype().is_ptr() ? kNoSlot : slot(u.src(0), at);
      case Op::INDEX: return u.dtype().is_ptr() ? address(u, at) : read(u, at);
      case Op::LOAD: return read(u, at);
      case Op::STORE: return write(u, at);
      case Op::GETTUPLE:
        if (u.src(0).op() == Op::TUPLE) return slot(u.src(0).src(static_cast<size_t>(u.arg().integer())), at);
        return slot(u.src(0), at) + lanes_before(u.src(0), static_cast<size_t>(u.arg().integer()));
      case Op::VECTORIZE: {
        const uint32_t to = emit_.new_slots(u.dtype().lanes());
        uint32_t lane = to;
        for (const UOp& s : u.src())
          for (int i = 0; i < s.dtype().lanes(); i++)
            emit_.move(at.block, lane++, slot(s, at) + static_cast<uint32_t>(i));
        return to;
      }
      case Op::GEP: {
        const uint32_t to = emit_.new_slots(u.dtype().lanes());
        for (size_t i = 0; i < u.arg().ints().size(); i++)
          emit_.move(at.block, to + static_cast<uint32_t>(i),
                     slot(u.src(0), at) + static_cast<uint32_t>(u.arg().ints()[i]));
        return to;
      }
      case Op::PARAM: {
        if (!u.dtype().is_ptr()) refuse(u, "it is no pointer");
        (void)area_of(u);
        return kNoSlot;
      }
      case Op::RESHAPE:
        if (u.dtype().is_ptr()) return kNoSlot;
        refuse(u, "movement of values is not of kernel level");
      case Op::DEFINE_LOCAL:
      case Op::DEFINE_REG:
      case Op::GROUP:
      case Op::TUPLE:
      case Op::SINK: return kNoSlot;
      default: refuse(u, "INTERP does not run it");
    }
  }

  static uint32_t lanes_before(const UOp& reduce, size_t pick) {
    uint32_t lanes = 0;
    for (size_t i = 0; i < pick; i++) lanes += static_cast<uint32_t>(reduce.src(i).dtype().lanes());
    return lanes;
  }

  uint32_t elementwise(const UOp& u, Region& at) {
    const uint32_t to = emit_.new_slots(u.dtype().lanes());
    for (uint32_t lane = 0; lane < static_cast<uint32_t>(u.dtype().lanes()); lane++) {
      uint32_t operands[3] = {};
      for (size_t i = 0; i < u.src().size(); i++) operands[i] = slot(u.src(i), at) + lane;
      emit_.elementwise(at.block, u.op(), u.dtype(), u.src().back().dtype(), to + lane,
                        {operands, u.src().size()});
    }
    return to;
  }

  // ---- memory

  static const UOp& memory_under(const UOp& x) {
    const UOp* u = &x;
    while (u->op() == Op::AFTER || u->op() == Op::NOOP || u->op() == Op::RESHAPE ||
           (u->op() == Op::CAST && u->dtype().is_ptr()))
      u = &u->src(0);
    return *u;
  }

  uint32_t area_of(const UOp& memory) {
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

  // Slots with the position of an INDEX in its memory, in scalars; one for each lane of the indices.
  uint32_t address(const UOp& index, Region& at) {
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

  // Each thread has registers of its own: they stand one behind the other. `threads` are those of the
  // threads' ranges that no loop around goes over, with their variables.
  using Threads = std::vector<std::pair<UOp, uint32_t>>;
  uint32_t of_thread(const UOp& memory, uint32_t position, uint32_t area, uint32_t block, Region& at,
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
  uint32_t index_constant(int64_t value) { return emit_.constant(dtypes::index, Const::of_int(value)); }
  static const Region* loop_over(const UOp& range, const Region& at) {
    const Region* region = &at;
    while (region != nullptr && (!region->range || !same(region->range, range))) region = region->parent;
    return region;
  }

  static const UOp& index_under(const UOp& address) {
    const UOp* u = &address;
    while (u->op() == Op::CAST || u->op() == Op::AFTER || u->op() == Op::NOOP) u = &u->src(0);
    if (u->op() != Op::INDEX) refuse(address, "an address is an INDEX, or a cast of one");
    return *u;
  }

  struct Access {
    uint32_t area, position, gathered;  // slots of the position, and how many there are
    DType element;
  };
  Access access(const UOp& index, Region& at) {
    const UOp& memory = memory_under(index.src(0));
    const uint32_t position = index.dtype().is_ptr() ? slot(index, at) : address(index, at);
    const int gathered = index.src().size() > 1 ? index.src(1).dtype().lanes() : 1;
    return {area_of(memory), position, static_cast<uint32_t>(gathered), memory.dtype().scalar()};
  }

  uint32_t read(const UOp& u, Region& at) {
    const UOp& index = u.op() == Op::LOAD ? index_under(u.src(0)) : u;
    const Access from = access(index, at);
    const auto lanes = static_cast<uint32_t>(u.dtype().lanes());
    const uint32_t to = emit_.new_slots(u.dtype().lanes());
    const uint32_t each = lanes / from.gathered;
    for (uint32_t lane = 0; lane < lanes; lane++) {
      const uint32_t otherwise =
          u.op() == Op::LOAD && u.src().size() > 1 ? slot(u.src(1), at) + lane : kNoSlot;
      const uint32_t position =
          of_thread(memory_under(index.src(0)), from.position + lane / each, from.area, at.block, at, {});
      emit_.add(at.block, {load_for(from.element), to + lane, position, from.area, otherwise, lane % each});
    }
    return to;
  }

  uint32_t write(const UOp& u, Region& at) {
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

  // ---- loops

  uint32_t loop_node(const UOp& u, Region& at) {
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
    for (auto region = nest.rbegin(); region != nest.rend(); ++region)
      emit_.loop(region->parent->block,
                 {region->variable, slot(region->range.src(0), *region->parent), region->block});
    return result;
  }

  void keep(const UOp& stage, Region& inner) {
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

  uint32_t start_reduce(const UOp& u, Region& at) {
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

  void add_to_reduce(const UOp& u, uint32_t to, Region& inner) {
    const ReduceArg& arg = u.arg().reduce();
    const size_t states = arg.op == Op::NOOP ? static_cast<size_t>(arg.states) : 1;
    for (const UOp& value : u.src().first(states)) run(value, inner);
    if (arg.op != Op::NOOP) {
      const auto lanes = static_cast<uint32_t>(u.dtype().lanes());
      const uint32_t each = static_cast<uint32_t>(u.src(0).dtype().lanes()) / lanes;
      for (uint32_t lane = 0; lane < lanes * each; lane++) {
        const uint32_t operands[] = {to + lane / each, slot(u.src(0), inner) + lane};
        emit_.elementwise(inner.block, arg.op, u.dtype(), u.dtype(), to + lane / each, operands);
      }
      return;
    }
    combine(u, to, inner);
  }

  // The body of a REDUCE, lane by lane: its STATEs are the accumulated and the incoming values.
  void combine(const UOp& u, uint32_t to, Region& inner) {
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

  Code code_;
  Emitter emit_{code_};
  UOps threads_;
  std::unordered_map<const detail::Node*, uint32_t> areas_;
  UOps kept_;  // nodes in tables by address stay alive
};

}  // namespace

Code compile(const UOp& kernel) { return Compiler(kernel).result(); }

}  // namespace quern::interp
