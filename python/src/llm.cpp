// Language models. Without PCRE2 there are none, and quern.llm says so when it is imported.
#include "python/src/bind.h"

#ifdef QUERN_HAVE_LLM
#include <nanobind/stl/map.h>

#include "quern/llm/model.h"
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

const char* reason_text(llm::StopReason reason) {
  switch (reason) {
    case llm::StopReason::end: return "end";
    case llm::StopReason::stop: return "stop";
    case llm::StopReason::length: return "length";
    case llm::StopReason::context: return "context";
    default: return "interrupted";
  }
}

// `show` gets the text as it comes; what it returns says whether to go on.
nb::dict generate(const llm::Model& self, const std::vector<Token>& prompt,
                  const llm::GenerateOptions& options, const nb::object& show) {
  const llm::Generated g = without_lock([&] {
    return self.generate(prompt, options, [&](const std::string& text) {
      const Locked lock;
      return run_python([&] {
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        return show.is_none() || nb::cast<bool>(show(text_object(text)));
      });
    });
  });
  nb::list tokens, log_probabilities, likeliest;
  for (const llm::Sampled& s : g.tokens) {
    tokens.append(s.token);
    log_probabilities.append(s.log_probability);
    nb::list of_token;
    for (const llm::TokenProbability& p : s.likeliest)
      of_token.append(nb::make_tuple(p.token, p.log_probability));
    likeliest.append(of_token);
  }
  nb::dict all;
  all["text"] = text_object(g.text);
  all["tokens"] = tokens;
  all["log_probabilities"] = log_probabilities;
  all["likeliest"] = likeliest;
  all["reason"] = reason_text(g.reason);
  all["prompt_tokens"] = g.prompt_tokens;
  all["reused_tokens"] = g.reused_tokens;
  all["prompt_seconds"] = g.prompt_seconds;
  all["decode_seconds"] = g.decode_seconds;
  return all;
}

using Floats = std::vector<float> (llm::Model::*)(const std::vector<Token>&) const;
template <Floats function>
auto floats_of() {
  return [](const llm::Model& self, const std::vector<Token>& tokens) {
    return without_lock([&] { return Tensor::from((self.*function)(tokens)); });
  };
}

void bind_model(nb::module_& m) {
  nb::class_<llm::Model>(m, "LanguageModel",
                         "A language model from a file. quern.llm.load gives what users need.")
      .def_static(
          "load",
          [](nb::handle path, int64_t context) {
            const std::string name = python::path(path);
            return without_lock([&] { return llm::Model::load(name, {.context = context}); });
          },
          "path"_a, "context"_a)
      .def(
          "generate",
          [](const llm::Model& self, const std::vector<Token>& prompt, int64_t max_tokens, double temperature,
             int64_t top_k, double top_p, double min_p, double typical_p, double repetition_penalty,
             double frequency_penalty, double presence_penalty, int64_t penalty_window,
             const std::map<Token, double>& logit_bias, uint64_t seed, int64_t logprobs,
             const std::vector<std::string>& stop, const std::vector<Token>& stop_tokens, bool ignore_end,
             const nb::object& show) {
            llm::GenerateOptions o{
                .max_tokens = max_tokens, .stop = stop, .stop_tokens = stop_tokens, .ignore_end = ignore_end};
            o.sampling = {.temperature = temperature,
                          .top_k = top_k,
                          .top_p = top_p,
                          .min_p = min_p,
                          .typical_p = typical_p,
                          .repetition_penalty = repetition_penalty,
                          .frequency_penalty = frequency_penalty,
                          .presence_penalty = presence_penalty,
                          .penalty_window = penalty_window,
                          .logit_bias = logit_bias,
                          .seed = seed,
                          .log_probabilities = logprobs};
            return generate(self, prompt, o, show);
          },
          "prompt"_a, "max_tokens"_a, "temperature"_a, "top_k"_a, "top_p"_a, "min_p"_a, "typical_p"_a,
          "repetition_penalty"_a, "frequency_penalty"_a, "presence_penalty"_a, "penalty_window"_a,
          "logit_bias"_a, "seed"_a, "logprobs"_a, "stop"_a, "stop_tokens"_a, "ignore_end"_a, "show"_a.none())
      .def(
          "chat_prompt",
          [](const llm::Model& self, const std::string& variables) {
            return without_lock([&] { return self.chat_prompt_json(variables); });
          },
          "variables"_a)
      .def("logits", floats_of<&llm::Model::logits>(), "tokens"_a)
      .def("log_probabilities", floats_of<&llm::Model::log_probabilities>(), "tokens"_a)
      .def("hidden", floats_of<&llm::Model::hidden>(), "tokens"_a)
      .def("forget", &llm::Model::forget)
      .def_prop_ro("tokenizer", &llm::Model::tokenizer)
      .def_prop_ro("context", &llm::Model::context)
      .def_prop_ro("has_chat_template", &llm::Model::has_chat_template)
      .def_prop_ro("architecture",
                   [](const llm::Model& self) { return std::string(self.sizes().architecture->name); })
      .def_prop_ro("width", [](const llm::Model& self) { return self.sizes().width; })
      .def_prop_ro("kernels_of_a_step", &llm::Model::kernels_of_a_step);
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
  bind_model(m);
}

#else

void bind_llm(nb::module_&) {}

#endif

}  // namespace quern::python
