#include "quern/runtime/interp/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/runtime/interp/compiler.h"

namespace quern::interp {
namespace {

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

}  // namespace

void refuse(const UOp& u, const std::string& why) {
  throw Error(fmt::format("INTERP: {}: {}", name(u.op()), why));
}

bool is_thread(const UOp& range) {
  const AxisKind kind = range.arg().range().kind;
  return kind == AxisKind::LOCAL || kind == AxisKind::WARP;
}

UOps closed_by(const UOp& u) {
  UOps closed;
  auto add = [&](const UOp& r) {
    if (!contains(closed, r)) closed.push_back(r);
  };
  if (u.op() == Op::BARRIER) {
    for (const UOp& r : u.ranges())
      if (is_thread(r)) add(r);
  } else {
    for (const UOp& s : closed_ranges(u)) {
      if (s.op() == Op::RANGE)
        add(s);
      else
        for (const UOp& r : s.ranges()) add(r);
    }
  }
  std::ranges::sort(closed, before);
  return closed;
}

Compiler::Compiler(const UOp& kernel) {
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

Code Compiler::result() { return std::move(code_); }

Region& Compiler::home_of(const UOp& u, Region& from) {
  const UOps& open = u.ranges();
  Region* region = &from;
  while (region->parent != nullptr && !(contains(open, region->range) && needs(u, region->range)))
    region = region->parent;
  return *region;
}

bool Compiler::runs_outside(const UOp& u, const Region& region, const UOps& closed) {
  for (const UOp& r : u.ranges()) {
    if (!needs(u, r)) continue;
    if (contains(closed, r)) return false;
    const Region* at = &region;
    while (at != nullptr && (!at->range || !same(at->range, r))) at = at->parent;
    if (at == nullptr) return false;
  }
  return true;
}

UOps Compiler::outer_needs(const UOp& loop, const Region& region) {
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

void Compiler::run(const UOp& u, Region& region) {
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

UOps Compiler::sources(const UOp& u) {
  if (u.op() == Op::CONST || u.op() == Op::BIND) return {};
  if (u.op() == Op::STORE && u.src(0).op() == Op::INDEX && !u.src(0).dtype().is_ptr()) {
    UOps result(u.src(0).src().begin(),
                u.src(0).src().end());  // a place, written as an element: it is not read
    result.push_back(u.src(1));
    return result;
  }
  UOps result;
  if (u.op() == Op::GROUP)  // all values are there before any of them is stored
    for (const UOp& s : u.src())
      if (s.op() == Op::STORE) std::ranges::copy(sources(s), std::back_inserter(result));
  result.insert(result.end(), u.src().begin(), u.src().end());
  return result;
}

uint32_t Compiler::slot(const UOp& u, Region& region) {
  const auto& slots = home_of(u, region).slots;
  const auto found = slots.find(u.node());
  QUERN_CHECK(found != slots.end(), "a value that has not run: " + std::string(name(u.op())));
  return found->second;
}

uint32_t Compiler::plain_node(const UOp& u, Region& at) {
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

uint32_t Compiler::lanes_before(const UOp& reduce, size_t pick) {
  uint32_t lanes = 0;
  for (const UOp& value : Reduction(reduce).values.first(pick))
    lanes += static_cast<uint32_t>(value.dtype().lanes());
  return lanes;
}

uint32_t Compiler::elementwise(const UOp& u, Region& at) {
  const uint32_t to = emit_.new_slots(u.dtype().lanes());
  for (uint32_t lane = 0; lane < static_cast<uint32_t>(u.dtype().lanes()); lane++) {
    uint32_t operands[3] = {};
    for (size_t i = 0; i < u.src().size(); i++) operands[i] = slot(u.src(i), at) + lane;
    emit_.elementwise(at.block, u.op(), u.dtype(), u.src().back().dtype(), to + lane,
                      {operands, u.src().size()});
  }
  return to;
}

Code compile(const UOp& kernel) { return Compiler(kernel).result(); }

}  // namespace quern::interp
