#include "quern/render/c_style/opencl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace quern {
namespace {

const CStyle kOpenCl = {
    .language = "OpenCL",
    .types = {"void", "bool", "", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "", "",
              "half", "", "float", "double"},
    .vector_lanes = {2, 4, 8, 16},
    .local_memory = "__local ",
    .global_memory = "__global ",
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE);",
    .specials = {"get_group_id({})", "get_local_id({})"},
    .start = "#pragma OPENCL FP_CONTRACT OFF\n",
    .vector_type =
        [](const CStyle& style, DType dtype) {
          return fmt::format("{}{}", style.types[static_cast<int>(dtype.kind())], dtype.lanes());
        },
    .lane = [](const std::string& vector, int lane) { return fmt::format("{}.s{:x}", vector, lane); },
    .vector =
        [](const std::string& type, const std::vector<std::string>& lanes) {
          const bool alike = std::ranges::all_of(lanes, [&](const std::string& s) { return s == lanes[0]; });
          return fmt::format("(({})({}))", type,
                             alike ? lanes[0] : fmt::format("{}", fmt::join(lanes, ", ")));
        },
    .read = [](const std::string&, DType dtype,
               const std::string& address) { return fmt::format("vload{}(0, {})", dtype.lanes(), address); },
    .write =
        [](const std::string&, DType dtype, const std::string& address, const std::string& value) {
          return fmt::format("vstore{}({}, 0, {})", dtype.lanes(), value, address);
        },
    .bits = [](const std::string&, const std::string& to,
               const std::string& value) { return fmt::format("as_{}({})", to, value); },
    .vector_bits = [](const std::string& to,
                      const std::string& value) { return fmt::format("as_{}({})", to, value); },
    .function = [](std::string_view name, DType) { return std::string(name); },
    .special_float =
        [](double value, DType dtype) {
          const std::string_view type = kOpenCl.types[static_cast<int>(dtype.kind())];
          if (!std::isnan(value)) return fmt::format("({}({})INFINITY)", value < 0 ? "-" : "", type);
          if (dtype.bits() == 64) return std::string("as_double(0x7ff8000000000000ul)");
          return dtype.bits() == 32 ? std::string("as_float(0x7fc00000u)")
                                    : fmt::format("(({})as_float(0x7fc00000u))", type);
        },
    .functions_of_vectors = true,
};

// One of each dimension, 0 first; those that are not used have size 1.
UOps by_dimension(const UOps& specials) {
  UOps sizes;
  for (const UOp& u : specials) {
    const auto dimension = static_cast<size_t>(u.arg().text()[4] - '0');
    while (sizes.size() <= dimension) sizes.push_back(UOp::constant(dtypes::int32, 1));
    sizes[dimension] = u.src(0);
  }
  return sizes;
}

bool uses(const LinearProgram& program, Scalar kind) {
  return std::ranges::any_of(program.list, [&](const UOp& u) { return u.dtype().kind() == kind; });
}

}  // namespace

OpenClProgram render_opencl(const LinearProgram& program, bool no_alias) {
  const CParts parts = render_c_parts(program, kOpenCl);
  OpenClProgram result{.source = std::string(kOpenCl.start),
                       .kernel = parts.name,
                       .params = parts.params,
                       .variables = parts.variables,
                       .groups = by_dimension(parts.groups),
                       .threads = by_dimension(parts.threads),
                       .local_bytes = parts.local_bytes};
  if (uses(program, Scalar::Float64)) result.source += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
  if (uses(program, Scalar::Float16)) result.source += "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n";
  std::vector<std::string> parameters;
  std::string places;
  for (size_t i = 0; i < parts.params.size(); i++) {
    const UOp& p = parts.params[i];
    const std::string type = fmt::format("{}{}{}*", parts.is_written[i] ? "" : "const ",
                                         kOpenCl.global_memory, c_memory_type(kOpenCl, p.dtype().base()));
    const int64_t number = p.arg().integer();
    parameters.push_back(
        fmt::format("{}{} data{}, const long at{}", type, no_alias ? " restrict" : "", number, number));
    places += fmt::format("  data{0} = ({1})(({2}{3}char*)data{0} + at{0});\n", number, type,
                          parts.is_written[i] ? "" : "const ", kOpenCl.global_memory);
  }
  for (const UOp& v : parts.variables)
    parameters.push_back(fmt::format("const {} {}", c_type(kOpenCl, v.dtype()), c_variable(v)));
  const auto threads = [&](size_t i) -> int64_t {
    if (i >= result.threads.size()) return 1;
    if (!result.threads[i].is_int_const())
      throw Error(fmt::format("kernel {}: the number of its threads is symbolic", program.name));
    return static_cast<int64_t>(result.threads[i].int_value());
  };
  result.source += fmt::format(
      "{}\n__kernel __attribute__((reqd_work_group_size({}, {}, {})))\nvoid {}({})\n{{\n{}{}{}}}\n",
      parts.helpers, threads(0), threads(1), threads(2), parts.name, fmt::join(parameters, ", "), places,
      parts.declared, parts.body);
  return result;
}

}  // namespace quern
