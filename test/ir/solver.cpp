// Rules on integers and bools as questions to z3: can the two sides differ where the condition holds?
#include "test/ir/prover.h"

#ifndef QUERN_HAVE_Z3

namespace quern {
bool have_solver() { return false; }
Proof solve(const Rules&, const Effort&) { return {}; }
}  // namespace quern

#else

#include <fmt/format.h>
#include <z3++.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "test/ir/instance.h"

namespace quern {
namespace {

struct Unfit {};    // the dtypes do not fit the pattern
struct Foreign {};  // z3 has no words for this

Op op_of(const Pat::Data& d) {
  if (d.ops.size() != 1) throw Foreign();
  int i = 0;
  while (!d.ops.contains(static_cast<Op>(i))) i++;
  return static_cast<Op>(i);
}

// ---- integers of two kinds: mathematical, and bit-vectors
// ----------------------------------------------------------

z3::expr floor_div(const z3::expr& a, const z3::expr& b) {
  z3::context& z = a.ctx();
  if (a.is_int()) {  // z3 rounds down for a positive divisor
    return z3::ite(b == 0, z.int_val(0), z3::ite(b > 0, a / b, (-a) / (-b)));
  }
  const z3::expr zero = z.bv_val(0, a.get_sort().bv_size()), quotient = a / b, rest = z3::srem(a, b);
  const z3::expr down = rest != zero && (rest < zero) != (b < zero);
  return z3::ite(b == zero, zero, z3::ite(down, quotient - 1, quotient));
}
z3::expr floor_mod(const z3::expr& a, const z3::expr& b) {
  z3::context& z = a.ctx();
  if (a.is_int()) return z3::ite(b == 0, z.int_val(0), z3::ite(b > 0, z3::mod(a, b), -z3::mod(-a, -b)));
  const z3::expr zero = z.bv_val(0, a.get_sort().bv_size()), rest = z3::srem(a, b);
  return z3::ite(b == zero, zero, z3::ite(rest != zero && (rest < zero) != (b < zero), rest + b, rest));
}
// z3::abs of z3 4.8 lets go of its condition before it is used, if the compiler evaluates arguments from the
// left.
z3::expr magnitude(const z3::expr& a) { return z3::ite(a < 0, -a, a); }
z3::expr trunc_div(const z3::expr& a, const z3::expr& b) {
  z3::context& z = a.ctx();
  if (!a.is_int()) return z3::ite(b == 0, z.bv_val(0, a.get_sort().bv_size()), a / b);
  const z3::expr quotient = magnitude(a) / magnitude(b);
  return z3::ite(b == 0, z.int_val(0), z3::ite((a < 0) == (b < 0), quotient, -quotient));
}
z3::expr trunc_mod(const z3::expr& a, const z3::expr& b) {
  z3::context& z = a.ctx();
  if (!a.is_int()) return z3::ite(b == 0, z.bv_val(0, a.get_sort().bv_size()), z3::srem(a, b));
  const z3::expr rest = z3::mod(magnitude(a), magnitude(b));
  return z3::ite(b == 0, z.int_val(0), z3::ite(a < 0, -rest, rest));
}

z3::expr bool_op(Op op, const z3::expr& a, const z3::expr& b) {
  switch (op) {
    case Op::ADD:
    case Op::OR:
    case Op::MAX: return a || b;
    case Op::MUL:
    case Op::AND:
    case Op::MIN: return a && b;
    case Op::XOR:
    case Op::SUB:
    case Op::CMPNE: return a != b;
    case Op::CMPEQ: return a == b;
    case Op::CMPLT: return !a && b;
    case Op::CMPLE: return !a || b;
    default: throw Foreign();
  }
}

z3::expr integer_op(Op op, DType dtype, const z3::expr& a, const z3::expr& b) {
  const bool plain = a.is_int(), is_unsigned = dtype.is_unsigned();
  auto less = [&] { return is_unsigned ? z3::ult(a, b) : a < b; };
  auto bits_only = [&] {
    if (plain) throw Foreign();
  };
  const z3::expr zero = plain ? a.ctx().int_val(0) : a.ctx().bv_val(0, static_cast<unsigned>(dtype.bits()));
  switch (op) {
    case Op::ADD: return a + b;
    case Op::SUB: return a - b;
    case Op::MUL: return a * b;
    case Op::MAX: return z3::ite(less(), b, a);
    case Op::MIN: return z3::ite(less(), a, b);
    case Op::FLOORDIV: return is_unsigned ? z3::ite(b == zero, zero, z3::udiv(a, b)) : floor_div(a, b);
    case Op::FLOORMOD: return is_unsigned ? z3::ite(b == zero, zero, z3::urem(a, b)) : floor_mod(a, b);
    case Op::TRUNCDIV: return is_unsigned ? z3::ite(b == zero, zero, z3::udiv(a, b)) : trunc_div(a, b);
    case Op::TRUNCMOD: return is_unsigned ? z3::ite(b == zero, zero, z3::urem(a, b)) : trunc_mod(a, b);
    case Op::AND: bits_only(); return a & b;
    case Op::OR: bits_only(); return a | b;
    case Op::XOR: bits_only(); return a ^ b;
    case Op::SHL: bits_only(); return z3::shl(a, b);
    case Op::SHR: bits_only(); return is_unsigned ? z3::lshr(a, b) : z3::ashr(a, b);
    case Op::CMPEQ: return a == b;
    case Op::CMPNE: return a != b;
    case Op::CMPLT: return less();
    case Op::CMPLE: return is_unsigned ? z3::ule(a, b) : a <= b;
    default: throw Foreign();
  }
}

// ---- a rule, for given dtypes
// --------------------------------------------------------------------------------------

class Theorem {
 public:
  Theorem(z3::context& z, const Rule& rule, DType dtype, DType operand)
      : z_(z),
        operand_(operand),
        plain_(dtype.is_index() || operand.is_index()),
        hypotheses_(z),
        defined_(z.bool_val(true)) {
    const z3::expr left = match(rule.left(), dtype);
    if (rule.condition()) hypotheses_.push_back(truth(rule.condition()));
    const z3::expr right = build(rule.right(), dtype);
    hypotheses_.push_back(left != right);
  }

  // unsat: the sides never differ.
  z3::check_result check(unsigned limit, const std::map<std::string, int64_t>& constants = {}) {
    z3::solver solver(z_);
    z3::params p(z_);
    p.set("rlimit", limit);  // counts steps and not seconds: the same on every machine
    solver.set(p);
    for (const z3::expr& h : hypotheses_) solver.add(h);
    for (const auto& [name, value] : constants) {
      const Variable& v = variables_.at(name);
      solver.add(v.value == numeral(v.dtype, value));
    }
    const z3::check_result result = solver.check();
    if (result == z3::sat) {
      std::ostringstream text;
      text << solver.get_model();
      model_ = text.str();
    }
    return result;
  }
  const std::string& model() const { return model_; }
  std::vector<std::string> constants() const {
    std::vector<std::string> names;
    for (const auto& [name, v] : variables_)
      if (v.is_const && v.dtype.is_int()) names.push_back(name);
    return names;
  }

 private:
  struct Variable {
    z3::expr value;
    DType dtype;
    bool is_const;
  };

  z3::sort sort_of(DType dtype) {
    if (dtype.is_bool()) return z_.bool_sort();
    return dtype.is_index() ? z_.int_sort() : z_.bv_sort(static_cast<unsigned>(dtype.bits()));
  }
  z3::expr numeral(DType dtype, wide value) {
    if (dtype.is_bool()) return z_.bool_val(value != 0);
    if (dtype.is_index()) return z_.int_val(static_cast<int64_t>(value));
    return z_.bv_val(static_cast<int64_t>(value), static_cast<unsigned>(dtype.bits()));
  }
  z3::expr literal(const Pat::Data& d, DType dtype) {
    if (const auto* b = std::get_if<bool>(&d.number)) {
      if (!dtype.is_bool()) throw Unfit();
      return z_.bool_val(*b);
    }
    if (!std::holds_alternative<wide>(d.number)) throw Unfit();
    const wide n = std::get<wide>(d.number);
    if (dtype.is_bool() && n != 0 && n != 1) throw Unfit();
    return numeral(dtype, n);
  }

  z3::expr apply(Op op, DType dtype, const std::vector<z3::expr>& v) {  // of operands of that dtype
    if (op == Op::WHERE) return z3::ite(v[0], v[1], v[2]);
    if (op == Op::MULACC && dtype.is_int()) return v[0] * v[1] + v[2];
    if (op == Op::NEG && dtype.is_int()) return -v[0];
    if (v.size() != 2) throw Foreign();
    return dtype.is_bool() ? bool_op(op, v[0], v[1]) : integer_op(op, dtype, v[0], v[1]);
  }

  z3::expr match(const Pat& pattern, DType dtype) {
    const Pat::Data& d = pattern.data();
    if (!d.types.contains(dtype) || (d.dtype && *d.dtype != dtype)) throw Unfit();
    if (d.kind == Pat::Kind::literal) return literal(d, dtype);
    if (d.kind != Pat::Kind::node) throw Foreign();
    if (const auto known = variables_.find(d.name); known != variables_.end()) {
      if (known->second.dtype != dtype) throw Unfit();
      return known->second.value;
    }
    const bool is_const = d.ops == OpSet(Op::CONST);
    if (is_const || d.ops == ops::all) {
      if (d.arg || d.name.empty() || d.mode != Pat::SourceMode::any) throw Foreign();
      return define(d.name, dtype, is_const);
    }
    const Op op = op_of(d);
    const auto types = operand_types(op, dtype, operand_);
    if (!types) throw Unfit();
    if (d.mode != Pat::SourceMode::exactly || d.parts.size() != types->size()) throw Foreign();
    std::vector<z3::expr> parts;
    for (size_t i = 0; i < types->size(); i++) parts.push_back(match(d.parts[i], (*types)[i]));
    if (op == Op::RANGE || op == Op::SPECIAL) {
      const z3::expr loop = define(d.name, dtype, false);
      hypotheses_.push_back(integer_op(Op::CMPLE, dtype, numeral(dtype, 0), loop));
      hypotheses_.push_back(integer_op(Op::CMPLT, dtype, loop, parts[0]));
      return loop;
    }
    if (op == Op::CAST) {
      if (!operand_.is_bool() || !dtype.is_int()) throw Foreign();
      return z3::ite(parts[0], numeral(dtype, 1), numeral(dtype, 0));
    }
    if (!d.name.empty()) throw Foreign();
    return apply(op, types->back(), parts);
  }
  z3::expr define(const std::string& name, DType dtype, bool is_const) {
    return variables_.emplace(name, Variable{z_.constant(name.c_str(), sort_of(dtype)), dtype, is_const})
        .first->second.value;
  }

  const Variable& variable(const Pat& p) const { return variables_.at(p.data().name); }
  bool is_variable(const Pat& p) const { return variables_.contains(p.data().name); }

  std::optional<DType> dtype_of(const Pat& p) const {  // of the first variable in the expression
    if (is_variable(p)) return variable(p).dtype;
    for (const Pat& part : p.data().parts)
      if (const auto d = dtype_of(part)) return d;
    return std::nullopt;
  }

  z3::expr build(const Pat& p, DType dtype) {
    const Pat::Data& d = p.data();
    if (d.kind == Pat::Kind::literal) return literal(d, dtype);
    if (d.kind == Pat::Kind::fold) return build(d.parts[0], dtype_of(d.parts[0]).value_or(dtype));
    if (d.kind == Pat::Kind::exact) {
      const DType own = dtype_of(d.parts[0]).value_or(dtype);
      const z3::expr value = number(d.parts[0]);
      if (own.is_index()) {
        hypotheses_.push_back(take_defined());
        return value;
      }
      hypotheses_.push_back(fits(value, own) && take_defined());
      return value.extract(static_cast<unsigned>(own.bits()) - 1, 0);
    }
    if (is_variable(p)) return variable(p).value;
    const Op op = op_of(d);
    DType operand = dtype;
    if (is_comparison(op))
      for (const Pat& part : d.parts)
        if (const auto found = dtype_of(part)) operand = *found;
    std::vector<z3::expr> parts;
    for (size_t i = 0; i < d.parts.size(); i++)
      parts.push_back(build(d.parts[i], op == Op::WHERE && i == 0 ? dtypes::bool_ : operand));
    return apply(op, operand, parts);
  }

  // ---- conditions are in mathematical integers; for fixed widths, in bit-vectors with room for any result
  // ---------

  unsigned width() const { return operand_.bits() > 8 || variables_bits() > 8 ? 66 : 24; }
  int variables_bits() const {
    int most = 0;
    for (const auto& [name, v] : variables_) most = std::max(most, v.dtype.bits());
    return most;
  }
  z3::expr wide_numeral(wide v) {
    return plain_ ? z_.int_val(static_cast<int64_t>(v)) : z_.bv_val(static_cast<int64_t>(v), width());
  }
  z3::expr widened(const Variable& v) {
    if (plain_) {
      if (!v.dtype.is_index()) throw Foreign();
      return v.value;
    }
    if (v.dtype.is_bool()) return z3::ite(v.value, wide_numeral(1), wide_numeral(0));
    const unsigned more = width() - static_cast<unsigned>(v.dtype.bits());
    return v.dtype.is_unsigned() ? z3::zext(v.value, more) : z3::sext(v.value, more);
  }
  z3::expr fits(const z3::expr& v, DType dtype) {
    if (dtype.is_index()) return z_.bool_val(true);
    return wide_numeral(int_min(dtype)) <= v && v <= wide_numeral(int_max(dtype));
  }
  // A bound of the variable, anywhere on its side of the value.
  z3::expr bound(const Pat& p, bool least) {
    const Variable& v = variable(p);
    const std::string name = (least ? "min_" : "max_") + p.data().name;
    const z3::expr b = z_.constant(name.c_str(), plain_ ? z_.int_sort() : z_.bv_sort(width()));
    hypotheses_.push_back(least ? b <= widened(v) : widened(v) <= b);
    hypotheses_.push_back(fits(b, v.dtype));
    return b;
  }
  // How many bits the result may have: they must fit the width.
  unsigned room(const Pat& p) const {
    const Pat::Data& d = p.data();
    if (d.kind == Pat::Kind::literal) return 8;
    if (d.parts.empty()) return static_cast<unsigned>(variable(p).dtype.bits()) + 1;
    unsigned sum = 0, most = 0;
    for (const Pat& part : d.parts) sum += room(part), most = std::max(most, room(part));
    const bool product = d.kind == Pat::Kind::node && d.ops.contains(Op::MUL);
    return product ? sum : most + 1;
  }

  // Where the numbers made since the last call have a value: nothing is divided by 0, no shift is too great.
  z3::expr take_defined() { return std::exchange(defined_, z_.bool_val(true)); }

  z3::expr number(const Pat& p) {
    const Pat::Data& d = p.data();
    if (!plain_ && room(p) > width()) throw Foreign();
    switch (d.kind) {
      case Pat::Kind::literal:
        if (!std::holds_alternative<wide>(d.number)) throw Foreign();
        return wide_numeral(std::get<wide>(d.number));
      case Pat::Kind::least: return bound(d.parts[0], true);
      case Pat::Kind::greatest: return bound(d.parts[0], false);
      case Pat::Kind::fold:
      case Pat::Kind::exact: return number(d.parts[0]);
      case Pat::Kind::node: break;
      default: throw Foreign();
    }
    if (is_variable(p)) return widened(variable(p));
    const Op op = op_of(d);
    const z3::expr a = number(d.parts[0]), b = number(d.parts[1]);
    switch (op) {
      case Op::ADD: return a + b;
      case Op::MUL: return a * b;
      case Op::FLOORDIV: defined_ = defined_ && b != 0; return floor_div(a, b);
      case Op::FLOORMOD: defined_ = defined_ && b != 0; return floor_mod(a, b);
      case Op::SHL:  // only powers of two; those too great for the width are too great for the dtype
        if (plain_ || d.parts[0].data().kind != Pat::Kind::literal) throw Foreign();
        defined_ = defined_ && b >= 0 && b < wide_numeral(width() - 8);
        return z3::shl(a, b);
      case Op::MAX: return z3::ite(a < b, b, a);
      case Op::MIN: return z3::ite(a < b, a, b);
      case Op::AND:
      case Op::OR:
      case Op::XOR: {
        if (plain_) throw Foreign();
        return op == Op::AND ? a & b : op == Op::OR ? a | b : a ^ b;
      }
      default: throw Foreign();
    }
  }

  z3::expr truth(const Pat& p) {
    const Pat::Data& d = p.data();
    if (d.kind == Pat::Kind::no_wrap) return stays(d.parts[0]);
    const Op op = op_of(d);
    if (op == Op::AND) return truth(d.parts[0]) && truth(d.parts[1]);
    if (op == Op::OR) return truth(d.parts[0]) || truth(d.parts[1]);
    const z3::expr a = number(d.parts[0]), b = number(d.parts[1]);
    switch (op) {
      case Op::CMPEQ: return a == b && take_defined();
      case Op::CMPNE: return a != b && take_defined();
      case Op::CMPLT: return a < b && take_defined();
      case Op::CMPLE: return a <= b && take_defined();
      default: throw Foreign();
    }
  }

  // No step leaves the dtype at these values (the matcher asks it of all values: we prove more).
  z3::expr stays(const Pat& p) {
    if (plain_) return z_.bool_val(true);
    const DType dtype = dtype_of(p).value();
    z3::expr all = fits(number(p), dtype);
    if (!is_variable(p))
      for (const Pat& part : p.data().parts)
        if (dtype_of(part)) all = all && stays(part);
    return all;
  }

  z3::context& z_;
  DType operand_;
  bool plain_;
  std::map<std::string, Variable> variables_;
  z3::expr_vector hypotheses_;
  z3::expr defined_;
  std::string model_;
};

bool has_free_type(const Pat& p) {
  const Pat::Data& d = p.data();
  if (d.mode != Pat::SourceMode::any && d.ops.intersects(ops::comparison | Op::CAST)) return true;
  return std::any_of(d.parts.begin(), d.parts.end(), has_free_type);
}

// Where the general question is too hard: the same for small constants, one by one.
z3::check_result check_constants(Theorem& theorem, unsigned limit) {
  const std::vector<std::string> names = theorem.constants();
  if (names.empty() || names.size() > 2) return z3::unknown;
  const bool two = names.size() == 2;
  for (int64_t a = two ? -2 : -7; a <= (two ? 4 : 8); a++)
    for (int64_t b = -2; b <= (two ? 4 : -2); b++) {
      std::map<std::string, int64_t> values = {{names[0], a}};
      if (two) values[names[1]] = b;
      if (const auto r = theorem.check(limit, values); r != z3::unsat) return r;
    }
  return z3::unsat;
}

void solve_rule(z3::context& z, const Rule& rule, DType dtype, DType operand, const Effort& effort,
                Proof& proof) {
  const auto limit = static_cast<unsigned>(1e6 * std::min(effort.scale, 4.0));
  const std::string title = fmt::format(
      "{}  ({})", rule.text(), dtype == operand ? dtype.name() : dtype.name() + " of " + operand.name());
  try {
    Theorem theorem(z, rule, dtype, operand);
    z3::check_result result = theorem.check(limit);
    bool general = true;
    if (result == z3::unknown) {
      result = check_constants(theorem, limit / 5);
      general = false;
    }
    if (result == z3::sat)
      proof.failures.push_back(
          fmt::format("{}: {}\nz3 has a counterexample:\n{}", rule.location(), title, theorem.model()));
    else if (result == z3::unsat && general)
      proof.proved++;
    else
      proof.unproved.push_back(title + (result == z3::unsat ? ", but for small constants" : ""));
  } catch (const Foreign&) {
    proof.foreign++;
  } catch (const Unfit&) {
  }
}

}  // namespace

bool have_solver() { return true; }

Proof solve(const Rules& rules, const Effort& effort) {
  constexpr DType kTypes[] = {dtypes::bool_, dtypes::index, dtypes::int8,
                              dtypes::uint8, dtypes::int32, dtypes::uint32};
  Proof proof;
  for (const Rule& rule : rules.list()) {
    if (rule.has_function()) continue;
    proof.rules++;
    z3::context z;
    const bool free = has_free_type(rule.left());
    for (DType dtype : kTypes)
      for (DType operand : kTypes)
        if (free || dtype == operand) solve_rule(z, rule, dtype, operand, effort, proof);
  }
  return proof;
}

}  // namespace quern

#endif
