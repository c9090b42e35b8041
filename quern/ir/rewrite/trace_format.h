// What the writer and the reader of a trace's file share: its first bytes, and how arguments are cut into
// fields. docs/trace-format.md says what is in the file.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "quern/base/error.h"
#include "quern/ir/node/arg.h"

namespace quern::trace_format {

inline constexpr std::string_view kMagic("\x89QTRACE\n", 8);
inline constexpr uint64_t kVersion = 2;

// ---- arguments: their kinds and fields

enum class FieldType : uint8_t {
  integer,
  boolean,
  text,
  integers,
  texts,
  op,
  axis_kind,
  address_space,
  constant
};

template <class T>
inline constexpr FieldType kFieldType = FieldType::constant;
template <>
inline constexpr FieldType kFieldType<int64_t> = FieldType::integer;
template <>
inline constexpr FieldType kFieldType<bool> = FieldType::boolean;
template <>
inline constexpr FieldType kFieldType<std::string> = FieldType::text;
template <>
inline constexpr FieldType kFieldType<Ints> = FieldType::integers;
template <>
inline constexpr FieldType kFieldType<Texts> = FieldType::texts;
template <>
inline constexpr FieldType kFieldType<Op> = FieldType::op;
template <>
inline constexpr FieldType kFieldType<AxisKind> = FieldType::axis_kind;
template <>
inline constexpr FieldType kFieldType<AddrSpace> = FieldType::address_space;

// By ArgKind.
inline constexpr std::array<std::string_view, 13> kKindNames = {
    "none",  "constant", "integer", "integers", "text",     "texts", "variable",
    "range", "reduce",   "stage",   "kernel",   "function", "hints"};

// Calls f with a default value of the type that an argument of this kind holds. Not for None.
template <class F>
auto with_value(ArgKind kind, F f) {
  switch (kind) {
    case ArgKind::Const: return f(Const());
    case ArgKind::Int: return f(int64_t{});
    case ArgKind::Ints: return f(Ints());
    case ArgKind::Text: return f(std::string());
    case ArgKind::Texts: return f(Texts());
    case ArgKind::Variable: return f(VariableArg());
    case ArgKind::Range: return f(RangeArg());
    case ArgKind::Reduce: return f(ReduceArg());
    case ArgKind::Stage: return f(StageArg());
    case ArgKind::Kernel: return f(KernelArg());
    case ArgKind::Function: return f(FunctionArg());
    case ArgKind::Hints: return f(Hints());
    case ArgKind::None: break;
  }
  check_failed("an argument", __FILE__, __LINE__, "kind " + std::to_string(static_cast<int>(kind)));
}

// Calls f(name, member) for every field of the value; a plain value is its only field.
template <class T, class F>
void each_field(T& value, F f) {
  using Plain = std::remove_const_t<T>;
  if constexpr (requires { Plain::fields(); })
    std::apply([&](auto... field) { (f(std::string_view(field.name), value.*field.member), ...); },
               Plain::fields());
  else if constexpr (std::is_same_v<Plain, RangeArg>)
    f(std::string_view("id"), value.id), f(std::string_view("kind"), value.kind);
  else
    f(std::string_view("value"), value);
}

struct FieldName {
  std::string_view name;
  FieldType type;
};
inline std::vector<FieldName> fields_of(ArgKind kind) {
  std::vector<FieldName> fields;
  with_value(kind, [&](auto value) {
    each_field(value,
               [&]<class M>(std::string_view name, const M&) { fields.push_back({name, kFieldType<M>}); });
  });
  return fields;
}

}  // namespace quern::trace_format
