#include "quern/llm/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quern/base/error.h"
#include "quern/llm/sampling/answer.h"
#include "test/error_of.h"

namespace quern::llm {
namespace {

using testing::HasSubstr;

// No option that changes the distribution.
SamplingOptions plain() { return {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0}; }

// How often each token comes in many places.
std::vector<int> counts(const std::vector<float>& logits, const SamplingOptions& options, int times = 4000) {
  std::vector<int> found(logits.size());
  std::vector<Token> before;
  SamplingOptions o = options;
  for (int i = 0; i < times; i++) {
    o.seed = static_cast<uint64_t>(i);
    found[static_cast<size_t>(sample(logits, before, o).token)]++;
  }
  return found;
}

const std::vector<float> kLogits = {std::log(0.5F), std::log(0.25F), std::log(0.15F), std::log(0.1F)};

TEST(Sampler, TheDistributionIsThatOfTheLogits) {
  const std::vector<int> found = counts(kLogits, plain());
  // Within five standard deviations of a binomial distribution.
  for (size_t i = 0; i < found.size(); i++) {
    const double p = std::exp(kLogits[i]);
    EXPECT_NEAR(found[i], 4000 * p, 5 * std::sqrt(4000 * p * (1 - p)));
  }
}

TEST(Sampler, TheSameSeedAndPlaceGiveTheSameToken) {
  SamplingOptions o = plain();
  o.seed = 7;
  std::set<Token> at_places;
  for (Token place = 0; place < 50; place++) {
    const std::vector<Token> before(static_cast<size_t>(place), 1);
    const Token token = sample(kLogits, before, o).token;
    EXPECT_EQ(sample(kLogits, before, o).token, token);
    at_places.insert(token);
  }
  EXPECT_EQ(at_places.size(), 4U);
}

TEST(Sampler, WhatTruncates) {
  const auto tokens = [](const SamplingOptions& o) {
    std::string seen;
    const std::vector<int> found = counts(kLogits, o, 1000);
    for (size_t i = 0; i < found.size(); i++)
      if (found[i] > 0) seen += std::to_string(i);
    return seen;
  };
  EXPECT_EQ(tokens(plain()), "0123");
  auto o = plain();
  o.top_k = 2;
  EXPECT_EQ(tokens(o), "01");
  o = plain(), o.top_p = 0.7;
  EXPECT_EQ(tokens(o), "01");
  o = plain(), o.top_p = 0;
  EXPECT_EQ(tokens(o), "0");
  o = plain(), o.min_p = 0.25;  // of 0.5
  EXPECT_EQ(tokens(o), "012");
  // The entropy is 1.21 nats; the surprises are 0.69, 1.39, 1.90, 2.30: the second is nearest, then the
  // first.
  o = plain(), o.typical_p = 0.2;
  EXPECT_EQ(tokens(o), "1");
  o.typical_p = 0.6;
  EXPECT_EQ(tokens(o), "01");
  o = plain(), o.temperature = 0;
  EXPECT_EQ(tokens(o), "0");
}

TEST(Sampler, TemperatureChangesProportions) {
  SamplingOptions o = plain();
  o.temperature = 0.5;  // probabilities are squared
  const std::vector<int> found = counts(kLogits, o);
  const double sum = 0.25 + 0.0625 + 0.0225 + 0.01;
  EXPECT_NEAR(found[0], 4000 * 0.25 / sum, 150);
}

TEST(Sampler, PenaltiesAndBias) {
  SamplingOptions o;
  o.temperature = 0;
  const std::vector<float> logits = {2, 1.5, -1};
  const std::vector<Token> before = {0, 0, 2};
  EXPECT_EQ(sample(logits, before, o).token, 0);
  o.repetition_penalty = 1.5;
  EXPECT_EQ(sample(logits, before, o).token, 1);
  o.repetition_penalty = 1, o.frequency_penalty = 0.3;  // twice
  EXPECT_EQ(sample(logits, before, o).token, 1);
  o.frequency_penalty = 0.2;
  EXPECT_EQ(sample(logits, before, o).token, 0);
  o.frequency_penalty = 0, o.presence_penalty = 0.6;
  EXPECT_EQ(sample(logits, before, o).token, 1);
  o.penalty_window = 1;  // only token 2
  EXPECT_EQ(sample(logits, before, o).token, 0);
  o.presence_penalty = 0, o.logit_bias = {{2, 10}};
  EXPECT_EQ(sample(logits, before, o).token, 2);
  o.logit_bias = {{0, -INFINITY}};
  EXPECT_EQ(sample(logits, before, o).token, 1);
}

TEST(Sampler, LogProbabilitiesAreTheModels) {
  SamplingOptions o;
  o.temperature = 0, o.log_probabilities = 2, o.logit_bias = {{3, 100}};
  const Sampled s = sample(kLogits, {}, o);
  EXPECT_EQ(s.token, 3);
  EXPECT_NEAR(s.log_probability, std::log(0.1), 1e-6);
  ASSERT_EQ(s.likeliest.size(), 2U);
  EXPECT_EQ(s.likeliest[1].token, 1);
  EXPECT_NEAR(s.likeliest[1].log_probability, std::log(0.25), 1e-6);
}

TEST(Sampler, ErrorsNameTheOption) {
  const auto error = [](const SamplingOptions& o, const std::vector<float>& logits = kLogits) {
    return error_of([&] { (void)sample(logits, {}, o); });
  };
  EXPECT_THAT(error({.temperature = -1}), HasSubstr("temperature is -1"));
  EXPECT_THAT(error({.temperature = NAN}), HasSubstr("temperature"));
  EXPECT_THAT(error({.top_k = -1}), HasSubstr("top_k"));
  EXPECT_THAT(error({.top_p = 1.5}), HasSubstr("top_p"));
  EXPECT_THAT(error({.logit_bias = {{4, 1}}}), HasSubstr("token 4"));
  EXPECT_THAT(error({}, {1, NAN}), HasSubstr("token 1 is not a number"));
  EXPECT_THAT(error({}, {-INFINITY}), HasSubstr("no logit is finite"));
}

// Text given byte by byte, and what is shown of it.
std::string shown(const std::string& text, const std::vector<std::string>& stops) {
  AnswerText answer(stops);
  std::string all;
  for (const char c : text) {
    const std::string part = answer.add(std::string(1, c));
    EXPECT_EQ(valid_utf8(part), part);
    all += part;
    if (answer.is_stopped()) return all + "|";
  }
  return all + answer.finish();
}

TEST(AnswerText, StopsAreNeverShown) {
  EXPECT_EQ(shown("one two three", {"two"}), "one |");
  EXPECT_EQ(shown("one tw", {"two"}), "one tw");
  EXPECT_EQ(shown("aab aaab", {"aaab", "x"}), "aab |");
  EXPECT_EQ(shown("gr\u00fcn \u4e2d", {"\u4e2d"}), "gr\u00fcn |");
  EXPECT_EQ(shown("a\u00fc", {}), "a\u00fc");
  EXPECT_EQ(shown("a\xc3", {""}), "a\uFFFD");
}

}  // namespace
}  // namespace quern::llm
