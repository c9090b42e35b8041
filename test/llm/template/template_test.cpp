// Chat templates. What Jinja2 makes of the same templates is compared in python/tests/test_llm_templates.py.
#include "quern/llm/template/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/error_of.h"

namespace quern::llm {
namespace {

using testing::HasSubstr;

std::string rendered(const std::string& source, const std::string& variables = "{}",
                     const TemplateLimits& limits = {}) {
  return ChatTemplate(source).render(variables, limits);
}
std::string error(const std::string& source, const std::string& variables = "{}",
                  const TemplateLimits& limits = {}) {
  return error_of<TemplateError>([&] { (void)rendered(source, variables, limits); });
}

TEST(ChatTemplate, AConversation) {
  const std::string source =
      "{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
      "'<|im_start|>system\nBe kind<|im_end|>\n' }}"
      "{% endif %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  EXPECT_EQ(
      rendered(source, R"({"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": true})"),
      "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, SpacesAroundBlocks) {
  EXPECT_EQ(rendered("a\n  {% if true %}\n b\n  {%- endif %}\nc\n"),
            "a\n b"
            "c");
  EXPECT_EQ(rendered("{{ 1 -}}  \n 2 {#- 3 #} 4"), "12 4");
}

TEST(ChatTemplate, ErrorsHaveTheLine) {
  EXPECT_THAT(error("a\n{% include 'b' %}"), HasSubstr("line 2: the block 'include' is not known"));
  EXPECT_THAT(error("\n\n{{ x|sha256 }}"), HasSubstr("line 3: the filter 'sha256' is not known"));
  EXPECT_THAT(error("{{ raise_exception('no system message') }}"), HasSubstr("line 1: no system message"));
  EXPECT_THAT(error("{{ 1 }}", "[1]"), HasSubstr("no object of JSON"));
  EXPECT_THAT(error("{{ 1 }}", "{"), HasSubstr("not JSON"));
  EXPECT_THAT(error("{{ 1 }}", "{\"a\": " + std::string(5000, '[') + std::string(5000, ']') + "}"),
              HasSubstr("deep"));
}

TEST(ChatTemplate, Limits) {
  EXPECT_THAT(error("{% for i in range(1000) %}{% endfor %}", "{}", {.steps = 100}),
              HasSubstr("more than 100 steps"));
  EXPECT_THAT(error("{{ 'a' * 1000 }}", "{}", {.bytes = 500}), HasSubstr("more than 500 bytes of values"));
  EXPECT_THAT(error("{{ 'a' * 1000 }}", "{}", {.output = 500}), HasSubstr("writes more than 500 bytes"));
  EXPECT_THAT(error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("nested more than"));
  EXPECT_THAT(error("{{ " + std::string(100000, '(') + std::string(100000, ')') + " }}"),
              HasSubstr("nested more than"));
  EXPECT_THAT(error("{{ 1" +
                    [] {
                      std::string sum;
                      for (int i = 0; i < 50000; i++) sum += "+1";
                      return sum;
                    }() +
                    " }}"),
              HasSubstr("nested more than"));
}

TEST(ChatTemplate, ThreadsAndCopiesShareATemplate) {
  const ChatTemplate one("{{ x }}");
  const ChatTemplate two = one;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(one.render(R"({"x": 1.5})") + two.render(R"({"x": [null, true]})"), "1.5[None, True]");
}

}  // namespace
}  // namespace quern::llm
