// Bounds of integer values: an interval that holds whatever the node can evaluate to.
#include <algorithm>
#include <array>

#include "quern/ir/node/derived.h"
#include "quern/ir/node/saturate.h"
#include "quern/ir/node/uop.h"

namespace quern {
namespace {

Bounds all_of(DType dtype) { return {int_min(dtype), int_max(dtype)}; }

// Arithmetic that may leave the dtype wraps, and then anything is possible. Index arithmetic never overflows
// in a correct program, so its bounds stop at the limits instead.
Bounds within(DType dtype, wide min, wide max) {
  const wide least = int_min(dtype), most = int_max(dtype);
  if (dtype.is_index()) return {std::clamp(min, least, most), std::clamp(max, least, most)};
  return fits(dtype, min) && fits(dtype, max) ? Bounds{min, max} : all_of(dtype);
}

// Of a function that is monotonic in each operand: its extremes are at the corners.
template <class F>
Bounds corners(DType dtype, Bounds a, Bounds b, F f) {
  const std::array<wide, 4> v = {f(a.min, b.min), f(a.min, b.max), f(a.max, b.min), f(a.max, b.max)};
  const auto [least, most] = std::ranges::minmax(v);
  return within(dtype, least, most);
}

// Quotients are extreme at the corners, on each side of a divisor that may be 0 (where the result is 0).
template <class F>
Bounds quotient(DType dtype, Bounds a, Bounds b, F divide) {
  const bool zero = b.min <= 0 && b.max >= 0;
  Bounds result = zero ? Bounds{0, 0} : Bounds{int_max(dtypes::uint64), -int_max(dtypes::uint64)};
  auto join = [&](Bounds r) { result = {std::min(result.min, r.min), std::max(result.max, r.max)}; };
  if (b.max > 0) join(corners(dtype, a, {std::max<wide>(b.min, 1), b.max}, divide));
  if (b.min < 0) join(corners(dtype, a, {b.min, std::min<wide>(b.max, -1)}, divide));
  return result;
}

Bounds remainder(Bounds a, Bounds b) {
  if (b.min == b.max && b.min != 0 && floor_div(a.min, b.min) == floor_div(a.max, b.min)) {
    const wide first = a.min - floor_div(a.min, b.min) * b.min,
               last = a.max - floor_div(a.max, b.min) * b.min;
    return {std::min(first, last), std::max(first, last)};
  }
  if (b.min > 0 && a.min >= 0 && a.max < b.min) return a;
  return {std::min<wide>(b.min + 1, 0), std::max<wide>(b.max - 1, 0)};  // the sign of the divisor, 0 by 0
}

Bounds trunc_mod(Bounds a, Bounds b) {
  const wide most = std::max<wide>(std::max(b.max < 0 ? -b.max : b.max, b.min < 0 ? -b.min : b.min) - 1, 0);
  if (b.min > 0 && a.min > -b.min && a.max < b.min) return a;  // one that is smaller than the divisor stays
  return {a.min < 0 ? std::max(a.min, -most) : 0, a.max > 0 ? std::min(a.max, most) : 0};
}

// The least 2^n - 1 that is not below v.
wide ones_to(wide v) {
  wide ones = 0;
  while (ones < v) ones = ones * 2 + 1;
  return ones;
}

Bounds bitwise(Op op, DType dtype, Bounds a, Bounds b) {
  if (dtype.is_bool()) {
    if (op == Op::AND) return {std::min(a.min, b.min), std::min(a.max, b.max)};
    if (op == Op::OR) return {std::max(a.min, b.min), std::max(a.max, b.max)};
    return a.min == a.max && b.min == b.max ? Bounds{a.min ^ b.min, a.min ^ b.min} : Bounds{0, 1};
  }
  if (op == Op::AND) {
    if (a.min >= 0 && b.min >= 0) return {0, std::min(a.max, b.max)};
    if (a.min >= 0) return {0, a.max};
    if (b.min >= 0) return {0, b.max};
    return all_of(dtype);
  }
  if (a.min < 0 || b.min < 0) return all_of(dtype);
  return {op == Op::OR ? std::max(a.min, b.min) : 0, ones_to(std::max(a.max, b.max))};
}

Bounds shift(Op op, DType dtype, Bounds a, Bounds b) {
  if (b.min < 0 || b.max >= dtype.bits())
    return op == Op::SHR && a.min >= 0 ? Bounds{0, a.max} : all_of(dtype);
  auto power = [](wide v) { return static_cast<wide>(1) << static_cast<int>(v); };
  if (op == Op::SHL) return corners(dtype, a, b, [&](wide x, wide s) { return saturating_mul(x, power(s)); });
  return corners(dtype, a, b, [&](wide x, wide s) { return floor_div(x, power(s)); });
}

// true, false or either
Bounds verdict(bool always, bool never) { return {always ? 1 : 0, never ? 0 : 1}; }

Bounds comparison(Op op, const UOp& u, const UOp& v) {
  const bool integers = u.dtype().is_int() || u.dtype().is_bool();
  if (same(u, v) && (integers || op == Op::CMPLT)) {
    const bool holds = op == Op::CMPEQ || op == Op::CMPLE;
    return verdict(holds, !holds);
  }
  if (!integers) return {0, 1};
  const Bounds a = u.bounds(), b = v.bounds();
  const bool apart = a.max < b.min || b.max < a.min;
  const bool equal = a.min == a.max && b.min == b.max && a.min == b.min;
  switch (op) {
    case Op::CMPEQ: return verdict(equal, apart);
    case Op::CMPNE: return verdict(apart, equal);
    case Op::CMPLT: return verdict(a.max < b.min, a.min >= b.max);
    default: return verdict(a.max <= b.min, a.min > b.max);
  }
}

Bounds cast(const UOp& from, DType to) {
  if (to.is_bool() && (from.dtype().is_int() || from.dtype().is_bool())) {
    const Bounds a = from.bounds();
    return verdict(a.min > 0 || a.max < 0, a.min == 0 && a.max == 0);
  }
  if (!from.dtype().is_int() && !from.dtype().is_bool()) return all_of(to);
  const Bounds a = from.bounds();
  return fits(to, a.min) && fits(to, a.max) ? a : all_of(to);
}

Bounds compute(const UOp& u) {
  const DType dtype = u.dtype();
  const Op op = u.op();
  if (u.ops_below() == OpSet(Op::CONST) || op == Op::CONST)
    return u.value().is_invalid() ? all_of(dtype) : Bounds{u.int_value(), u.int_value()};
  if (is_comparison(op)) return comparison(op, u.src(0), u.src(1));
  auto a = [&] { return u.src(0).bounds(); };
  auto b = [&] { return u.src(1).bounds(); };
  switch (op) {
    case Op::DEFINE_VAR: return {u.arg().variable().min, u.arg().variable().max};
    case Op::BIND: return a();  // not the value: what is computed from it serves for other values, too
    case Op::IOTA:
    case Op::RANGE:
    case Op::SPECIAL: return {0, std::max<wide>(a().max - 1, 0)};
    case Op::CAST: return cast(u.src(0), dtype);
    case Op::WHERE: {
      const Bounds yes = b(), no = u.src(2).bounds(), gate = a();
      if (u.src(2).is_invalid() || gate.min == 1) return yes;  // what is invalid is never used
      if (u.src(1).is_invalid() || gate.max == 0) return no;
      return {std::min(yes.min, no.min), std::max(yes.max, no.max)};
    }
    case Op::VECTORIZE: {
      Bounds r = a();
      for (const UOp& s : u.src().subspan(1))
        r = {std::min(r.min, s.bounds().min), std::max(r.max, s.bounds().max)};
      return r;
    }
    case Op::GEP:
    case Op::UNROLL:
    case Op::CONTRACT:
    case Op::NOOP:
    case Op::AFTER:
    case Op::DETACH:
      return u.src().empty() || u.src(0).dtype().scalar() != dtype.scalar() || u.src(0).dtype().is_ptr()
                 ? all_of(dtype)
                 : a();
    case Op::MAX: return {std::max(a().min, b().min), std::max(a().max, b().max)};
    case Op::MIN: return {std::min(a().min, b().min), std::min(a().max, b().max)};
    case Op::AND:
    case Op::OR:
    case Op::XOR: return bitwise(op, dtype, a(), b());
    default: break;
  }
  if (dtype.is_bool() || !is_alu(op)) return all_of(dtype);
  switch (op) {
    case Op::NEG: return within(dtype, -a().max, -a().min);
    case Op::ADD: return within(dtype, a().min + b().min, a().max + b().max);
    case Op::SUB: return within(dtype, a().min - b().max, a().max - b().min);
    case Op::MUL: {
      Bounds r = corners(dtype, a(), b(), saturating_mul);
      if (same(u.src(0), u.src(1)) && dtype.is_index()) r.min = std::max<wide>(r.min, 0);  // a square
      return r;
    }
    case Op::FLOORDIV: return quotient(dtype, a(), b(), floor_div);
    case Op::TRUNCDIV: return quotient(dtype, a(), b(), [](wide x, wide y) { return x / y; });
    case Op::FLOORMOD: return remainder(a(), b());
    case Op::TRUNCMOD: return trunc_mod(a(), b());
    case Op::SHL:
    case Op::SHR: return shift(op, dtype, a(), b());
    default: return all_of(dtype);
  }
}

bool countable(const UOp& u) { return u.dtype().is_int() || u.dtype().is_bool(); }

wide widen(DType dtype, int64_t bits) {
  return dtype.kind() == Scalar::UInt64 ? static_cast<wide>(static_cast<uint64_t>(bits))
                                        : static_cast<wide>(bits);
}

}  // namespace

Bounds UOp::bounds() const {
  QUERN_CHECK(countable(*this), "bounds of a node of dtype " + dtype().name() + ":\n" + text());
  auto known = [](const UOp& u) {
    return !countable(u) || u.node()->bounds_known.load(std::memory_order_acquire) != 0;
  };
  detail::compute_upwards(*this, known, [](const UOp& u) {
    const Bounds b = compute(u);
    u.node()->far().bounds_min.store(static_cast<int64_t>(b.min), std::memory_order_relaxed);
    u.node()->far().bounds_max.store(static_cast<int64_t>(b.max), std::memory_order_relaxed);
    u.node()->bounds_known.store(1, std::memory_order_release);
  });
  return {widen(dtype(), node_->far().bounds_min.load(std::memory_order_relaxed)),
          widen(dtype(), node_->far().bounds_max.load(std::memory_order_relaxed))};
}

}  // namespace quern
