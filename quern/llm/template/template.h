// Chat templates: the part of Jinja that templates of models use. Nothing of a template is run but by this
// interpreter, and it stops a template that takes too much time or memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "quern/llm/template/value.h"

namespace quern::llm {

struct SyntaxTree;

// A handle; threads may use it at the same time.
class ChatTemplate {
 public:
  explicit ChatTemplate(
      const std::string& source);  // a TemplateError names what is not understood, with its line

  // `variables`: an object of JSON, such as {"messages": [{"role": "user", "content": "Hello"}],
  // "add_generation_prompt": true}. A TemplateError has the line, also of what the template itself refuses.
  std::string render(std::string_view variables, const TemplateLimits& limits = {}) const;

 private:
  std::shared_ptr<const SyntaxTree> tree_;
};

}  // namespace quern::llm
