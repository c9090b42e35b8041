// Arithmetic on slots. What stands here gives the same bits as eval(), faster; all else is left to eval().
#include <cmath>
#include <limits>
#include <type_traits>

#include "quern/ir/node/eval.h"
#include "quern/runtime/interp/machine.h"

namespace quern::interp {
namespace {

// ---- integers: T is the type itself, the slot holds its value extended to 64 bits

template <class T>
int64_t extended(uint64_t bits) {
  return static_cast<int64_t>(static_cast<T>(bits));
}

template <class T, Op op>
void integers(const Instruction& in, Machine& m) {
  using Wide = std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>;
  const int64_t a = m.slots[in.a].i, b = m.slots[in.b].i;
  const auto x = static_cast<Wide>(a), y = static_cast<Wide>(b);
  const auto p = static_cast<uint64_t>(a), q = static_cast<uint64_t>(b);
  int64_t& to = m.slots[in.to].i;
  if constexpr (op == Op::ADD) to = extended<T>(p + q);
  if constexpr (op == Op::SUB) to = extended<T>(p - q);
  if constexpr (op == Op::MUL) to = extended<T>(p * q);
  if constexpr (op == Op::MAX) to = x < y ? b : a;
  if constexpr (op == Op::MIN) to = y < x ? b : a;
  if constexpr (op == Op::AND) to = a & b;
  if constexpr (op == Op::OR) to = a | b;
  if constexpr (op == Op::XOR) to = extended<T>(p ^ q);
  if constexpr (op == Op::CMPEQ) to = a == b;
  if constexpr (op == Op::CMPNE) to = a != b;
  if constexpr (op == Op::CMPLT) to = x < y;
  if constexpr (op == Op::CMPLE) to = x <= y;
  if constexpr (op == Op::FLOORDIV || op == Op::FLOORMOD) {
    constexpr bool modulo = op == Op::FLOORMOD;
    if (y == 0) {
      to = 0;
    } else if (std::is_signed_v<T> && b == -1) {
      to = modulo ? 0 : extended<T>(-p);
    } else {
      Wide quotient = x / y, remainder = x % y;
      if (remainder != 0 && (x < 0) != (y < 0)) quotient -= 1, remainder += y;
      to = extended<T>(static_cast<uint64_t>(modulo ? remainder : quotient));
    }
  }
}

template <class T>
Function integer_function(Op op) {
  switch (op) {
    case Op::ADD: return integers<T, Op::ADD>;
    case Op::SUB: return integers<T, Op::SUB>;
    case Op::MUL: return integers<T, Op::MUL>;
    case Op::MAX: return integers<T, Op::MAX>;
    case Op::MIN: return integers<T, Op::MIN>;
    case Op::AND: return integers<T, Op::AND>;
    case Op::OR: return integers<T, Op::OR>;
    case Op::XOR: return integers<T, Op::XOR>;
    case Op::CMPEQ: return integers<T, Op::CMPEQ>;
    case Op::CMPNE: return integers<T, Op::CMPNE>;
    case Op::CMPLT: return integers<T, Op::CMPLT>;
    case Op::CMPLE: return integers<T, Op::CMPLE>;
    case Op::FLOORDIV: return integers<T, Op::FLOORDIV>;
    case Op::FLOORMOD: return integers<T, Op::FLOORMOD>;
    default: return by_eval;
  }
}

// Bools are 0 and 1: their sum is OR, their product AND, and MAX, MIN and comparisons are those of numbers.
Function bool_function(Op op) {
  switch (op) {
    case Op::ADD: return integers<int64_t, Op::OR>;
    case Op::MUL: return integers<int64_t, Op::AND>;
    case Op::MAX:
    case Op::MIN:
    case Op::AND:
    case Op::OR:
    case Op::XOR:
    case Op::CMPEQ:
    case Op::CMPNE:
    case Op::CMPLT:
    case Op::CMPLE: return integer_function<int64_t>(op);
    default: return by_eval;
  }
}

// ---- floats: computed in double and rounded to T, as eval() does

template <class T, Op op>
void floats(const Instruction& in, Machine& m) {
  const double a = m.slots[in.a].f, b = m.slots[in.b].f;
  Slot& to = m.slots[in.to];
  auto rounded = [](double x) { return static_cast<double>(static_cast<T>(x)); };
  if constexpr (op == Op::ADD) to.f = rounded(a + b);
  if constexpr (op == Op::SUB) to.f = rounded(a - b);
  if constexpr (op == Op::MUL) to.f = rounded(a * b);
  if constexpr (op == Op::FDIV) to.f = rounded(a / b);
  if constexpr (op == Op::RECIP) to.f = rounded(1 / a);
  if constexpr (op == Op::SQRT) to.f = rounded(std::sqrt(a));
  if constexpr (op == Op::EXP2) to.f = rounded(std::exp2(a));
  if constexpr (op == Op::LOG2) to.f = rounded(std::log2(a));
  if constexpr (op == Op::SIN) to.f = rounded(std::sin(a));
  if constexpr (op == Op::COS) to.f = rounded(std::cos(a));
  if constexpr (op == Op::NEG) to.f = -a;
  if constexpr (op == Op::TRUNC) to.f = std::trunc(a);
  if constexpr (op == Op::MAX || op == Op::MIN) {
    if (std::isnan(a) || std::isnan(b))
      to.f = std::numeric_limits<double>::quiet_NaN();
    else if (a == b)
      to.f = std::signbit(a) == (op == Op::MAX) ? b : a;
    else
      to.f = (a < b) == (op == Op::MAX) ? b : a;
  }
  if constexpr (op == Op::CMPEQ) to.i = a == b;
  if constexpr (op == Op::CMPNE) to.i = a != b;
  if constexpr (op == Op::CMPLT) to.i = a < b;
  if constexpr (op == Op::CMPLE) to.i = a <= b;
}

template <class T>
Function float_function(Op op) {
  switch (op) {
    case Op::ADD: return floats<T, Op::ADD>;
    case Op::SUB: return floats<T, Op::SUB>;
    case Op::MUL: return floats<T, Op::MUL>;
    case Op::FDIV: return floats<T, Op::FDIV>;
    case Op::RECIP: return floats<T, Op::RECIP>;
    case Op::SQRT: return floats<T, Op::SQRT>;
    case Op::EXP2: return floats<T, Op::EXP2>;
    case Op::LOG2: return floats<T, Op::LOG2>;
    case Op::SIN: return floats<T, Op::SIN>;
    case Op::COS: return floats<T, Op::COS>;
    case Op::NEG: return floats<T, Op::NEG>;
    case Op::TRUNC: return floats<T, Op::TRUNC>;
    case Op::MAX: return floats<T, Op::MAX>;
    case Op::MIN: return floats<T, Op::MIN>;
    case Op::CMPEQ: return floats<T, Op::CMPEQ>;
    case Op::CMPNE: return floats<T, Op::CMPNE>;
    case Op::CMPLT: return floats<T, Op::CMPLT>;
    case Op::CMPLE: return floats<T, Op::CMPLE>;
    default: return by_eval;
  }
}

// ---- casts and selects

template <class T>
void integer_to_integer(const Instruction& in, Machine& m) {
  m.slots[in.to].i = extended<T>(static_cast<uint64_t>(m.slots[in.a].i));
}
void integer_to_bool(const Instruction& in, Machine& m) { m.slots[in.to].i = m.slots[in.a].i != 0; }
void float_to_bool(const Instruction& in, Machine& m) { m.slots[in.to].i = m.slots[in.a].f != 0; }
template <class From, class To>
void integer_to_float(const Instruction& in, Machine& m) {
  m.slots[in.to].f = static_cast<double>(static_cast<To>(static_cast<From>(m.slots[in.a].i)));
}
template <class To>
void float_to_float(const Instruction& in, Machine& m) {
  m.slots[in.to].f = static_cast<double>(static_cast<To>(m.slots[in.a].f));
}
void select(const Instruction& in, Machine& m) {
  m.slots[in.to] = m.slots[m.slots[in.a].i != 0 ? in.b : in.c];
}

Function cast_function(DType from, DType to) {
  if (from.is_float()) {
    if (to.is_bool()) return float_to_bool;
    if (to.kind() == Scalar::Float32) return float_to_float<float>;
    return to.kind() == Scalar::Float64 ? float_to_float<double> : by_eval;
  }
  const bool is_uint64 = from.kind() == Scalar::UInt64;
  switch (to.kind()) {
    case Scalar::Bool: return integer_to_bool;
    case Scalar::Int8: return integer_to_integer<int8_t>;
    case Scalar::UInt8: return integer_to_integer<uint8_t>;
    case Scalar::Int16: return integer_to_integer<int16_t>;
    case Scalar::UInt16: return integer_to_integer<uint16_t>;
    case Scalar::Int32: return integer_to_integer<int32_t>;
    case Scalar::UInt32: return integer_to_integer<uint32_t>;
    case Scalar::Index:
    case Scalar::Int64:
    case Scalar::UInt64: return integer_to_integer<int64_t>;
    case Scalar::Float32:
      return is_uint64 ? integer_to_float<uint64_t, float> : integer_to_float<int64_t, float>;
    case Scalar::Float64:
      return is_uint64 ? integer_to_float<uint64_t, double> : integer_to_float<int64_t, double>;
    default: return by_eval;
  }
}

// ---- eval

Const constant_in(Slot slot, DType dtype) {
  if (dtype.is_float()) return Const::of_float(slot.f);
  return dtype.is_bool() ? Const::of_bool(slot.i != 0) : Const::of_int(slot.i);
}

void evaluate(const Instruction& in, Machine& m, bool may_be_invalid) {
  const Operation& operation = m.code.operations[static_cast<size_t>(in.number)];
  const uint32_t slots[] = {in.a, in.b, in.c};
  Const args[3];
  const auto count = static_cast<size_t>(info(operation.op).least_sources);
  for (size_t i = 0; i < count; i++) {
    const DType dtype = operation.op == Op::WHERE && i == 0 ? dtypes::bool_ : operation.in;
    args[i] =
        may_be_invalid && m.invalid[slots[i]] != 0 ? Const::invalid() : constant_in(m.slots[slots[i]], dtype);
  }
  const Const result = eval(operation.op, operation.out, operation.in, {args, count});
  if (may_be_invalid) m.invalid[in.to] = result.is_invalid() ? 1 : 0;
  if (operation.out.is_float())
    m.slots[in.to].f = result.as_float();
  else
    m.slots[in.to].i = result.as_int();
}

}  // namespace

void by_eval(const Instruction& in, Machine& m) { evaluate(in, m, false); }
void by_eval_or_invalid(const Instruction& in, Machine& m) { evaluate(in, m, true); }

void select_or_invalid(const Instruction& in, Machine& m) {
  const uint32_t from = m.slots[in.a].i != 0 ? in.b : in.c;
  m.slots[in.to] = m.slots[from];
  m.invalid[in.to] = m.invalid[from];
}

void copy(const Instruction& in, Machine& m) { m.slots[in.to] = m.slots[in.a]; }

void run_loop(const Instruction& in, Machine& m) {
  const Loop& loop = m.code.loops[in.a];
  const int64_t end = m.slots[loop.end].i;
  for (int64_t i = 0; i < end; i++) {
    m.slots[loop.variable].i = i;
    run_block(loop.block, m);
  }
}

void barrier(const Instruction& /*in*/, Machine& /*m*/) {}

Function function_for(Op op, DType out, DType in) {
  if (op == Op::CAST) return cast_function(in, out);
  if (op == Op::WHERE) return select;
  switch (in.kind()) {
    case Scalar::Bool: return bool_function(op);
    case Scalar::Int8: return integer_function<int8_t>(op);
    case Scalar::UInt8: return integer_function<uint8_t>(op);
    case Scalar::Int16: return integer_function<int16_t>(op);
    case Scalar::UInt16: return integer_function<uint16_t>(op);
    case Scalar::Int32: return integer_function<int32_t>(op);
    case Scalar::UInt32: return integer_function<uint32_t>(op);
    case Scalar::Index:
    case Scalar::Int64: return integer_function<int64_t>(op);
    case Scalar::UInt64: return integer_function<uint64_t>(op);
    case Scalar::Float32: return float_function<float>(op);
    case Scalar::Float64: return float_function<double>(op);
    default: return by_eval;
  }
}

}  // namespace quern::interp
