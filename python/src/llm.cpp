// Language models. Without PCRE2 there are none, and quern.llm says so when it is imported.
#include "python/src/bind.h"

#ifdef QUERN_HAVE_LLM
#include "quern/llm/template/template.h"
#include "quern/llm/tokenizer/tokenizer.h"
#endif

namespace quern::python {

#ifdef QUERN_HAVE_LLM

namespace {

using namespace nb::literals;
using llm::Token;

void bind_tokenizer(nb::module_& m) {
  nb::class_<llm::Tokenizer>(m, "Tokenizer", "Text to tokens and back, as the file of a model says.")
      .def(
          "__init__",
          [](llm::Tokenizer* self, nb::handle path) {
            const std::string name = python::path(path);
            without_lock([&] {
              const io::Gguf file = io::gguf_load(name);
              new (self) llm::Tokenizer(llm::Metadata(file.metadata));
            });
          },
          "path"_a)
      .def(
          "encode",
          [](const llm::Tokenizer& self, const std::string& text, bool add_special, bool parse_special) {
            return without_lock([&] { return self.encode(text, {add_special, parse_special}); });
          },
          "text"_a, "add_special"_a = true, "parse_special"_a = false,
          "The tokens of a text. add_special: with those that begin and end one, if the model has them; "
          "parse_special: the texts of control tokens become these tokens.")
      .def(
          "decode",
          [](const llm::Tokenizer& self, const std::vector<Token>& tokens, bool special) {
            return text_object(self.decode(tokens, special));
          },
          "tokens"_a, "special"_a = false, "The text of tokens; special: with that of control tokens.")
      .def(
          "bytes",
          [](const llm::Tokenizer& self, Token token, bool special) {
            const std::string bytes = self.bytes(token, special);
            return nb::bytes(bytes.data(), bytes.size());
          },
          "token"_a, "special"_a = false, "What one token adds to a text: perhaps a part of a character.")
      .def("is_end", &llm::Tokenizer::is_end, "token"_a, "Whether the token ends an answer.")
      .def("__len__", &llm::Tokenizer::size)
      .def_prop_ro("bos", [](const llm::Tokenizer& self) { return self.vocabulary().bos; })
      .def_prop_ro("eos", [](const llm::Tokenizer& self) { return self.vocabulary().eos; });
}

void bind_template(nb::module_& m) {
  nb::class_<llm::ChatTemplate>(m, "ChatTemplate", "A chat template: the part of Jinja that models use.")
      .def(nb::init<const std::string&>(), "source"_a)
      .def(
          "render_json",
          [](const llm::ChatTemplate& self, const std::string& variables, int64_t steps, int64_t bytes) {
            llm::TemplateLimits limits;
            limits.steps = steps;
            limits.bytes = bytes;
            return text_object(without_lock([&] { return self.render(variables, limits); }));
          },
          "variables"_a, "steps"_a = llm::TemplateLimits().steps, "bytes"_a = llm::TemplateLimits().bytes,
          "The text for variables that are an object of JSON.");
}

}  // namespace

void bind_llm(nb::module_& m) {
  bind_tokenizer(m);
  bind_template(m);
}

#else

void bind_llm(nb::module_&) {}

#endif

}  // namespace quern::python
