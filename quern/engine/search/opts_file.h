// Opts that stand in a file, for kernels by their name: OPTS=@FILE.
//
//   # DEBUG=2 prints names, and the opts that were chosen
//   r_256_256: THREAD(0, 2) UPCAST(1, 8)
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// The kernel with the opts that the file has for its name, if OPTS names one and has some. Those that the
// kernel has already go first.
UOp with_opts_of_file(const UOp& kernel);

}  // namespace quern
