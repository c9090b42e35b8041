#include "quern/llm/template/template.h"

#include <fmt/format.h>

#include "quern/llm/template/interpreter.h"

namespace quern::llm {
namespace {

template <class F>
auto with_its_name(const F& f) {
  try {
    return f();
  } catch (const TemplateError& e) {
    throw TemplateError(fmt::format("chat template: {}", e.what()));
  }
}

}  // namespace

ChatTemplate::ChatTemplate(const std::string& source)
    : tree_(with_its_name([&] { return std::make_shared<const SyntaxTree>(source); })) {}

std::string ChatTemplate::render(std::string_view variables, const TemplateLimits& limits) const {
  return with_its_name([&] {
    Interpreter interpreter(*tree_, limits);
    const Value given = parse_json(variables, interpreter.memory());
    if (!given.is(ValueKind::dict)) throw TemplateError("its variables are no object of JSON");
    return interpreter.run(given);
  });
}

}  // namespace quern::llm
