#include "quern/llm/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>

#include "quern/base/error.h"
#include "quern/llm/sampling/answer.h"

namespace quern::llm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kUsualContext = 4096;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

}  // namespace

struct Model::State {
  std::string path;
  Tokenizer tokenizer;
  Transformer transformer;
  std::optional<std::string> template_source;
  std::optional<ChatTemplate> chat_template;  // made when it is first used: a model may be used without it
  std::vector<Token> computed;                // the tokens whose keys and values are in the cache
  std::mutex mutex;

  State(const std::string& file_path, const io::Gguf& file, const Metadata& metadata, int64_t context)
      : path(file_path),
        tokenizer(metadata),
        transformer(metadata, file.tensors, context),
        template_source(metadata.text("tokenizer.chat_template")) {}

  // The logits behind the tokens. What the cache has of them is not computed again, but for the last one.
  std::vector<float> logits_behind(const std::vector<Token>& tokens, int64_t* reused) {
    const auto common = std::ranges::mismatch(tokens, computed).in1 - tokens.begin();
    const auto begin = std::min<std::ptrdiff_t>(common, std::ssize(tokens) - 1);
    computed.resize(static_cast<size_t>(std::max<std::ptrdiff_t>(begin, 0)));
    if (reused != nullptr) *reused = begin;
    std::vector<float> logits =
        transformer.run(std::span(tokens).subspan(computed.size()), std::ssize(computed));
    computed = tokens;
    return logits;
  }
};

Model Model::load(const std::string& path, const LoadOptions& options) {
  const io::Gguf file = io::gguf_load(path);
  try {
    const Metadata metadata(file.metadata);
    const int64_t trained = model_sizes(metadata).context;
    if (options.context < 0) throw ValueError(fmt::format("a context of {} tokens", options.context));
    const int64_t context = options.context > 0 ? options.context : std::min(trained, kUsualContext);
    return Model(std::make_shared<State>(path, file, metadata, context));
  } catch (const MemoryError& e) {
    throw MemoryError(fmt::format("{}: {}", path, e.what()));
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", path, e.what()));
  }
}

const Tokenizer& Model::tokenizer() const { return state_->tokenizer; }
const ModelSizes& Model::sizes() const { return state_->transformer.sizes(); }
int64_t Model::context() const { return state_->transformer.capacity(); }
int64_t Model::cache_bytes() const { return state_->transformer.cache_bytes(); }
int64_t Model::kernels_of_a_step() const { return state_->transformer.kernels_of_a_step(); }
const std::string& Model::path() const { return state_->path; }
bool Model::has_chat_template() const { return state_->template_source.has_value(); }

Generated Model::generate(const std::string& prompt, const GenerateOptions& options,
                          const std::function<bool(const std::string&)>& show) const {
  return generate(tokenizer().encode(prompt), options, show);
}

Generated Model::generate(const std::vector<Token>& prompt, const GenerateOptions& o,
                          const std::function<bool(const std::string&)>& show) const {
  check(o.sampling);
  if (prompt.empty()) throw ValueError("the prompt has no tokens");
  if (o.max_tokens < 0) throw ValueError(fmt::format("max_tokens is {}", o.max_tokens));
  if (std::ssize(prompt) > context())
    throw ValueError(
        fmt::format("the prompt has {} tokens, and the context is of {}", prompt.size(), context()));
  const std::scoped_lock lock(state_->mutex);
  Generated result;
  result.prompt_tokens = std::ssize(prompt);
  AnswerText text(o.stop);
  std::vector<Token> tokens = prompt;
  const auto show_text = [&](const std::string& part) {
    result.text += part;
    return part.empty() || !show || show(part);
  };
  auto begin = Clock::now();
  for (int64_t i = 0; i < o.max_tokens; i++) {
    if (std::ssize(tokens) > context()) {
      result.reason = StopReason::context;
      break;
    }
    const std::vector<float> logits = state_->logits_behind(tokens, i == 0 ? &result.reused_tokens : nullptr);
    Sampled next = sample(logits, tokens, o.sampling);
    (i == 0 ? result.prompt_seconds : result.decode_seconds) +=
        seconds_since(std::exchange(begin, Clock::now()));
    const Token token = next.token;
    if ((!o.ignore_end && tokenizer().is_end(token)) ||
        std::ranges::find(o.stop_tokens, token) != o.stop_tokens.end()) {
      result.reason = StopReason::end;
      break;
    }
    tokens.push_back(token);
    result.tokens.push_back(std::move(next));
    const bool go_on = show_text(text.add(tokenizer().bytes(token)));
    if (text.is_stopped() || !go_on) {
      result.reason = text.is_stopped() ? StopReason::stop : StopReason::interrupted;
      break;
    }
  }
  show_text(text.finish());
  return result;
}

std::vector<Token> Model::chat_prompt(const std::vector<ChatMessage>& messages) const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ChatMessage& m : messages)
    list.push_back({{"role", valid_utf8(m.role)}, {"content", valid_utf8(m.content)}});
  return chat_prompt_json(nlohmann::ordered_json{{"messages", list}, {"add_generation_prompt", true}}.dump());
}

std::vector<Token> Model::chat_prompt_json(const std::string& variables) const {
  if (!state_->template_source) throw Error(fmt::format("{}: it has no chat template", path()));
  nlohmann::ordered_json given;
  try {
    given = nlohmann::ordered_json::parse(variables);
  } catch (const nlohmann::json::exception& e) {
    throw ValueError(fmt::format("the variables of a chat template are not JSON: {}", e.what()));
  }
  if (!given.is_object()) throw ValueError("the variables of a chat template are no object of JSON");
  const Vocabulary& v = tokenizer().vocabulary();
  for (const auto& [name, token] : {std::pair("bos_token", v.bos), std::pair("eos_token", v.eos)})
    if (!given.contains(name)) given[name] = std::string(tokenizer().text(token));
  std::string text;
  {
    const std::scoped_lock lock(state_->mutex);
    if (!state_->chat_template) state_->chat_template.emplace(*state_->template_source);
  }
  text = state_->chat_template->render(given.dump());
  std::vector<Token> tokens = tokenizer().encode(text, {.add_special = true, .parse_special = true});
  // Templates often write the first token themselves.
  if (tokens.size() > 1 && v.add_bos && tokens[0] == v.bos && tokens[1] == v.bos)
    tokens.erase(tokens.begin());
  return tokens;
}

std::vector<float> Model::logits(const std::vector<Token>& tokens) const {
  const std::scoped_lock lock(state_->mutex);
  return state_->logits_behind(tokens, nullptr);
}

std::vector<float> Model::log_probabilities(const std::vector<Token>& tokens) const {
  const std::scoped_lock lock(state_->mutex);
  state_->computed.clear();
  return state_->transformer.log_probabilities(tokens, 0);
}

std::vector<float> Model::hidden(const std::vector<Token>& tokens) const {
  const std::scoped_lock lock(state_->mutex);
  state_->computed.clear();
  return state_->transformer.hidden(tokens, 0);
}

void Model::forget() const {
  const std::scoped_lock lock(state_->mutex);
  state_->computed.clear();
}

}  // namespace quern::llm
