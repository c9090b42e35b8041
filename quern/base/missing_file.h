// A file that is to be read, and is not there.
#pragma once

#include "quern/base/error.h"

namespace quern {

class MissingFileError : public Error {
 public:
  using Error::Error;
};

}  // namespace quern
