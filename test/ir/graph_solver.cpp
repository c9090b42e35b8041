#include "test/ir/graph_solver.h"

#include <unordered_map>

#include "quern/ir/node/node_map.h"

namespace quern {

UOp written_out(const UOp& root) {
  NodeMap<UOp> done;
  UOps sources;
  for (const UOp& u : root.toposort()) {
    sources.clear();
    for (const UOp& s : u.src()) sources.push_back(*done.find(s));
    UOp now = u.src().empty() ? u : u.with_src(sources);
    if (u.op() == Op::REDUCE) {
      UOps values{now.src(0)};
      for (const UOp& range : u.src().subspan(1)) {
        UOps steps;
        for (const UOp& value : values)
          for (wide i = 0; i < range.src(0).int_value(); i++)
            steps.push_back(value.substitute({{range, UOp::constant(range.dtype(), i)}}));
        values = std::move(steps);
      }
      now = values[0];
      for (size_t i = 1; i < values.size(); i++) now = UOp::alu(u.arg().reduce().op, {now, values[i]});
    }
    done.emplace(u, std::move(now));
  }
  return *done.find(root);
}

}  // namespace quern

#ifndef QUERN_HAVE_Z3

namespace quern {
bool can_compare() { return false; }
Answer compare_by_solver(const UOp&, const UOp&, std::string*) { return Answer::unknown; }
}  // namespace quern

#else

#include <fmt/format.h>
#include <z3++.h>

#include <sstream>

#include "quern/base/error.h"

namespace quern {
namespace {

class Translation {
 public:
  explicit Translation(z3::context& z) : z_(z), bounds_(z) {}

  z3::expr operator()(const UOp& root) {
    for (const UOp& u : root.toposort())
      if (!known_.contains(u) && !u.dtype().is_void() && !u.dtype().is_ptr()) known_.emplace(u, made(u));
    return known_.at(root);
  }
  const z3::expr_vector& bounds() const { return bounds_; }

 private:
  bool is_number(DType d) const { return d.is_index() || d.is_float(); }
  z3::sort sort_of(DType d) {
    if (d.is_bool()) return z_.bool_sort();
    if (d.is_float()) return z_.real_sort();
    return d.is_index() ? z_.int_sort() : z_.bv_sort(static_cast<unsigned>(d.bits()));
  }
  z3::expr integer(DType d, wide value) {
    const std::string digits = to_string(value);
    if (d.is_float()) return z_.real_val(digits.c_str());
    return d.is_index() ? z_.int_val(digits.c_str())
                        : z_.bv_val(static_cast<int64_t>(value), static_cast<unsigned>(d.bits()));
  }
  z3::expr fresh(DType d) { return z_.constant(fmt::format("any{}", next_++).c_str(), sort_of(d)); }
  z3::expr less(DType d, const z3::expr& a, const z3::expr& b, bool or_equal) {
    if (is_number(d)) return or_equal ? a <= b : a < b;
    if (d.is_unsigned()) return or_equal ? z3::ule(a, b) : z3::ult(a, b);
    return or_equal ? z3::sle(a, b) : z3::slt(a, b);
  }

  z3::expr bounded(const UOp& u, const std::string& name, wide least, wide most) {
    const z3::expr value = z_.constant(name.c_str(), sort_of(u.dtype()));
    bounds_.push_back(less(u.dtype(), integer(u.dtype(), least), value, true) &&
                      less(u.dtype(), value, integer(u.dtype(), most), true));
    return value;
  }

  z3::expr constant(const UOp& u) {
    if (u.value().is_invalid()) return fresh(u.dtype());
    if (u.dtype().is_bool()) return z_.bool_val(u.equals(1));
    if (!u.dtype().is_float()) return integer(u.dtype(), u.int_value());
    QUERN_CHECK(u.value().as_float() == static_cast<double>(static_cast<int64_t>(u.value().as_float())),
                "a float that is no whole number: " + u.text());
    return integer(u.dtype(), static_cast<int64_t>(u.value().as_float()));
  }

  z3::expr cast(const UOp& u) {
    const DType to = u.dtype(), from = u.src(0).dtype();
    const z3::expr& x = known_.at(u.src(0));
    if (to == from) return x;
    if (from.is_bool()) return z3::ite(x, integer(to, 1), integer(to, 0));
    if (to.is_float() && from.is_int())
      return z3::to_real(from.is_index() ? x : z3::bv2int(x, !from.is_unsigned()));
    if (to.is_bool() && from.is_int()) return x != integer(from, 0);
    if (to.is_index() && from.is_int()) return z3::bv2int(x, !from.is_unsigned());
    if (from.is_index() && to.is_int()) return z3::int2bv(static_cast<unsigned>(to.bits()), x);
    QUERN_CHECK(to.is_int() && from.is_int(), "a cast that z3 has no words for: " + u.text());
    const auto bits = static_cast<unsigned>(to.bits()), had = static_cast<unsigned>(from.bits());
    if (bits <= had) return x.extract(bits - 1, 0);
    return from.is_unsigned() ? z3::zext(x, bits - had) : z3::sext(x, bits - had);
  }

  z3::expr made(const UOp& u) {
    const DType d = u.src().empty() ? u.dtype() : u.src(0).dtype();
    const auto x = [&](size_t i) -> const z3::expr& { return known_.at(u.src(i)); };
    switch (u.op()) {
      case Op::CONST: return constant(u);
      case Op::DEFINE_VAR: {
        const VariableArg& v = u.arg().variable();
        return u.dtype().is_bool() ? z_.bool_const(v.name.c_str()) : bounded(u, v.name, v.min, v.max);
      }
      case Op::RANGE: return bounded(u, fmt::format("r{}", u.arg().range().id), 0, u.vmax());
      case Op::INDEX: {  // any function of the place
        const z3::func_decl memory = z_.function(u.src(0).text().c_str(), z_.int_sort(), sort_of(u.dtype()));
        return memory(x(1));
      }
      case Op::CAST: return cast(u);
      case Op::WHERE: return z3::ite(x(0), x(1), x(2));
      case Op::ADD: return d.is_bool() ? x(0) || x(1) : x(0) + x(1);
      case Op::MUL: return d.is_bool() ? x(0) && x(1) : x(0) * x(1);
      case Op::MAX: return d.is_bool() ? x(0) || x(1) : z3::ite(less(d, x(0), x(1), false), x(1), x(0));
      case Op::MIN: return d.is_bool() ? x(0) && x(1) : z3::ite(less(d, x(0), x(1), false), x(0), x(1));
      case Op::AND: return d.is_bool() ? x(0) && x(1) : x(0) & x(1);
      case Op::OR: return d.is_bool() ? x(0) || x(1) : x(0) | x(1);
      case Op::XOR: return d.is_bool() ? x(0) != x(1) : x(0) ^ x(1);
      case Op::CMPEQ: return x(0) == x(1);
      case Op::CMPNE: return x(0) != x(1);
      case Op::CMPLT: return less(d, x(0), x(1), false);
      case Op::CMPLE: return less(d, x(0), x(1), true);
      case Op::FLOORDIV:
      case Op::FLOORMOD:
        QUERN_CHECK(d.is_index() && u.src(1).is_int_const() && u.src(1).int_value() > 0,
                    "a division that z3 has no words for: " + u.text());
        return u.op() == Op::FLOORDIV ? x(0) / x(1) : z3::mod(x(0), x(1));  // z3 rounds down
      default: throw InternalError("z3 has no words for " + u.text());
    }
  }

  z3::context& z_;
  z3::expr_vector bounds_;
  std::unordered_map<UOp, z3::expr> known_;
  int next_ = 0;
};

}  // namespace

bool can_compare() { return true; }

Answer compare_by_solver(const UOp& a, const UOp& b, std::string* model) {
  z3::context z;
  Translation translated(z);
  const z3::expr differ = translated(a) != translated(b);
  z3::solver solver(z);
  z3::params p(z);
  p.set("rlimit", 40'000'000U);  // counts steps and not seconds: the same on every machine
  solver.set(p);
  for (const z3::expr& bound : translated.bounds()) solver.add(bound);
  solver.add(differ);
  const z3::check_result result = solver.check();
  if (result == z3::unknown) return Answer::unknown;
  if (result == z3::unsat) return Answer::equal;
  if (model != nullptr) {
    std::ostringstream text;
    text << solver.get_model();
    *model = text.str();
  }
  return Answer::different;
}

}  // namespace quern

#endif
