// What LLVM refuses is a mistake of ours.
#pragma once

#include <llvm/Support/Error.h>

#include <utility>

#include "quern/base/error.h"

namespace quern::cpu {

inline void succeed(llvm::Error error) {
  if (error) check_failed("LLVM succeeds", __FILE__, __LINE__, llvm::toString(std::move(error)));
}
template <class T>
T succeed(llvm::Expected<T> result) {
  if (!result) succeed(result.takeError());
  return std::move(*result);
}

}  // namespace quern::cpu
