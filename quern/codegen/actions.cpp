#include "quern/codegen/actions.h"

#include <algorithm>
#include <random>

#include "quern/ir/linear.h"
#include "quern/ir/node_map.h"

namespace quern {
namespace {

constexpr int kMostOpts = 5, kTries = 20;
constexpr int64_t kMostAtOnce = 128;  // random opts are to compile quickly

int64_t steps_at_once(const UOp& program) {
  int64_t most = 1;
  walk(program, [&](const UOp& u) {
    int64_t steps = 1;
    for (const UOp& r : u.ranges())
      if (r.arg().range().kind == AxisKind::UPCAST || r.arg().range().kind == AxisKind::UNROLL)
        steps *= static_cast<int64_t>(r.src(0).int_value());
    most = std::max(most, steps);
  });
  return most;
}

// And does not do too much at once.
bool applies(const UOp& program, const Opts& opts, const DeviceSpec& spec) {
  try {
    return steps_at_once(apply_opts(program, opts, spec)) <= kMostAtOnce;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Opts actions(const UOp& program, const DeviceSpec& spec) {
  const Loops loops = loops_of(program);
  Opts list;
  const auto add = [&](OptKind kind, size_t axis, std::initializer_list<int64_t> amounts) {
    for (const int64_t n : amounts) list.push_back({kind, static_cast<int64_t>(axis), n});
  };
  for (size_t i = 0; i < loops.size(); i++) {
    const bool is_output = i < loops.outputs.size();
    const bool is_reduce = !is_output && i < loops.outputs.size() + loops.reduces.size();
    if (is_reduce) add(OptKind::UNROLL, i, {0, 2, 4, 8});
    if (!is_reduce) add(OptKind::UPCAST, i, {0, 2, 3, 4, 6, 8, 16});
    add(OptKind::PADTO, i, {4, 8, 32});
    if (!is_output) continue;
    for (size_t k = i + 1; k < loops.outputs.size(); k++) add(OptKind::SWAP, i, {static_cast<int64_t>(k)});
    if (spec.workgroup_threads > 1) continue;
    if (spec.compute_units > 1) add(OptKind::THREAD, i, {spec.compute_units});
    add(OptKind::BLOCK, i, {1, 4, 32, 64, 128});
    walk(program, [&](const UOp& u) {
      if (u.op() == Op::PARAM) add(OptKind::PACK, i, {u.arg().integer()});
    });
  }
  return list;
}

Opts random_opts(const UOp& program, const DeviceSpec& spec, uint64_t number) {
  std::mt19937_64 random(number);
  const Opts all = actions(program, spec);
  Opts chosen;
  const auto wanted = static_cast<size_t>(random() % (kMostOpts + 1));
  for (int i = 0; i < kTries && chosen.size() < wanted && !all.empty(); i++) {
    chosen.push_back(all[random() % all.size()]);
    if (!applies(program, chosen, spec)) chosen.pop_back();
  }
  return chosen;
}

}  // namespace quern
