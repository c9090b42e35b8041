// Linear programs as text of a C-like language. What languages differ in is a table, CStyle.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quern/ir/pass/linear_program.h"

namespace quern {

struct CStyle {
  std::string_view language;
  std::string_view types[17];     // by Scalar; "" where there is none
  std::vector<int> vector_lanes;  // lanes of vectors that the language has; others are taken apart
  std::string_view local_memory;  // how memory of a workgroup is declared
  std::string_view global_memory;
  std::string_view barrier;
  std::string_view specials[2];  // how gidx0 and lidx0 are asked for, {} is the dimension; "": there are none
  std::string_view start;        // of every source

  // Text of: a vector type, a lane, a vector of lanes, a vector read from an address and written to one, bits
  // as another type, a function of a float ("sqrt") by its name, an infinity or NaN.
  std::string (*vector_type)(const CStyle& style, DType dtype);
  std::string (*lane)(const std::string& vector, int lane);
  std::string (*vector)(const std::string& type, const std::vector<std::string>& lanes);
  std::string (*read)(const std::string& type, DType dtype, const std::string& address);
  std::string (*write)(const std::string& type, DType dtype, const std::string& address,
                       const std::string& value);
  std::string (*bits)(const std::string& from, const std::string& to, const std::string& value);
  std::string (*vector_bits)(const std::string& to, const std::string& value);
  std::string (*function)(std::string_view name, DType dtype);
  std::string (*special_float)(double value, DType dtype);
  bool functions_of_vectors;  // fma and sqrt take vectors
};

// What the text is made of: how it is put together to a function is up to the language.
struct CParts {
  std::string name;      // of the function
  std::string helpers;   // functions that it calls
  std::string declared;  // memory of the workgroup
  std::string body;
  UOps params;  // PARAMs by number
  std::vector<bool> is_written;
  UOps variables;        // DEFINE_VARs
  UOps groups, threads;  // SPECIALs by dimension: gidx0 .., lidx0 ..
  int64_t local_bytes = 0;
};

CParts render_c_parts(const LinearProgram& program, const CStyle& style);

std::string c_variable(const UOp& variable);                  // the name of a DEFINE_VAR
std::string c_type(const CStyle& style, DType dtype);         // of a value
std::string c_memory_type(const CStyle& style, DType dtype);  // of a scalar in memory: bools are bytes

}  // namespace quern
