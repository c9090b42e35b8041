// Which graphs are legal. Every op has requirements that hold everywhere (sources, dtypes, argument), and
// each level of a program (tensor, kernel, program) allows some ops and adds requirements of its own.
//
//   tensor    whole tensors with shapes: buffers, movement, REDUCE over axes, functions; the body of a CALL
//             is a kernel
//   kernel    one kernel over PARAM pointers: ranges, INDEX, REDUCE over ranges, STAGE, STORE and END
//   program   what can be put in line and rendered: loops, gates, LOAD and STORE through addresses, scalar
//             and vector arithmetic; nothing of dtype index, no movement, no REDUCE, no STAGE
//
// SPEC=1 checks what goes into the scheduler and into codegen, what codegen makes, and the graph behind each
// pass of a table whose graphs are of one level ("tensors", "addresses", "opts"). Between the passes of the
// others graphs are on their way to another level, and only single nodes can be checked. SPEC=2 checks every
// node as it is made, and, where graphs are checked, that what the printer writes parses back to the same
// node.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "quern/base/env.h"
#include "quern/ir/node/uop.h"

namespace quern {

enum class Level : uint8_t { tensor, kernel, program };
std::string_view name(Level level);

// Where a requirement holds: at some levels, or of every node that is ever made.
enum Where : uint8_t {
  at_tensor = 1 << static_cast<int>(Level::tensor),
  at_kernel = 1 << static_cast<int>(Level::kernel),
  at_program = 1 << static_cast<int>(Level::program),
  at_kernel_and_program = at_kernel | at_program,
  everywhere = 1 << 3,
};

// A line of the spec. An op may have many; they are asked in the order of the table, and all must hold.
struct Requirement {
  OpSet ops;
  Where where;
  const char* sentence;       // what holds, as the error says it
  bool (*holds)(const UOp&);  // makes no nodes if it holds everywhere: it runs inside UOp::make
  std::string (*found)(const UOp&) = nullptr;  // what a node that breaks it has instead; none: its signature
};
std::span<const Requirement> requirements();
OpSet legal_ops(Level level);

// Throws a SpecError that names the node, the requirement it breaks, and (if given) the pass after which it
// appeared.
void check(const UOp& root, Level level, std::string_view after_pass = {});

// Only what must hold everywhere, of one node.
void check_node(const UOp& node);

// Where a graph is of one level: checks as much as SPEC asks for (nothing by default).
void check_boundary(const UOp& root, Level level, std::string_view after_pass);

inline bool checks_every_node() { return env::SPEC() == 2; }

}  // namespace quern
