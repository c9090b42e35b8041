#include "quern/render/c_style/c.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace quern {
namespace {

std::string vector_type(const CStyle& style, DType dtype) {
  return fmt::format("{}_x{}", style.types[static_cast<int>(dtype.kind())], dtype.lanes());
}
std::string in_memory(const std::string& type) { return type + "_in_memory"; }

const CStyle kC = {
    .language = "C",
    .types = {"void", "bool", "", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t",
              "int64_t", "uint64_t", "", "", "_Float16", "", "float", "double"},
    .vector_lanes = {2, 4, 8, 16, 32, 64},
    .local_memory = "static _Thread_local ",
    .global_memory = "",
    .barrier = "",
    .specials = {"", ""},
    .start =
        "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n"
        "#ifdef __clang__\n#pragma STDC FP_CONTRACT OFF\n#endif\n",
    .vector_type = vector_type,
    .lane = [](const std::string& vector, int lane) { return fmt::format("{}[{}]", vector, lane); },
    .vector =
        [](const std::string& type, const std::vector<std::string>& lanes) {
          return fmt::format("(({}){{{}}})", type, fmt::join(lanes, ", "));
        },
    .read =
        [](const std::string& type, DType, const std::string& address) {
          return fmt::format("*(const {}*)({})", in_memory(type), address);
        },
    .write =
        [](const std::string& type, DType, const std::string& address, const std::string& value) {
          return fmt::format("*({}*)({}) = {}", in_memory(type), address, value);
        },
    .bits =
        [](const std::string& from, const std::string& to, const std::string& value) {
          return fmt::format("((union {{ {} from; {} to; }}){{{}}}).to", from, to, value);
        },
    .vector_bits = [](const std::string& to,
                      const std::string& value) { return fmt::format("(({}){})", to, value); },
    .function = [](std::string_view name,
                   DType dtype) { return fmt::format("{}{}", name, dtype == dtypes::float64 ? "" : "f"); },
    .special_float =
        [](double value, DType dtype) {
          if (std::isnan(value)) return fmt::format("(({})NAN)", kC.types[static_cast<int>(dtype.kind())]);
          return fmt::format("({}({})INFINITY)", value < 0 ? "-" : "",
                             kC.types[static_cast<int>(dtype.kind())]);
        },
    .functions_of_vectors = false,
};

// The types of vectors that the program uses; in memory they are aligned as their elements are.
std::string types_of(const LinearProgram& program) {
  std::set<std::string> types;
  const auto add = [&](DType dtype) {
    if (dtype.is_ptr() || dtype.is_void() || dtype.is_bool() || dtype.lanes() == 1) return;
    if (std::ranges::find(kC.vector_lanes, dtype.lanes()) == kC.vector_lanes.end()) return;
    const std::string type = vector_type(kC, dtype);
    types.insert(
        fmt::format("typedef {0} {1} __attribute__((vector_size({2})));\n"
                    "typedef {0} {1}_in_memory __attribute__((vector_size({2}), aligned({3}), may_alias));\n",
                    c_type(kC, dtype.scalar()), type, dtype.bytes(), dtype.scalar().bytes()));
  };
  for (const UOp& u : program.list) {
    add(u.dtype().is_ptr() ? u.dtype().base() : u.dtype());
    for (const UOp& s : u.src()) add(s.dtype());
    // what wraps is computed without signs
    if (u.dtype().is_signed())
      for (const DType d : {dtypes::uint8, dtypes::uint16, dtypes::uint32, dtypes::uint64})
        if (d.bits() == u.dtype().bits()) add(d.vec(u.dtype().lanes()));
  }
  std::string text;
  for (const std::string& t : types) text += t;
  return text;
}

}  // namespace

CProgram render_c(const LinearProgram& program, bool no_alias) {
  const CParts parts = render_c_parts(program, kC);
  std::vector<std::string> parameters, arguments;
  for (size_t i = 0; i < parts.params.size(); i++) {
    const UOp& p = parts.params[i];
    parameters.push_back(fmt::format("{}{}*{} data{}", parts.is_written[i] ? "" : "const ",
                                     c_memory_type(kC, p.dtype().base()), no_alias ? " restrict" : "",
                                     p.arg().integer()));
    arguments.push_back(fmt::format("data[{}]", p.arg().integer()));
  }
  for (size_t i = 0; i < parts.variables.size(); i++) {
    const UOp& v = parts.variables[i];
    parameters.push_back(fmt::format("const {} {}", c_type(kC, v.dtype()), c_variable(v)));
    arguments.push_back(fmt::format("({})variables[{}]", c_type(kC, v.dtype()), i));
  }
  if (parameters.empty()) parameters.emplace_back("void");
  CProgram result{.source = {},
                  .function = parts.name,
                  .entry = parts.name + "_entry",
                  .params = parts.params,
                  .variables = parts.variables};
  result.source = fmt::format(
      "{}{}{}\nvoid {}({})\n{{\n{}{}}}\n\nvoid {}(void** data, const int64_t* variables)\n{{\n"
      "  (void)data, (void)variables;\n  {}({});\n}}\n",
      kC.start, types_of(program), parts.helpers, parts.name, fmt::join(parameters, ", "), parts.declared,
      parts.body, result.entry, parts.name, fmt::join(arguments, ", "));
  return result;
}

}  // namespace quern
