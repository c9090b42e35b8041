#include "quern/ir/text/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "quern/ir/text/arg_text.h"
#include "quern/ir/text/lexer.h"
#include "quern/ir/text/notation.h"
#include "quern/ir/text/spelling.h"

namespace quern {
namespace {

using notation::kComparisons, notation::kLoosest, notation::kSums;

constexpr int kMostNestedRead = 200;  // levels of nesting; what reads them recurses

// An operand that has been read: a node, or a number that has yet to learn its dtype.
struct Operand {
  UOp node;
  std::string literal;
  size_t at = 0;
};

// What a name was last said to mean; none when two different things have it.
struct Meaning {
  UOp node;
  bool ambiguous = false;

  void add(const UOp& u) {
    ambiguous |= node && !same(node, u);
    node = u;
  }
};

class Parser {
 public:
  Parser(std::string_view text, const NamedNodes& names) : in_(text), given_(names) {}

  UOp run() {
    UOp value;
    for (separators(); in_.token().kind != Token::Kind::End; separators()) {
      const size_t at = in_.token().at;
      bool named = false;
      value = statement(named);
      if (!at_separator() && in_.token().kind != Token::Kind::End) in_.expected("the end of the statement");
      separators();
      const bool declaration = value.op() == Op::RANGE || value.op() == Op::DEFINE_VAR;
      if (!named && !declaration && in_.token().kind != Token::Kind::End)
        in_.fail(at, "nothing uses this value: name it ('%x = ...') or make it the last statement");
    }
    if (value.node() == nullptr) in_.fail("there is no expression in this text");
    return value;
  }

 private:
  // ---- statements
  // -------------------------------------------------------------------------------------------------

  bool at_separator() const { return in_.token().kind == Token::Kind::Newline || in_.token().is(";"); }
  void separators() {
    while (at_separator()) in_.next();
  }

  UOp statement(bool& named) {
    if (in_.token().is("%")) {
      const Lexer start = in_;
      const size_t at = in_.token().at;
      const std::string_view name = reference_name();
      named = in_.accept("=");
      if (named) {
        if (defined_.contains(name) || given_.contains(name))
          in_.fail(at, fmt::format("%{} is defined twice", name));
        UOp value = typed(expression(kLoosest));
        defined_.emplace(name, value);
        return value;
      }
      in_ = start;
    }
    return typed(expression(kLoosest));
  }

  // ---- expressions
  // ------------------------------------------------------------------------------------------------

  // Counts levels while it lives. All that recurses does so through unary().
  class Level {
   public:
    explicit Level(Parser& parser) : depth_(parser.depth_) {
      if (++depth_ > kMostNestedRead)
        parser.in_.fail(
            fmt::format("this is nested more than {} levels deep: name the inner parts", kMostNestedRead));
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { depth_--; }

   private:
    int& depth_;
  };

  // What people write and the printer does not: - > >=
  std::optional<notation::Infix> infix_here() const {
    if (in_.token().kind != Token::Kind::Sign) return std::nullopt;
    const std::string_view sign = in_.token().text;
    if (sign == "-") return notation::Infix{sign, Op::SUB, kSums};
    if (sign == ">") return notation::Infix{sign, Op::CMPLT, kComparisons};
    if (sign == ">=") return notation::Infix{sign, Op::CMPLE, kComparisons};
    const auto* found = std::ranges::find(notation::kInfix, sign, &notation::Infix::sign);
    if (found == std::end(notation::kInfix)) return std::nullopt;
    return *found;
  }

  Operand expression(int loosest) {
    Operand left = unary();
    bool compared = false;
    for (auto infix = infix_here(); infix && infix->level >= loosest; infix = infix_here()) {
      const bool compares = infix->level == kComparisons;
      if (compares && compared) in_.fail("comparisons do not chain: use parentheses");
      compared |= compares;
      const size_t at = in_.next().at;
      Operand right = expression(infix->level + 1);
      left = binary(*infix, std::move(left), std::move(right), at);
    }
    return left;
  }

  Operand binary(const notation::Infix& infix, Operand left, Operand right, size_t at) {
    Operand operands[] = {std::move(left), std::move(right)};
    UOps both = agree(operands);
    if (both[0].dtype() != both[1].dtype())
      in_.fail(at,
               fmt::format("operands have dtypes {} and {}", both[0].dtype().name(), both[1].dtype().name()));
    if (infix.sign == "-") both[1] = negated(both[1], at);
    if (infix.sign.starts_with('>') && infix.sign != ">>") std::swap(both[0], both[1]);
    return {checked(infix.sign == "-" ? Op::ADD : infix.op, both, at), {}, operands[0].at};
  }

  Operand unary() {
    const Level level(*this);
    const size_t at = in_.token().at;
    if (in_.token().is("-")) {
      const Lexer start = in_;
      in_.next();
      if (in_.token().kind != Token::Kind::Number && in_.token().text != "inf")
        return {negated(typed(unary()), at), {}, at};
      in_ = start;  // the sign of a number
      return tagged(literal());
    }
    if (in_.accept("!") || in_.accept("~")) return {complement(typed(unary()), at), {}, at};
    return tagged(primary());
  }

  // As the operators of uop.h have it.
  UOp negated(const UOp& u, size_t at) {
    return in_.here(at, [&] { return -u; });
  }
  UOp complement(const UOp& u, size_t at) {
    return in_.here(at, [&] { return ~u; });
  }

  Operand primary() {
    const Token token = in_.token();
    if (in_.at_literal()) return literal();
    if (token.is("%")) return {reference(), {}, token.at};
    if (token.is("$")) return {variable(), {}, token.at};
    if (token.is("(")) {
      in_.next();
      Operand inner = expression(kLoosest);
      in_.expect(")", "after an expression in parentheses");
      return inner;
    }
    if (token.kind != Token::Kind::Word) in_.expected("an expression");
    const bool digits = token.text.find_first_not_of("0123456789", 1) == std::string_view::npos;
    if (token.text.size() > 1 && token.text[0] == 'r' && digits) return {range(), {}, token.at};
    return {call(), {}, token.at};
  }

  Operand tagged(Operand operand) {
    for (size_t at = in_.token().at; in_.accept("@"); at = in_.token().at) {
      const UOp node = typed(operand);
      if (!node.tag().none()) in_.fail(at, "this node has a tag already");
      Arg tag = parse_tag(in_);
      operand = {make(node.op(), node.dtype(), node.src(), node.arg(), std::move(tag), at), {}, operand.at};
    }
    return operand;
  }

  // ---- numbers, names
  // ---------------------------------------------------------------------------------------------

  Operand literal() {
    const size_t at = in_.token().at;
    std::string text = in_.literal();
    if (!in_.token().is(":")) return {{}, std::move(text), at};
    return {constant(in_.dtype(), text, at), {}, at};
  }

  Const value(DType dtype, const std::string& text, size_t at) {
    const Const value = in_.here(at, [&] { return parse_const(dtype, text); });
    const bool finite = text.find_first_of("0123456789") != std::string::npos;
    if (finite && value.kind() == Const::Kind::Float && !std::isfinite(value.as_float()))
      in_.fail(at, fmt::format("{} is too large for {}", text, dtype.scalar().name()));
    return value;
  }

  UOp constant(DType dtype, const std::string& text, size_t at) {
    return make(Op::CONST, dtype, {}, value(dtype, text, at), {}, at);
  }

  // A number that nothing gives a dtype is an index, or a bool.
  UOp typed(const Operand& operand) {
    if (operand.node) return operand.node;
    const std::string& text = operand.literal;
    if (text.find_first_of(".en") != std::string::npos && text != "true" && text != "false" &&
        text != "invalid")
      in_.fail(operand.at, fmt::format("{0} needs a dtype, as in {0}:float32", text));
    return constant(text == "true" || text == "false" ? dtypes::bool_ : dtypes::index, text, operand.at);
  }

  // Numbers take the dtype of the first operand that has one.
  UOps agree(std::span<const Operand> operands) {
    const auto first =
        std::ranges::find_if(operands, [](const Operand& o) { return static_cast<bool>(o.node); });
    UOps nodes;
    for (const Operand& o : operands)
      nodes.push_back(o.node || first == operands.end() ? typed(o)
                                                        : constant(first->node.dtype(), o.literal, o.at));
    return nodes;
  }

  std::string_view reference_name() {
    const Token percent = in_.next();
    const Token& name = in_.token();
    const bool number =
        name.kind == Token::Kind::Number && name.text.find_first_of(".eE") == std::string_view::npos;
    if ((!number && name.kind != Token::Kind::Word) || name.at != percent.at + 1)
      in_.expected("the name of a node directly after '%'");
    return in_.next().text;
  }

  UOp reference() {
    const size_t at = in_.token().at;
    const std::string_view name = reference_name();
    if (const auto found = defined_.find(name); found != defined_.end()) return found->second;
    if (const auto found = given_.find(name); found != given_.end() && found->second) return found->second;
    in_.fail(at, fmt::format("%{} is not defined", name));
  }

  UOp variable() {
    const size_t at = in_.next().at;
    const Token word = in_.token();
    if (word.kind != Token::Kind::Word && word.kind != Token::Kind::Text)
      in_.expected("the name of a variable after '$'");
    const std::string name = word.kind == Token::Kind::Text ? in_.string() : std::string(in_.next().text);
    if (!in_.accept("[")) return meaning(variables_, name, "$" + std::string(word.text), "[0..15]", at);
    const int64_t min = in_.integer();
    in_.expect("..", "between the bounds of a variable");
    const int64_t max = in_.integer();
    in_.expect("]", "after the bounds of a variable");
    const DType dtype = in_.token().is(":") ? in_.dtype() : dtypes::index;
    UOp made = in_.here(at, [&] { return UOp::variable(name, min, max, dtype); });
    variables_[name].add(made);
    return made;
  }

  UOp range() {
    const Token word = in_.next();
    RangeArg arg;
    const char* end = word.text.data() + word.text.size();
    if (std::from_chars(word.text.data() + 1, end, arg.id).ec != std::errc())
      in_.fail(word.at, fmt::format("the number of the range {} does not fit in 64 bits", word.text));
    if (!in_.accept("[")) return meaning(ranges_, arg.id, word.text, "[16]", word.at);
    const UOp size = typed(expression(kLoosest));
    if (in_.accept(",")) {
      const auto kind = axis_kind_named(in_.token().text);
      if (!kind) in_.expected("the kind of the range (LOOP, GLOBAL, REDUCE, ...)");
      arg.kind = *kind;
      in_.next();
    }
    in_.expect("]", "after the size of a range");
    UOp made = make(Op::RANGE, size.dtype(), std::span(&size, 1), arg, {}, word.at);
    ranges_[arg.id].add(made);
    return made;
  }

  template <class Map, class Name>
  UOp meaning(const Map& map, const Name& name, std::string_view shown, std::string_view rest, size_t at) {
    const auto found = map.find(name);
    if (found == map.end())
      in_.fail(at, fmt::format("{0} is not defined: where it is first used say {0}{1}", shown, rest));
    if (found->second.ambiguous)
      in_.fail(at, fmt::format("{0} may be one of several here: say {0}{1} each time", shown, rest));
    return found->second.node;
  }

  // ---- calls
  // ------------------------------------------------------------------------------------------------------

  UOp call() {
    const Token word = in_.next();
    const auto* function = std::ranges::find(notation::kFunctions, word.text, &notation::Function::name);
    const bool checks = function != std::end(notation::kFunctions);
    const std::optional<Op> named = checks ? function->op : op_named(word.text);
    if (!named) in_.fail(word.at, unknown_op(word.text));
    const Op op = *named;
    const OpInfo& rules = info(op);
    in_.expect("(", fmt::format("after {}", word.text));

    std::vector<Operand> operands;
    const bool only_arg = rules.most_sources == 0 && !in_.token().is(")") && !in_.token().is(";");
    while (!only_arg && !in_.token().is(")") && !in_.token().is(";")) {
      operands.push_back(expression(kLoosest));
      if (!in_.accept(",")) break;
    }
    const auto count = static_cast<int>(operands.size());
    if (count < rules.least_sources || (rules.most_sources >= 0 && count > rules.most_sources))
      in_.fail(word.at, wrong_count(word.text, rules, count));
    UOps sources = resolve(op, operands);

    Arg arg;
    std::optional<Operand> constant_value;  // a CONST's, which needs the dtype that follows
    if (only_arg || in_.accept(";")) {
      if (rules.arg == ArgKind::Const && (in_.at_literal() || in_.token().is("-"))) {
        const size_t at = in_.token().at;
        constant_value = {{}, in_.literal(), at};
      } else {
        arg = parse_arg(in_, rules.arg);
      }
      in_.expect(")", fmt::format("after the argument of {}", word.text));
    } else if (!in_.accept(")")) {
      in_.expected(fmt::format("',' or ')' after the sources of {}", word.text));
    }
    if (checks) {
      if (!arg.none())
        in_.fail(word.at, fmt::format("{} has no argument: say {} instead", word.text, rules.name));
      return checked(op, sources, word.at);
    }
    const bool has_dtype = in_.token().is(":");
    const DType given = has_dtype ? in_.dtype() : dtypes::void_;
    if (constant_value) arg = value(given, constant_value->literal, constant_value->at);
    const DType dtype = has_dtype ? given : notation::default_dtype(op, sources, arg);
    return make(op, dtype, sources, std::move(arg), {}, word.at);
  }

  UOps resolve(Op op, std::span<const Operand> operands) {
    if (op == Op::WHERE) {
      UOps nodes = agree(operands.subspan(1));
      nodes.insert(nodes.begin(), typed(operands[0]));
      return nodes;
    }
    if (is_alu(op)) return agree(operands);
    UOps nodes;
    nodes.reserve(operands.size());
    for (const Operand& o : operands) nodes.push_back(typed(o));
    return nodes;
  }

  static std::string wrong_count(std::string_view word, const OpInfo& rules, int count) {
    std::string allowed = std::to_string(rules.least_sources);
    if (rules.most_sources < 0) allowed = "at least " + allowed;
    if (rules.most_sources > rules.least_sources) allowed += fmt::format(" to {}", rules.most_sources);
    return fmt::format("{} takes {} sources, given {}", word, allowed, count);
  }

  // ---- nodes
  // ------------------------------------------------------------------------------------------------------

  UOp make(Op op, DType dtype, Sources sources, Arg arg, Arg tag, size_t at) {
    return in_.here(at, [&] { return UOp::make(op, dtype, sources, std::move(arg), std::move(tag)); });
  }

  UOp checked(Op op, const UOps& operands, size_t at) {
    const DType dtype = in_.here(at, [&] { return result_dtype(op, operands); });
    if (notation::divides_by_zero(op, operands)) in_.fail(at, "division by the constant 0");
    return make(op, dtype, operands, {}, {}, at);
  }

  Lexer in_;
  const NamedNodes& given_;
  std::unordered_map<std::string_view, UOp> defined_;
  std::unordered_map<std::string, Meaning> variables_;
  std::unordered_map<int64_t, Meaning> ranges_;
  int depth_ = 0;
};

}  // namespace

UOp parse(std::string_view text, const NamedNodes& names) { return Parser(text, names).run(); }

}  // namespace quern
