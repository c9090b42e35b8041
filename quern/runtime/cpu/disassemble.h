// Machine code as text, for DEBUG=7.
#pragma once

#include <string>

#include "quern/runtime/cpu/code.h"

namespace quern::cpu {

// A line that tells its size, how many registers it uses and how often it goes to the stack for want of them;
// then an instruction a line.
std::string disassembly(const Code& code);

}  // namespace quern::cpu
