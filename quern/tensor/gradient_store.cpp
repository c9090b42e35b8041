// Gradients of assignments: AFTER(memory, STORE(view of the memory, value)).
#include <fmt/format.h>

#include <algorithm>

#include "quern/tensor/gradient_rules.h"

namespace quern {
namespace {

constexpr OpSet kOneToOne = {Op::RESHAPE, Op::PERMUTE, Op::FLIP};

// The node that stands for the memory: reshapes and what happened to it before make no difference. (Reshapes
// of reshapes are one, so a view need not go through the very node that it is a view of.)
const UOp& memory_of(const UOp& x) {
  const UOp* at = &x;
  while (at->op() == Op::RESHAPE || at->op() == Op::AFTER) at = &at->src(0);
  return *at;
}

// The movement ops from the memory up to the view, the lowest first; false if the view is of other memory.
bool path_to(const UOp& memory, const UOp& view, UOps& path) {
  const UOp* at = &view;
  for (; !same(*at, memory) && (is_movement(at->op()) || at->op() == Op::AFTER); at = &at->src(0))
    if (at->op() != Op::AFTER) path.push_back(*at);
  std::ranges::reverse(path);
  return same(*at, memory);
}

UOps path_of(const UOp& after, const UOp& store) {
  UOps path;
  const bool found = path_to(memory_of(after), store.src(0), path);
  QUERN_CHECK(found, "a STORE into other memory");
  for (const UOp& step : path)
    if (!kOneToOne.contains(step.op()) && step.op() != Op::SHRINK)
      throw Error(fmt::format("gradient: an assignment through {} has no gradient", name(step.op())));
  return path;
}

bool is_argument(const UOp& argument, const UOp& after) {
  return same(argument, after.src(0)) || same(memory_of(argument), memory_of(after));
}

}  // namespace

UOps writes_to_memory(const UOp& after) {
  UOps writes, effects(after.src().rbegin(), after.src().rend() - 1);
  while (!effects.empty()) {
    const UOp effect = effects.back();
    effects.pop_back();
    UOps path;
    if (effect.op() == Op::GROUP)
      effects.insert(effects.end(), effect.src().rbegin(), effect.src().rend());
    else if ((effect.op() == Op::STORE && path_to(memory_of(after), effect.src(0), path)) ||
             (effect.op() == Op::CALL && argument_of_call(after, effect) + 1 < effect.src().size()))
      writes.push_back(effect);
  }
  return writes;
}

size_t argument_of_call(const UOp& after, const UOp& call) {
  size_t i = 0;
  while (i + 1 < call.src().size() && !is_argument(call.src(i + 1), after)) i++;
  return i;
}

bool overwrites_all(const UOp& after, const UOp& store) {
  return std::ranges::all_of(path_of(after, store),
                             [](const UOp& step) { return kOneToOne.contains(step.op()); });
}

UOp gradient_of_stored(const UOp& after, const UOp& store, const UOp& gradient) {
  UOp seen = reshape(gradient, memory_of(after).shape());
  for (const UOp& step : path_of(after, store)) {
    UOps sources(step.src().begin(), step.src().end());
    sources[0] = seen;
    seen = step.with_src(sources);
  }
  return seen;
}

UOp gradient_of_kept(const UOp& after, const UOp& store, const UOp& gradient) {
  UOp stored = full(store.src(0).shape(), UOp::boolean(true));  // false is what PAD puts around it
  UOps path = path_of(after, store);
  for (; !path.empty(); path.pop_back()) stored = gradient_rule(path.back().op())->to[0](path.back(), stored);
  stored = reshape(stored, gradient.shape());
  return where(stored, filled_like(gradient, 0), gradient);
}

}  // namespace quern
