// The text of the error that something throws.
#pragma once

#include <string>

#include "quern/base/error.h"

namespace quern {

// "" if f throws none.
template <class E = Error, class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

}  // namespace quern
