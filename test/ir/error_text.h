#pragma once

#include <string>

#include "quern/ir/error.h"

namespace quern {

// The text of the error that f throws; "" if it throws none.
template <class E = Error, class F>
std::string error(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

}  // namespace quern
