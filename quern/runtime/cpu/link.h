// Machine code in an object file to a function in this process. Needs no LLVM.
#pragma once

#include <cstdint>
#include <memory>

#include "quern/runtime/cpu/code.h"

namespace quern::cpu {

// What a kernel that takes long asks now and then: whether it is to stop. See render/llvm/llvm.h.
struct Poll {
  int32_t (*stops)(Poll* self);
};

// See render/llvm/llvm.h for what it is called with.
using Function = void (*)(void** memory, const int64_t* variables, void* scratch, int64_t thread, Poll* poll);

struct Linked {
  Function function = nullptr;
  std::shared_ptr<void> memory;  // the function can be called for as long as this lives
};

// An Error if the object is not one that compile() makes, whatever it is.
Linked link(const Code& code);

}  // namespace quern::cpu
