// Every elementwise op on every dtype, on many values at once: what a device computes is what eval() defines.
#pragma once

#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "quern/ir/uop.h"
#include "quern/runtime/device.h"

namespace quern {

struct OpCase {
  Op op;
  DType out, in;
  std::string name() const;
};
std::vector<OpCase> all_op_cases();

using RunKernel = std::function<void(const UOp& kernel, std::span<const Argument> arguments)>;

// The first difference, or nothing. EXP2, LOG2 and SIN of float32 and narrower types may be off by one unit
// in the last place.
std::string difference_from_eval(const OpCase& what, std::mt19937_64& random, size_t values,
                                 const RunKernel& run);

}  // namespace quern
