// What dtypes are called in a format of files.
#pragma once

#include "quern/ir/node/dtype.h"

namespace quern::io {

struct DTypeName {
  const char* text;
  DType dtype;
};

}  // namespace quern::io
