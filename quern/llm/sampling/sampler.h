// Picks a token by its logits. The same options, logits and number of tokens before give the same token, on
// any machine.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "quern/llm/tokenizer/vocabulary.h"

namespace quern::llm {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the token of the greatest logit
  int64_t top_k = 40;        // the tokens of the greatest logits; 0: all
  double top_p = 0.95;       // the fewest that together have this probability
  double min_p = 0.05;       // those that have this part of the greatest probability
  double typical_p = 1;      // the fewest with this probability whose surprise is nearest to the expected one
  double repetition_penalty =
      1;  // logits of tokens that occurred are divided by it, or multiplied if negative
  double frequency_penalty = 0;             // taken from a token's logit for each time that it occurred
  double presence_penalty = 0;              // taken from it if it occurred
  int64_t penalty_window = 64;              // the last tokens that count for penalties; -1: all
  std::map<Token, double> logit_bias = {};  // added to logits
  uint64_t seed = 0;
  int64_t log_probabilities = 0;  // of how many of the likeliest tokens they are wanted
};

void check(const SamplingOptions& options);  // a ValueError for what they cannot be

struct TokenProbability {
  Token token;
  double log_probability;  // natural, of the model's own distribution
};

struct Sampled {
  Token token = kNoToken;
  double log_probability = 0;
  std::vector<TokenProbability> likeliest = {};
};

// In this order: bias, penalties, top_k, typical_p, top_p, min_p, temperature. `before`: the tokens so far,
// whose number is the place in the sequence of random numbers.
Sampled sample(std::span<const float> logits, std::span<const Token> before, const SamplingOptions& options);

}  // namespace quern::llm
