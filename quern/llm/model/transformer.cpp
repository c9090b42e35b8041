#include "quern/llm/model/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <numbers>

#include "quern/base/error.h"
#include "quern/tensor/core/support.h"

namespace quern::llm {
namespace {

// How many tokens are computed at once: the least of these that is enough, what is missing being filled up.
constexpr std::array<int64_t, 3> kChunks = {1, 16, 128};
constexpr int64_t kSpare = kChunks.back();  // places behind the capacity, which fillings write

constexpr int64_t kFewRows = 16;

// Bytes of memory that there are, as the kernel estimates; none if it does not say.
std::optional<int64_t> available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;) {
    int64_t kibibytes = 0;
    if (word == "MemAvailable:" && info >> kibibytes) return kibibytes * 1024;
  }
  return {};
}

// x @ weight.T, in float32. Blocks of files are of 32 numbers (or of multiples) whose halves are packed
// together: for few rows the sum is written in loops over just these, so that kernels read a block without
// dividing indices.
Tensor times_weight(const Tensor& x, const Tensor& weight) {
  constexpr int64_t kHalf = 16, kBlock = 2 * kHalf;
  const Dim rows = x.size(0), out = weight.size(0);
  const int64_t size = weight.size(1).value();
  if (rows.max() > kFewRows) return x.contiguous().linear(weight.f32().T().contiguous());
  if (size % kBlock != 0) return x.linear(weight.f32().T());
  const Dim blocks(size / kBlock);
  const Tensor products =
      x.reshape({rows, 1, blocks, 2, kHalf}) * weight.f32().reshape({1, out, blocks, 2, kHalf});
  return products.sum({2, 3, 4});
}

Tensor capped(const Tensor& x, double cap) { return cap > 0 ? (x / cap).tanh() * cap : x; }

}  // namespace

Transformer::Transformer(const Metadata& metadata, StateDict weights, int64_t capacity)
    : sizes_(model_sizes(metadata)),
      given_(std::move(weights)),
      capacity_(capacity),
      embedding_(Tensor::zeros({1})),
      output_norm_(embedding_),
      output_(embedding_) {
  if (capacity < 1) throw ValueError(fmt::format("a context of {} tokens", capacity));
  const auto found = given_.find("token_embd.weight");
  if (found == given_.end()) throw Error("the file has no tensor 'token_embd.weight'");
  const Shape shape = found->second.shape();
  if (shape.size() != 2) throw Error("the tensor 'token_embd.weight' is no matrix");
  vocabulary_ = shape[0].value();
  const Dim width(sizes_.width);
  embedding_ = take("token_embd.weight", {Dim(vocabulary_), width});
  output_norm_ = take("output_norm.weight", {width});
  output_norm_bias_ = take_if_there("output_norm.bias", {width});
  output_ = take_if_there("output.weight", {Dim(vocabulary_), width}).value_or(embedding_);
  output_bias_ = take_if_there("output.bias", {Dim(vocabulary_)});
  check_memory();
  if (sizes_.architecture->rope == RopeKind::none) {
    places_ = take("position_embd.weight", {Dim(sizes_.context), width});
    if (capacity_ > sizes_.context)
      throw ValueError(fmt::format("a context of {} tokens, and the model has embeddings of {} places",
                                   capacity_, sizes_.context));
  } else {
    std::optional<Tensor> factors = take_if_there("rope_freqs.weight", {Dim(sizes_.rope_size / 2)});
    const bool is_long = sizes_.rope_scaling.original_context > 0 &&
                         static_cast<double>(capacity_) > sizes_.rope_scaling.original_context;
    for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"})
      if (auto given = take_if_there(name, {Dim(sizes_.rope_size / 2)}))
        if (is_long == (std::string_view(name) == "rope_factors_long.weight")) factors = given;
    rope_ = make_rope(sizes_.rope_base, factors, sizes_.rope_scaling);
    const bool is_other = sizes_.architecture->local_rope_base > 0;
    local_rope_ = is_other ? make_rope(sizes_.local_rope_base, {}, {}) : rope_;
  }
  for (int64_t i = 0; i < sizes_.layers; i++) read_layer(i);
  given_.clear();
}

// ---- Weights

std::optional<Tensor> Transformer::take_if_there(const std::string& name, const Shape& shape) {
  const auto found = given_.find(name);
  if (found == given_.end()) return {};
  if (shape_text(found->second.shape()) != shape_text(shape))
    throw Error(fmt::format("the tensor '{}' has shape {}, expected {}", name,
                            shape_text(found->second.shape()), shape_text(shape)));
  if (!found->second.dtype().is_float())
    throw Error(fmt::format("the tensor '{}' is of {}, expected floats", name, found->second.dtype().name()));
  return found->second;
}

Tensor Transformer::take(const std::string& name, const Shape& shape) {
  if (auto found = take_if_there(name, shape)) return *found;
  throw Error(fmt::format("the file has no tensor '{}'", name));
}

void Transformer::read_layer(int64_t number) {
  const ModelSizes& s = sizes_;
  const Dim width(s.width), queries(s.heads * s.key_size), keys(s.kv_heads * s.key_size),
      inner(s.feed_forward), head(s.key_size);
  Layer layer{
      .weights = {},
      .cache = Tensor::zeros({2, Dim(s.kv_heads), Dim(capacity_ + kSpare), head}, {.dtype = dtypes::float16})
                   .contiguous()
                   .realize(),
      .has_window = s.has_window(number)};
  const std::string prefix = fmt::format("blk.{}.", number);
  const auto add = [&](const std::string& name, const Shape& shape) {
    if (auto found = take_if_there(prefix + name, shape)) layer.weights.emplace(name, *found);
    return layer.weights.contains(name);
  };
  const auto need = [&](const std::string& name, const Shape& shape) {
    if (!add(name, shape)) throw Error(fmt::format("the file has no tensor '{}{}'", prefix, name));
  };
  const auto matrix = [&](const std::string& name, const Dim& out, const Dim& in) {
    need(name + ".weight", {out, in});
    add(name + ".bias", {out});
  };
  for (const char* name : {"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"}) {
    add(std::string(name) + ".weight", {width});
    add(std::string(name) + ".bias", {width});
  }
  for (const auto& [before, behind] :
       {std::pair("attn_norm", "post_attention_norm"), std::pair("ffn_norm", "post_ffw_norm")})
    if (!layer.weights.contains(std::string(before) + ".weight") &&
        !layer.weights.contains(std::string(behind) + ".weight"))
      throw Error(fmt::format("the file has no tensor '{}{}.weight'", prefix, before));
  if (given_.contains(prefix + "attn_qkv.weight")) {
    matrix("attn_qkv", queries + keys + keys, width);
  } else {
    matrix("attn_q", queries, width);
    matrix("attn_k", keys, width);
    matrix("attn_v", keys, width);
  }
  matrix("attn_output", width, queries);
  // Norms of heads: one weight for all of them, or for the numbers of all heads together.
  for (const auto& [name, all] :
       {std::pair("attn_q_norm.weight", queries), std::pair("attn_k_norm.weight", keys)})
    if (const auto found = given_.find(prefix + name); found != given_.end())
      need(name, {found->second.numel() == head ? head : all});
  if (s.architecture->gated && !given_.contains(prefix + "ffn_gate.weight")) {
    matrix("ffn_up", inner + inner, width);  // the gate is the first half of it
  } else {
    if (s.architecture->gated) matrix("ffn_gate", inner, width);
    matrix("ffn_up", inner, width);
  }
  matrix("ffn_down", width, inner);
  layers_.push_back(std::move(layer));
}

const Tensor* Transformer::find(const Layer& layer, const std::string& name) const {
  const auto found = layer.weights.find(name);
  return found == layer.weights.end() ? nullptr : &found->second;
}

// ---- Memory

int64_t Transformer::cache_bytes() const {
  return sizes_.layers * 2 * sizes_.kv_heads * (capacity_ + kSpare) * sizes_.key_size * 2;
}

void Transformer::check_memory() const {
  const wide bytes = wide{sizes_.layers} * 4 * sizes_.kv_heads * (capacity_ + kSpare) * sizes_.key_size +
                     wide{capacity_ + kSpare} * sizes_.rope_size * 8;
  const std::optional<int64_t> available = available_memory();
  if (available && bytes > *available)
    throw MemoryError(fmt::format(
        "a context of {} tokens takes {} MiB of memory, and {} MiB are available: ask for a smaller one",
        capacity_, static_cast<int64_t>(bytes >> 20), *available >> 20));
}

// ---- Places

// Angles grow with the place; how fast is another number for each pair of numbers of a head.
Transformer::Rope Transformer::make_rope(double base, const std::optional<Tensor>& factors,
                                         const RopeScaling& scaling) const {
  const int64_t half = sizes_.rope_size / 2, rows = capacity_ + kSpare;
  const std::vector<float> divisors =
      factors ? factors->f32().to_vector<float>() : std::vector<float>(static_cast<size_t>(half), 1.0F);
  std::vector<double> speeds;
  double size = scaling.attention_factor;
  for (int64_t i = 0; i < half; i++) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(sizes_.rope_size);
    double speed = std::pow(base, -exponent) / static_cast<double>(divisors[static_cast<size_t>(i)]);
    if (scaling.kind == RopeScaling::Kind::linear) speed /= scaling.factor;
    if (scaling.kind == RopeScaling::Kind::yarn) {
      // Pairs that turn often within the trained context keep their speed, those that turn seldom are slowed
      // down.
      const auto pair_that_turns = [&](double turns) {
        return static_cast<double>(sizes_.rope_size) *
               std::log(scaling.original_context / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
      };
      const double low = std::max(0.0, std::floor(pair_that_turns(scaling.fast)));
      const double high =
          std::min(static_cast<double>(sizes_.rope_size - 1), std::ceil(pair_that_turns(scaling.slow)));
      const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(0.001, high - low), 0.0, 1.0);
      const double kept = (1 - ramp) * scaling.extrapolation;
      speed = speed / scaling.factor * (1 - kept) + speed * kept;
    }
    speeds.push_back(speed);
  }
  if (scaling.kind == RopeScaling::Kind::yarn && scaling.extrapolation != 0)
    size *= 1 + 0.1 * std::log(scaling.factor);
  std::vector<float> cosine, sine;
  cosine.reserve(static_cast<size_t>(rows * half));
  sine.reserve(static_cast<size_t>(rows * half));
  for (int64_t place = 0; place < rows; place++)
    for (const double speed : speeds) {
      cosine.push_back(static_cast<float>(std::cos(static_cast<double>(place) * speed) * size));
      sine.push_back(static_cast<float>(std::sin(static_cast<double>(place) * speed) * size));
    }
  const Shape shape{Dim(rows), Dim(half)};
  return {Tensor::from(cosine, shape).realize(), Tensor::from(sine, shape).realize()};
}

// x: tokens x heads x size of a head.
Tensor Transformer::turned(const Tensor& x, const Rope& rope, const Dim& place) const {
  const Dim tokens = x.size(0), heads = x.size(1), half(sizes_.rope_size / 2), turned_size(sizes_.rope_size);
  const auto rows = [&](const Tensor& table) {
    return table.shrink({{{place, place + tokens}}, {}}).reshape({tokens, 1, half});
  };
  const Tensor cosine = rows(rope.cosine), sine = rows(rope.sine);
  const bool pairs = sizes_.architecture->rope == RopeKind::pairs;
  const Tensor used = sizes_.rope_size == sizes_.key_size ? x : x.shrink({{}, {}, {{Dim(0), turned_size}}});
  const Tensor split = used.reshape(pairs ? Shape{tokens, heads, half, 2} : Shape{tokens, heads, 2, half});
  const auto part = [&](int64_t i) {
    return pairs ? split.at({ellipsis, i}) : split.at({ellipsis, i, everything});
  };
  const Tensor a = part(0), b = part(1);
  const Tensor both = Tensor::stack({a * cosine - b * sine, a * sine + b * cosine}, pairs ? 3 : 2);
  const Tensor result = both.reshape({tokens, heads, turned_size});
  if (sizes_.rope_size == sizes_.key_size) return result;
  return Tensor::cat({result, x.shrink({{}, {}, {{turned_size, Dim(sizes_.key_size)}}})}, 2);
}

// ---- The graph. Numbers are float32 between the weights.

Tensor Transformer::norm(const Tensor& x, const Tensor& weight, const Tensor* bias) const {
  Tensor normed = x;
  if (sizes_.architecture->norm == NormKind::rms)
    normed = x * (x.square().mean(-1, true) + sizes_.norm_eps).rsqrt() * weight.f32();
  else
    normed = x.layernorm(-1, sizes_.norm_eps) * weight.f32();
  return bias != nullptr ? normed + bias->f32() : normed;
}

Tensor Transformer::norm_of(const Layer& layer, const Tensor& x, const std::string& name) const {
  const Tensor* weight = find(layer, name + ".weight");
  return weight != nullptr ? norm(x, *weight, find(layer, name + ".bias")) : x;
}

Tensor Transformer::product(const Layer& layer, const Tensor& x, const std::string& name) const {
  const Tensor y = times_weight(x, layer.weights.at(name + ".weight"));
  const Tensor* bias = find(layer, name + ".bias");
  return bias != nullptr ? y + bias->f32() : y;
}

Tensor Transformer::attention(const Layer& layer, const Tensor& x, const Dim& place) const {
  const ModelSizes& s = sizes_;
  const Dim tokens = x.size(0), heads(s.heads), kv_heads(s.kv_heads), size(s.key_size),
            group(s.heads / s.kv_heads);
  Tensor q = x, k = x, v = x;
  if (find(layer, "attn_qkv.weight") != nullptr) {
    const std::vector<Tensor> parts =
        product(layer, x, "attn_qkv")
            .split({s.heads * s.key_size, s.kv_heads * s.key_size, s.kv_heads * s.key_size}, 1);
    q = parts[0], k = parts[1], v = parts[2];
  } else {
    q = product(layer, x, "attn_q"), k = product(layer, x, "attn_k"), v = product(layer, x, "attn_v");
  }
  const bool is_long = tokens.value() > kFewRows;
  if (is_long) q = q.contiguous(), k = k.contiguous();  // so that what turns them is no part of the products
  const auto with_heads = [&](const Tensor& given, const Dim& count, const char* name) {
    const Tensor apart = given.reshape({tokens, count, size});
    const Tensor* weight = name != nullptr ? find(layer, name) : nullptr;
    if (weight == nullptr) return apart;
    if (weight->numel() == size) return norm(apart, *weight, nullptr);
    return norm(given, *weight, nullptr).reshape({tokens, count, size});
  };
  q = with_heads(q, heads, "attn_q_norm.weight");
  k = with_heads(k, kv_heads, "attn_k_norm.weight");
  v = with_heads(v, kv_heads, nullptr);
  if (s.architecture->rope != RopeKind::none) {
    const Rope& rope = layer.has_window ? *local_rope_ : *rope_;
    q = turned(q, rope, place);
    k = turned(k, rope, place);
  }
  const Dim end = place + tokens;
  layer.cache.set({everything, everything, Slice{place, end}, everything},
                  Tensor::stack({k, v}).permute({0, 2, 1, 3}).f16());
  const Tensor keys = layer.cache.at({0, everything, Slice{Dim(0), end}, everything});
  const Tensor values = layer.cache.at({1, everything, Slice{Dim(0), end}, everything});
  // The heads that share keys are rows of one product.
  const Tensor rows = q.reshape({tokens, kv_heads, group, size})
                          .permute({1, 2, 0, 3})
                          .reshape({kv_heads, group * tokens, size});
  Tensor scores = capped(rows.dot(keys.f32().transpose(-2, -1)) * s.attention_scale, s.attention_cap);
  const bool is_windowed = layer.has_window && s.window < capacity_;
  if (tokens.value() > 1 || is_windowed) {
    scores = scores.reshape({kv_heads, group, tokens, end});
    const Tensor at =
        detail::iota(tokens, dtypes::int32).reshape({tokens, 1}) + Tensor::from_dim(place, dtypes::int32);
    Tensor seen = detail::iota(end, dtypes::int32).reshape({1, end});
    seen = is_windowed ? seen.le(at) & seen.gt(at - s.window) : seen.le(at);
    scores =
        seen.where(scores, -std::numeric_limits<double>::infinity()).reshape({kv_heads, group * tokens, end});
  }
  // For many tokens each step is a kernel of its own, over memory in order.
  const Tensor shares = is_long ? scores.softmax(-1).contiguous() : scores.softmax(-1);
  Tensor mixed = shares.dot(is_long ? values.f32().contiguous() : values.f32());
  if (is_long) mixed = mixed.contiguous();
  const Tensor out =
      mixed.reshape({kv_heads, group, tokens, size}).permute({2, 0, 1, 3}).reshape({tokens, heads * size});
  return product(layer, out, "attn_output");
}

Tensor Transformer::feed_forward(const Layer& layer, const Tensor& x) const {
  const auto activated = [&](const Tensor& y) {
    return sizes_.architecture->activation == ActivationKind::silu ? y.silu() : y.gelu("tanh");
  };
  Tensor up = product(layer, x, "ffn_up");
  if (!sizes_.architecture->gated) return product(layer, activated(up), "ffn_down");
  if (find(layer, "ffn_gate.weight") != nullptr)
    return product(layer, activated(product(layer, x, "ffn_gate")) * up, "ffn_down");
  const std::vector<Tensor> halves = up.chunk(2, 1);
  return product(layer, activated(halves[0]) * halves[1], "ffn_down");
}

Tensor Transformer::forward(const Tensor& tokens, const Dim& place) const {
  Tensor x = embedding_.index_select(0, tokens).f32();
  if (sizes_.embedding_scale != 1) x = x * sizes_.embedding_scale;
  if (places_) x = x + places_->shrink({{{place, place + tokens.size(0)}}, {}}).f32();
  for (const Layer& layer : layers_) {
    const auto scaled = [&](const Tensor& y) {
      return sizes_.residual_scale == 1 ? y : y * sizes_.residual_scale;
    };
    x = x + scaled(norm_of(layer, attention(layer, norm_of(layer, x, "attn_norm"), place),
                           "post_attention_norm"));
    x = x + scaled(norm_of(layer, feed_forward(layer, norm_of(layer, x, "ffn_norm")), "post_ffw_norm"));
    x.realize();  // so that equal layers have equal graphs, which are scheduled once
  }
  return x;
}

Tensor Transformer::logits_of(const Tensor& x) const {
  Tensor logits =
      times_weight(norm(x, output_norm_, output_norm_bias_ ? &*output_norm_bias_ : nullptr), output_);
  if (output_bias_) logits = logits + output_bias_->f32();
  if (sizes_.logit_scale != 1) logits = logits * sizes_.logit_scale;
  return capped(logits, sizes_.logit_cap);
}

Tensor Transformer::computed(Result result, const Tensor& tokens, const Tensor& targets, const Dim& place,
                             const Dim& last) const {
  const Tensor x = forward(tokens, place);
  switch (result) {
    case Result::logits:
      return logits_of(tokens.size(0).value() == 1 ? x : x.shrink({{{last, last + 1}}, {}}));
    case Result::hidden: return norm(x, output_norm_, output_norm_bias_ ? &*output_norm_bias_ : nullptr);
    case Result::log_probabilities: break;
  }
  return logits_of(x)
      .log_softmax(-1)
      .gather(1, targets.reshape({tokens.size(0), 1}))
      .reshape({tokens.size(0)});
}

// ---- Steps

Transformer::Step& Transformer::step(Result result, int64_t tokens) {
  const auto found = steps_.find({result, tokens});
  if (found != steps_.end()) return found->second;
  std::function<Tensor(const Tensor&, const Tensor&, const Dim&, const Dim&)> function =
      [this, result](const Tensor& given, const Tensor& targets, const Dim& place, const Dim& last) {
        return computed(result, given, targets, place, last).realize();
      };
  return steps_
      .emplace(std::pair(result, tokens),
               Step{jit(std::move(function)), Variable("place", 0, capacity_ + kSpare - tokens),
                    Variable("last", 0, std::max<int64_t>(tokens - 1, 1))})
      .first->second;
}

int64_t Transformer::kernels_of_a_step() const {
  const auto found = steps_.find({Result::logits, 1});
  return found != steps_.end() && found->second.function.is_captured() ? found->second.function.kernels() : 0;
}

void Transformer::check_tokens(std::span<const int32_t> tokens, int64_t place) const {
  if (tokens.empty()) throw ValueError("there are no tokens to compute");
  for (const int32_t token : tokens)
    if (token < 0 || token >= vocabulary_)
      throw ValueError(fmt::format("token {}: the model has {}", token, vocabulary_));
  if (place < 0 || std::ssize(tokens) > capacity_ - place)
    throw ValueError(fmt::format("{} tokens from place {} on do not fit into a context of {}", tokens.size(),
                                 place, capacity_));
}

std::vector<float> Transformer::run_chunk(Result result, std::span<const int32_t> tokens,
                                          std::span<const int32_t> targets, int64_t place) {
  const int64_t count = std::ssize(tokens);
  const int64_t chunk = *std::ranges::find_if(kChunks, [&](int64_t size) { return size >= count; });
  const auto filled = [&](std::span<const int32_t> given) {
    std::vector<int32_t> all(given.begin(), given.end());
    all.resize(static_cast<size_t>(chunk), 0);
    return Tensor::from(all).realize();
  };
  const Step& s = step(result, chunk);
  return s.function(filled(tokens), filled(targets), s.place.bind(place), s.last.bind(count - 1))
      .template to_vector<float>();
}

std::vector<float> Transformer::run(std::span<const int32_t> tokens, int64_t place) {
  check_tokens(tokens, place);
  for (;;) {
    const auto now = tokens.first(std::min(tokens.size(), static_cast<size_t>(kChunks.back())));
    std::vector<float> logits = run_chunk(Result::logits, now, {}, place);
    place += std::ssize(now);
    tokens = tokens.subspan(now.size());
    if (tokens.empty()) return logits;
  }
}

std::vector<float> Transformer::log_probabilities(std::span<const int32_t> tokens, int64_t place) {
  check_tokens(tokens, place);
  std::vector<float> all;
  for (size_t at = 0; at + 1 < tokens.size();) {
    const size_t count = std::min(tokens.size() - 1 - at, static_cast<size_t>(kChunks.back()));
    const std::vector<float> values =
        run_chunk(Result::log_probabilities, tokens.subspan(at, count), tokens.subspan(at + 1, count),
                  place + static_cast<int64_t>(at));
    all.insert(all.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
    at += count;
  }
  return all;
}

std::vector<float> Transformer::hidden(std::span<const int32_t> tokens, int64_t place) {
  check_tokens(tokens, place);
  std::vector<float> all;
  for (size_t at = 0; at < tokens.size();) {
    const size_t count = std::min(tokens.size() - at, static_cast<size_t>(kChunks.back()));
    const std::vector<float> values =
        run_chunk(Result::hidden, tokens.subspan(at, count), {}, place + static_cast<int64_t>(at));
    all.insert(all.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count) * sizes_.width);
    at += count;
  }
  return all;
}

}  // namespace quern::llm
