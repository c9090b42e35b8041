#include "quern/codegen/choose/choose.h"

#include "quern/codegen/choose/by_cost.h"
#include "quern/codegen/choose/heuristic.h"

namespace quern {
namespace {

constexpr int64_t kTooLarge = 3000;  // nodes of a kernel: of more, no other lists are priced
constexpr double kGain = 0.9;        // of the time: what is better by less stays as the rules have it

bool does_apply(const UOp& program, const Opts& opts, const DeviceSpec& spec) {
  try {
    (void)apply_opts(program, opts, spec);
    return true;
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Opts choose_opts(const UOp& program, const DeviceSpec& spec) {
  Opts opts = heuristic_opts(program, spec);
  if (spec.has_workgroups()) return opts;
  const std::optional<cost::Summary> kernel = cost::summary_of(program);
  if (!kernel || kernel->nodes > kTooLarge) return opts;
  const std::optional<cost::LoopPlan> plan = cost::plan_of(*kernel, opts);
  if (!plan) return opts;
  const auto most = static_cast<int64_t>(
      kGain * static_cast<double>(cost::picoseconds(cost::work_of(*kernel, *plan, spec), spec)));
  for (const Priced& p : priced_opts(*kernel, spec)) {
    if (p.picoseconds > most) break;
    if (does_apply(program, p.opts, spec)) return p.opts;
  }
  return opts;
}

}  // namespace quern
