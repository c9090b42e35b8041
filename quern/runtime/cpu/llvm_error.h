// What LLVM refuses is a mistake of ours.
#pragma once

#include <llvm/Support/Error.h>

#include <utility>

#include "quern/base/error.h"

namespace quern::cpu {

inline void value_or_throw(llvm::Error error) {
  if (error) check_failed("LLVM succeeds", __FILE__, __LINE__, llvm::toString(std::move(error)));
}
template <class T>
T value_or_throw(llvm::Expected<T> result) {
  if (!result) value_or_throw(result.takeError());
  return std::move(*result);
}

}  // namespace quern::cpu
