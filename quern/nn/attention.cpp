#include "quern/nn/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "quern/base/error.h"

namespace quern::nn {
namespace {

// What is added to the scores.
Tensor added(const Tensor& mask, DType dtype) {
  if (!mask.dtype().is_bool()) return mask.cast(dtype);
  return mask.where(-std::numeric_limits<double>::infinity(), 0.0).cast(dtype);
}

double checked_dropout(const char* layer, double p) {
  if (!(p >= 0 && p <= 1)) throw ValueError(fmt::format("{}: dropout is {}, expected 0 to 1", layer, p));
  return p;
}

int64_t checked_heads(int64_t size, int64_t heads) {
  if (size < 1 || heads < 1 || size % heads != 0)
    throw ShapeError(
        fmt::format("MultiheadAttention: a size of {} cannot be divided among {} heads", size, heads));
  return heads;
}

}  // namespace

Dropout::Dropout(double probability) : p(checked_dropout("Dropout", probability)) {}

MultiheadAttention::MultiheadAttention(int64_t size, int64_t number, const MultiheadAttentionSettings& s)
    : heads(checked_heads(size, number)),
      dropout(checked_dropout("MultiheadAttention", s.dropout)),
      batch_first(s.batch_first),
      in_proj_weight(Tensor::glorot_uniform({3 * size, size}, s.options)),
      out_proj(size, size, s.bias, s.options) {
  if (!s.bias) return;
  in_proj_bias = Tensor::zeros({3 * size}, s.options).contiguous();
  out_proj.bias = Tensor::zeros({size}, s.options).contiguous();
}

std::pair<Tensor, Tensor> MultiheadAttention::operator()(const Tensor& query, const Tensor& key,
                                                         const Tensor& value,
                                                         const AttentionMasks& masks) const {
  const Dim size = in_proj_weight.size(1);
  for (const Tensor* x : {&query, &key, &value})
    if (x->ndim() != 3 || x->size(2) != size)
      throw ShapeError(fmt::format("MultiheadAttention: an input has shape {}, expected (steps, batch, {}){}",
                                   shape_text(x->shape()), size.text(),
                                   batch_first ? " with the batch first" : ""));
  const std::vector<Tensor> weights = in_proj_weight.chunk(3);
  std::vector<std::optional<Tensor>> biases(3);
  if (in_proj_bias) {
    const std::vector<Tensor> parts = in_proj_bias->chunk(3);
    biases.assign(parts.begin(), parts.end());
  }
  const auto projected = [&](const Tensor& given, size_t i) {  // (batch, heads, steps, size / heads)
    const Tensor x = batch_first ? given : given.transpose(0, 1);
    return x.linear(weights[i].transpose(), biases[i])
        .reshape({x.size(0), x.size(1), Dim(heads), Dim(-1)})
        .transpose(1, 2);
  };
  const Tensor q = projected(query, 0), k = projected(key, 1), v = projected(value, 2);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1).value()));
  Tensor scores = (q * scale).dot(k.transpose(-2, -1));
  if (masks.causal)
    scores = scores + added(Tensor::full({scores.size(-2), scores.size(-1)}, true).triu(1), scores.dtype());
  if (masks.attention) scores = scores + added(*masks.attention, scores.dtype());
  if (masks.key_padding)
    scores = scores + added(*masks.key_padding, scores.dtype()).unsqueeze(1).unsqueeze(1);
  const Tensor attention = scores.softmax(-1).dropout(dropout);
  const Tensor output = out_proj(attention.dot(v).transpose(1, 2).flatten(2));
  return {batch_first ? output : output.transpose(0, 1), attention.mean(1)};
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t size, int64_t heads,
                                                 const TransformerEncoderSettings& s)
    : settings(s),
      self_attn(size, heads, {.dropout = s.dropout, .batch_first = s.batch_first, .options = s.options}),
      linear1(size, s.feedforward, true, s.options),
      linear2(s.feedforward, size, true, s.options),
      norm1(size, s.eps, true, s.options),
      norm2(size, s.eps, true, s.options) {
  if (s.activation != "relu" && s.activation != "gelu")
    throw ValueError(
        fmt::format(R"(TransformerEncoderLayer: activation is "{}", not "relu" or "gelu")", s.activation));
}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const AttentionMasks& masks) const {
  const auto attended = [&](const Tensor& t) {
    return self_attn(t, t, t, masks).first.dropout(settings.dropout);
  };
  const auto fed_forward = [&](const Tensor& t) {
    const Tensor inner = linear1(t);
    const Tensor active = settings.activation == "relu" ? inner.relu() : inner.gelu("none");
    return linear2(active.dropout(settings.dropout)).dropout(settings.dropout);
  };
  if (settings.norm_first) {
    const Tensor y = x + attended(norm1(x));
    return y + fed_forward(norm2(y));
  }
  const Tensor y = norm1(x + attended(x));
  return norm2(y + fed_forward(y));
}

}  // namespace quern::nn
