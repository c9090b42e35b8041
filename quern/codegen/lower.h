// From a kernel to a program: loops over ranges, loads and stores, arithmetic that the device has.
#pragma once

#include <optional>

#include "quern/codegen/opt/opt.h"
#include "quern/ir/pass/device_spec.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/pass/pass_info.h"

namespace quern {

// Where a kernel's opts come from. Opts that its argument names are applied, and no others. If it names none:
//   given     there are none, and passes that need loops that may be split do not run
//   best      those of OPTS, or else those that choose_opts() finds (choose/choose.h); none with NOOPT
//   searched  there are none: a search found that to be fastest. All else is as with `best`
enum class OptChoice : uint8_t { given, best, searched };

// The kernel (SINK, kernel level) at program level, not yet in line. An Error for what is no kernel, or a
// kernel that the device cannot run.
// The opts that were applied are those of the result's KernelArg.
UOp lower_to_program(const UOp& kernel, const DeviceSpec& device, OptChoice choice = OptChoice::given);

// The same, in line.
LinearProgram lower(const UOp& kernel, const DeviceSpec& spec, OptChoice choice = OptChoice::given);

// The passes that lowering runs, in order.
std::vector<PassInfo> lowering_passes();

// The kernel as the pass called `last` leaves it.
UOp lower_until(const UOp& kernel, const DeviceSpec& device, std::string_view last,
                OptChoice choice = OptChoice::best);

// One pass alone, on a graph as the pass before it leaves it. An Error if there is none of this name.
UOp lower_by(std::string_view pass, const UOp& graph, const DeviceSpec& device);

// An Error unless the kinds of its ranges and the opts that the kernel was given can be what they say: for
// devices that run kernels as they are.
void check_given(const UOp& kernel, const DeviceSpec& device);

// A kernel at the point where its opts are applied, for those who look for good ones; none if its loops stay
// as they are.
struct Optimisable {
  UOp program;  // what apply_opts takes
  DeviceSpec spec;
  Opts chosen;  // by choose_opts()
};
std::optional<Optimisable> before_opts(const UOp& kernel, const DeviceSpec& device);

// The kernel with these opts and no others named.
UOp with_opts(const UOp& kernel, const Opts& opts);

}  // namespace quern
