#include "quern/llm/model/architecture.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "quern/base/error.h"

namespace quern::llm {
namespace {

using enum RopeKind;
using Act = ActivationKind;

constexpr int64_t kMostLayers = 1000, kMostSize = 1 << 20, kMostContext = int64_t{1} << 28;

// clang-format off
constexpr std::array<Architecture, 11> kArchitectures = {{
  {.name = "llama"},
  {.name = "granite"},
  {.name = "qwen2", .rope = halves},
  {.name = "qwen3", .rope = halves},
  {.name = "olmo2", .rope = halves},
  {.name = "phi3", .rope = halves, .window_period = 1},
  {.name = "gemma", .rope = halves, .activation = Act::gelu, .embedding_by_width = true},
  {.name = "gemma2", .rope = halves, .activation = Act::gelu, .embedding_by_width = true, .window_period = 2},
  {.name = "gemma3", .rope = halves, .activation = Act::gelu, .embedding_by_width = true, .window_period = 6, .local_rope_base = 10000},
  {.name = "gpt2", .norm = NormKind::layer, .rope = none, .activation = Act::gelu, .gated = false},
  {.name = "starcoder2", .norm = NormKind::layer, .rope = halves, .activation = Act::gelu, .gated = false},
}};
// clang-format on

RopeScaling rope_scaling(const Metadata& m, const std::string& prefix) {
  RopeScaling s;
  const std::string kind = m.text(prefix + "rope.scaling.type").value_or("");
  s.factor = m.number(prefix + "rope.scaling.factor").value_or(1);
  s.original_context = m.number(prefix + "rope.scaling.original_context_length").value_or(0);
  s.attention_factor = m.number(prefix + "rope.scaling.attn_factor").value_or(1);
  s.fast = m.number(prefix + "rope.scaling.yarn_beta_fast").value_or(32);
  s.slow = m.number(prefix + "rope.scaling.yarn_beta_slow").value_or(1);
  s.extrapolation = m.number(prefix + "rope.scaling.yarn_ext_factor").value_or(1);
  if (!(s.factor > 0)) throw Error(fmt::format("'{}rope.scaling.factor' is {}", prefix, s.factor));
  if (kind == "linear")
    s.kind = RopeScaling::Kind::linear;
  else if (kind == "yarn")
    s.kind = RopeScaling::Kind::yarn;
  else if (!kind.empty() && kind != "none" && kind != "longrope")
    throw Error(fmt::format("'{}rope.scaling.type' is '{}', which quern does not know", prefix, kind));
  return s;
}

// A number, or a list of equal ones, one for each layer.
int64_t number_of_layers(const Metadata& m, const std::string& key, std::optional<int64_t> otherwise) {
  if (!m.is_list(key))
    return otherwise && !m.contains(key) ? *otherwise : m.needed_integer(key, 1, kMostSize);
  const std::vector<int64_t> all = m.integers(key);
  if (all.empty()) throw Error(fmt::format("'{}' is an empty list", key));
  for (const int64_t number : all)
    if (number != all[0])
      throw Error(fmt::format("'{}' differs between layers, which quern does not know", key));
  return all[0];
}

}  // namespace

const Architecture& architecture_called(const std::string& name) {
  for (const Architecture& a : kArchitectures)
    if (a.name == name) return a;
  throw Error(fmt::format("the architecture '{}' is not known; known are: {}", name,
                          fmt::join(architecture_names(), ", ")));
}

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> all;
  for (const Architecture& a : kArchitectures) all.push_back(a.name);
  return all;
}

bool ModelSizes::has_window(int64_t layer) const {
  if (window == 0 || window_period == 0) return false;
  return window_period == 1 || layer % window_period != window_period - 1;
}

ModelSizes model_sizes(const Metadata& m) {
  ModelSizes s;
  const std::string name = m.needed_text("general.architecture");
  s.architecture = &architecture_called(name);
  const std::string prefix = name + ".";
  s.layers = m.needed_integer(prefix + "block_count", 1, kMostLayers);
  s.width = m.needed_integer(prefix + "embedding_length", 1, kMostSize);
  s.feed_forward = number_of_layers(m, prefix + "feed_forward_length", {});
  s.heads = number_of_layers(m, prefix + "attention.head_count", {});
  s.kv_heads = number_of_layers(m, prefix + "attention.head_count_kv", s.heads);
  if (s.heads % s.kv_heads != 0)
    throw Error(fmt::format("{} heads are no multiple of {} heads of keys", s.heads, s.kv_heads));
  s.key_size = m.contains(prefix + "attention.key_length")
                   ? m.needed_integer(prefix + "attention.key_length", 1, kMostSize)
                   : s.width / s.heads;
  s.value_size = m.contains(prefix + "attention.value_length")
                     ? m.needed_integer(prefix + "attention.value_length", 1, kMostSize)
                     : s.width / s.heads;
  if (s.key_size == 0 || s.value_size == 0)
    throw Error(fmt::format("{} heads of a width of {}", s.heads, s.width));
  if (s.key_size != s.value_size)
    throw Error(fmt::format("keys of {} numbers and values of {}: quern knows models where they are as many",
                            s.key_size, s.value_size));
  s.rope_size = m.contains(prefix + "rope.dimension_count")
                    ? m.needed_integer(prefix + "rope.dimension_count", 2, s.key_size)
                    : s.key_size;
  if (s.rope_size % 2 != 0)
    throw Error(fmt::format("'{}rope.dimension_count' is {}, which is odd", prefix, s.rope_size));
  s.context = m.needed_integer(prefix + "context_length", 1, kMostContext);
  const char* eps = s.architecture->norm == NormKind::rms ? "attention.layer_norm_rms_epsilon"
                                                          : "attention.layer_norm_epsilon";
  s.norm_eps = m.number(prefix + eps).value_or(1e-5);
  if (!(s.norm_eps >= 0)) throw Error(fmt::format("'{}{}' is {}", prefix, eps, s.norm_eps));
  s.rope_base = m.number(prefix + "rope.freq_base").value_or(10000);
  s.local_rope_base = s.architecture->local_rope_base > 0
                          ? m.number(prefix + "rope.freq_base_swa").value_or(s.architecture->local_rope_base)
                          : s.rope_base;
  if (!(s.rope_base > 0) || !(s.local_rope_base > 0))
    throw Error(fmt::format("'{}rope.freq_base' is {}", prefix, s.rope_base));
  s.rope_scaling = rope_scaling(m, prefix);
  s.window = m.contains(prefix + "attention.sliding_window")
                 ? m.needed_integer(prefix + "attention.sliding_window", 0, kMostContext)
                 : 0;
  s.window_period = s.architecture->window_period;
  s.attention_scale =
      m.number(prefix + "attention.scale").value_or(1 / std::sqrt(static_cast<double>(s.key_size)));
  // The largest of gemma's were trained with another scale, and their files do not say it.
  if ((name == "gemma2" && s.layers == 46) || (name == "gemma3" && s.layers == 62))
    s.attention_scale = 1 / std::sqrt(static_cast<double>(s.width) / static_cast<double>(s.heads));
  s.attention_cap = m.number(prefix + "attn_logit_softcapping").value_or(0);
  s.logit_cap = m.number(prefix + "final_logit_softcapping").value_or(0);
  s.embedding_scale = m.number(prefix + "embedding_scale").value_or(1);
  if (s.architecture->embedding_by_width) s.embedding_scale = std::sqrt(static_cast<double>(s.width));
  s.residual_scale = m.number(prefix + "residual_scale").value_or(1);
  s.logit_scale = 1 / m.number(prefix + "logit_scale").value_or(1);
  return s;
}

}  // namespace quern::llm
