// Makers and operators: what a person calls to write a graph down. Everything is checked here.
#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/node/uop.h"

namespace quern {

UOp UOp::constant(DType dtype, Const value) { return make(Op::CONST, dtype, {}, value); }
UOp UOp::constant(DType dtype, wide value) { return constant(dtype, make_const(dtype, value)); }
UOp UOp::constant(DType dtype, double value) { return constant(dtype, make_const(dtype, value)); }

UOp UOp::variable(std::string name, int64_t min, int64_t max, DType dtype) {
  if (!dtype.is_int() || dtype.lanes() != 1)
    throw DTypeError(fmt::format("variable {}: dtype {} is not a scalar integer", name, dtype.name()));
  if (min > max)
    throw Error(fmt::format("variable {}: its least value {} is above its greatest {}", name, min, max));
  make_const(dtype, static_cast<wide>(min)),
      make_const(dtype, static_cast<wide>(max));  // both must be values of it
  return make(Op::DEFINE_VAR, dtype, {}, VariableArg{std::move(name), min, max});
}

UOp UOp::range(const UOp& end, int64_t id, AxisKind kind) {
  if (!end.dtype().is_int() || end.dtype().lanes() != 1)
    throw DTypeError(
        fmt::format("range {}: its end has dtype {}, not a scalar integer", id, end.dtype().name()));
  if (end.vmax() <= 0)
    throw ShapeError(
        fmt::format("range {}: a loop of {} steps; sizes must be positive", id, to_string(end.vmax())));
  return make(Op::RANGE, end.dtype(), {end}, RangeArg{id, kind});
}

DType result_dtype(Op op, Sources operands) {
  auto given = [&] {
    std::string list;
    for (const UOp& s : operands) list += (list.empty() ? "" : ", ") + s.dtype().name();
    return fmt::format("{}({})", name(op), list);
  };
  const size_t count = is_unary(op) ? 1 : is_binary(op) ? 2 : 3;
  if (!is_alu(op) || operands.size() != count)
    throw Error(fmt::format("{}: not an elementwise op with {} operands", given(), operands.size()));
  const DType dtype = operands.back().dtype();
  if (op == Op::WHERE) {
    if (operands[0].dtype() != dtypes::bool_.vec(dtype.lanes()))
      throw DTypeError(given() + ": the condition must be a bool with as many lanes as the values");
    operands = operands.subspan(1);
  }
  for (const UOp& s : operands)
    if (s.dtype() != dtype)
      throw DTypeError(given() + ": the operands must have one dtype; cast one of them");
  if (dtype.is_ptr() || dtype.is_void()) throw DTypeError(given() + ": there is no arithmetic on this type");
  auto need = [&](bool ok, const char* what) {
    if (!ok) throw DTypeError(given() + ": needs " + what);
  };
  switch (op) {
    case Op::RECIP:
    case Op::SQRT:
    case Op::EXP2:
    case Op::LOG2:
    case Op::SIN:
    case Op::COS:
    case Op::TRUNC:
    case Op::FDIV: need(dtype.is_float(), "floats"); break;
    case Op::FLOORDIV:
    case Op::FLOORMOD:
    case Op::TRUNCDIV:
    case Op::TRUNCMOD:
    case Op::SHL:
    case Op::SHR: need(dtype.is_int(), "integers"); break;
    case Op::AND:
    case Op::OR:
    case Op::XOR: need(!dtype.is_float(), "integers or bools"); break;
    case Op::THREEFRY: need(dtype.kind() == Scalar::UInt64, "uint64"); break;
    default: break;
  }
  return is_comparison(op) ? dtypes::bool_.vec(dtype.lanes()) : dtype;
}

UOp UOp::alu(Op op, Sources operands) {
  const DType dtype = result_dtype(op, operands);
  if (op >= Op::FLOORDIV && op <= Op::TRUNCMOD && operands[1].equals(0))
    throw Error(fmt::format("{}: division of {} by the constant 0", quern::name(op), operands[0].text()));
  return make(op, dtype, operands);
}

UOp UOp::cast(DType to) const {
  if (to == dtype()) return *this;
  const bool pointers = to.is_ptr() && dtype().is_ptr() && to.space() == dtype().space();
  const bool values = !to.is_ptr() && !dtype().is_ptr() && !to.is_void() && !dtype().is_void();
  if (!pointers && (!values || to.lanes() != dtype().lanes()))
    throw DTypeError(
        fmt::format("cast of {} to {}: a cast keeps the lanes of a value or the space of a pointer",
                    dtype().name(), to.name()));
  return make(Op::CAST, to, {*this});
}

UOp UOp::bitcast(DType to) const {
  if (to == dtype()) return *this;
  if (to.is_ptr() || dtype().is_ptr() || to.lanes() != dtype().lanes() || to.bits() != dtype().bits())
    throw DTypeError(fmt::format("bitcast of {} to {}: both must have the same lanes and bits",
                                 dtype().name(), to.name()));
  return make(Op::BITCAST, to, {*this});
}

UOp UOp::bind(int64_t value) const {
  if (op() != Op::DEFINE_VAR)
    throw Error(fmt::format("bind: only a variable can be bound, not {}", quern::name(op())));
  const VariableArg& v = arg().variable();
  if (value < v.min || value > v.max)
    throw ValueError(
        fmt::format("bind: {} is outside the bounds of variable {}, {} to {}", value, v.name, v.min, v.max));
  return make(Op::BIND, dtype(), {*this, const_like(value)});
}

std::pair<UOp, int64_t> UOp::unbind() const {
  if (op() != Op::BIND || src().size() != 2) throw Error("unbind: not a variable with a value");
  return {src(0), static_cast<int64_t>(src(1).int_value())};
}

UOp UOp::replace(const Change& c) const {
  return make(c.op.value_or(op()), c.dtype.value_or(dtype()), c.src.value_or(src()), c.arg.value_or(arg()),
              c.tag.value_or(tag()));
}
UOp UOp::with_src(Sources sources) const { return make(op(), dtype(), sources, arg(), tag()); }
UOp UOp::rtag(Arg tag) const { return make(op(), dtype(), src(), arg(), std::move(tag)); }

namespace {
// Leaves first so that sums read "n + r0 + ...", constants last so that rules find them on the right.
int rank(const UOp& u) {
  switch (u.op()) {
    case Op::CONST: return 4;
    case Op::DEFINE_VAR: return 0;
    case Op::SPECIAL:
    case Op::RANGE: return 1;
    default: return u.src().empty() ? 2 : 3;
  }
}
}  // namespace

int compare(const UOp& first, const UOp& second) {
  const UOp *x = &first, *y = &second;
  while (!same(*x, *y)) {
    const UOp &a = *x, &b = *y;
    if (const int ra = rank(a), rb = rank(b); ra != rb) return ra < rb ? -1 : 1;
    if (a.op() != b.op()) return a.op() < b.op() ? -1 : 1;
    if (const int args = Arg::compare(a.arg(), b.arg())) return args;
    if (a.hash() != b.hash()) return a.hash() < b.hash() ? -1 : 1;
    // Different nodes of one hash: very rare, and still in order.
    if (a.dtype() != b.dtype()) return a.dtype().name() < b.dtype().name() ? -1 : 1;
    if (const int tags = Arg::compare(a.tag(), b.tag())) return tags;
    if (a.src().size() != b.src().size()) return a.src().size() < b.src().size() ? -1 : 1;
    size_t i = 0;
    while (same(a.src(i), b.src(i))) i++;
    x = &a.src(i), y = &b.src(i);
  }
  return 0;
}

UOp operator+(const UOp& a, const UOp& b) { return UOp::alu(Op::ADD, {a, b}); }
UOp operator-(const UOp& a, const UOp& b) { return a + -b; }
UOp operator*(const UOp& a, const UOp& b) { return UOp::alu(Op::MUL, {a, b}); }
UOp operator/(const UOp& a, const UOp& b) {
  return UOp::alu(a.dtype().is_float() ? Op::FDIV : Op::FLOORDIV, {a, b});
}
UOp operator%(const UOp& a, const UOp& b) { return UOp::alu(Op::FLOORMOD, {a, b}); }
UOp operator~(const UOp& a) {
  if (!a.dtype().is_int() && !a.dtype().is_bool())
    throw DTypeError(fmt::format("~ of {}: needs an integer or a bool", a.dtype().name()));
  return a ^ (a.dtype().is_bool() ? a.const_like(1) : UOp::constant(a.dtype(), wrap(a.dtype(), -1)));
}
UOp operator&(const UOp& a, const UOp& b) { return UOp::alu(Op::AND, {a, b}); }
UOp operator|(const UOp& a, const UOp& b) { return UOp::alu(Op::OR, {a, b}); }
UOp operator^(const UOp& a, const UOp& b) { return UOp::alu(Op::XOR, {a, b}); }
UOp operator<<(const UOp& a, const UOp& b) { return UOp::alu(Op::SHL, {a, b}); }
UOp operator>>(const UOp& a, const UOp& b) { return UOp::alu(Op::SHR, {a, b}); }
UOp operator<(const UOp& a, const UOp& b) { return UOp::alu(Op::CMPLT, {a, b}); }
UOp operator<=(const UOp& a, const UOp& b) { return UOp::alu(Op::CMPLE, {a, b}); }
UOp operator>(const UOp& a, const UOp& b) { return b < a; }
UOp operator>=(const UOp& a, const UOp& b) { return b <= a; }
UOp eq(const UOp& a, const UOp& b) { return UOp::alu(Op::CMPEQ, {a, b}); }
UOp ne(const UOp& a, const UOp& b) { return UOp::alu(Op::CMPNE, {a, b}); }
UOp max(const UOp& a, const UOp& b) { return UOp::alu(Op::MAX, {a, b}); }
UOp min(const UOp& a, const UOp& b) { return UOp::alu(Op::MIN, {a, b}); }
UOp truncdiv(const UOp& a, const UOp& b) { return UOp::alu(Op::TRUNCDIV, {a, b}); }
UOp truncmod(const UOp& a, const UOp& b) { return UOp::alu(Op::TRUNCMOD, {a, b}); }
UOp where(const UOp& condition, const UOp& yes, const UOp& no) {
  return UOp::alu(Op::WHERE, {condition, yes, no});
}

// Unsigned numbers have no -1, but multiplying by all ones is the same.
UOp operator-(const UOp& a) {
  if (a.dtype().is_bool()) throw DTypeError("negation of a bool; use ~ or cast it");
  if (a.is_int_const() && fits(a.dtype(), -a.int_value())) return a.const_like(-a.int_value());
  if (!a.dtype().is_int() && !a.dtype().is_float())
    throw DTypeError(fmt::format("- of {}: needs a number", a.dtype().name()));
  return a * (a.dtype().is_float() ? a.const_like(-1) : UOp::constant(a.dtype(), wrap(a.dtype(), -1)));
}

}  // namespace quern
