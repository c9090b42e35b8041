#include "test/ir/instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "test/ir/evaluate.h"

namespace quern {

uint64_t Random::bits() {  // splitmix64
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
int64_t Random::between(int64_t low, int64_t high) {
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  return static_cast<int64_t>(static_cast<uint64_t>(low) + (span == 0 ? bits() : bits() % span));
}

// ---- ops and dtypes
// -----------------------------------------------------------------------------------------------

std::optional<std::vector<DType>> operand_types(Op op, DType result, DType free) {
  if (is_comparison(op)) return result.is_bool() ? std::optional(std::vector{free, free}) : std::nullopt;
  auto all = [&](bool possible) {
    return possible ? std::optional(std::vector<DType>(static_cast<size_t>(info(op).least_sources), result))
                    : std::nullopt;
  };
  switch (op) {
    case Op::CAST: return std::vector{free};
    case Op::BITCAST:
      return free.bits() == result.bits() && !free.is_index() && !result.is_index()
                 ? std::optional(std::vector{free})
                 : std::nullopt;
    case Op::WHERE: return std::vector{dtypes::bool_, result, result};
    case Op::RECIP:
    case Op::SQRT:
    case Op::EXP2:
    case Op::LOG2:
    case Op::SIN:
    case Op::COS:
    case Op::TRUNC:
    case Op::FDIV: return all(result.is_float());
    case Op::FLOORDIV:
    case Op::FLOORMOD:
    case Op::TRUNCDIV:
    case Op::TRUNCMOD:
    case Op::SHL:
    case Op::SHR:
    case Op::RANGE:
    case Op::SPECIAL: return all(result.is_int());
    case Op::AND:
    case Op::OR:
    case Op::XOR: return all(!result.is_float());
    case Op::THREEFRY: return all(result.kind() == Scalar::UInt64);
    default: return all(is_alu(op));
  }
}

// ---- patterns
// -----------------------------------------------------------------------------------------------------

namespace {

class Instantiation {
 public:
  explicit Instantiation(const Choices& choices) : choices_(choices) {}

  UOp make(const Pat& pattern, DType dtype) {
    const Pat::Data& d = pattern.data();
    if (d.kind == Pat::Kind::either) return make(d.parts[choices_.pick(d.parts.size())], dtype);
    if (!d.types.contains(dtype) || (d.dtype && *d.dtype != dtype)) return {};
    if (d.kind == Pat::Kind::literal) return literal(d, dtype);
    if (const auto known = bound_.find(d.name); known != bound_.end())
      return known->second.dtype() == dtype ? known->second : UOp();
    UOp u;
    if (d.ops == OpSet(Op::CONST))
      u = d.arg ? constant(*d.arg, dtype) : choices_.constant(d.name, dtype);
    else if (d.ops == ops::all && d.mode == Pat::SourceMode::any)
      u = choices_.variable(d.name, dtype);
    else
      u = node(d, dtype);
    if (u && !d.name.empty()) bound_.emplace(d.name, u);
    return u;
  }

 private:
  static UOp constant(const Arg& arg, DType dtype) {
    const Const c = arg.constant();
    const bool fits = c.is_invalid() || c.kind() == Const::Kind::Int ? dtype.is_int()
                      : c.kind() == Const::Kind::Bool                ? dtype.is_bool()
                                                                     : dtype.is_float();
    return fits ? UOp::constant(dtype, c) : UOp();
  }

  // As the matcher reads them: a whole number is one of any dtype, a bool only of bools.
  static UOp literal(const Pat::Data& d, DType dtype) {
    if (const auto* b = std::get_if<bool>(&d.number)) return dtype.is_bool() ? UOp::boolean(*b) : UOp();
    if (const auto* x = std::get_if<double>(&d.number))
      return dtype.is_float() ? UOp::constant(dtype, *x) : UOp();
    const wide n = std::get<wide>(d.number);
    if (dtype.is_bool()) return n == 0 || n == 1 ? UOp::boolean(n == 1) : UOp();
    if (dtype.is_float()) return UOp::constant(dtype, static_cast<double>(n));
    return UOp::constant(dtype, wrap(dtype, n));
  }

  UOp node(const Pat::Data& d, DType dtype) {
    std::vector<std::pair<Op, std::vector<DType>>> possible;
    const DType free = choices_.free_type();
    for (int i = 0; i < kOpCount; i++) {
      const Op op = static_cast<Op>(i);
      if (!d.ops.contains(op)) continue;
      auto types = operand_types(op, dtype, free);
      if (!types) continue;
      const bool counted = d.mode == Pat::SourceMode::exactly || d.mode == Pat::SourceMode::prefix;
      if (counted && d.parts.size() != types->size()) continue;
      possible.emplace_back(op, std::move(*types));
    }
    if (possible.empty()) return {};
    const auto& [op, types] = possible[choices_.pick(possible.size())];
    UOps sources;
    for (size_t i = 0; i < types.size(); i++) {
      UOp s = d.mode == Pat::SourceMode::any    ? choices_.source(types[i])
              : d.mode == Pat::SourceMode::each ? make(d.parts[0], types[i])
                                                : make(d.parts[i], types[i]);
      if (!s) return {};
      sources.push_back(std::move(s));
    }
    if (is_commutative(op) && choices_.pick(2) == 1) std::swap(sources[0], sources[1]);
    Arg arg;
    if (op == Op::RANGE || op == Op::SPECIAL) {
      if (sources[0].vmax() <= 0) return {};
      loops_++;
      arg = op == Op::RANGE ? Arg(RangeArg{1000 + loops_}) : Arg(fmt::format("lidx{}", loops_));
    }
    return UOp::make(op, dtype, sources, d.arg.value_or(arg), d.tag.value_or(Arg()));
  }

  const Choices& choices_;
  std::map<std::string, UOp> bound_;
  int64_t loops_ = 0;
};

}  // namespace

UOp instantiate(const Pat& pattern, DType dtype, const Choices& choices) {
  return Instantiation(choices).make(pattern, dtype);
}

// ---- values
// -------------------------------------------------------------------------------------------------------

namespace {

std::vector<Const> make_special_values(DType dtype) {
  std::vector<Const> values;
  auto add = [&](Const c) {
    if (std::find(values.begin(), values.end(), c) == values.end()) values.push_back(c);
  };
  Random random(dtype.bits() * 100u + static_cast<uint64_t>(dtype.kind()));
  if (dtype.is_bool()) return {Const::of_bool(false), Const::of_bool(true)};
  if (dtype.bits() == 8) {
    for (uint64_t bits = 0; bits < 256; bits++) add(from_bits(bits, dtype));
    return values;
  }
  if (dtype.is_int()) {
    auto add_int = [&](wide v) {
      if (fits(dtype, v)) add(wrap(dtype, v));
    };
    for (int v = -9; v <= 9; v++) add(wrap(dtype, v));
    for (int b = 4; b <= dtype.bits(); b += dtype.bits() == 64 ? 4 : 1)
      for (int near = -1; near <= 1; near++) {
        add_int((wide{1} << b) + near);
        add_int(-(wide{1} << b) + near);
      }
    for (int near = 0; near < 3; near++) add_int(int_min(dtype) + near), add_int(int_max(dtype) - near);
    for (int i = 0; i < 12; i++) add(from_bits(random.bits() & (~uint64_t{0} >> (64 - dtype.bits())), dtype));
    return values;
  }
  auto add_float = [&](double v) {
    for (double x : {v, -v}) add(make_const(dtype, x));
  };
  add(Const::of_float(std::numeric_limits<double>::quiet_NaN()));
  for (double v : {0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 7.0, 10.0, 0.1, 100.0, 1024.0, 16777215.0, 1e30})
    add_float(v);
  add_float(std::numeric_limits<double>::infinity());
  add_float(max_finite(dtype)), add_float(max_finite(dtype) / 2);
  add_float(1 + epsilon(dtype)), add_float(1 - epsilon(dtype) / 2);
  for (uint64_t bits : {1u, 2u, 3u}) add_float(from_bits(bits, dtype).as_float());  // subnormal
  const int significand = static_cast<int>(std::lround(-std::log2(epsilon(dtype))));
  for (uint64_t bits = (uint64_t{1} << significand) - 1; bits <= (uint64_t{1} << significand) + 1; bits++)
    add_float(from_bits(bits, dtype).as_float());  // about the least normal
  for (int i = 0; i < 24; i++) add(from_bits(random.bits() & (~uint64_t{0} >> (64 - dtype.bits())), dtype));
  return values;
}

}  // namespace

const std::vector<Const>& special_values(DType dtype) {
  static const std::map<Scalar, std::vector<Const>> tables = [] {
    std::map<Scalar, std::vector<Const>> t;
    for (DType d : kValueTypes) t[d.kind()] = make_special_values(d);
    return t;
  }();
  return tables.at(dtype.kind());
}

// ---- random expressions
// -------------------------------------------------------------------------------------------

void Generator::restart() {
  leaves_.clear(), compared_.clear(), recent_.clear();
  names_ = 0;
  favourite_ = random.between(1, 8);
  favourite_type_ = random.chance(40) ? dtypes::index
                    : random.chance(40)
                        ? (random.chance(60) ? dtypes::int8 : dtypes::uint8)  // these wrap soonest
                        : random.of(kValueTypes);
  gates_ = random.chance(15);
}

DType Generator::integer_type() {
  if (favourite_type_.is_int() && random.chance(80)) return favourite_type_;
  return kValueTypes[random.between(1, 9)];
}

UOp Generator::constant(DType dtype) {
  if (dtype.is_bool()) return UOp::boolean(random.chance(50));
  if (dtype.is_float() || random.chance(10)) return UOp::constant(dtype, random.of(special_values(dtype)));
  if (const auto known = recent_.find(dtype.kind()); known != recent_.end() && random.chance(30)) {
    const Bounds b = known->second.bounds();  // where comparisons with it are not decided yet
    if (b.max - b.min < 10000)
      return wrapped(dtype, b.min + random.between(0, static_cast<int64_t>(b.max - b.min)));
  }
  if (random.chance(40)) return wrapped(dtype, favourite_ * random.between(dtype.is_signed() ? -3 : 0, 4));
  return wrapped(dtype, random.between(dtype.is_signed() && random.chance(40) ? -9 : 0, 9));
}

UOp Generator::leaf(DType dtype) {
  UOps& known = leaves_[dtype.kind()];
  if (!known.empty() && (known.size() >= 4 || random.chance(60))) return random.of(known);
  UOp made;
  if (!dtype.is_int() || random.chance(4)) {
    made = value_leaf(dtype, names_++);
  } else if (random.chance(25)) {
    made = UOp::make(Op::RANGE, dtype, {wrapped(dtype, random.between(1, 9))}, RangeArg{names_++});
  } else {
    wide low = 0, high = random.chance(20) ? favourite_ - 1 : random.between(0, 12);
    if (random.chance(20)) low = high = random.between(0, 9);
    if (random.chance(20)) low++, high++;
    if (dtype.is_signed() && random.chance(35)) low = -random.between(0, 12);
    if (dtype.is_signed() && random.chance(5)) high = -1, low = -random.between(1, 9);
    if (!dtype.is_index() && random.chance(25)) low = int_min(dtype), high = int_max(dtype);
    low = std::max(low, int_min(dtype)), high = std::min({high, int_max(dtype), int_max(dtypes::int64)});
    made = UOp::variable(fmt::format("v{}", names_++), static_cast<int64_t>(low), static_cast<int64_t>(high),
                         dtype);
  }
  known.push_back(made);
  return made;
}

UOp Generator::sum_of_multiples(DType dtype, int depth) {
  UOp sum;
  for (int64_t terms = random.between(1, 3); terms > 0; terms--) {
    UOp term = depth > 1 && random.chance(40) ? integer(dtype, depth - 1) : leaf(dtype);
    const wide factor = favourite_ * random.between(1, 4) * (dtype.is_signed() && random.chance(20) ? -1 : 1);
    if (random.chance(60)) term = UOp::make(Op::MUL, dtype, {term, wrapped(dtype, factor)});
    sum = sum ? UOp::make(Op::ADD, dtype, {sum, term}) : term;
  }
  if (random.chance(40)) sum = UOp::make(Op::ADD, dtype, {sum, constant(dtype)});
  return sum;
}

// x % c + ((x // c) % d) * c, or something like it.
UOp Generator::digits(DType dtype, int depth) {
  const UOp x = integer(dtype, depth - 1);
  const UOp c = wrapped(dtype, favourite_ + 1), high = UOp::make(Op::FLOORDIV, dtype, {x, c});
  UOp digit = random.chance(50) ? high : UOp::make(Op::FLOORMOD, dtype, {high, constant(dtype)});
  digit = UOp::make(Op::MUL, dtype, {digit, random.chance(60) ? c : constant(dtype)});
  const UOp low = random.chance(30) ? x : UOp::make(Op::FLOORMOD, dtype, {x, c});
  return UOp::make(Op::ADD, dtype, {low, digit});
}

UOp Generator::integer(DType dtype, int depth) {
  if (depth <= 0) return random.chance(85) ? leaf(dtype) : constant(dtype);
  auto part = [&] { return integer(dtype, depth - 1); };
  auto make = [&](Op op, const UOp& a, const UOp& b) { return UOp::make(op, dtype, {a, b}); };
  if (gates_ && random.chance(10))
    return UOp::make(Op::WHERE, dtype, {condition(dtypes::bool_, depth - 1), part(), UOp::invalid(dtype)});
  const int64_t kind = random.between(0, 99);
  if (kind < 8) return integer(dtype, 0);
  if (kind < 22) return make(Op::ADD, part(), part());
  if (kind < 32) return make(Op::MUL, part(), constant(dtype));
  if (kind < 46) return sum_of_multiples(dtype, depth);
  if (kind < 50) return digits(dtype, depth);
  if (kind < 57) return make(Op::FLOORDIV, part(), wrapped(dtype, favourite_ * random.between(1, 3)));
  if (kind < 64) return make(Op::FLOORMOD, part(), wrapped(dtype, favourite_ * random.between(1, 3)));
  if (kind < 67) return make(random.chance(50) ? Op::TRUNCDIV : Op::TRUNCMOD, part(), constant(dtype));
  if (kind < 71) return make(random.chance(50) ? Op::FLOORDIV : Op::FLOORMOD, part(), part());
  if (kind < 75) return make(Op::MUL, part(), part());
  if (kind < 81)
    return make(random.chance(50) ? Op::MIN : Op::MAX, part(), random.chance(50) ? part() : constant(dtype));
  if (kind < 86) return UOp::make(Op::WHERE, dtype, {condition(dtypes::bool_, depth - 1), part(), part()});
  if (kind < 90) {
    const DType from = random.chance(30) ? dtypes::bool_ : integer_type();
    const UOp inside = from.is_bool() ? condition(from, depth - 1) : integer(from, depth - 1);
    return inside.cast(dtype);
  }
  if (kind < 95) {
    constexpr Op bitwise[] = {Op::AND, Op::OR, Op::XOR};
    return make(random.of(bitwise), part(), random.chance(50) ? part() : constant(dtype));
  }
  if (kind < 98)
    return make(random.chance(50) ? Op::SHL : Op::SHR, part(), wrapped(dtype, random.between(0, 5)));
  return make(Op::SUB, part(), part());
}

UOp Generator::condition(DType dtype, int depth) {
  auto part = [&] { return condition(dtype, depth - 1); };
  if (depth <= 0) return random.chance(95) ? leaf(dtype) : constant(dtype);
  const int64_t kind = random.between(0, 99);
  if (kind < 50) {  // of the same expression again and again
    const DType d = integer_type();
    UOps& known = compared_[d.kind()];
    if (known.size() < 2 || random.chance(30)) known.push_back(integer(d, random.chance(60) ? 0 : depth - 1));
    recent_[d.kind()] = random.of(known);
    const Op op = random.chance(80) ? Op::CMPLT : Op::CMPEQ;
    const UOp less = UOp::make(op, dtype, {recent_[d.kind()], constant(d)});
    return random.chance(60) ? less : ~less;
  }
  if (kind < 65) {
    const DType d = integer_type();
    constexpr Op compare[] = {Op::CMPLT, Op::CMPEQ, Op::CMPNE, Op::CMPLE};
    return UOp::make(random.of(compare), dtype, {integer(d, depth - 1), integer(d, depth - 1)});
  }
  if (kind < 70) {
    const Op op = random.chance(50) ? Op::CMPLT : Op::CMPEQ;
    return UOp::make(op, dtype, {number(dtypes::float32, depth - 1), number(dtypes::float32, depth - 1)});
  }
  if (kind < 76) return ~part();
  if (kind < 94) return UOp::make(random.chance(60) ? Op::AND : Op::OR, dtype, {part(), part()});
  if (kind < 97) return UOp::make(Op::WHERE, dtype, {part(), part(), part()});
  return leaf(dtype);
}

UOp Generator::number(DType dtype, int depth) {
  if (depth <= 0) return random.chance(75) ? leaf(dtype) : constant(dtype);
  auto part = [&] { return number(dtype, depth - 1); };
  const int64_t kind = random.between(0, 99);
  if (kind < 15) return leaf(dtype);
  if (kind < 70) {
    constexpr Op binary[] = {Op::ADD, Op::MUL, Op::MUL, Op::FDIV, Op::SUB, Op::MAX, Op::MIN};
    return UOp::make(random.of(binary), dtype, {part(), random.chance(60) ? part() : constant(dtype)});
  }
  if (kind < 80) {
    constexpr Op unary[] = {Op::NEG, Op::RECIP, Op::SQRT, Op::TRUNC};
    return UOp::make(random.of(unary), dtype, {part()});
  }
  if (kind < 90) return UOp::make(Op::WHERE, dtype, {condition(dtypes::bool_, depth - 1), part(), part()});
  const DType from = random.of(kValueTypes);
  if (from == dtype) return part();
  return expression(from, depth - 1).cast(dtype);
}

UOp Generator::expression(DType dtype, int depth) {
  if (dtype.is_bool()) return condition(dtype, depth);
  if (dtype.is_float()) return number(dtype, depth);
  UOp made = integer(dtype, depth);
  recent_[dtype.kind()] = made;
  return made;
}

UOp Generator::instance(const Pat& pattern) {
  restart();
  const DType dtype = random.chance(50)   ? favourite_type_
                      : random.chance(50) ? dtypes::bool_
                                          : random.of(kValueTypes);
  Choices choices;
  choices.variable = [&](const std::string&, DType d) {
    return random.chance(12) ? constant(d) : expression(d, static_cast<int>(random.between(0, 3)));
  };
  choices.constant = [&](const std::string&, DType d) { return constant(d); };
  choices.source = [&](DType d) {
    return random.chance(8) ? constant(d) : expression(d, static_cast<int>(random.between(0, 3)));
  };
  choices.free_type = [&] { return random.chance(60) ? favourite_type_ : random.of(kValueTypes); };
  choices.pick = [&](size_t n) {
    return static_cast<size_t>(random.between(0, static_cast<int64_t>(n) - 1));
  };
  return instantiate(pattern, dtype, choices);
}

}  // namespace quern
