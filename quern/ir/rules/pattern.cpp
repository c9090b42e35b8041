#include "quern/ir/rules/pattern.h"

#include <fmt/format.h>

#include <algorithm>

namespace quern {
namespace {

Pat alu(Op op, std::vector<Pat> parts, std::source_location where) {
  Pat::Data d;
  d.ops = op;
  d.mode = Pat::SourceMode::exactly;
  d.parts = std::move(parts);
  d.where = where;
  return Pat(std::move(d));
}
Pat alu(Op op, const PatOperand& a, const PatOperand& b) { return alu(op, {a.pattern, b.pattern}, a.where); }

Pat wrapped(Pat::Kind kind, const Pat& inside) {
  Pat::Data d;
  d.kind = kind;
  d.parts = {inside};
  return Pat(std::move(d));
}

// Does this pattern stand for floats? Decides between / as FDIV and as FLOORDIV.
bool is_float(const Pat& p) {
  const Pat::Data& d = p.data();
  if (d.kind == Pat::Kind::literal) return std::holds_alternative<double>(d.number);
  if (d.dtype) return d.dtype->is_float();
  if (d.types == types::floats) return true;
  if (!d.types.is_any() || d.ops.size() != 1) return false;
  return std::ranges::any_of(d.parts, is_float);
}

}  // namespace

Pat::Pat(int number) : Pat(literal(static_cast<wide>(number))) {}
Pat::Pat(double number) : Pat(literal(number)) {}

Pat Pat::literal(std::variant<wide, double, bool> number) {
  Data d;
  d.kind = Kind::literal;
  d.ops = Op::CONST;
  d.number = number;
  return Pat(std::move(d));
}

template <class F>
Pat Pat::changed(F f) const {
  Data copy = *data_;
  f(copy);
  return Pat(std::move(copy));
}
Pat Pat::as(std::string name) const {
  return changed([&](Data& d) { d.name = std::move(name); });
}
Pat Pat::of(DType dtype) const {
  return changed([&](Data& d) { d.dtype = dtype; });
}
Pat Pat::of(Types types) const {
  return changed([&](Data& d) { d.types = types; });
}
Pat Pat::with(Arg arg) const {
  return changed([&](Data& d) { d.arg = std::move(arg); });
}
Pat Pat::tagged(Arg tag) const {
  return changed([&](Data& d) { d.tag = std::move(tag); });
}
Pat Pat::and_more() const {
  return changed([&](Data& d) { d.mode = SourceMode::prefix; });
}
Pat Pat::f(OpSet ops, std::vector<Pat> rest, SourceLine place) const {
  rest.insert(rest.begin(), *this);
  return op(ops, std::move(rest), place).and_more();
}

Pat var(std::string name, Types types) {
  Pat::Data d;
  d.name = std::move(name);
  d.types = types;
  return Pat(std::move(d));
}
Pat constant(std::string name, Types types) {
  Pat::Data d;
  d.name = std::move(name);
  d.ops = Op::CONST;
  d.types = types;
  return Pat(std::move(d));
}
Pat invalid() { return op(Op::CONST).with(Const::invalid()); }

Pat op(OpSet ops, SourceLine place) {
  Pat::Data d;
  d.ops = ops;
  d.where = place.where();
  return Pat(std::move(d));
}
Pat op(OpSet ops, std::vector<Pat> sources, SourceLine place) {
  Pat::Data d;
  d.ops = ops;
  d.mode = Pat::SourceMode::exactly;
  d.parts = std::move(sources);
  d.where = place.where();
  return Pat(std::move(d));
}
Pat each(OpSet ops, const Pat& source, SourceLine place) {
  Pat::Data d;
  d.ops = ops;
  d.mode = Pat::SourceMode::each;
  d.parts = {source};
  d.where = place.where();
  return Pat(std::move(d));
}
Pat either(std::vector<Pat> alternatives, SourceLine place) {
  Pat::Data d;
  d.kind = Pat::Kind::either;
  d.ops = OpSet();
  for (const Pat& p : alternatives) d.ops |= p.data().ops;
  d.parts = std::move(alternatives);
  d.where = place.where();
  return Pat(std::move(d));
}

Pat fold(const Pat& expression) { return wrapped(Pat::Kind::fold, expression); }
Pat exact(const Pat& expression) { return wrapped(Pat::Kind::exact, expression); }
Pat vmin(const Pat& variable) { return wrapped(Pat::Kind::least, variable); }
Pat vmax(const Pat& variable) { return wrapped(Pat::Kind::greatest, variable); }
Pat no_wrap(const Pat& expression) { return wrapped(Pat::Kind::no_wrap, expression); }

Pat operator+(const PatOperand& a, const PatOperand& b) { return alu(Op::ADD, a, b); }
Pat operator-(const PatOperand& a, const PatOperand& b) {
  return alu(Op::ADD, {a.pattern, alu(Op::MUL, b, -1)}, a.where);
}
Pat operator-(const PatOperand& a) { return alu(Op::MUL, a, -1); }
Pat operator*(const PatOperand& a, const PatOperand& b) { return alu(Op::MUL, a, b); }
Pat operator/(const PatOperand& a, const PatOperand& b) {
  return alu(is_float(a.pattern) || is_float(b.pattern) ? Op::FDIV : Op::FLOORDIV, a, b);
}
Pat operator%(const PatOperand& a, const PatOperand& b) { return alu(Op::FLOORMOD, a, b); }
Pat operator&(const PatOperand& a, const PatOperand& b) { return alu(Op::AND, a, b); }
Pat operator|(const PatOperand& a, const PatOperand& b) { return alu(Op::OR, a, b); }
Pat operator^(const PatOperand& a, const PatOperand& b) { return alu(Op::XOR, a, b); }
Pat operator<<(const PatOperand& a, const PatOperand& b) { return alu(Op::SHL, a, b); }
Pat operator>>(const PatOperand& a, const PatOperand& b) { return alu(Op::SHR, a, b); }
Pat operator<(const PatOperand& a, const PatOperand& b) { return alu(Op::CMPLT, a, b); }
Pat operator<=(const PatOperand& a, const PatOperand& b) { return alu(Op::CMPLE, a, b); }
Pat operator>(const PatOperand& a, const PatOperand& b) {
  return alu(Op::CMPLT, {b.pattern, a.pattern}, a.where);
}
Pat operator>=(const PatOperand& a, const PatOperand& b) {
  return alu(Op::CMPLE, {b.pattern, a.pattern}, a.where);
}
Pat operator==(const PatOperand& a, const PatOperand& b) { return alu(Op::CMPEQ, a, b); }
Pat operator!=(const PatOperand& a, const PatOperand& b) { return alu(Op::CMPNE, a, b); }
Pat operator~(const PatOperand& a) { return alu(Op::XOR, a, true); }
Pat operator&&(const Pat& a, const Pat& b) { return alu(Op::AND, a, b); }
Pat operator||(const Pat& a, const Pat& b) { return alu(Op::OR, a, b); }
Pat max(const PatOperand& a, const PatOperand& b) { return alu(Op::MAX, a, b); }
Pat min(const PatOperand& a, const PatOperand& b) { return alu(Op::MIN, a, b); }
Pat truncdiv(const PatOperand& a, const PatOperand& b) { return alu(Op::TRUNCDIV, a, b); }
Pat truncmod(const PatOperand& a, const PatOperand& b) { return alu(Op::TRUNCMOD, a, b); }
Pat where(const PatOperand& condition, const PatOperand& yes, const PatOperand& no) {
  return alu(Op::WHERE, {condition.pattern, yes.pattern, no.pattern}, condition.where);
}

// ---- text, for traces and messages
// --------------------------------------------------------------------------------

namespace {

std::string_view infix(Op op) {
  switch (op) {
    case Op::ADD: return "+";
    case Op::MUL: return "*";
    case Op::FLOORDIV: return "//";
    case Op::FDIV: return "/";
    case Op::FLOORMOD: return "%";
    case Op::AND: return "&";
    case Op::OR: return "|";
    case Op::XOR: return "^";
    case Op::SHL: return "<<";
    case Op::SHR: return ">>";
    case Op::CMPLT: return "<";
    case Op::CMPLE: return "<=";
    case Op::CMPEQ: return "==";
    case Op::CMPNE: return "!=";
    default: return "";
  }
}

std::string number_text(const std::variant<wide, double, bool>& number) {
  if (const auto* b = std::get_if<bool>(&number)) return *b ? "true" : "false";
  if (const auto* d = std::get_if<double>(&number)) return to_string(Const::of_float(*d), dtypes::float64);
  return to_string(std::get<wide>(number));
}

std::string ops_text(OpSet set) {
  if (set == ops::all) return "_";
  if (set == ops::alu) return "ALU";
  if (set == ops::elementwise) return "ELEMENTWISE";
  if (set == ops::movement) return "MOVEMENT";
  if (set == ops::comparison) return "COMPARISON";
  if (set == ops::binary) return "BINARY";
  std::string s;
  for (int i = 0; i < kOpCount; i++)
    if (set.contains(static_cast<Op>(i))) s += (s.empty() ? "" : "|") + std::string(name(static_cast<Op>(i)));
  return s;
}

// Where `captured`, a name stands for what it captured elsewhere.
std::string text_of(const Pat& p, bool nested, bool captured) {
  const Pat::Data& d = p.data();
  if (captured && !d.name.empty()) return d.name;
  auto call = [&](std::string_view function) {
    std::string s;
    for (const Pat& part : d.parts) s += (s.empty() ? "" : ", ") + text_of(part, false, captured);
    if (d.mode == Pat::SourceMode::prefix || d.mode == Pat::SourceMode::each)
      s += s.empty() ? "..." : ", ...";
    return fmt::format("{}({})", function, s);
  };
  switch (d.kind) {
    case Pat::Kind::literal: return number_text(d.number);
    case Pat::Kind::either: return call("either");
    case Pat::Kind::fold:
    case Pat::Kind::exact: return text_of(d.parts[0], nested, captured);
    case Pat::Kind::least: return call("vmin");
    case Pat::Kind::greatest: return call("vmax");
    case Pat::Kind::no_wrap: return call("no_wrap");
    case Pat::Kind::node: break;
  }
  if (d.mode == Pat::SourceMode::any && (d.ops == ops::all || d.ops == OpSet(Op::CONST)))
    return d.name.empty() ? ops_text(d.ops) : d.name;
  std::string named = d.name.empty() ? "" : d.name + ":";
  if (d.ops.size() != 1)
    return named + (d.mode == Pat::SourceMode::any ? ops_text(d.ops) : call(ops_text(d.ops)));
  for (int i = 0; i < kOpCount; i++) {
    const Op op = static_cast<Op>(i);
    if (!d.ops.contains(op)) continue;
    if (op == Op::XOR && d.parts.size() == 2 && d.parts[1].data().kind == Pat::Kind::literal &&
        std::holds_alternative<bool>(d.parts[1].data().number))
      return named + "~" + text_of(d.parts[0], true, captured);
    if (!infix(op).empty() && d.parts.size() == 2) {
      const std::string s = fmt::format("{} {} {}", text_of(d.parts[0], true, captured), infix(op),
                                        text_of(d.parts[1], true, captured));
      return nested || !named.empty() ? fmt::format("{}({})", named, s) : s;
    }
    std::string word(name(op));
    if (is_alu(op))
      std::ranges::transform(word, word.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
    return named + call(word);
  }
  return named;
}

}  // namespace

std::string Pat::text(bool captured) const { return data_ ? text_of(*this, false, captured) : "none"; }

}  // namespace quern
