// Linear programs as C11 with the vectors of GCC and Clang: to read, and to be compiled elsewhere.
#pragma once

#include <string>

#include "quern/render/c_style/c_style.h"

namespace quern {

struct CProgram {
  std::string source;
  std::string function;  // void f(float* data0, const int* data1, ..., int var_n, ...)
  std::string entry;     // void f_entry(void** data, const int64_t* variables): calls it
  UOps params, variables;
};

// no_alias: PARAMs are different memory. To be compiled without contraction: -ffp-contract=off. LOCAL memory
// is of the thread that calls, and a THREAD range a loop. An Error for programs of workgroups.
CProgram render_c(const LinearProgram& program, bool no_alias = true);

}  // namespace quern
