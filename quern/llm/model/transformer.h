// A transformer over the weights of a file, with its cache of keys and values. Tokens go in, logits come out.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>

#include "quern/engine/jit/jit.h"
#include "quern/llm/model/architecture.h"
#include "quern/tensor/core/state_dict.h"

namespace quern::llm {

class Transformer {
 public:
  // `capacity`: places of the cache. An Error names a tensor that is missing or has another shape, a
  // MemoryError says how much memory the cache takes and how much there is.
  Transformer(const Metadata& metadata, StateDict weights, int64_t capacity);
  Transformer(const Transformer&) = delete;  // its steps refer to it
  Transformer& operator=(const Transformer&) = delete;
  ~Transformer() = default;

  const ModelSizes& sizes() const { return sizes_; }
  int64_t capacity() const { return capacity_; }
  int64_t vocabulary() const { return vocabulary_; }
  int64_t cache_bytes() const;

  // Computes tokens at the places from `place` on, and those before must have been computed. The logits of
  // what follows the last one.
  std::vector<float> run(std::span<const int32_t> tokens, int64_t place);
  // The same, and of each token but the first the natural logarithm of its probability.
  std::vector<float> log_probabilities(std::span<const int32_t> tokens, int64_t place);
  // What the last layer makes of each token, normed: tokens x width.
  std::vector<float> hidden(std::span<const int32_t> tokens, int64_t place);

  int64_t kernels_of_a_step() const;  // 0 before the third one

 private:
  enum class Result : uint8_t { logits, log_probabilities, hidden };
  struct Layer {
    std::map<std::string, Tensor> weights;  // by the part of their name behind the number
    Tensor cache;                           // 2 (keys, values) x kv_heads x capacity x size of a head
    bool has_window = false;
  };
  struct Rope {
    Tensor cosine, sine;  // capacity x half of the numbers that are turned
  };
  struct Step {  // for so many tokens at once
    Jit<std::function<Tensor(const Tensor&, const Tensor&, const Dim&, const Dim&)>> function;
    Variable place, last;
  };

  const Tensor* find(const Layer& layer, const std::string& name) const;
  Tensor take(const std::string& name, const Shape& shape);
  std::optional<Tensor> take_if_there(const std::string& name, const Shape& shape);
  void read_layer(int64_t number);
  Rope make_rope(double base, const std::optional<Tensor>& factors, const RopeScaling& scaling) const;
  void check_memory() const;

  Tensor norm(const Tensor& x, const Tensor& weight, const Tensor* bias) const;
  Tensor norm_of(const Layer& layer, const Tensor& x, const std::string& name) const;
  Tensor product(const Layer& layer, const Tensor& x, const std::string& name) const;
  Tensor turned(const Tensor& x, const Rope& rope, const Dim& place) const;
  Tensor attention(const Layer& layer, const Tensor& x, const Dim& place) const;
  Tensor feed_forward(const Layer& layer, const Tensor& x) const;
  Tensor forward(const Tensor& tokens, const Dim& place) const;
  Tensor logits_of(const Tensor& x) const;
  Tensor computed(Result result, const Tensor& tokens, const Tensor& targets, const Dim& place,
                  const Dim& last) const;

  Step& step(Result result, int64_t tokens);
  std::vector<float> run_chunk(Result result, std::span<const int32_t> tokens,
                               std::span<const int32_t> targets, int64_t place);
  void check_tokens(std::span<const int32_t> tokens, int64_t place) const;

  ModelSizes sizes_;
  StateDict given_;
  int64_t capacity_, vocabulary_ = 0;
  Tensor embedding_, output_norm_, output_;
  std::optional<Tensor> output_norm_bias_, output_bias_, places_;
  std::vector<Layer> layers_;
  std::optional<Rope> rope_, local_rope_;
  std::map<std::pair<Result, int64_t>, Step> steps_;
};

}  // namespace quern::llm
