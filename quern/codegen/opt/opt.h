// Optimisations as data: how the loops of a kernel are split, and what becomes of the parts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"
#include "quern/ir/pass/pass_info.h"

namespace quern {

enum class OptKind : uint8_t {
  UPCAST,
  UNROLL,
  LOCAL,
  GROUP,
  GROUPTOP,
  PADTO,
  SWAP,
  THREAD,
  BLOCK,
  PACK,
  NOLOCALS
};

// UPCAST(0, 8): of loop 0, 8 neighbouring steps are done together. Loops are numbered in the order of
// `Loops`: those over outputs first, outermost first, then those of reduces, then those that only fill near
// memory. A number stands for what is left of its loop. An amount of 0 is all of it. Of SWAP the amount is
// the other loop, of PACK the argument that is copied.
struct Opt {
  OptKind kind = OptKind::UPCAST;
  int64_t axis = 0, amount = 0;

  std::string text() const;
  static Opt parse(std::string_view text);  // an Error says what is wrong
  friend bool operator==(const Opt&, const Opt&) = default;
};
using Opts = std::vector<Opt>;

std::string_view name(OptKind kind);
std::optional<Need> need_of(OptKind kind);  // what the device must have for it
std::string to_text(const Opts& opts);      // "UPCAST(0, 8) UNROLL(2, 4)"
Opts parse_opts(std::string_view text);     // an Error says what is wrong with which of them

// The loops of a kernel by their numbers: RANGEs.
struct Loops {
  UOps outputs, reduces;
  UOps fills;  // loops that only store in near memory what others read there
  const UOp& at(size_t i) const {
    if (i < outputs.size()) return outputs[i];
    i -= outputs.size();
    return i < reduces.size() ? reduces[i] : fills[i - reduces.size()];
  }
  size_t size() const { return outputs.size() + reduces.size() + fills.size(); }
};
Loops loops_of(const UOp& program);

// Why the loops of this kernel stay as they are; "" if they need not.
std::string not_optimisable(const UOp& program);

// The kernel with its loops split and their kinds set.
//
// Pass "split loops":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[64], r0[64]))
//   %y = STORE(INDEX(PARAM(; 0):float32*[64], r0), %x * 2.0)
//   SINK(END(%y, r0); {name: "e_64", opts: ["UPCAST(0, 4)"]})
//   ->
//   %0 = r0[16] * 4 + r1[4, UPCAST]
//   %1 = STORE(INDEX(PARAM(; 0):float32*[64], %0), LOAD(INDEX(PARAM(; 1):float32*[64], %0)) * 2.0)
//   SINK(END(%1, r0, r1); {name: "e_64", opts: ["UPCAST(0, 4)"]})
//
// An UNROLL goes for sibling loops, too: reduces over as many steps under the same loops. An Error says why
// an opt does not apply. `program` is a kernel after simplify_loops that is optimisable.
UOp apply_opts(const UOp& program, const Opts& opts, const DeviceSpec& spec);

}  // namespace quern
