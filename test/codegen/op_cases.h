// Every elementwise op on every dtype, on many values at once: what a device computes is what eval() defines.
#pragma once

#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "quern/ir/node/uop.h"
#include "quern/runtime/device.h"

namespace quern {

struct OpCase {
  Op op;
  DType out, in;
  std::string name() const;
};
std::vector<OpCase> all_op_cases();

using RunKernel = std::function<void(const UOp& kernel, std::span<const Argument> arguments)>;

// The first difference, or nothing. EXP2, LOG2, SIN and COS of float32 and narrower types, and POW of
// float32, may be off by one unit in the last place.
std::string difference_from_eval(const OpCase& what, std::mt19937_64& random, size_t values,
                                 const RunKernel& run);

// The same for several ops in one kernel, a line for each difference: for devices whose compilers are slow.
// Functions of float64 may be off by `steps` units in the last place.
std::string differences_from_eval(std::span<const OpCase> cases, std::mt19937_64& random, size_t values,
                                  int64_t steps, const RunKernel& run);

}  // namespace quern
