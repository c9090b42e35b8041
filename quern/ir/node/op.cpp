#include "quern/ir/node/op.h"

#include <algorithm>
#include <iterator>

namespace quern {

std::optional<Op> op_named(std::string_view name) {
  const auto* found = std::ranges::find(kOps, name, &OpInfo::name);
  if (found == std::end(kOps)) return std::nullopt;
  return static_cast<Op>(found - std::begin(kOps));
}

namespace {
constexpr std::string_view kAxisNames[] = {"LOOP",   "GLOBAL",       "LOCAL",  "WARP",  "THREAD",
                                           "REDUCE", "GROUP_REDUCE", "UPCAST", "UNROLL"};
static_assert(std::size(kAxisNames) == kAxisKinds);
}  // namespace

std::string_view name(AxisKind kind) { return kAxisNames[static_cast<int>(kind)]; }

std::optional<AxisKind> axis_kind_named(std::string_view name) {
  const auto* found = std::ranges::find(kAxisNames, name);
  if (found == std::end(kAxisNames)) return std::nullopt;
  return static_cast<AxisKind>(found - std::begin(kAxisNames));
}

}  // namespace quern
