#include "quern/llm/template/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "quern/ir/node/const.h"

namespace quern::llm {
namespace {

using Kind = ExpressionKind;

constexpr int64_t kMostRange = 1 << 20;
constexpr std::array<std::string_view, 6> kBuiltins = {"range",           "namespace",    "dict",
                                                       "raise_exception", "strftime_now", "list"};

// The template itself says that what it was given is wrong.
[[noreturn]] void raise(const std::string& message) { throw TemplateError(message); }

int64_t integer_of(const Value& value, const char* what) {
  if (value.is(ValueKind::integer)) return value.integer;
  if (value.is(ValueKind::boolean)) return value.boolean ? 1 : 0;
  throw TemplateError(fmt::format("{} is a {}, expected an int", what, kind_name(value)));
}

Value integer_result(wide number) {
  if (number > INT64_MAX || number < INT64_MIN) throw TemplateError("an integer does not fit into 64 bits");
  return Value::of(static_cast<int64_t>(number));
}

int64_t floor_division(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0);
}

Value arithmetic(const std::string& sign, const Value& left, const Value& right) {
  const bool floats = left.is(ValueKind::floating) || right.is(ValueKind::floating);
  if (sign == "/" || floats) {
    const double a = number_of(left), b = number_of(right);
    if (sign == "+") return Value::of(a + b);
    if (sign == "-") return Value::of(a - b);
    if (sign == "*") return Value::of(a * b);
    if (sign == "**") return Value::of(std::pow(a, b));
    if (b == 0) throw TemplateError("a division by zero");
    if (sign == "/") return Value::of(a / b);
    const double quotient = std::floor(a / b);
    return Value::of(sign == "//" ? quotient : a - quotient * b);
  }
  const int64_t a = integer_of(left, "a number"), b = integer_of(right, "a number");
  if (sign == "+") return integer_result(wide{a} + b);
  if (sign == "-") return integer_result(wide{a} - b);
  if (sign == "*") return integer_result(wide{a} * b);
  if (sign == "**") {
    if (b < 0) return Value::of(std::pow(static_cast<double>(a), static_cast<double>(b)));
    wide power = 1;
    for (int64_t i = 0; i < b && power != 0 && !(a == 1 || (a == -1 && i > 1)); i++) {
      power *= a;
      (void)integer_result(power);
    }
    if (a == -1) power = b % 2 == 0 ? 1 : -1;
    return integer_result(power);
  }
  if (b == 0) throw TemplateError("a division by zero");
  if (b == -1) return sign == "//" ? integer_result(-wide{a}) : Value::of(int64_t{0});
  return Value::of(sign == "//" ? floor_division(a, b) : a - floor_division(a, b) * b);
}

}  // namespace

const Value* NamedValues::find(std::string_view name) const {
  for (const auto& [key, value] : entries)
    if (key == name) return &value;
  return nullptr;
}

const Value* CallArguments::get(size_t i, std::string_view name) const {
  return i < values.size() ? &values[i] : named.find(name);
}

Value* Scope::find(std::string_view name) {
  for (Scope* s = this; s != nullptr; s = s->around)
    for (auto& [key, value] : s->variables)
      if (key == name) return &value;
  return nullptr;
}

void Scope::set(std::string_view name, const Value& value) {
  for (auto& [key, old] : variables)
    if (key == name) {
      old = value;
      return;
    }
  variables.emplace_back(name, value);
}

// One level more, as long as it lives.
struct Interpreter::Deeper {
  explicit Deeper(Interpreter& i) : run(i) {
    if (++run.depth_ > run.limits_.depth) {
      run.depth_--;
      throw TemplateError(fmt::format("its calls are nested more than {} deep", run.limits_.depth));
    }
  }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  ~Deeper() { run.depth_--; }
  Interpreter& run;
};

void Interpreter::step(size_t count) {
  if ((steps_ += static_cast<int64_t>(count)) > limits_.steps)
    throw TemplateError(fmt::format("it takes more than {} steps", limits_.steps));
}

Scope& Interpreter::new_scope(Scope* around) {
  memory_.count_bytes(sizeof(Scope));
  return scopes_.emplace_back(Scope{around});
}

Value Interpreter::function(Function made) {
  memory_.count_bytes(sizeof(Function));
  Value v;
  v.kind = ValueKind::function;
  v.function = &functions_.emplace_back(std::move(made));
  return v;
}

std::string Interpreter::run(const Value& variables) {
  Scope& global = new_scope(nullptr);
  for (const auto& [name, value] : variables.dict->entries) global.set(*name.text, value);
  run_body(tree_.body, new_scope(&global));
  return output_;
}

void Interpreter::write(std::string_view text) {
  if ((written_ += static_cast<int64_t>(text.size())) > limits_.output)
    throw TemplateError(fmt::format("it writes more than {} bytes", limits_.output));
  *out_ += text;
}

// ---- Statements

Interpreter::Flow Interpreter::run_body(const std::vector<const Statement*>& body, Scope& scope) {
  const Deeper deeper(*this);
  for (const Statement* s : body) {
    step();
    try {
      if (const Flow flow = run_statement(*s, scope); flow != Flow::on) return flow;
    } catch (const TemplateError& e) {
      if (std::string_view(e.what()).starts_with("line ")) throw;
      throw TemplateError(fmt::format("line {}: {}", s->line, e.what()));
    }
  }
  return Flow::on;
}

std::string Interpreter::text_of_body(const std::vector<const Statement*>& body, Scope& scope) {
  std::string text;
  std::string* const before = std::exchange(out_, &text);
  try {
    run_body(body, scope);
  } catch (...) {
    out_ = before;
    throw;
  }
  out_ = before;
  return text;
}

Interpreter::Flow Interpreter::run_statement(const Statement& s, Scope& scope) {
  switch (s.kind) {
    case StatementKind::text: write(s.text); break;
    case StatementKind::output: write(text_of(evaluate(*s.value, scope))); break;
    case StatementKind::set: assign(*s.target, evaluate(*s.value, scope), scope); break;
    case StatementKind::set_block:
    case StatementKind::filter: {
      Scope& inner = new_scope(&scope);
      inner.set(kBlockText, memory_.text(text_of_body(s.bodies[0], inner)));
      const Value value = evaluate(*s.value, inner);
      if (s.kind == StatementKind::filter)
        write(text_of(value));
      else
        assign(*s.target, value, scope);
      break;
    }
    case StatementKind::conditional:
      for (size_t i = 0; i < s.bodies.size(); i++)
        if (i >= s.conditions.size() || is_true(evaluate(*s.conditions[i], scope)))
          return run_body(s.bodies[i], scope);
      break;
    case StatementKind::loop: run_loop(s, scope, evaluate(*s.value, scope), 1); break;
    case StatementKind::macro:
      scope.set(s.text, function({Function::Kind::macro, s.text, &s, &scope}));
      break;
    case StatementKind::call: {
      Scope& inner = new_scope(&scope);
      CallArguments arguments = arguments_of(*s.value, scope);
      const Value callee = evaluate(*s.value->parts[0], scope);
      if (!callee.is(ValueKind::function) || callee.function->kind != Function::Kind::macro)
        throw TemplateError("{% call %} needs a macro");
      arguments.named.entries.emplace_back("caller",
                                           function({Function::Kind::caller, "caller", &s, &inner}));
      write(text_of(call_macro(*callee.function, arguments)));
      break;
    }
    case StatementKind::leave: return Flow::leave;
    case StatementKind::next: return Flow::next;
  }
  return Flow::on;
}

void Interpreter::run_loop(const Statement& s, Scope& scope, const Value& over, int depth) {
  const Deeper deeper(*this);
  std::vector<Value> items = items_of(over);
  if (s.condition != nullptr) {
    std::vector<Value> chosen;
    for (const Value& value : items) {
      Scope& inner = new_scope(&scope);
      assign(*s.target, value, inner);
      if (is_true(evaluate(*s.condition, inner))) chosen.push_back(value);
    }
    items = std::move(chosen);
  }
  if (items.empty()) {
    if (s.bodies.size() > 1) run_body(s.bodies[1], new_scope(&scope));
    return;
  }
  memory_.count_bytes(sizeof(Loop));
  Loop& loop = loops_.emplace_back(Loop{&items, 0, depth, s.recursive ? &s : nullptr, &scope});
  Value variable;
  variable.kind = ValueKind::loop;
  variable.loop = &loop;
  for (; loop.index < items.size(); loop.index++) {
    step();
    Scope& inner = new_scope(&scope);
    inner.set("loop", variable);
    assign(*s.target, items[loop.index], inner);
    if (run_body(s.bodies[0], inner) == Flow::leave) break;
  }
  loop.items = nullptr;  // a loop that is over
}

void Interpreter::assign(const Expression& target, const Value& value, Scope& scope) {
  if (target.kind == Kind::name) {
    scope.set(target.text, value);
  } else if (target.kind == Kind::attribute) {
    const Value object = lookup(target.parts[0]->text, scope);
    if (!object.is(ValueKind::name_space))
      throw TemplateError(fmt::format("'{}' is a {}, only a namespace has attributes that are set",
                                      target.parts[0]->text, kind_name(object)));
    memory_.set(*object.dict, memory_.text(target.text), value);
  } else {
    const std::vector<Value> values = items_of(value);
    if (values.size() != target.parts.size())
      throw TemplateError(fmt::format("{} values for {} names", values.size(), target.parts.size()));
    for (size_t i = 0; i < values.size(); i++) assign(*target.parts[i], values[i], scope);
  }
}

// ---- Expressions

Value Interpreter::evaluate(const Expression& e, Scope& scope) {
  const Deeper deeper(*this);
  step();
  try {
    return evaluate_at(e, scope);
  } catch (const TemplateError& error) {
    if (std::string_view(error.what()).starts_with("line ")) throw;
    throw TemplateError(fmt::format("line {}: {}", e.line, error.what()));
  }
}

Value Interpreter::evaluate_at(const Expression& e, Scope& scope) {
  const auto part = [&](size_t i) { return evaluate(*e.parts[i], scope); };
  const auto parts = [&] {
    std::vector<Value> all;
    for (const Expression* p : e.parts) all.push_back(evaluate(*p, scope));
    return all;
  };
  switch (e.kind) {
    case Kind::constant: return e.constant;
    case Kind::name: return lookup(e.text, scope);
    case Kind::attribute: return attribute(part(0), e.text);
    case Kind::item: return item(part(0), part(1));
    case Kind::slice: {
      std::array<Value, 3> bounds;
      for (size_t i = 0; i < 3; i++)
        if (e.parts[i + 1] != nullptr) bounds[i] = part(i + 1);
      return slice(part(0), bounds[0], bounds[1], bounds[2]);
    }
    case Kind::call: return call(e, scope);
    case Kind::filter: return filtered(e.text, part(0), arguments_of(e, scope));
    case Kind::test: return Value::of(tested(e.text, part(0), arguments_of(e, scope)) != e.negated);
    case Kind::negate: {
      const Value v = part(0);
      if (v.is(ValueKind::floating)) return Value::of(-v.floating);
      return integer_result(-wide{integer_of(v, "what is negated")});
    }
    case Kind::plus: {
      const Value v = part(0);
      (void)number_of(v);
      return v;
    }
    case Kind::logical_not: return Value::of(!is_true(part(0)));
    case Kind::logical_and: {
      const Value left = part(0);
      return is_true(left) ? part(1) : left;
    }
    case Kind::logical_or: {
      const Value left = part(0);
      return is_true(left) ? left : part(1);
    }
    case Kind::binary: return binary(e.text, part(0), part(1));
    case Kind::comparison: {
      Value left = part(0);
      for (size_t i = 0; i < e.signs.size(); i++) {
        const Value right = part(i + 1);
        const std::string& sign = e.signs[i];
        const bool holds = sign == "=="       ? equal(left, right)
                           : sign == "!="     ? !equal(left, right)
                           : sign == "in"     ? contains(right, left)
                           : sign == "not in" ? !contains(right, left)
                           : sign == "<"      ? compare(left, right) < 0
                           : sign == "<="     ? compare(left, right) <= 0
                           : sign == ">"      ? compare(left, right) > 0
                                              : compare(left, right) >= 0;
        if (!holds) return Value::of(false);
        left = right;
      }
      return Value::of(true);
    }
    case Kind::conditional:
      if (is_true(part(0))) return part(1);
      return e.parts[2] != nullptr ? part(2) : memory_.undefined("the value of an if without an else");
    case Kind::list: return memory_.list(parts());
    case Kind::tuple: return memory_.list(parts(), ValueKind::tuple);
    case Kind::dict: {
      const Value made = memory_.dict();
      for (size_t i = 0; i < e.parts.size(); i += 2) {
        const Value key = part(i);
        memory_.set(*made.dict, key, part(i + 1));
      }
      return made;
    }
    case Kind::named_argument: break;
  }
  throw TemplateError("an argument with a name stands outside of a call");
}

Value Interpreter::lookup(std::string_view name, Scope& scope) {
  if (const Value* found = scope.find(name)) return *found;
  if (std::ranges::find(kBuiltins, name) != kBuiltins.end())
    return function({Function::Kind::builtin, std::string(name)});
  return memory_.undefined(name);
}

Value Interpreter::attribute(const Value& object, std::string_view name) {
  switch (object.kind) {
    case ValueKind::undefined: throw TemplateError(fmt::format("'{}' is not defined", *object.text));
    case ValueKind::name_space: {
      const Value* found = object.dict->find(name);
      return found != nullptr ? *found : memory_.undefined(name);
    }
    case ValueKind::dict:
      if (!has_method(object, name)) {
        const Value* found = object.dict->find(name);
        return found != nullptr ? *found : memory_.undefined(name);
      }
      break;
    case ValueKind::loop: {
      const Loop& l = *object.loop;
      if (l.items == nullptr) throw TemplateError("'loop' of a loop that is over");
      const auto index = static_cast<int64_t>(l.index), count = static_cast<int64_t>(l.items->size());
      if (name == "index") return Value::of(index + 1);
      if (name == "index0") return Value::of(index);
      if (name == "revindex") return Value::of(count - index);
      if (name == "revindex0") return Value::of(count - index - 1);
      if (name == "first") return Value::of(index == 0);
      if (name == "last") return Value::of(index + 1 == count);
      if (name == "length") return Value::of(count);
      if (name == "depth") return Value::of(int64_t{l.depth});
      if (name == "depth0") return Value::of(int64_t{l.depth} - 1);
      if (name == "previtem") return index > 0 ? (*l.items)[l.index - 1] : memory_.undefined("loop.previtem");
      if (name == "nextitem")
        return index + 1 < count ? (*l.items)[l.index + 1] : memory_.undefined("loop.nextitem");
      break;
    }
    default: break;
  }
  if (has_method(object, name))
    return function({Function::Kind::method, std::string(name), nullptr, nullptr, object});
  return memory_.undefined(name);
}

Value Interpreter::item(const Value& object, const Value& index) {
  if (object.is_undefined()) throw TemplateError(fmt::format("'{}' is not defined", *object.text));
  if (object.is(ValueKind::dict) || object.is(ValueKind::name_space)) {
    if (const Value* found = object.dict->find(index)) return *found;
    return index.is_text() && object.is(ValueKind::dict) ? attribute(object, *index.text)
                                                         : memory_.undefined(text_of(index));
  }
  if (index.is_text()) return attribute(object, *index.text);
  if (object.is_text() || object.is_list()) {
    if (!index.is(ValueKind::integer) && !index.is(ValueKind::boolean))
      return memory_.undefined(text_of(index));
    int64_t at = integer_of(index, "an index");
    if (object.is_list()) {
      const auto count = static_cast<int64_t>(object.list->items.size());
      if (at < 0) at += count;
      return at >= 0 && at < count ? object.list->items[static_cast<size_t>(at)]
                                   : memory_.undefined(text_of(index));
    }
    const auto letters = characters_of(*object.text);
    step(letters.size() / 16);
    const auto count = static_cast<int64_t>(letters.size());
    if (at < 0) at += count;
    return at >= 0 && at < count ? memory_.text(std::string(letters[static_cast<size_t>(at)]))
                                 : memory_.undefined(text_of(index));
  }
  return memory_.undefined(text_of(index));
}

Value Interpreter::slice(const Value& value, const Value& begin, const Value& end, const Value& step_value) {
  if (!value.is_text() && !value.is_list())
    throw TemplateError(fmt::format("a {} has no slices", kind_name(value)));
  std::vector<std::string_view> letters;
  if (value.is_text()) letters = characters_of(*value.text);
  const auto count = static_cast<int64_t>(value.is_text() ? letters.size() : value.list->items.size());
  step(static_cast<size_t>(count) / 16);
  const int64_t stride = step_value.is(ValueKind::none) ? 1 : integer_of(step_value, "the step of a slice");
  if (stride == 0) throw TemplateError("the step of a slice is 0");
  const auto bound = [&](const Value& given, int64_t otherwise) {
    if (given.is(ValueKind::none)) return otherwise;
    int64_t at = integer_of(given, "a bound of a slice");
    if (at < 0) at = at < -count ? -1 : at + count;
    if (stride < 0) return std::clamp<int64_t>(at, -1, count - 1);
    return std::clamp<int64_t>(at, 0, count);
  };
  const int64_t first = bound(begin, stride > 0 ? 0 : count - 1), last = bound(end, stride > 0 ? count : -1);
  std::string text;
  std::vector<Value> items;
  for (int64_t i = first; stride > 0 ? i < last : i > last;) {
    if (value.is_text())
      text += letters[static_cast<size_t>(i)];
    else
      items.push_back(value.list->items[static_cast<size_t>(i)]);
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  return value.is_text() ? memory_.text(text) : memory_.list(items, value.kind);
}

bool Interpreter::contains(const Value& container, const Value& value) {
  switch (container.kind) {
    case ValueKind::text:
      if (!value.is_text()) throw TemplateError(fmt::format("a {} is not in a str", kind_name(value)));
      step(container.text->size() / 64);
      return container.text->find(*value.text) != std::string::npos;
    case ValueKind::dict: return container.dict->find(value) != nullptr;
    case ValueKind::list:
    case ValueKind::tuple:
      step(container.list->items.size());
      return std::ranges::any_of(container.list->items, [&](const Value& v) { return equal(v, value); });
    case ValueKind::undefined: return false;
    default: throw TemplateError(fmt::format("nothing is in a {}", kind_name(container)));
  }
}

std::vector<Value> Interpreter::items_of(const Value& value) {
  switch (value.kind) {
    case ValueKind::undefined: return {};
    case ValueKind::list:
    case ValueKind::tuple:
      memory_.count_bytes(value.list->items.size() * sizeof(Value));
      return value.list->items;
    case ValueKind::dict: {
      std::vector<Value> keys;
      for (const auto& [key, entry] : value.dict->entries) keys.push_back(key);
      memory_.count_bytes(keys.size() * sizeof(Value));
      return keys;
    }
    case ValueKind::text: {
      std::vector<Value> letters;
      for (const std::string_view letter : characters_of(*value.text))
        letters.push_back(memory_.text(std::string(letter)));
      return letters;
    }
    default: throw TemplateError(fmt::format("a {} has no items", kind_name(value)));
  }
}

Value Interpreter::binary(const std::string& sign, const Value& left, const Value& right) {
  if (sign == "~") return memory_.text(text_of(left) + text_of(right));
  for (const Value* v : {&left, &right})
    if (v->is_undefined()) throw TemplateError(fmt::format("'{}' is not defined", *v->text));
  if (left.is_number() && right.is_number()) return arithmetic(sign, left, right);
  if (sign == "+" && left.is_text() && right.is_text()) return memory_.text(*left.text + *right.text);
  if (sign == "+" && left.is_list() && left.kind == right.kind) {
    std::vector<Value> items = left.list->items;
    items.insert(items.end(), right.list->items.begin(), right.list->items.end());
    return memory_.list(std::move(items), left.kind);
  }
  const Value &many = left.is_number() ? right : left, &times = left.is_number() ? left : right;
  if (sign == "*" && times.is_number() && !times.is(ValueKind::floating) &&
      (many.is_text() || many.is_list())) {
    const auto count = static_cast<size_t>(std::max<int64_t>(0, integer_of(times, "a factor")));
    const size_t each = many.is_text() ? many.text->size() : many.list->items.size() * sizeof(Value);
    memory_.count_bytes(each == 0 ? 0 : count > SIZE_MAX / each ? SIZE_MAX : count * each);
    if (each == 0) return many;
    std::string text;
    std::vector<Value> items;
    for (size_t i = 0; i < count; i++) {
      if (many.is_text())
        text += *many.text;
      else
        items.insert(items.end(), many.list->items.begin(), many.list->items.end());
    }
    return many.is_text() ? memory_.text(text) : memory_.list(items, many.kind);
  }
  if (sign == "%" && left.is_text()) throw TemplateError("formatting with % is not understood");
  throw TemplateError(fmt::format("{} {} {} has no meaning", kind_name(left), sign, kind_name(right)));
}

// ---- Calls

CallArguments Interpreter::arguments_of(const Expression& e, Scope& scope) {
  CallArguments all;
  for (size_t i = 1; i < e.parts.size(); i++) {
    const Expression& p = *e.parts[i];
    if (p.kind == Kind::named_argument)
      all.named.entries.emplace_back(p.text, evaluate(*p.parts[0], scope));
    else
      all.values.push_back(evaluate(p, scope));
  }
  return all;
}

Value Interpreter::call(const Expression& e, Scope& scope) {
  const Expression& callee = *e.parts[0];
  if (callee.kind == Kind::attribute) {  // no function is made of a method that is called at once
    const Value object = evaluate(*callee.parts[0], scope);
    const bool own =
        (object.is(ValueKind::dict) && !has_method(object, callee.text)) || object.is(ValueKind::name_space);
    if (!own) {
      if (object.is_undefined()) throw TemplateError(fmt::format("'{}' is not defined", *object.text));
      return method(object, callee.text, arguments_of(e, scope));
    }
    const Value found = attribute(object, callee.text);
    if (!found.is(ValueKind::function))
      throw TemplateError(
          fmt::format("'{}' is no function, and no method of a {}", callee.text, kind_name(object)));
    return call_function(*found.function, arguments_of(e, scope));
  }
  const Value found = evaluate(callee, scope);
  if (found.is(ValueKind::loop)) {
    const CallArguments arguments = arguments_of(e, scope);
    const Loop& l = *found.loop;
    if (l.statement == nullptr || arguments.values.size() != 1)
      throw TemplateError("loop() is called in a loop that is not recursive");
    std::string text;
    std::string* const before = std::exchange(out_, &text);
    try {
      run_loop(*l.statement, *l.scope, arguments.values[0], l.depth + 1);
    } catch (...) {
      out_ = before;
      throw;
    }
    out_ = before;
    return memory_.text(text);
  }
  if (found.is_undefined()) throw TemplateError(fmt::format("the function '{}' is not known", *found.text));
  if (!found.is(ValueKind::function)) throw TemplateError(fmt::format("a {} is called", kind_name(found)));
  return call_function(*found.function, arguments_of(e, scope));
}

Value Interpreter::call_function(const Function& f, const CallArguments& arguments) {
  switch (f.kind) {
    case Function::Kind::builtin: return builtin(f.name, arguments);
    case Function::Kind::method: return method(f.self, f.name, arguments);
    default: return call_macro(f, arguments);
  }
}

Value Interpreter::call_macro(const Function& f, const CallArguments& arguments) {
  const Deeper deeper(*this);
  const Statement& s = *f.macro;
  const size_t count = s.parameters.size();
  Scope& scope = new_scope(f.scope);
  if (arguments.values.size() > count)
    throw TemplateError(
        fmt::format("'{}' takes {} arguments, given {}", f.name, count, arguments.values.size()));
  for (const auto& [name, value] : arguments.named.entries) {
    if (std::ranges::find(s.parameters, name) == s.parameters.end() && name != "caller")
      throw TemplateError(fmt::format("'{}' has no parameter '{}'", f.name, name));
    scope.set(name, value);
  }
  for (size_t i = 0; i < count; i++) {
    const std::string& name = s.parameters[i];
    if (i < arguments.values.size()) {
      if (arguments.named.find(name) != nullptr)
        throw TemplateError(fmt::format("'{}' is given '{}' twice", f.name, name));
      scope.set(name, arguments.values[i]);
    } else if (arguments.named.find(name) == nullptr) {
      const size_t without = count - s.defaults.size();
      scope.set(name, i >= without ? evaluate(*s.defaults[i - without], scope) : memory_.undefined(name));
    }
  }
  return memory_.text(text_of_body(s.bodies[0], scope));
}

Value Interpreter::builtin(const std::string& name, const CallArguments& a) {
  if (name == "namespace" || name == "dict") {
    const Value made = memory_.dict({}, name == "dict" ? ValueKind::dict : ValueKind::name_space);
    for (const Value& given : a.values) {
      if (!given.is(ValueKind::dict))
        throw TemplateError(fmt::format("{}() takes a dict, given a {}", name, kind_name(given)));
      for (const auto& [key, value] : given.dict->entries) memory_.set(*made.dict, key, value);
    }
    for (const auto& [key, value] : a.named.entries) memory_.set(*made.dict, memory_.text(key), value);
    return made;
  }
  if (name == "raise_exception")
    raise(a.values.empty() ? "the template refuses what it was given" : text_of(a.values[0]));
  if (name == "list") return memory_.list(a.values.empty() ? std::vector<Value>() : items_of(a.values[0]));
  if (name == "range") {
    if (a.values.empty() || a.values.size() > 3) throw TemplateError("range() takes one to three numbers");
    const auto number = [&](size_t i) { return integer_of(a.values[i], "a bound of range()"); };
    const int64_t begin = a.values.size() > 1 ? number(0) : 0, end = number(a.values.size() > 1 ? 1 : 0);
    const int64_t stride = a.values.size() > 2 ? number(2) : 1;
    if (stride == 0) throw TemplateError("the step of range() is 0");
    std::vector<Value> items;
    for (wide i = begin; stride > 0 ? i < end : i > end; i += stride) {
      if (std::ssize(items) >= kMostRange)
        throw TemplateError(fmt::format("range() of more than {} numbers", kMostRange));
      items.push_back(Value::of(static_cast<int64_t>(i)));
    }
    step(items.size());
    return memory_.list(std::move(items));
  }
  // strftime_now: the local time, in a form of strftime.
  if (a.values.size() != 1 || !a.values[0].is_text()) throw TemplateError("strftime_now() takes a text");
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  std::array<char, 1024> text = {};
  const size_t length = std::strftime(text.data(), text.size(), a.values[0].text->c_str(), &local);
  return memory_.text(std::string(text.data(), length));
}

Value Interpreter::method(const Value& object, const std::string& name, const CallArguments& arguments) {
  if (object.is(ValueKind::loop)) {
    Loop& l = *object.loop;
    if (name == "cycle" && !arguments.values.empty())
      return arguments.values[l.index % arguments.values.size()];
    if (name == "changed") {
      const Value now = memory_.list(arguments.values, ValueKind::tuple);
      const bool changed = !l.changed || !equal(*l.changed, now);
      l.changed = now;
      return Value::of(changed);
    }
  }
  if (auto result = call_method(*this, object, name, arguments)) return *result;
  throw TemplateError(fmt::format("the method '{}' of a {} is not known", name, kind_name(object)));
}

}  // namespace quern::llm
