// What may be tried on a kernel: single opts, and lists of them made at random.
#pragma once

#include "quern/codegen/opt/opt.h"

namespace quern {

// Opts with amounts that often help; those that do not apply are among them.
Opts actions(const UOp& program, const DeviceSpec& spec);

// Lists of opts a step away from this one, for a search: with an opt more, or two that go together, or one
// less, or one with another amount. Those that do not apply are among them.
std::vector<Opts> steps_from(const Opts& opts, const UOp& program, const DeviceSpec& spec);

// Up to five of these, one after the other; they apply. The same number gives the same opts.
Opts random_opts(const UOp& program, const DeviceSpec& spec, uint64_t number);

}  // namespace quern
