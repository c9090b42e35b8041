// Which graphs are legal. Every op has requirements that hold everywhere (sources, dtypes, argument), and each level
// of a program (tensor, kernel, program) allows some ops and adds requirements of its own.
//
// SPEC=1 checks graphs at each stage's boundary. SPEC=2 also checks every node as it is made, and at each boundary
// that what the printer writes parses back to the same node.
#pragma once

#include <string_view>

#include "quern/ir/uop.h"

namespace quern {

enum class Level : uint8_t { tensor, kernel, program };
std::string_view name(Level level);

// Throws a SpecError that names the node, the requirement it breaks, and (if given) the pass after which it appeared.
void check(const UOp& root, Level level, std::string_view after_pass = {});

// Only what must hold everywhere, of one node.
void check_node(const UOp& node);

// At a stage's boundary: checks as much as the environment asks for (nothing by default).
void check_boundary(const UOp& root, Level level, std::string_view after_pass);

bool checks_every_node();  // SPEC=2

}  // namespace quern
