// The message of the error that something throws.
#pragma once

#include <functional>
#include <string>

#include "quern/ir/error.h"

namespace quern {

inline std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace quern
