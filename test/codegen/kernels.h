// Kernels of many kinds, and memory to run them on: what every device and every list of opts has to compute.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "quern/codegen/opt/opt.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/runtime/device.h"

namespace quern {

struct KernelCase {
  std::string name;
  std::string text;
};
const std::vector<KernelCase>& kernel_cases();

using Bytes = std::vector<uint8_t>;
using Memory = std::vector<Bytes>;

// Small integers in whatever PARAMs hold, so that sums are exact in any order.
Memory memory_for(const UOp& kernel);
std::vector<Argument> arguments_of(Memory& memory);

// What INTERP, the oracle, makes of it.
Memory by_interp(const UOp& kernel);

// What a program of the kernel makes of it, in line on INTERP.
Memory in_line(const UOp& kernel, const LinearProgram& program);

// On a device with memory of its own.
Memory on_device(Device& device, const UOp& kernel);
void run_on(Device& device, const UOp& kernel, std::span<const Argument> host,
            const VariableValues& variables = {});

// Opts of these kinds that the kernel takes on a device like that.
Opts random_opts_for(const UOp& kernel, std::span<const OptKind> kinds, const DeviceSpec& spec,
                     std::mt19937& random);

int count(const LinearProgram& program, Op op);  // its instructions of this op

std::vector<float> counting(size_t n);  // 0, 1, 2, ...

}  // namespace quern
