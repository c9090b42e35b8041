#include "quern/render/c_style/c_ops.h"

#include <fmt/format.h>

#include <cmath>

namespace quern {
namespace {

using Operands = std::vector<std::string>;

std::string_view sign_of(Op op) {
  switch (op) {
    case Op::ADD: return "+";
    case Op::SUB: return "-";
    case Op::MUL: return "*";
    case Op::AND: return "&";
    case Op::OR: return "|";
    case Op::XOR: return "^";
    case Op::SHL: return "<<";
    case Op::SHR: return ">>";
    case Op::FDIV:
    case Op::TRUNCDIV: return "/";
    case Op::TRUNCMOD: return "%";
    case Op::CMPEQ: return "==";
    case Op::CMPNE: return "!=";
    case Op::CMPLT: return "<";
    case Op::CMPLE: return "<=";
    default: return "";
  }
}

// Sums and products wrap as those of unsigned integers do; of less than 32 bits C computes with 32.
DType wrapping(DType dtype) { return dtype.bits() == 64 ? dtypes::uint64 : dtypes::uint32; }
DType unsigned_like(DType dtype) {
  switch (dtype.kind()) {
    case Scalar::Int8: return dtypes::uint8.vec(dtype.lanes());
    case Scalar::Int16: return dtypes::uint16.vec(dtype.lanes());
    case Scalar::Int32: return dtypes::uint32.vec(dtype.lanes());
    case Scalar::Int64: return dtypes::uint64.vec(dtype.lanes());
    default: return dtype;
  }
}
bool wraps(Op op) { return op == Op::ADD || op == Op::SUB || op == Op::MUL || op == Op::SHL; }

std::string helper(CHelpers& helpers, const std::string& name, const std::string& result,
                   const std::string& parameters, const std::string& value) {
  helpers.emplace(name,
                  fmt::format("static inline {} {}({}) {{ return {}; }}\n", result, name, parameters, value));
  return name;
}

// NaN if either is, and -0.0 < 0.0.
std::string extreme(const CStyle& style, Op op, DType dtype, const Operands& x, CHelpers& helpers) {
  const std::string type = c_type(style, dtype);
  const bool most = op == Op::MAX;
  const std::string name = fmt::format("{}_{}", most ? "most" : "least", dtype.name());
  const std::string parameters = fmt::format("{0} a, {0} b", type);
  if (!dtype.is_float()) {
    helper(helpers, name, type, parameters, most ? "a < b ? b : a" : "b < a ? b : a");
  } else {
    const std::string bits = dtype.bits() == 64 ? c_type(style, dtypes::int64) : c_type(style, dtypes::int32);
    const std::string is_negative = fmt::format("{} < 0", style.bits(type, bits, "a"));
    helper(helpers, name, type, parameters,
           fmt::format("a < b ? {} : b < a ? {} : a != b ? a + b : ({}) ? {} : {}", most ? "b" : "a",
                       most ? "a" : "b", is_negative, most ? "b" : "a", most ? "a" : "b"));
  }
  return fmt::format("{}({}, {})", name, x[0], x[1]);
}

// Truncates and saturates; NaN gives 0.
std::string to_integer(const CStyle& style, DType from, DType to, const std::string& x, CHelpers& helpers) {
  if (from.bits() < 32)
    return to_integer(style, dtypes::float32, to,
                      fmt::format("({}){}", style.types[static_cast<int>(Scalar::Float32)], x), helpers);
  const std::string type = c_type(style, to), name = fmt::format("{}_from_{}", to.name(), from.name());
  const auto number = [&](wide value) {
    return c_constant(style, from, Const::of_float(static_cast<double>(value)));
  };
  helper(helpers, name, type, c_type(style, from) + " x",
         fmt::format("x >= {} ? {} : x >= {} ? ({})x : {}", number(int_max(to) + 1),
                     c_constant(style, to, wrap(to, int_max(to))), number(int_min(to)), type,
                     to.is_unsigned()
                         ? "0"
                         : fmt::format("x == x ? {} : 0", c_constant(style, to, wrap(to, int_min(to))))));
  return fmt::format("{}({})", name, x);
}

std::string cast(const CStyle& style, DType from, DType to, const std::string& x, CHelpers& helpers) {
  if (to.is_bool()) return fmt::format("({} != 0)", x);
  if (from.is_float() && to.is_int()) return to_integer(style, from, to, x, helpers);
  return fmt::format("(({}){})", c_type(style, to), x);
}

std::string_view function_of(Op op) {
  switch (op) {
    case Op::SQRT: return "sqrt";
    case Op::EXP2: return "exp2";
    case Op::LOG2: return "log2";
    case Op::SIN: return "sin";
    case Op::COS: return "cos";
    case Op::TRUNC: return "trunc";
    case Op::POW: return "pow";
    case Op::MULACC: return "fma";
    default: return "";
  }
}

}  // namespace

std::string c_constant(const CStyle& style, DType dtype, Const value) {
  QUERN_CHECK(!value.is_invalid(), "an invalid index outside of a gate");
  const DType scalar = dtype.scalar();
  if (scalar.is_bool()) return value.as_bool() ? "true" : "false";
  if (scalar.is_float()) {
    const double number = value.as_float();
    if (!std::isfinite(number)) return style.special_float(number, scalar);
    std::string text = to_string(value, scalar);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    if (scalar != dtypes::float64) text += "f";
    if (scalar.bits() < 32) return fmt::format("(({}){})", c_type(style, scalar), text);
    return std::signbit(number) ? fmt::format("({})", text) : text;
  }
  const wide number = value.integer(scalar);
  const std::string_view suffix = scalar.bits() < 64     ? (scalar == dtypes::uint32 ? "u" : "")
                                  : scalar.is_unsigned() ? "ul"
                                                         : "l";
  if (number == int_min(scalar) && scalar.is_signed() && scalar.bits() >= 32)
    return fmt::format("({}{} - 1)", to_string(number + 1), suffix);
  return number < 0 ? fmt::format("({}{})", to_string(number), suffix)
                    : to_string(number) + std::string(suffix);
}

std::string c_op(const CStyle& style, const UOp& u, const Operands& x, CHelpers& helpers) {
  const DType in = u.src().back().dtype().scalar(), out = u.dtype().scalar();
  const std::string type = c_type(style, out);
  switch (u.op()) {
    case Op::CAST: return cast(style, in, out, x[0], helpers);
    case Op::BITCAST: return style.bits(c_type(style, in), type, x[0]);
    case Op::WHERE: return fmt::format("({} ? {} : {})", x[0], x[1], x[2]);
    case Op::MAX:
    case Op::MIN: return extreme(style, u.op(), in, x, helpers);
    case Op::NEG:
      if (in.is_float()) return fmt::format("(-{})", x[0]);
      return fmt::format("(({})(0 - ({}){}))", type, c_type(style, wrapping(in)), x[0]);
    case Op::RECIP: return fmt::format("({} / {})", c_constant(style, in, Const::of_float(1)), x[0]);
    case Op::MULACC:
      if (in.is_float()) break;
      return fmt::format("(({0})(({1}){2} * ({1}){3} + ({1}){4}))", type, c_type(style, wrapping(in)), x[0],
                         x[1], x[2]);
    default: break;
  }
  if (const std::string_view function = function_of(u.op()); !function.empty()) {
    QUERN_CHECK(in.is_float(), std::string(name(u.op())) + " of " + in.name());
    return fmt::format("{}({})", style.function(function, in), fmt::join(x, ", "));
  }
  const std::string_view sign = sign_of(u.op());
  QUERN_CHECK(!sign.empty(), fmt::format("{} of {} in {}", name(u.op()), in.name(), style.language));
  if (is_comparison(u.op()) || in.is_float() || in.is_bool())
    return fmt::format("({} {} {})", x[0], sign, x[1]);
  if (u.op() == Op::SHL)
    return fmt::format("(({})(({}){} << {}))", type, c_type(style, wrapping(in)), x[0], x[1]);
  if (wraps(u.op()) && in.bits() >= 32 && in.is_unsigned())
    return fmt::format("({} {} {})", x[0], sign, x[1]);
  // Indices do not overflow, and are easier to read without casts; nobody else knows which numbers are
  // indices.
  const auto may_wrap = [&] {
    return in.bits() < 32 || in.is_unsigned() || u.bounds().min == int_min(in) ||
           u.bounds().max == int_max(in);
  };
  if (wraps(u.op()) && may_wrap())
    return fmt::format("(({0})(({1}){2} {3} ({1}){4}))", type, c_type(style, wrapping(in)), x[0], sign, x[1]);
  if (in.bits() < 32) return fmt::format("(({})({} {} {}))", type, x[0], sign, x[1]);
  return fmt::format("({} {} {})", x[0], sign, x[1]);
}

std::string c_vector_op(const CStyle& style, const UOp& u, const Operands& x) {
  const DType in = u.src().back().dtype();
  if (in.is_bool() || u.dtype().is_bool()) return "";
  switch (u.op()) {
    case Op::ADD:
    case Op::SUB:
    case Op::MUL:
    case Op::AND:
    case Op::OR:
    case Op::XOR:
      if (in.is_float() || in.is_unsigned() || !wraps(u.op()))
        return fmt::format("({} {} {})", x[0], sign_of(u.op()), x[1]);
      {
        const std::string wide = c_type(style, unsigned_like(in));
        return style.vector_bits(c_type(style, in),
                                 fmt::format("({} {} {})", style.vector_bits(wide, x[0]), sign_of(u.op()),
                                             style.vector_bits(wide, x[1])));
      }
    case Op::FDIV: return fmt::format("({} / {})", x[0], x[1]);
    case Op::NEG: return in.is_float() ? fmt::format("(-{})", x[0]) : "";
    case Op::BITCAST: return style.vector_bits(c_type(style, u.dtype()), x[0]);
    case Op::SQRT:
    case Op::MULACC:
      if (!in.is_float() || !style.functions_of_vectors) return "";
      return fmt::format("{}({})", style.function(function_of(u.op()), in.scalar()), fmt::join(x, ", "));
    default: return "";
  }
}

}  // namespace quern
