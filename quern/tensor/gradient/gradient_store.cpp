// Gradients of assignments: AFTER(memory, STORE(view of the memory, value)).
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "quern/tensor/gradient/gradient_rules.h"

namespace quern {
namespace {

constexpr OpSet kOneToOne = {Op::RESHAPE, Op::PERMUTE, Op::FLIP};

// The node that stands for the memory, whatever was written to it before.
const UOp& under_writes(const UOp& x) {
  const UOp* at = &x;
  while (at->op() == Op::RESHAPE || at->op() == Op::AFTER) at = &at->src(0);
  return *at;
}

// The movement ops from the memory up to the view, the lowest first; none if the view is of other memory.
std::optional<UOps> steps_between(const UOp& memory, const UOp& view, bool through_writes) {
  UOps steps;
  const UOp* at = &view;
  for (; !same(*at, memory); at = &at->src(0)) {
    if (is_movement(at->op()))
      steps.push_back(*at);
    else if (at->op() != Op::AFTER || !through_writes)
      return {};
  }
  std::ranges::reverse(steps);
  return steps;
}

// As a rule the STORE is into what AFTER wraps. Only else do we look for the memory under all writes, which
// takes as long as there are writes.
std::optional<UOps> steps_to(const UOp& after, const UOp& store) {
  if (auto steps = steps_between(under_reshapes(after.src(0)), store.src(0), false)) return steps;
  return steps_between(under_writes(after), store.src(0), true);
}

UOps path_of(const UOp& after, const UOp& store) {
  const std::optional<UOps> path = steps_to(after, store);
  QUERN_CHECK(path, "a STORE into other memory");
  for (const UOp& step : *path)
    if (!kOneToOne.contains(step.op()) && step.op() != Op::SHRINK)
      throw Error(fmt::format("gradient: an assignment through {} has no gradient", name(step.op())));
  return *path;
}

}  // namespace

UOps writes_to_memory(const UOp& after) {
  UOps writes, effects(after.src().rbegin(), after.src().rend() - 1);
  while (!effects.empty()) {
    const UOp effect = effects.back();
    effects.pop_back();
    if (effect.op() == Op::GROUP)
      effects.insert(effects.end(), effect.src().rbegin(), effect.src().rend());
    else if ((effect.op() == Op::STORE && steps_to(after, effect)) ||
             (effect.op() == Op::CALL && argument_of_call(after, effect) + 1 < effect.src().size()))
      writes.push_back(effect);
  }
  return writes;
}

size_t argument_of_call(const UOp& after, const UOp& call) {
  const Sources arguments = call.src().subspan(1);
  auto found = std::ranges::find_if(arguments, [&](const UOp& a) { return same(a, after.src(0)); });
  if (found == arguments.end())
    found = std::ranges::find_if(arguments,
                                 [&](const UOp& a) { return same(under_writes(a), under_writes(after)); });
  return static_cast<size_t>(found - arguments.begin());
}

bool overwrites_all(const UOp& after, const UOp& store) {
  const std::optional<UOps> path = steps_to(after, store);
  return path && std::ranges::all_of(*path, [](const UOp& step) { return kOneToOne.contains(step.op()); });
}

UOp gradient_of_stored(const UOp& after, const UOp& store, const UOp& gradient) {
  const UOps path = path_of(after, store);
  UOp seen = reshape(gradient, path.empty() ? store.src(0).shape() : path.front().src(0).shape());
  for (const UOp& step : path) {
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
