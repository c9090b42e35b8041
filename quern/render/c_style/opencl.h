// Linear programs as OpenCL C 1.2.
#pragma once

#include <string>

#include "quern/render/c_style/c_style.h"

namespace quern {

struct OpenClProgram {
  std::string source;
  std::string
      kernel;  // its arguments: for each of params memory and an offset in bytes (long), then the variables
  UOps params, variables;
  UOps groups, threads;  // sizes by dimension, up to three
  int64_t local_bytes = 0;
};

// no_alias: PARAMs are different memory.
OpenClProgram render_opencl(const LinearProgram& program, bool no_alias = true);

}  // namespace quern
