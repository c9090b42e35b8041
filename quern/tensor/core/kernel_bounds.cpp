#include "quern/tensor/core/kernel_bounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/node/node_map.h"
#include "quern/ir/spec/spec.h"

namespace quern {
namespace {

bool is_gated(const UOp& index) { return index.op() == Op::WHERE && index.src(2).is_invalid(); }

// PARAM, DEFINE_LOCAL or DEFINE_REG.
const UOp& memory_of(const UOp& index) {
  const UOp* u = &index.src(0);
  while (u->op() == Op::AFTER || u->op() == Op::NOOP || u->op() == Op::RESHAPE) u = &u->src(0);
  if (u->op() != Op::PARAM && u->op() != Op::DEFINE_LOCAL && u->op() != Op::DEFINE_REG)
    throw Error(fmt::format(
        "custom_kernel: INDEX of {}; expected memory: a PARAM, DEFINE_LOCAL or DEFINE_REG", name(u->op())));
  return *u;
}

std::string name_of(const UOp& memory) {
  return memory.op() == Op::PARAM ? fmt::format("argument {}", memory.arg().integer())
                                  : std::string(name(memory.op()));
}

// Is the expression as small and as large as its bounds say, for some values of its ranges? So it is if it is
// a sum of different ranges, each times a constant.
bool reaches_bounds(const UOp& index) {
  UOps ranges, todo{index};
  while (!todo.empty()) {
    const UOp u = todo.back();
    todo.pop_back();
    if (u.op() == Op::ADD) {
      todo.push_back(u.src(0)), todo.push_back(u.src(1));
    } else if (u.op() == Op::MUL && u.src(1).is_int_const()) {
      todo.push_back(u.src(0));
    } else if (u.op() == Op::RANGE && u.src(0).is_int_const() && u.src(0).vmin() > 0) {
      if (std::ranges::find(ranges, u) != ranges.end()) return false;
      ranges.push_back(u);
    } else if (!u.is_int_const()) {
      return false;
    }
    if (ranges.size() + todo.size() > 64) return false;
  }
  return true;
}

// One index, `lanes` elements from there on, of memory with `size` elements along its axis.
UOp within(const UOp& index, const UOp& size, int64_t lanes, const UOp& memory) {
  const bool gated = is_gated(index);
  const UOp& position = gated ? index.src(1) : index;
  if (position.is_invalid()) return index;
  const UOp end = size.dtype() == position.dtype() ? size : size.cast(position.dtype());
  const UOp inside = (position >= 0) & (position <= end - lanes);
  if (inside.simplify().equals(1)) return index;
  if (!gated) {
    const UOp simple = position.simplify(), last = size.simplify();
    if (inside.simplify().equals(0) || (last.is_int_const() && reaches_bounds(simple)))
      throw IndexError(fmt::format(
          "custom_kernel: the index {} goes from {} to {}, {} has {} elements", simple.text(),
          static_cast<int64_t>(simple.vmin()), static_cast<int64_t>(simple.vmax() + lanes - 1),
          name_of(memory),
          last.is_int_const() ? fmt::format("{}", static_cast<int64_t>(last.int_value())) : last.text()));
  }
  const UOp condition = gated ? UOp(index.src(0)) & inside : inside;
  const UOp result = where(condition, position, UOp::invalid(position.dtype()));
  return gated && same(result.simplify(), index.simplify()) ? index : result;
}

}  // namespace

UOp within_bounds(const UOp& kernel, const UOps& params) {
  check(kernel, Level::kernel, "custom_kernel");
  const NodeList order = kernel.toposort();
  // How many elements are read or written from an INDEX on: a cast of the address can make it more than one.
  NodeMap<int64_t> lanes;
  for (const UOp& u : order) {
    if (u.op() == Op::PARAM && std::ranges::find(params, u) == params.end())
      throw Error(fmt::format("custom_kernel: PARAM {} of {} is none of the {} arguments", u.arg().integer(),
                              u.dtype().name(), params.size()));
    if (u.op() != Op::LOAD && u.op() != Op::STORE) continue;
    const UOp* address = &u.src(0);
    while (address->op() == Op::CAST || address->op() == Op::AFTER || address->op() == Op::NOOP)
      address = &address->src(0);
    if (address->op() != Op::INDEX)
      throw Error(
          fmt::format("custom_kernel: {} through {}; expected an INDEX", name(u.op()), name(address->op())));
    const int64_t bytes = (u.op() == Op::LOAD ? u.dtype() : u.src(1).dtype()).bytes(),
                  element = memory_of(*address).dtype().base().bytes();
    const int64_t count = (bytes + element - 1) / element;
    const int64_t* known = lanes.find(*address);
    if (known == nullptr)
      lanes.emplace(*address, count);
    else if (*known < count)
      *lanes.find(*address) = count;
  }
  NodeMap<UOp> done;
  UOps sources;
  for (const UOp& u : order) {
    sources.clear();
    bool changed = false;
    for (const UOp& s : u.src()) sources.push_back(*done.find(s));
    if (u.op() == Op::INDEX && u.src(0).dtype().is_ptr()) {
      const UOp& memory = memory_of(u);
      const int64_t* several = lanes.find(u);
      const int64_t count = several == nullptr ? 1 : *several;
      const size_t indices = u.src().size() - 1;
      if (indices == 0 && memory.dtype().size() < count)
        throw IndexError(fmt::format("custom_kernel: INDEX of {}, which has {} elements", name_of(memory),
                                     memory.dtype().size()));
      for (size_t i = 0; i < indices; i++) {
        const UOp size = indices == 1 ? UOp::index(memory.dtype().size()) : UOp(u.src(0).shape().at(i));
        if (sources[i + 1].dtype().lanes() == 1)
          sources[i + 1] = within(sources[i + 1], size, i + 1 == indices ? count : 1, memory);
      }
    }
    for (size_t i = 0; i < sources.size(); i++) changed |= !same(sources[i], u.src(i));
    done.emplace(u, changed ? u.with_src(sources) : u);
  }
  return *done.find(kernel);
}

}  // namespace quern
