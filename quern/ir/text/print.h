// Programs as text that people read and parse() reads back to the same nodes. The grammar is in
// docs/ir-text.md.
#pragma once

#include <iosfwd>
#include <string>

#include "quern/ir/node/uop.h"

namespace quern {

// One statement a line, sources first; the last line is the node itself:
//   %0 = LOAD(INDEX(PARAM(; 0):float32*[16], r0[16]))
//   %0 * %0 + 1.0
// Nodes with several users have a number and a line, and so have those that would make a line too deep or too
// wide. The text depends on the structure alone: the same program gives the same text in every process.
std::string print(const UOp& root);

std::ostream& operator<<(std::ostream& out, const UOp& u);

}  // namespace quern
