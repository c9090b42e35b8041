// Matches a node against a rule, and builds what replaces it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "quern/ir/node/eval.h"
#include "quern/ir/node/saturate.h"
#include "quern/ir/rules/compiled_rule.h"

namespace quern::detail {
namespace {

constexpr int kMaxChoices = 24;

bool equals(const Part& p, const UOp& u) {
  if (!u.is_const()) return false;
  const Const c = u.value();
  const auto& number = p.data->number;
  switch (c.kind()) {
    case Const::Kind::Bool:
      if (const auto* b = std::get_if<bool>(&number)) return c.as_bool() == *b;
      return std::holds_alternative<wide>(number) && std::get<wide>(number) == c.as_int();
    case Const::Kind::Int:
      return std::holds_alternative<wide>(number) && c == wrap(u.dtype(), std::get<wide>(number));
    case Const::Kind::Float: {
      if (std::holds_alternative<bool>(number)) return false;
      const auto* whole = std::get_if<wide>(&number);
      const double wanted = whole ? static_cast<double>(*whole) : std::get<double>(number);
      if (c == Const::of_float(wanted)) return true;
      // The nearest value of the dtype, as on a right side; but what is too large is not infinity.
      const double nearest = round_float(u.dtype(), wanted);
      return std::isfinite(nearest) && c == Const::of_float(nearest);
    }
    case Const::Kind::Invalid: return false;
  }
  return false;
}

// Where a pattern offers a choice (order of operands, alternatives), the choices made are kept as a list; to
// go on after a failure the last one that has another option is advanced and the match is replayed.
class Matcher {
 public:
  explicit Matcher(const CompiledRule& rule) : rule_(rule) {}

  bool next(const UOp& root) {
    while (true) {
      if (started_ && !advance()) return false;
      started_ = true;
      position_ = 0;
      for (int i = 0; i < rule_.captures; i++) bound_[static_cast<size_t>(i)] = nullptr;
      if (match(part(rule_.left), root)) return true;
    }
  }
  const UOp* const* captured() const { return bound_.data(); }

  bool holds() const { return rule_.condition < 0 || number(part(rule_.condition)) == 1; }
  UOp build(DType dtype) const { return build(part(rule_.right), dtype); }

 private:
  const Part& part(int i) const { return rule_.parts[static_cast<size_t>(i)]; }
  const Part& child(const Part& p, size_t i) const { return rule_.parts[rule_.children[p.first + i]]; }

  bool advance() {
    while (choices_ > 0 && choice_[choices_ - 1] + 1 == options_[choices_ - 1]) choices_--;
    if (choices_ == 0) return false;
    choice_[choices_ - 1]++;
    return true;
  }
  int choose(int options) {
    if (position_ == choices_) {
      QUERN_CHECK(choices_ < kMaxChoices, "too many choices in the pattern " + rule_.rule->text());
      choice_[choices_] = 0;
      options_[choices_] = static_cast<uint8_t>(options);
      choices_++;
    }
    return choice_[position_++];
  }

  // What can be seen without looking at sources.
  static bool possible(const Part& p, const UOp& u) {
    return p.ops.contains(u.op()) && p.types.contains(u.dtype()) &&
           (p.kind != Pat::Kind::literal || equals(p, u));
  }

  bool match(const Part& p, const UOp& u) {
    if (!possible(p, u)) return false;
    if (!p.plain) {
      if (p.wants_const && u.value().is_invalid()) return false;
      if (p.data->dtype && *p.data->dtype != u.dtype()) return false;
      if (p.data->arg && !(*p.data->arg == u.arg())) return false;
      if (p.data->tag && !(*p.data->tag == u.tag())) return false;
    }
    if (p.slot >= 0) {
      const UOp*& bound = bound_[static_cast<size_t>(p.slot)];
      if (bound && !same(*bound, u)) return false;
      bound = &u;
    }
    if (p.kind == Pat::Kind::either)
      return match(child(p, p.count == 1 ? 0 : static_cast<size_t>(choose(p.count))), u);
    switch (p.mode) {
      case Pat::SourceMode::any: return true;
      case Pat::SourceMode::each:
        for (const UOp& s : u.src())
          if (!match(child(p, 0), s)) return false;
        return true;
      case Pat::SourceMode::exactly:
        if (u.src().size() != p.count) return false;
        break;
      case Pat::SourceMode::prefix:
        if (u.src().size() < p.count) return false;
        break;
    }
    if (p.count == 2 && is_commutative(u.op()) && u.src().size() == 2 && !same(u.src(0), u.src(1))) {
      const Part &a = child(p, 0), &b = child(p, 1);
      const bool straight = possible(a, u.src(0)) && possible(b, u.src(1));
      const bool swapped = possible(a, u.src(1)) && possible(b, u.src(0));
      if (!straight && !swapped) return false;
      const bool swap = straight && swapped ? choose(2) == 1 : swapped;
      return match(a, u.src(swap ? 1 : 0)) && match(b, u.src(swap ? 0 : 1));
    }
    for (size_t i = 0; i < p.count; i++)
      if (!match(child(p, i), u.src(i))) return false;
    return true;
  }

  const UOp& bound(const Part& p) const { return *bound_[static_cast<size_t>(p.slot)]; }

  static Op op_of(const Part& p) { return p.ops.first(); }

  // The integer value of a condition, or nothing when it cannot be told.
  std::optional<wide> number(const Part& p) const {
    if (p.slot >= 0) return bound(p).is_int_const() ? std::optional(bound(p).int_value()) : std::nullopt;
    switch (p.kind) {
      case Pat::Kind::literal:
        if (const auto* b = std::get_if<bool>(&p.data->number)) return *b ? 1 : 0;
        return std::get<wide>(p.data->number);
      case Pat::Kind::least: return bound(child(p, 0)).vmin();
      case Pat::Kind::greatest: return bound(child(p, 0)).vmax();
      case Pat::Kind::no_wrap: return stays_in_dtype(child(p, 0)) ? 1 : 0;
      case Pat::Kind::fold:
      case Pat::Kind::exact: return number(child(p, 0));
      case Pat::Kind::either: return std::nullopt;
      case Pat::Kind::node: break;
    }
    if (p.count != 2) return std::nullopt;
    const std::optional<wide> a = number(child(p, 0));
    const Op op = op_of(p);
    if (!a) return std::nullopt;
    if (op == Op::AND && *a == 0) return 0;
    const std::optional<wide> b = number(child(p, 1));
    if (op == Op::OR && *a == 1 && !b) return 1;  // of conditions; 1 | 2 of constants is 3
    if (!b) return std::nullopt;
    switch (op) {
      case Op::ADD: return saturating_add(*a, *b);
      case Op::MUL: return saturating_mul(*a, *b);
      case Op::FLOORDIV: return *b == 0 ? std::nullopt : std::optional(floor_div(*a, *b));
      case Op::FLOORMOD: return *b == 0 ? std::nullopt : std::optional(floor_mod(*a, *b));
      case Op::SHL:
        return *b < 0 || *b > 64 ? std::nullopt
                                 : std::optional(saturating_mul(*a, wide{1} << static_cast<int>(*b)));
      case Op::SHR: return *b < 0 || *b > 64 ? std::nullopt : std::optional(*a >> *b);
      case Op::MAX: return std::max(*a, *b);
      case Op::MIN: return std::min(*a, *b);
      case Op::AND: return *a & *b;
      case Op::OR: return *a | *b;
      case Op::XOR: return *a ^ *b;
      case Op::CMPEQ: return *a == *b ? 1 : 0;
      case Op::CMPNE: return *a != *b ? 1 : 0;
      case Op::CMPLT: return *a < *b ? 1 : 0;
      case Op::CMPLE: return *a <= *b ? 1 : 0;
      default: return std::nullopt;
    }
  }

  // The bounds of the expression in mathematical integers; false as soon as a step may leave the dtype.
  bool stays_in_dtype(const Part& p) const {
    const std::optional<DType> dtype = dtype_of(p);
    if (!dtype || dtype->is_index()) return true;
    return interval(p, *dtype).has_value();
  }
  std::optional<Bounds> interval(const Part& p, DType dtype) const {
    if (p.kind == Pat::Kind::literal)
      return Bounds{std::get<wide>(p.data->number), std::get<wide>(p.data->number)};
    if (p.slot >= 0) return bound(p).bounds();
    const std::optional<Bounds> a = interval(child(p, 0), dtype), b = interval(child(p, 1), dtype);
    if (!a || !b) return std::nullopt;
    Bounds r{};
    if (op_of(p) == Op::ADD) {
      r = {saturating_add(a->min, b->min), saturating_add(a->max, b->max)};
    } else {
      const std::array<wide, 4> v = {saturating_mul(a->min, b->min), saturating_mul(a->min, b->max),
                                     saturating_mul(a->max, b->min), saturating_mul(a->max, b->max)};
      r = {std::ranges::min(v), std::ranges::max(v)};
    }
    return fits(dtype, r.min) && fits(dtype, r.max) ? std::optional(r) : std::nullopt;
  }

  // The dtype of the first variable in the expression.
  std::optional<DType> dtype_of(const Part& p) const {
    if (p.slot >= 0) return bound(p).dtype();
    for (size_t i = 0; i < p.count; i++)
      if (auto d = dtype_of(child(p, i))) return d;
    return std::nullopt;
  }

  std::optional<Const> folded(const Part& p, DType dtype) const {
    if (p.kind == Pat::Kind::literal) return literal(p, dtype);
    if (p.slot >= 0) return bound(p).value();
    std::array<Const, 3> args;
    for (size_t i = 0; i < p.count; i++) {
      const std::optional<Const> a = folded(child(p, i), dtype);
      if (!a) return std::nullopt;
      args[i] = *a;
    }
    const Op op = op_of(p);
    return eval(op, is_comparison(op) ? dtypes::bool_ : dtype, dtype, {args.data(), p.count});
  }

  static Const literal(const Part& p, DType dtype) {
    const auto& number = p.data->number;
    const wide whole = std::holds_alternative<bool>(number)   ? wide{std::get<bool>(number)}
                       : std::holds_alternative<wide>(number) ? std::get<wide>(number)
                                                              : 0;
    if (dtype.is_bool()) return Const::of_bool(whole != 0);
    if (dtype.is_int()) return wrap(dtype, whole);
    return make_const(dtype, std::holds_alternative<double>(number) ? std::get<double>(number)
                                                                    : static_cast<double>(whole));
  }

  // None when an exact constant does not fit.
  UOp build(const Part& p, DType dtype) const {
    switch (p.kind) {
      case Pat::Kind::literal: return UOp::constant(dtype, literal(p, dtype));
      case Pat::Kind::fold:
      case Pat::Kind::exact: {
        const Part& inside = child(p, 0);
        const DType own = dtype_of(inside).value_or(dtype);
        // Sizes do not wrap: a constant that would leave the index type is refused too.
        if (p.kind == Pat::Kind::exact || own.is_index()) {
          const std::optional<wide> value = number(inside);
          if (!value || !fits(own, *value)) return {};
          return UOp::constant(own, wrap(own, *value));
        }
        const std::optional<Const> value = folded(inside, own);
        return value ? UOp::constant(own, *value) : UOp();
      }
      default: break;
    }
    if (p.slot >= 0) return bound(p);
    const Op op = op_of(p);
    // Literals take the dtype of a sibling that has one.
    DType operand = dtype;
    if (is_comparison(op))
      for (size_t i = 0; i < p.count; i++)
        if (auto d = dtype_of(child(p, i))) operand = *d;
    std::array<UOp, 3> sources;
    for (size_t i = 0; i < p.count; i++) {
      const bool condition = op == Op::WHERE && i == 0;
      sources[i] = build(child(p, i), condition ? dtypes::bool_.vec(dtype.lanes()) : operand);
      if (!sources[i]) return {};
    }
    return UOp::make(op,
                     is_comparison(op) ? dtypes::bool_.vec(operand.lanes()) : sources[p.count - 1u].dtype(),
                     Sources(sources.data(), p.count));
  }

  const CompiledRule& rule_;
  std::array<const UOp*, kMaxCaptures> bound_;
  std::array<uint8_t, kMaxChoices> choice_, options_;
  int choices_ = 0, position_ = 0;
  bool started_ = false;
};

}  // namespace

bool asks_for_one_arg(const Part& p) {
  return p.kind == Pat::Kind::literal || (p.data && p.data->arg.has_value());
}
bool has_that_arg(const Part& p, const UOp& u) {
  return p.kind == Pat::Kind::literal ? equals(p, u) : *p.data->arg == u.arg();
}

UOp apply_rule(const CompiledRule& compiled, const UOp& node, Sources now, Context context) {
  Matcher matcher(compiled);
  const Rule& rule = *compiled.rule;
  while (matcher.next(node)) {
    UOp result;
    if (!rule.has_function()) {
      if (matcher.holds()) result = matcher.build(node.dtype());
    } else {
      const RuleFunction& f = rule.function();
      if (f.context && (!context.type || *f.context != *context.type))
        throw RewriteError(
            fmt::format("the rule {} ({}) needs a context of another type than the rewrite was given",
                        rule.text(), rule.location()));
      result = f.rebuild ? f.rebuild(node, now, context.object) : f.call(matcher.captured(), context.object);
    }
    // A node with other sources than it had may become what it was.
    if (result && (!same(result, node) || now.data() != node.src().data())) return result;
  }
  return {};
}

}  // namespace quern::detail
