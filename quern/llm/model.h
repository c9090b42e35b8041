// A language model from a file: text in, text out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quern/llm/model/transformer.h"
#include "quern/llm/sampling/sampler.h"
#include "quern/llm/template/template.h"
#include "quern/llm/tokenizer/tokenizer.h"

namespace quern::llm {

struct LoadOptions {
  int64_t context =
      0;  // most tokens of a conversation; 0: as many as the model was trained for, 4096 at most
};

struct GenerateOptions {
  int64_t max_tokens = 256;
  SamplingOptions sampling = {};
  std::vector<std::string> stop = {};   // texts that end an answer, and are no part of it
  std::vector<Token> stop_tokens = {};  // besides those that end one in this model
  bool ignore_end = false;              // go on behind tokens that end an answer
};

enum class StopReason : uint8_t { end, stop, length, context, interrupted };

struct Generated {
  std::string text;
  std::vector<Sampled> tokens;
  StopReason reason = StopReason::length;
  int64_t prompt_tokens = 0, reused_tokens = 0;   // of the prompt, and how many of them were computed before
  double prompt_seconds = 0, decode_seconds = 0;  // to the first token; for the others
};

struct ChatMessage {
  std::string role, content;
};

// One conversation at a time; a handle, whose copies share it.
class Model {
 public:
  // A file of GGUF, mapped. An Error says what is missing or wrong in it.
  static Model load(const std::string& path, const LoadOptions& options = {});

  const Tokenizer& tokenizer() const;
  const ModelSizes& sizes() const;
  int64_t context() const;
  int64_t cache_bytes() const;
  int64_t kernels_of_a_step() const;  // 0 until a token was decoded three times
  const std::string& path() const;

  // `show` gets the text as it comes, and says whether to go on. What the last prompt and answer have in
  // common with this prompt is not computed again.
  Generated generate(const std::vector<Token>& prompt, const GenerateOptions& options,
                     const std::function<bool(const std::string&)>& show = {}) const;
  Generated generate(const std::string& prompt, const GenerateOptions& options,
                     const std::function<bool(const std::string&)>& show = {}) const;

  // The prompt for a conversation, by the template of the file. An Error if it has none.
  std::vector<Token> chat_prompt(const std::vector<ChatMessage>& messages) const;
  std::vector<Token> chat_prompt_json(
      const std::string& variables) const;  // as ChatTemplate::render has them
  bool has_chat_template() const;

  std::vector<float> logits(const std::vector<Token>& tokens) const;             // of what follows
  std::vector<float> log_probabilities(const std::vector<Token>& tokens) const;  // of each but the first
  std::vector<float> hidden(const std::vector<Token>& tokens) const;  // tokens x width, behind the last norm
  void forget() const;                                                // what was computed before

 private:
  struct State;
  explicit Model(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace quern::llm
