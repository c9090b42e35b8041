#include "quern/codegen/arithmetic/narrow_floats.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/rewrite/rewrite.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace quern {
namespace {

// ---- how a narrow type is laid out

struct Layout {
  int mantissa;      // bits, without the leading one
  int min_exponent;  // of the least normal value
};
Layout layout_of(DType dtype) {
  switch (dtype.kind()) {
    case Scalar::FP8E4M3: return {3, -6};
    case Scalar::FP8E5M2: return {2, -14};
    case Scalar::Float16: return {10, -14};
    default: return {7, -126};
  }
}
bool has_infinity(DType dtype) { return std::isinf(max_value(dtype).as_float()); }
int64_t bits_of(DType dtype, double value) {
  return static_cast<int64_t>(to_bits(Const::of_float(value), dtype.scalar()));
}

DType lanes_of(DType scalar, const UOp& like) { return scalar.vec(like.dtype().lanes()); }
UOp bits_of(const UOp& x) { return x.bitcast(lanes_of(dtypes::uint32, x)); }
UOp float_of(const UOp& bits) { return bits.bitcast(lanes_of(dtypes::float32, bits)); }
UOp is_nan(const UOp& x) { return ne(x, x); }
UOp shl(const UOp& x, int64_t n) { return x << number_like(x, n); }
UOp shr(const UOp& x, int64_t n) { return x >> number_like(x, n); }

// ---- float32 to the nearest value of the type, as a float32

UOp rounded_by_bits(const UOp& x, DType to) {
  const Layout layout = layout_of(to);
  const int dropped = 23 - layout.mantissa;
  const int64_t ones = (int64_t{1} << dropped) - 1;
  const UOp bits = bits_of(x);
  const UOp odd = shr(bits, dropped) & number_like(bits, 1);
  const UOp normal =
      float_of((bits + (odd + number_like(bits, ones >> 1))) & number_like(bits, int64_t{0xffffffff} ^ ones));
  if (to.kind() == Scalar::BFloat16) return where(is_nan(x), number_like(x, NAN), normal);
  // Near zero the distance between values is fixed: adding a number of which it is the last bit rounds to it.
  const UOp sign = bits & number_like(bits, int64_t{0x80000000}),
            size = float_of(bits & number_like(bits, 0x7fffffff));
  const UOp magic = number_like(x, std::ldexp(1.0, layout.min_exponent - layout.mantissa + 23));
  const UOp small = float_of(bits_of((size + magic) + magic * number_like(x, -1.0)) | sign);
  const UOp result = where(size < number_like(x, std::ldexp(1.0, layout.min_exponent)), small, normal);
  const UOp rounded_size = float_of(bits_of(result) & number_like(bits, 0x7fffffff));
  const UOp infinite =
      has_infinity(to) ? float_of(bits_of(number_like(x, INFINITY)) | sign) : number_like(x, NAN);
  const UOp over = !to.is_fp8() ? infinite
                                : where(eq(size, number_like(x, INFINITY)), infinite,
                                        float_of(bits_of(number_like(x, max_finite(to))) | sign));
  const UOp limited = where(number_like(x, max_finite(to)) < rounded_size, over, result);
  return where(is_nan(x), number_like(x, NAN), limited);
}

// ---- the bits in memory, and back

UOp packed(const UOp& x, DType from) {
  const int width = from.bits();
  const DType to = lanes_of(width == 8 ? dtypes::uint8 : dtypes::uint16, x);
  if (x.is_const()) return UOp::constant(to, static_cast<wide>(to_bits(x.value(), from.scalar())));
  const Layout layout = layout_of(from);
  const UOp bits = bits_of(x), nan = number_like(bits, bits_of(from, NAN));
  if (from.kind() == Scalar::BFloat16) return where(is_nan(x), nan, shr(bits, 16)).cast(to);
  const UOp magnitude = bits & number_like(bits, 0x7fffffff), size = float_of(magnitude);
  const UOp sign = shl(shr(bits, 31), width - 1);
  const int64_t less = int64_t{126 + layout.min_exponent} << layout.mantissa;
  const UOp normal = shr(magnitude, 23 - layout.mantissa) + number_like(bits, int64_t{0x100000000} - less);
  const UOp steps = size * number_like(x, std::ldexp(1.0, layout.mantissa - layout.min_exponent));
  const UOp small = steps.cast(bits.dtype());
  UOp code = where(size < number_like(x, std::ldexp(1.0, layout.min_exponent)), small, normal);
  if (has_infinity(from))
    code = where(eq(size, number_like(x, INFINITY)), number_like(bits, bits_of(from, INFINITY)), code);
  return where(is_nan(x), nan, code | sign).cast(to);
}

UOp unpacked(const UOp& stored, DType from) {
  const int width = from.bits();
  const UOp code = stored.cast(lanes_of(dtypes::uint32, stored));
  if (from.kind() == Scalar::BFloat16) return float_of(shl(code, 16));
  const Layout layout = layout_of(from);
  const int64_t most = (int64_t{1} << (width - 1)) - 1;
  const UOp magnitude = code & number_like(code, most), sign = shl(shr(code, width - 1), 31);
  const UOp normal = shl(magnitude + number_like(code, int64_t{126 + layout.min_exponent} << layout.mantissa),
                         23 - layout.mantissa);
  const UOp small =
      magnitude.cast(lanes_of(dtypes::float32, code)) *
      UOp::constant(lanes_of(dtypes::float32, code), std::ldexp(1.0, layout.min_exponent - layout.mantissa));
  UOp bits = where(magnitude < number_like(code, int64_t{1} << layout.mantissa), bits_of(small), normal);
  const UOp nan = number_like(code, int64_t{0x7fc00000});
  if (!has_infinity(from)) {
    bits = where(eq(magnitude, number_like(code, most)), nan, bits);
  } else {
    const UOp infinity = number_like(code, bits_of(from, INFINITY));
    bits = where(infinity < magnitude, nan,
                 where(eq(magnitude, infinity), number_like(code, int64_t{0x7f800000}), bits));
  }
  return float_of(bits | sign);
}

// ---- wider to float32, so that rounding it again gives what rounding once would have given: what is lost
// shows in the last bit, which is odd then

UOp to_odd(const UOp& x) {  // a float64
  const UOp nearest = x.cast(lanes_of(dtypes::float32, x)), back = nearest.cast(x.dtype());
  const UOp bits = bits_of(nearest), even = eq(bits & number_like(bits, 1), number_like(bits, 0));
  const UOp zero = number_like(x, 0.0);
  const UOp further = where(x < zero, back < x, x < back);  // away from zero, by rounding
  const UOp changed = bits + where(further, number_like(bits, int64_t{0xffffffff}), number_like(bits, 1));
  const UOp is_finite = ne(bits & number_like(bits, 0x7fffffff), number_like(bits, 0x7f800000));
  return where(ne(back, x) & even & is_finite & ~is_nan(x), float_of(changed), nearest);
}

UOp integer_to_odd(const UOp& x) {
  const DType wide_float = lanes_of(dtypes::float64, x);
  if (x.dtype().bits() < 64) return to_odd(x.cast(wide_float));
  // 53 bits are left of 64: those that go leave a trace in the last that stays.
  const UOp low = x & number_like(x, 2047),
            high = x + low * UOp::constant(x.dtype(), wrap(x.dtype().scalar(), -1));
  const UOp sticky = high | where(eq(low, number_like(x, 0)), number_like(x, 0), number_like(x, 2048));
  const wide most = wide{1} << 53;
  UOp small = x < UOp::constant(x.dtype(), most);
  if (x.dtype().is_signed()) small = small & (UOp::constant(x.dtype(), -most) < x);
  return to_odd(where(small, x, sticky).cast(wide_float));
}

// MAX and MIN by comparisons. LLVM 19 takes the maximum of converted float16 for one of float16, which x86
// gets wrong for NaN.
UOp greater_or_less(bool greater, const UOp& a, const UOp& b) {
  const UOp x = bits_of(a), y = bits_of(b);
  const UOp equal = float_of(greater ? x & y : x | y);  // zeros of either sign
  const UOp ordered = where(eq(a, b), equal, number_like(a, NAN));
  return where(a < b, greater ? b : a, where(b < a, greater ? a : b, ordered));
}

// ---- the pass

class Widening {
 public:
  explicit Widening(const DeviceSpec& spec) : spec_(spec) {}

  bool is_narrow(DType d) const {
    switch (d.kind()) {
      case Scalar::FP8E4M3:
      case Scalar::FP8E5M2: return !spec_.has_fp8;
      case Scalar::BFloat16: return !spec_.has_bfloat16;
      case Scalar::Float16: return !spec_.has_float16;
      default: return false;
    }
  }

  // Is it a value of such a type, or made from one?
  bool concerns(const UOp& u) const {
    return !u.dtype().is_ptr() && (is_narrow(u.dtype()) || std::ranges::any_of(u.src(), [&](const UOp& s) {
                                     return is_narrow(s.dtype());
                                   }));
  }

  // Registers hold values as they are computed with, memory holds bits.
  UOp pointer(const UOp& u, Sources now) const {
    if (!u.dtype().is_ptr() || !is_narrow(u.dtype())) return {};
    const DType d = u.dtype();
    if (is_converted(d) && d.space() != AddrSpace::REG) return {};
    const DType element = d.space() == AddrSpace::REG ? dtypes::float32
                          : d.scalar().bits() == 8    ? dtypes::uint8
                                                      : dtypes::uint16;
    return UOp::make(u.op(), element.vec(d.lanes()).ptr(d.size(), d.space()), now, u.arg(), u.tag());
  }

  UOp shorter(const UOp& u, const UOp& x) const {
    const DType d = u.dtype();
    const bool is_short = !d.is_ptr() && d.is_float() && d.bits() <= 16;
    if (!is_short || is_narrow(d) || u.src(0).dtype().kind() != Scalar::Float64) return {};
    return to_odd(x).cast(d);  // hardware converts from float32
  }

  UOp load(const UOp& u, Sources now) {
    if (!concerns(u)) return {};
    if (storage_is_float(now[0])) return value(u, now);
    UOps from{now[0]};
    if (now.size() > 1) from.push_back(to_memory(now[1], u.dtype()));
    if (now.size() > 2) from.push_back(now[2]);
    return from_memory(UOp::make(Op::LOAD, now[0].dtype().base().scalar().vec(u.dtype().lanes()), from),
                       u.dtype());
  }

  UOp store(const UOp& u, Sources now) const {
    if (!concerns(u)) return {};
    if (storage_is_float(now[0])) return {};
    UOps to{now[0], to_memory(now[1], u.src(1).dtype())};
    if (now.size() > 2) to.push_back(now[2]);
    return UOp::make(Op::STORE, dtypes::void_, to);
  }

  UOp cast(const UOp& u, const UOp& x) const {
    if (!concerns(u)) return {};
    if (!is_narrow(u.dtype())) {
      // From a narrow type to one of the hardware's: through float32.
      return x.cast(u.dtype());
    }
    const DType from = u.src(0).dtype(), held = lanes_of(dtypes::float32, u);
    if (from.kind() == Scalar::Float64) return rounded(to_odd(x), u.dtype());
    // What is above 2^24 is too large for all of these types but bfloat16.
    if (from.is_int() && from.bits() >= 32 && u.dtype().kind() == Scalar::BFloat16)
      return rounded(integer_to_odd(x), u.dtype());
    return rounded(x.cast(held), u.dtype());
  }

  UOp bits(const UOp& u, const UOp& x) {
    if (!concerns(u)) return {};
    if (!is_narrow(u.dtype())) return to_memory(x, u.src(0).dtype()).bitcast(u.dtype());
    const DType as_integer = lanes_of(u.dtype().bits() == 8 ? dtypes::uint8 : dtypes::uint16, u);
    const UOp from = is_narrow(u.src(0).dtype()) ? to_memory(x, u.src(0).dtype()) : x;
    return from_memory(from.bitcast(is_converted(u.dtype()) ? u.dtype() : as_integer), u.dtype());
  }

  UOp power(const UOp& u, Sources now) const {
    if (!concerns(u)) return {};
    const DType wide_float = lanes_of(dtypes::float64, u);
    const UOp result = UOp::alu(Op::POW, {now[0].cast(wide_float), now[1].cast(wide_float)});
    return rounded(to_odd(result), u.dtype());
  }

  // The product is exact in float64; the error of the sum is made to show.
  UOp multiply_add(const UOp& u, Sources now) const {
    if (!concerns(u)) return {};
    const DType wide_float = lanes_of(dtypes::float64, u), integer = lanes_of(dtypes::uint64, u);
    const UOp a = now[0].cast(wide_float), b = now[1].cast(wide_float), c = now[2].cast(wide_float);
    const UOp product = a * b, sum = product + c;
    const UOp rest = sum - product, error = (product - (sum - rest)) + (c - rest);
    const UOp bits = sum.bitcast(integer), zero = number_like(sum, 0.0);
    const UOp finite = max(sum, sum * number_like(sum, -1.0)) < number_like(sum, INFINITY);
    const UOp even = eq(bits & number_like(bits, 1), number_like(bits, 0));
    const UOp up = eq(error < zero, sum < zero);
    const UOp all_ones = UOp::constant(integer, wrap(dtypes::uint64, -1));
    const UOp odd = (bits + where(up, number_like(bits, 1), all_ones)).bitcast(wide_float);
    return rounded(to_odd(where(finite & ne(error, zero) & even, odd, sum)), u.dtype());
  }

  UOp greatest_or_least(const UOp& u, Sources now) const {
    if (!concerns(u)) return {};
    return is_converted(u.dtype()) ? greater_or_less(u.op() == Op::MAX, now[0], now[1]) : value(u, now);
  }

  // All others: on float32, and rounded.
  UOp value(const UOp& u, Sources now) const {
    if (!concerns(u)) return {};
    const DType held = is_narrow(u.dtype()) ? lanes_of(dtypes::float32, u) : u.dtype();
    const UOp result = UOp::make(u.op(), held, now, u.arg(), u.tag());
    constexpr OpSet kExact = {Op::NEG, Op::TRUNC, Op::MAX, Op::MIN, Op::WHERE};
    const bool rounds = is_alu(u.op()) && is_narrow(u.dtype()) && !kExact.contains(u.op());
    return rounds ? rounded(result, u.dtype()) : result;
  }

 private:
  // By hardware: then memory holds the type itself.
  bool is_converted(DType d) const { return d.kind() == Scalar::Float16 && spec_.converts_float16; }
  UOp to_memory(const UOp& x, DType d) const {
    if (const auto found = from_.find(x); found != from_.end() && found->second.dtype == d.scalar())
      return found->second.bits;  // as it was, if it is NaN too
    if (!is_converted(d)) return packed(x, d);
    return x.is_const() ? UOp::constant(d.scalar().vec(x.dtype().lanes()), x.value()) : x.cast(d);
  }
  UOp from_memory(const UOp& x, DType d) {
    UOp value = is_converted(d) ? x.cast(lanes_of(dtypes::float32, x)) : unpacked(x, d);
    from_.insert_or_assign(value, Bits{d.scalar(), x});
    return value;
  }
  UOp rounded(const UOp& x, DType d) const {
    return is_converted(d) ? x.cast(d).cast(x.dtype()) : rounded_by_bits(x, d);
  }

  static bool storage_is_float(const UOp& address) { return address.dtype().kind() == Scalar::Float32; }

  const DeviceSpec& spec_;
  struct Bits {
    DType dtype;
    UOp bits;
  };
  std::unordered_map<UOp, Bits> from_;  // what values were in memory
};

}  // namespace

const Rules wide_floats = [] {
  using W = Widening;
  return RuleList{
      {op(ops::all - ops::alu), [](W& w, const UOp& u, Sources now) { return w.pointer(u, now); },
       "memory of a narrow type -> of its bits"},
      {op(Op::CAST), [](W& w, const UOp& u, Sources now) { return w.shorter(u, now[0]); },
       "float64 as float16, which hardware converts from float32 -> by float32"},
      {op(Op::CAST), [](W& w, const UOp& u, Sources now) { return w.cast(u, now[0]); },
       "a cast from or to a narrow type -> from or to float32, rounded"},
      {op(Op::BITCAST), [](W& w, const UOp& u, Sources now) { return w.bits(u, now[0]); },
       "the bits of a narrow type -> those in memory"},
      {op(Op::LOAD), [](W& w, const UOp& u, Sources now) { return w.load(u, now); },
       "a LOAD of a narrow type -> float32 made from the bits"},
      {op(Op::STORE), [](W& w, const UOp& u, Sources now) { return w.store(u, now); },
       "a STORE of a narrow type -> of the bits"},
      {op(Op::POW), [](W& w, const UOp& u, Sources now) { return w.power(u, now); },
       "a power of a narrow type -> of float64, rounded"},
      {op(Op::MULACC), [](W& w, const UOp& u, Sources now) { return w.multiply_add(u, now); },
       "a * b + c of a narrow type -> of float64, rounded once"},
      {op({Op::MAX, Op::MIN}), [](W& w, const UOp& u, Sources now) { return w.greatest_or_least(u, now); },
       "a maximum of a type that hardware converts -> comparisons"},
      {op(ops::all - Op::STORE), [](W& w, const UOp& u, Sources now) { return w.value(u, now); },
       "a value of a narrow type -> of float32, rounded"},
  };
};

UOp narrow_floats_to_wide(const UOp& program, const DeviceSpec& spec) {
  Widening widening(spec);
  bool has_short = false;
  walk(program, [&](const UOp& u) {
    const DType d = u.dtype().is_ptr() ? u.dtype().base() : u.dtype();
    has_short |= d.is_float() && d.bits() <= 16;
  });
  if (!has_short) return program;
  return graph_rewrite(program, wide_floats, widening, {.order = Order::once, .name = "narrow floats"});
}

}  // namespace quern
