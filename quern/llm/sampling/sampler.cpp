#include "quern/llm/sampling/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "quern/base/error.h"

namespace quern::llm {
namespace {

struct Candidate {
  Token token;
  double logit;
  double probability = 0;
};

// A number from 0 to 1, 1 excluded, for each seed and place.
double uniform_number(uint64_t seed, uint64_t place) {
  uint64_t x = seed ^ (place + 1) * 0x9E3779B97F4A7C15ULL;
  for (int i = 0; i < 2; i++) {  // SplitMix64, twice, so that near seeds have nothing in common
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
    x ^= x >> 31;
  }
  return static_cast<double>(x >> 11) * 0x1p-53;
}

bool comes_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

void set_probabilities(std::vector<Candidate>& candidates) {
  double greatest = -std::numeric_limits<double>::infinity();
  for (const Candidate& c : candidates) greatest = std::max(greatest, c.logit);
  double sum = 0;
  for (Candidate& c : candidates) sum += c.probability = std::exp(c.logit - greatest);
  for (Candidate& c : candidates) c.probability /= sum;
}

// The first ones that together have this probability, and at least one.
void keep_probability(std::vector<Candidate>& candidates, double wanted) {
  double sum = 0;
  size_t count = 0;
  while (count < candidates.size() && sum < wanted) sum += candidates[count++].probability;
  candidates.resize(std::max<size_t>(1, count));
}

void keep_typical(std::vector<Candidate>& candidates, double wanted) {
  set_probabilities(candidates);
  double entropy = 0;
  for (const Candidate& c : candidates)
    if (c.probability > 0) entropy -= c.probability * std::log(c.probability);
  const auto distance = [&](const Candidate& c) { return std::fabs(-std::log(c.probability) - entropy); };
  std::ranges::stable_sort(candidates,
                           [&](const Candidate& a, const Candidate& b) { return distance(a) < distance(b); });
  keep_probability(candidates, wanted);
  std::ranges::sort(candidates, comes_before);
}

void apply_penalties(std::vector<Candidate>& candidates, std::span<const Token> before,
                     const SamplingOptions& o) {
  if (o.repetition_penalty == 1 && o.frequency_penalty == 0 && o.presence_penalty == 0) return;
  if (o.penalty_window >= 0 && std::ssize(before) > o.penalty_window)
    before = before.last(static_cast<size_t>(o.penalty_window));
  std::unordered_map<Token, int64_t> counts;
  for (const Token token : before) counts[token]++;
  for (const auto& [token, count] : counts) {
    if (token < 0 || static_cast<size_t>(token) >= candidates.size()) continue;
    double& logit = candidates[static_cast<size_t>(token)].logit;
    logit = logit > 0 ? logit / o.repetition_penalty : logit * o.repetition_penalty;
    logit -= static_cast<double>(count) * o.frequency_penalty + o.presence_penalty;
  }
}

}  // namespace

void check(const SamplingOptions& o) {
  const auto within = [](const char* name, double value, double least, double most) {
    if (!(value >= least && value <= most))
      throw ValueError(fmt::format("{} is {}, expected {} to {}", name, value, least, most));
  };
  within("temperature", o.temperature, 0, 100);
  within("top_p", o.top_p, 0, 1);
  within("min_p", o.min_p, 0, 1);
  within("typical_p", o.typical_p, 0, 1);
  within("repetition_penalty", o.repetition_penalty, 1e-3, 1e3);
  within("frequency_penalty", o.frequency_penalty, -100, 100);
  within("presence_penalty", o.presence_penalty, -100, 100);
  if (o.top_k < 0) throw ValueError(fmt::format("top_k is {}, expected 0 or more", o.top_k));
  if (o.penalty_window < -1)
    throw ValueError(fmt::format("penalty_window is {}, expected -1 or more", o.penalty_window));
  if (o.log_probabilities < 0)
    throw ValueError(fmt::format("log_probabilities is {}, expected 0 or more", o.log_probabilities));
  for (const auto& [token, bias] : o.logit_bias)
    if (std::isnan(bias)) throw ValueError(fmt::format("the bias of token {} is not a number", token));
}

Sampled sample(std::span<const float> logits, std::span<const Token> before, const SamplingOptions& o) {
  check(o);
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  double greatest = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < logits.size(); i++) {
    if (std::isnan(logits[i])) throw Error(fmt::format("the logit of token {} is not a number", i));
    candidates.push_back({static_cast<Token>(i), logits[i]});
    greatest = std::max(greatest, candidates.back().logit);
  }
  if (std::isinf(greatest)) throw Error("no logit is finite");
  double sum = 0;
  for (const Candidate& c : candidates) sum += std::exp(c.logit - greatest);
  const double log_sum = greatest + std::log(sum);

  Sampled result;
  if (o.log_probabilities > 0) {
    std::vector<Candidate> likeliest = candidates;
    const auto count = std::min(static_cast<std::ptrdiff_t>(o.log_probabilities), std::ssize(likeliest));
    std::ranges::partial_sort(likeliest, likeliest.begin() + count, comes_before);
    for (const Candidate& c : std::span(likeliest).first(static_cast<size_t>(count)))
      result.likeliest.push_back({c.token, c.logit - log_sum});
  }

  for (const auto& [token, bias] : o.logit_bias) {
    if (token < 0 || static_cast<size_t>(token) >= candidates.size())
      throw ValueError(fmt::format("logit_bias: token {}, and there are {}", token, candidates.size()));
    candidates[static_cast<size_t>(token)].logit += bias;
  }
  apply_penalties(candidates, before, o);
  std::erase_if(candidates, [](const Candidate& c) { return std::isinf(c.logit) && c.logit < 0; });
  if (candidates.empty()) throw ValueError("logit_bias leaves no token");
  const auto chosen = [&](const Candidate& c) {
    result.token = c.token;
    result.log_probability = static_cast<double>(logits[static_cast<size_t>(c.token)]) - log_sum;
    return result;
  };
  if (o.temperature == 0) return chosen(*std::ranges::min_element(candidates, comes_before));
  if (o.top_k > 0 && o.top_k < std::ssize(candidates)) {
    std::ranges::nth_element(candidates, candidates.begin() + o.top_k, comes_before);
    candidates.resize(static_cast<size_t>(o.top_k));
  }
  std::ranges::sort(candidates, comes_before);
  if (o.typical_p < 1) keep_typical(candidates, o.typical_p);
  set_probabilities(candidates);
  if (o.top_p < 1) keep_probability(candidates, o.top_p);
  if (o.min_p > 0)
    std::erase_if(candidates, [least = candidates.front().probability * o.min_p](const Candidate& c) {
      return c.probability < least;
    });
  for (Candidate& c : candidates) c.logit /= o.temperature;
  set_probabilities(candidates);
  double left = uniform_number(o.seed, before.size());
  for (const Candidate& c : candidates)
    if ((left -= c.probability) < 0) return chosen(c);
  return chosen(candidates.back());
}

}  // namespace quern::llm
