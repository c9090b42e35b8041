#include "quern/base/error.h"

namespace quern {

void check_failed(const char* condition, const char* file, int line, const std::string& detail) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) +
                      ": quern is wrong about itself: " + condition + (detail.empty() ? "" : "\n" + detail));
}

}  // namespace quern
