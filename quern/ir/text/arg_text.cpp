#include "quern/ir/text/arg_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "quern/ir/text/notation.h"

namespace quern {
namespace {

constexpr std::string_view kKeywords[] = {"none",   "const",    "int",   "ints",   "text",
                                          "texts",  "variable", "range", "reduce", "stage",
                                          "kernel", "function", "hints"};
static_assert(std::size(kKeywords) == static_cast<int>(ArgKind::Hints) + 1);

std::string_view keyword(ArgKind kind) { return kKeywords[static_cast<int>(kind)]; }

std::optional<ArgKind> kind_named(const Token& token) {
  const auto* found = std::find(std::begin(kKeywords) + 1, std::end(kKeywords), token.text);
  if (token.kind != Token::Kind::Word || found == std::end(kKeywords)) return std::nullopt;
  return static_cast<ArgKind>(found - std::begin(kKeywords));
}

template <class T>
constexpr auto fields_of() {
  if constexpr (std::is_same_v<T, RangeArg>)
    return std::tuple(Field{"id", &RangeArg::id}, Field{"kind", &RangeArg::kind});
  else
    return T::fields();
}

// ---- print
// ------------------------------------------------------------------------------------------------------

void print(std::string& out, int64_t v) { fmt::format_to(std::back_inserter(out), "{}", v); }
void print(std::string& out, bool v) { out += v ? "true" : "false"; }
void print(std::string& out, Op v) { out += name(v); }
void print(std::string& out, AddrSpace v) { out += name(v); }
void print(std::string& out, AxisKind v) { out += name(v); }
void print(std::string& out, const std::string& v) { out += in_quotes(v); }
template <class T>
void print(std::string& out, const std::vector<T>& v) {
  out += '[';
  for (size_t i = 0; i < v.size(); i++) {
    if (i > 0) out += ", ";
    print(out, v[i]);
  }
  out += ']';
}

// Fields that have their default value are left out, but for the op: it is what one looks for.
template <class Struct>
void print_fields(std::string& out, const Struct& v) {
  const Struct usual;
  out += '{';
  auto field = [&](auto f) {
    using Member = std::remove_cvref_t<decltype(v.*f.member)>;
    if (!std::is_same_v<Member, Op> && v.*f.member == usual.*f.member) return;
    if (out.back() != '{') out += ", ";
    out.append(f.name).append(": ");
    print(out, v.*f.member);
  };
  std::apply([&](auto... f) { (field(f), ...); }, fields_of<Struct>());
  out += '}';
}

void print_const(std::string& out, Const v) {
  switch (v.kind()) {
    case Const::Kind::Bool: out.append("bool ").append(to_string(v, dtypes::bool_)); break;
    case Const::Kind::Int: out.append("int ").append(to_string(v, dtypes::int64)); break;
    case Const::Kind::Float: out.append("float ").append(to_string(v, dtypes::float64)); break;
    case Const::Kind::Invalid: out += "invalid"; break;
  }
}

void print_value(std::string& out, const Arg& arg) {
  switch (arg.kind()) {
    case ArgKind::None: break;
    case ArgKind::Const: print_const(out, arg.constant()); break;
    case ArgKind::Int: print(out, arg.integer()); break;
    case ArgKind::Ints: print(out, arg.ints()); break;
    case ArgKind::Text: print(out, arg.text()); break;
    case ArgKind::Texts: print(out, arg.texts()); break;
    case ArgKind::Variable: print_fields(out, arg.variable()); break;
    case ArgKind::Range: print_fields(out, arg.range()); break;
    case ArgKind::Reduce: print_fields(out, arg.reduce()); break;
    case ArgKind::Stage: print_fields(out, arg.stage()); break;
    case ArgKind::Kernel: print_fields(out, arg.kernel()); break;
    case ArgKind::Function: print_fields(out, arg.function()); break;
    case ArgKind::Hints: print_fields(out, arg.get<Hints>()); break;
  }
}

// ---- parse
// ------------------------------------------------------------------------------------------------------

template <class Named, class Find>
void parse_named(Lexer& in, Named& v, std::string_view what, Find find) {
  const std::optional<Named> found =
      in.token().kind == Token::Kind::Word ? find(in.token().text) : std::nullopt;
  if (!found) in.expected(what);
  v = *found;
  in.next();
}

void parse(Lexer& in, int64_t& v) { v = in.integer(); }
void parse(Lexer& in, bool& v) {
  parse_named(in, v, "true or false", [](std::string_view word) -> std::optional<bool> {
    if (word == "true" || word == "false") return word == "true";
    return std::nullopt;
  });
}
void parse(Lexer& in, Op& v) { parse_named(in, v, "the name of an op", op_named); }
void parse(Lexer& in, AxisKind& v) {
  parse_named(in, v, "the kind of an axis (LOOP, REDUCE, ...)", axis_kind_named);
}
void parse(Lexer& in, AddrSpace& v) {
  parse_named(in, v, "GLOBAL, LOCAL or REG", [](std::string_view word) -> std::optional<AddrSpace> {
    for (const AddrSpace space : {AddrSpace::GLOBAL, AddrSpace::LOCAL, AddrSpace::REG})
      if (word == name(space)) return space;
    return std::nullopt;
  });
}
void parse(Lexer& in, std::string& v) { v = in.string(); }
template <class T>
void parse(Lexer& in, std::vector<T>& v) {
  in.expect("[", "before a list");
  while (!in.token().is("]")) {
    parse(in, v.emplace_back());
    if (!in.accept(",")) break;
  }
  in.expect("]", "after a list");
}

template <class Struct>
Arg parse_fields(Lexer& in) {
  Struct v;
  std::vector<std::string_view> seen;
  in.expect("{", "before the fields of the argument");
  while (!in.token().is("}")) {
    const Token word = in.token();
    std::string names;
    bool found = false;
    auto field = [&](auto f) {
      names.append(names.empty() ? "" : ", ").append(f.name);
      if (found || word.kind != Token::Kind::Word || word.text != f.name) return;
      found = true;
      if (std::ranges::find(seen, word.text) != seen.end()) in.fail(fmt::format("{} is given twice", f.name));
      seen.push_back(word.text);
      in.next();
      in.expect(":", fmt::format("after {}", f.name));
      parse(in, v.*f.member);
    };
    std::apply([&](auto... f) { (field(f), ...); }, fields_of<Struct>());
    if (!found) in.expected(fmt::format("one of the fields {}", names));
    if (!in.accept(",")) break;
  }
  in.expect("}", "after the fields of the argument");
  return v;
}

template <class T>
Arg parse_as(Lexer& in) {
  T v{};
  parse(in, v);
  return v;
}

Const parse_const_arg(Lexer& in) {
  const Token kind = in.next();
  if (kind.kind == Token::Kind::Word && kind.text == "invalid") return Const::invalid();
  const DType dtype = kind.text == "bool"    ? dtypes::bool_
                      : kind.text == "int"   ? dtypes::int64
                      : kind.text == "float" ? dtypes::float64
                                             : dtypes::void_;
  if (dtype.is_void()) in.fail(kind.at, "the kind of the constant must follow: bool, int, float or invalid");
  const size_t at = in.token().at;
  const std::string text = in.literal();
  if (text == "invalid") in.fail(at, fmt::format("expected a value after {}", kind.text));
  return in.here(at, [&] { return parse_const(dtype, text); });
}

}  // namespace

void print_arg(std::string& out, const Arg& arg, ArgKind usual) {
  if (arg.kind() != usual || usual == ArgKind::Const) out.append(keyword(arg.kind())).append(" ");
  print_value(out, arg);
}

Arg parse_arg(Lexer& in, ArgKind usual) {
  ArgKind kind = usual;
  if (const auto named = kind_named(in.token())) {
    kind = *named;
    in.next();
  }
  switch (kind) {
    case ArgKind::None: in.expected("the kind of the argument, as in 'int 3'");
    case ArgKind::Const: return parse_const_arg(in);
    case ArgKind::Int: return in.integer();
    case ArgKind::Ints: return parse_as<Ints>(in);
    case ArgKind::Text: return parse_as<std::string>(in);
    case ArgKind::Texts: return parse_as<Texts>(in);
    case ArgKind::Variable: return parse_fields<VariableArg>(in);
    case ArgKind::Range: return parse_fields<RangeArg>(in);
    case ArgKind::Reduce: return parse_fields<ReduceArg>(in);
    case ArgKind::Stage: return parse_fields<StageArg>(in);
    case ArgKind::Kernel: return parse_fields<KernelArg>(in);
    case ArgKind::Function: return parse_fields<FunctionArg>(in);
    case ArgKind::Hints: return parse_fields<Hints>(in);
  }
  in.expected("an argument");
}

void print_tag(std::string& out, const Arg& tag) {
  if (tag.none()) return;
  out += '@';
  if (tag.kind() == ArgKind::Text) {
    const std::string& text = tag.text();
    // A word may stand without quotes, unless it would be read as something else.
    const bool space = text == "GLOBAL" || text == "LOCAL" || text == "REG";
    const bool kind = kind_named({Token::Kind::Word, text, 0}).has_value();
    out += notation::is_word(text) && !space && !kind ? text : in_quotes(text);
  } else {
    const bool plain =
        tag.kind() == ArgKind::Int || tag.kind() == ArgKind::Ints || tag.kind() == ArgKind::Hints;
    print_arg(out, tag, plain ? tag.kind() : ArgKind::None);
  }
}

Arg parse_tag(Lexer& in) {
  const Token& token = in.token();
  if (token.kind == Token::Kind::Word && !kind_named(token)) return std::string(in.next().text);
  if (token.kind == Token::Kind::Text) return in.string();
  if (token.kind == Token::Kind::Number || token.is("-")) return in.integer();
  if (token.is("[")) return parse_as<Ints>(in);
  if (token.is("{")) return parse_fields<Hints>(in);
  if (token.kind != Token::Kind::Word) in.expected("a tag");
  return parse_arg(in, ArgKind::None);
}

}  // namespace quern
