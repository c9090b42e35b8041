// What tests of the search look for opts of, and opts that apply to it.
#pragma once

#include "quern/codegen/opt/opt.h"
#include "quern/ir/text/parse.h"

namespace quern {

inline UOp matmul_kernel() {
  return parse(R"(
      %a = INDEX(PARAM(; 1):float32*[4096], r0[64] * 64 + r2[64, REDUCE]):float32
      %b = INDEX(PARAM(; 2):float32*[4096], r2 * 64 + r1[64]):float32
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[4096], r0 * 64 + r1), REDUCE(%a * %b, r2; {op: ADD})), r0, r1)))");
}

inline constexpr Opt kGood = {OptKind::UPCAST, 0, 4};

}  // namespace quern
