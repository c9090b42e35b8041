#include "quern/ir/text/notation.h"

#include <algorithm>
#include <iterator>

namespace quern::notation {

const Infix* infix(Op op) {
  const auto* found = std::ranges::find(kInfix, op, &Infix::op);
  return found == std::end(kInfix) ? nullptr : found;
}

const Function* function(Op op) {
  const auto* found = std::ranges::find(kFunctions, op, &Function::op);
  return found == std::end(kFunctions) ? nullptr : found;
}

namespace {
DType with_lanes(DType dtype, size_t lanes) {
  if (dtype.is_ptr() || dtype.is_void() || lanes < 1 || lanes > DType::kMaxLanes) return dtypes::void_;
  return dtype.scalar().vec(static_cast<int>(lanes));
}
}  // namespace

DType default_dtype(Op op, Sources sources, const Arg& arg) {
  if (sources.empty()) return op == Op::DEFINE_VAR ? dtypes::index : dtypes::void_;
  const DType first = sources[0].dtype();
  if (is_comparison(op)) return dtypes::bool_.vec(first.lanes());
  if (is_alu(op)) return sources.back().dtype();
  switch (op) {
    case Op::SINK:
    case Op::GROUP:
    case Op::END:
    case Op::BARRIER:
    case Op::IF:
    case Op::ENDIF:
    case Op::STORE:
    case Op::CALL:
    case Op::TUPLE:
    case Op::GETTUPLE:
    // These have a dtype of their own, whatever they are made of.
    case Op::CONST:
    case Op::BUFFER:
    case Op::PARAM:
    case Op::CAST:
    case Op::BITCAST: return dtypes::void_;
    case Op::REDUCE: return arg.kind() == ArgKind::Reduce && arg.reduce().states != 1 ? dtypes::void_ : first;
    case Op::LOAD: return first.base();
    case Op::VECTORIZE: return with_lanes(first, sources.size());
    case Op::GEP: return arg.kind() == ArgKind::Ints ? with_lanes(first, arg.ints().size()) : dtypes::void_;
    case Op::WMMA: return sources.back().dtype();
    default: return first;
  }
}

Sources alike(Op op, Sources operands) {
  if (!is_alu(op)) return {};
  return op == Op::WHERE && !operands.empty() ? operands.subspan(1) : operands;
}

bool is_value(Const value, DType dtype) {
  if (dtype.is_ptr()) return false;
  switch (value.kind()) {
    case Const::Kind::Bool: return dtype.is_bool();
    case Const::Kind::Int: return dtype.is_int() && wrap(dtype, value.as_int()) == value;
    case Const::Kind::Float:
      return dtype.is_float() && Const::of_float(round_float(dtype, value.as_float())) == value;
    case Const::Kind::Invalid: return dtype.is_int();
  }
  return false;
}

bool is_literal(const UOp& u) {
  return u.op() == Op::CONST && u.src().empty() && u.arg().kind() == ArgKind::Const &&
         is_value(u.value(), u.dtype());
}

bool divides_by_zero(Op op, Sources operands) {
  if (op < Op::FLOORDIV || op > Op::TRUNCMOD || operands.size() != 2 || operands[1].op() != Op::CONST)
    return false;
  const Arg& divisor = operands[1].arg();
  return divisor.kind() == ArgKind::Const && divisor.constant() == Const::of_int(0);
}

bool is_variable(const UOp& u) {
  if (u.op() != Op::DEFINE_VAR || !u.src().empty() || u.arg().kind() != ArgKind::Variable) return false;
  if (!u.dtype().is_int() || u.dtype().lanes() != 1) return false;
  const VariableArg& v = u.arg().variable();
  return v.min <= v.max && fits(u.dtype(), v.min) && fits(u.dtype(), v.max);
}

bool is_range(const UOp& u) {
  if (u.op() != Op::RANGE || u.src().size() != 1 || u.arg().kind() != ArgKind::Range) return false;
  return u.arg().range().id >= 0 && u.dtype() == u.src(0).dtype();
}

bool is_word(std::string_view text) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && letter(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || digit(c); });
}

}  // namespace quern::notation
