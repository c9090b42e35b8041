// Which optimisations a kernel gets if nobody says.
#pragma once

#include "quern/codegen/opt/opt.h"

namespace quern {

// What the heuristic says, unless the cost model knows a list that takes at least a tenth less time.
// `program` is a kernel after simplify_loops. The opts apply to it; there may be none.
//
// Pass "choose opts":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[64], r0[64]))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[64], r0), %x * 2.0), r0); {name: "e_64"})
//   ->
//   %0 = STORE(INDEX(PARAM(; 0):float32*[64], r0[64]), LOAD(INDEX(PARAM(; 1):float32*[64], r0)) * 2.0)
//   SINK(END(%0, r0); {name: "e_64", opts: ["UPCAST(0, 16)", "UPCAST(0, 4)"]})
Opts choose_opts(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
