#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "quern/llm/template/lexer.h"
#include "quern/llm/template/syntax.h"

namespace quern::llm {
namespace {

constexpr size_t kMostSource = 1 << 20;
constexpr int kMostNestedSyntax = 150;

using Kind = ExpressionKind;

class TemplateParser {
 public:
  explicit TemplateParser(SyntaxTree& tree) : tree_(tree), words_(template_words(tree.source)) {}

  void parse() {
    tree_.body = body({});
    if (word().kind != WordKind::end) refuse(fmt::format("'{}' was not expected", word().text));
  }

 private:
  using Body = std::vector<const Statement*>;
  using Names = std::vector<std::string_view>;

  // ---- Words
  const Word& word(size_t ahead = 0) const { return words_[std::min(at_ + ahead, words_.size() - 1)]; }
  bool is_sign(std::string_view text, size_t ahead = 0) const {
    return word(ahead).kind == WordKind::sign && word(ahead).text == text;
  }
  bool is_name(std::string_view text, size_t ahead = 0) const {
    return word(ahead).kind == WordKind::name && word(ahead).text == text;
  }
  bool take_sign(std::string_view text) { return is_sign(text) && ++at_ > 0; }
  bool take_name(std::string_view text) { return is_name(text) && ++at_ > 0; }
  [[noreturn]] void refuse(const std::string& why) const {
    throw TemplateError(fmt::format("line {}: {}", word().line, why));
  }
  void need_sign(std::string_view text) {
    if (!take_sign(text)) refuse(fmt::format("expected '{}', got '{}'", text, word().text));
  }
  std::string need_name() {
    if (word().kind != WordKind::name) refuse(fmt::format("expected a name, got '{}'", word().text));
    return words_[at_++].text;
  }
  void end_block() {
    if (word().kind != WordKind::end_block)
      refuse(fmt::format("'{}' was not expected in a block", word().text));
    at_++;
  }

  struct Nested {
    explicit Nested(TemplateParser& p) : parser(p) {
      if (++parser.depth_ > kMostNestedSyntax)
        parser.refuse(fmt::format("it is nested more than {} deep", kMostNestedSyntax));
    }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { parser.depth_--; }
    TemplateParser& parser;
  };

  Expression& make(Kind kind, std::vector<const Expression*> parts = {}) {
    Expression& e = tree_.expressions.emplace_back(Expression{.kind = kind, .line = word().line});
    e.parts = std::move(parts);
    return e;
  }
  const Expression* constant(const Value& value) {
    Expression& e = make(Kind::constant);
    e.constant = value;
    return &e;
  }
  const Expression* named(std::string name) {
    Expression& e = make(Kind::name);
    e.text = std::move(name);
    return &e;
  }

  // ---- Statements, up to a block that begins with one of `ends`. That word is not taken.
  Body body(const Names& ends) {
    const Nested nested(*this);
    Body all;
    for (;;) {
      const Word& w = word();
      if (w.kind == WordKind::text) {
        Statement& s = statement(StatementKind::text);
        s.text = w.text;
        at_++;
        all.push_back(&s);
      } else if (w.kind == WordKind::begin_output) {
        at_++;
        Statement& s = statement(StatementKind::output);
        s.value = expression_list();
        if (word().kind != WordKind::end_output)
          refuse(fmt::format("'{}' was not expected in an output", word().text));
        at_++;
        all.push_back(&s);
      } else if (w.kind == WordKind::begin_block) {
        if (std::ranges::any_of(ends, [&](std::string_view end) { return is_name(end, 1); })) {
          at_++;
          return all;
        }
        at_++;
        if (const Statement* s = block(all); s != nullptr) all.push_back(s);
      } else {
        if (!ends.empty()) refuse(fmt::format("{{% {} %}} is missing", ends.back()));
        return all;
      }
    }
  }

  Statement& statement(StatementKind kind) {
    return tree_.statements.emplace_back(Statement{.kind = kind, .line = word().line});
  }

  const Statement* block(Body& around) {
    const int line = word().line;
    const std::string name = need_name();
    Statement* s = nullptr;
    if (name == "if")
      s = conditional();
    else if (name == "for")
      s = loop();
    else if (name == "set")
      s = set();
    else if (name == "macro")
      s = macro();
    else if (name == "call")
      s = call();
    else if (name == "filter")
      s = filter();
    else if (name == "break" || name == "continue") {
      if (loops_ == 0) refuse(fmt::format("{{% {} %}} stands in no loop", name));
      s = &statement(name == "break" ? StatementKind::leave : StatementKind::next);
      end_block();
    } else if (name == "generation") {  // marks what the model said, for training
      end_block();
      for (const Statement* inner : body({"endgeneration"})) around.push_back(inner);
      at_++;
      end_block();
      return nullptr;
    } else {
      at_--;
      refuse(fmt::format("the block '{}' is not known", name));
    }
    s->line = line;
    return s;
  }

  void end_of(std::string_view name) {
    if (!take_name(name)) refuse(fmt::format("expected {{% {} %}}", name));
    end_block();
  }

  Statement* conditional() {
    Statement& s = statement(StatementKind::conditional);
    s.conditions.push_back(expression_list());
    end_block();
    for (;;) {
      s.bodies.push_back(body({"elif", "else", "endif"}));
      if (take_name("elif")) {
        if (s.conditions.size() < s.bodies.size()) refuse("an elif follows an else");
        s.conditions.push_back(expression_list());
        end_block();
      } else if (take_name("else")) {
        if (s.conditions.size() < s.bodies.size()) refuse("an else follows an else");
        end_block();
      } else {
        end_of("endif");
        return &s;
      }
    }
  }

  // A name, or names in a tuple.
  const Expression* targets() {
    std::vector<const Expression*> all;
    const bool bracket = take_sign("(");
    bool is_tuple = false;
    do {
      if (is_name("in") || (bracket && is_sign(")"))) break;
      const std::string name = need_name();
      all.push_back(named(name));
    } while (take_sign(",") && (is_tuple = true));
    if (bracket) need_sign(")");
    if (all.empty()) refuse("expected a name");
    return all.size() == 1 && !is_tuple ? all[0] : &make(Kind::tuple, all);
  }

  Statement* loop() {
    Statement& s = statement(StatementKind::loop);
    s.target = targets();
    if (!take_name("in")) refuse(fmt::format("expected 'in', got '{}'", word().text));
    s.value = expression_list(false);
    if (take_name("if")) s.condition = expression();
    s.recursive = take_name("recursive");
    end_block();
    loops_++;
    s.bodies.push_back(body({"else", "endfor"}));
    loops_--;
    if (take_name("else")) {
      end_block();
      s.bodies.push_back(body({"endfor"}));
    }
    end_of("endfor");
    return &s;
  }

  Statement* set() {
    Statement& s = statement(StatementKind::set);
    if (word().kind == WordKind::name && is_sign(".", 1)) {
      const Expression* object = named(need_name());
      need_sign(".");
      Expression& attribute = make(Kind::attribute, {object});
      attribute.text = need_name();
      s.target = &attribute;
    } else {
      s.target = targets();
    }
    if (take_sign("=")) {
      s.value = expression_list();
      end_block();
      return &s;
    }
    s.kind = StatementKind::set_block;
    s.value = filters(named(std::string(kBlockText)));
    end_block();
    s.bodies.push_back(body({"endset"}));
    end_of("endset");
    return &s;
  }

  void parameters(Statement& s) {
    need_sign("(");
    while (!take_sign(")")) {
      s.parameters.push_back(need_name());
      if (take_sign("="))
        s.defaults.push_back(expression());
      else if (!s.defaults.empty())
        refuse(fmt::format("the parameter '{}' has no default, but one before it has", s.parameters.back()));
      if (!is_sign(")")) need_sign(",");
    }
  }

  Statement* macro() {
    Statement& s = statement(StatementKind::macro);
    s.text = need_name();
    parameters(s);
    end_block();
    const int loops = std::exchange(loops_, 0);
    s.bodies.push_back(body({"endmacro"}));
    loops_ = loops;
    end_of("endmacro");
    return &s;
  }

  Statement* call() {
    Statement& s = statement(StatementKind::call);
    s.text = "caller";
    if (is_sign("(")) parameters(s);
    s.value = expression();
    if (s.value->kind != Kind::call) refuse("{% call %} calls nothing");
    end_block();
    const int loops = std::exchange(loops_, 0);
    s.bodies.push_back(body({"endcall"}));
    loops_ = loops;
    end_of("endcall");
    return &s;
  }

  Statement* filter() {
    Statement& s = statement(StatementKind::filter);
    s.value = filters(one_filter(named(std::string(kBlockText))));
    end_block();
    s.bodies.push_back(body({"endfilter"}));
    end_of("endfilter");
    return &s;
  }

  // ---- Expressions, from those that bind least
  const Expression* expression_list(bool with_condition = true) {
    const Expression* first = with_condition ? expression() : logical_or();
    if (!is_sign(",")) return first;
    std::vector<const Expression*> all = {first};
    while (take_sign(",")) {
      if (word().kind == WordKind::end_block || word().kind == WordKind::end_output) break;
      all.push_back(with_condition ? expression() : logical_or());
    }
    return &make(Kind::tuple, all);
  }

  const Expression* expression() {
    const Nested nested(*this);
    const Expression* value = logical_or();
    while (take_name("if")) {
      const Expression* condition = logical_or();
      const Expression* other = take_name("else") ? expression() : nullptr;
      value = &make(Kind::conditional, {condition, value, other});
    }
    return value;
  }

  const Expression* logical_or() {
    const Expression* left = logical_and();
    while (take_name("or")) left = &make(Kind::logical_or, {left, logical_and()});
    return left;
  }
  const Expression* logical_and() {
    const Expression* left = logical_not();
    while (take_name("and")) left = &make(Kind::logical_and, {left, logical_not()});
    return left;
  }
  const Expression* logical_not() {
    const Nested nested(*this);
    if (take_name("not")) return &make(Kind::logical_not, {logical_not()});
    return comparison();
  }

  std::string comparison_sign() {
    static constexpr std::array<std::string_view, 6> kSigns = {"==", "!=", "<", "<=", ">", ">="};
    for (const std::string_view sign : kSigns)
      if (take_sign(sign)) return std::string(sign);
    if (take_name("in")) return "in";
    if (is_name("not") && is_name("in", 1)) {
      at_ += 2;
      return "not in";
    }
    return "";
  }
  const Expression* comparison() {
    const Expression* first = sum();
    std::vector<const Expression*> parts = {first};
    std::vector<std::string> signs;
    for (std::string sign; !(sign = comparison_sign()).empty();) {
      signs.push_back(sign);
      parts.push_back(sum());
    }
    if (signs.empty()) return first;
    Expression& e = make(Kind::comparison, parts);
    e.signs = signs;
    return &e;
  }

  const Expression* binary(const Expression* left, const std::string& sign, const Expression* right) {
    Expression& e = make(Kind::binary, {left, right});
    e.text = sign;
    return &e;
  }
  const Expression* sum() {
    const Expression* left = joined();
    for (;;) {
      if (take_sign("+"))
        left = binary(left, "+", joined());
      else if (take_sign("-"))
        left = binary(left, "-", joined());
      else
        return left;
    }
  }
  const Expression* joined() {
    const Expression* left = product();
    while (take_sign("~")) left = binary(left, "~", product());
    return left;
  }
  const Expression* product() {
    const Expression* left = power();
    for (;;) {
      if (take_sign("*"))
        left = binary(left, "*", power());
      else if (take_sign("/"))
        left = binary(left, "/", power());
      else if (take_sign("//"))
        left = binary(left, "//", power());
      else if (take_sign("%"))
        left = binary(left, "%", power());
      else
        return left;
    }
  }
  const Expression* power() {
    const Expression* left = unary(true);
    while (take_sign("**")) left = binary(left, "**", unary(true));
    return left;
  }
  const Expression* unary(bool with_filters) {
    const Nested nested(*this);
    const Expression* value = nullptr;
    if (take_sign("-"))
      value = &make(Kind::negate, {unary(false)});
    else if (take_sign("+"))
      value = &make(Kind::plus, {unary(false)});
    else
      value = behind(primary());
    return with_filters ? filters(value) : value;
  }

  const Expression* primary() {
    const Word& w = word();
    switch (w.kind) {
      case WordKind::name: {
        at_++;
        if (w.text == "true" || w.text == "True") return constant(Value::of(true));
        if (w.text == "false" || w.text == "False") return constant(Value::of(false));
        if (w.text == "none" || w.text == "None") return constant(Value());
        return named(w.text);
      }
      case WordKind::quoted: {
        std::string text;
        while (word().kind == WordKind::quoted) text += words_[at_++].text;
        return constant(tree_.memory.text(text));
      }
      case WordKind::integer: {
        int64_t number = 0;
        const auto [end, error] = std::from_chars(w.text.data(), w.text.data() + w.text.size(), number);
        if (error != std::errc()) refuse(fmt::format("the number {} is too large", w.text));
        at_++;
        return constant(Value::of(number));
      }
      case WordKind::floating: {
        double number = 0;
        std::from_chars(w.text.data(), w.text.data() + w.text.size(), number);
        at_++;
        return constant(Value::of(number));
      }
      case WordKind::sign:
        if (take_sign("(")) return bracket();
        if (take_sign("[")) return list();
        if (take_sign("{")) return dict();
        [[fallthrough]];
      default: refuse(fmt::format("'{}' was not expected", w.text));
    }
  }

  const Expression* bracket() {
    std::vector<const Expression*> all;
    bool is_tuple = is_sign(")");
    while (!is_sign(")")) {
      all.push_back(expression());
      if (!is_sign(")")) {
        need_sign(",");
        is_tuple = true;
      }
    }
    need_sign(")");
    return is_tuple ? &make(Kind::tuple, all) : all[0];
  }
  const Expression* list() {
    std::vector<const Expression*> all;
    while (!take_sign("]")) {
      all.push_back(expression());
      if (!is_sign("]")) need_sign(",");
    }
    return &make(Kind::list, all);
  }
  const Expression* dict() {
    std::vector<const Expression*> all;
    while (!take_sign("}")) {
      all.push_back(expression());
      need_sign(":");
      all.push_back(expression());
      if (!is_sign("}")) need_sign(",");
    }
    return &make(Kind::dict, all);
  }

  // .name [item] (arguments)
  const Expression* behind(const Expression* value) {
    for (;;) {
      if (take_sign(".")) {
        if (word().kind == WordKind::integer) {
          value = &make(Kind::item, {value, primary()});
          continue;
        }
        Expression& e = make(Kind::attribute, {value});
        e.text = need_name();
        value = &e;
      } else if (take_sign("[")) {
        value = subscript(value);
      } else if (is_sign("(")) {
        std::vector<const Expression*> parts = {value};
        arguments(parts);
        value = &make(Kind::call, parts);
      } else {
        return value;
      }
    }
  }

  const Expression* subscript(const Expression* value) {
    std::array<const Expression*, 3> bounds = {};
    size_t colons = 0;
    for (; colons < 3; colons++) {
      if (!is_sign(":") && !is_sign("]")) bounds[colons] = expression();
      if (!take_sign(":")) break;
    }
    need_sign("]");
    if (colons > 0) return &make(Kind::slice, {value, bounds[0], bounds[1], bounds[2]});
    if (bounds[0] == nullptr) refuse("expected what stands between brackets");
    return &make(Kind::item, {value, bounds[0]});
  }

  void arguments(std::vector<const Expression*>& parts) {
    need_sign("(");
    while (!take_sign(")")) {
      if (is_sign("*") || is_sign("**")) refuse("arguments in a list (*) are not understood");
      if (word().kind == WordKind::name && is_sign("=", 1)) {
        const std::string name = need_name();
        need_sign("=");
        Expression& e = make(Kind::named_argument, {expression()});
        e.text = name;
        parts.push_back(&e);
      } else {
        parts.push_back(expression());
      }
      if (!is_sign(")")) need_sign(",");
    }
  }

  // The name of a filter, and its arguments, behind what it is given.
  const Expression* one_filter(const Expression* value) {
    std::vector<const Expression*> parts = {value};
    const int line = word().line;
    std::string name = need_name();
    while (take_sign(".")) name += "." + need_name();
    if (is_sign("(")) arguments(parts);
    Expression& e = make(Kind::filter, parts);
    e.text = name;
    e.line = line;
    return &e;
  }

  // | filter, is test
  const Expression* filters(const Expression* value) {
    for (;;) {
      if (take_sign("|")) {
        value = one_filter(value);
      } else if (take_name("is")) {
        value = test(value);
      } else if (is_sign("(")) {
        value = behind(value);
      } else {
        return value;
      }
    }
  }

  const Expression* test(const Expression* value) {
    const int line = word().line;
    const bool negated = take_name("not");
    std::vector<const Expression*> parts = {value};
    const std::string name = need_name();
    const Word& next = word();
    const bool operand =
        next.kind == WordKind::quoted || next.kind == WordKind::integer || next.kind == WordKind::floating ||
        is_sign("[") || is_sign("{") ||
        (next.kind == WordKind::name && !is_name("else") && !is_name("or") && !is_name("and") &&
         !is_name("if") && !is_name("is") && !is_name("in") && !is_name("not") && !is_name("recursive"));
    if (is_sign("("))
      arguments(parts);
    else if (operand)
      parts.push_back(behind(primary()));
    Expression& e = make(Kind::test, parts);
    e.text = name;
    e.line = line;
    e.negated = negated;
    return &e;
  }

  SyntaxTree& tree_;
  std::vector<Word> words_;
  size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
};

// Line breaks as Jinja has them, without the last one.
std::string with_plain_line_breaks(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\r') {
      plain += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') i++;
    } else {
      plain += text[i];
    }
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

}  // namespace

SyntaxTree::SyntaxTree(std::string text) : source(with_plain_line_breaks(text)), memory(TemplateLimits()) {
  if (source.size() > kMostSource)
    throw TemplateError(fmt::format("it has {} bytes; {} are allowed", source.size(), kMostSource));
  TemplateParser(*this).parse();
}

}  // namespace quern::llm
