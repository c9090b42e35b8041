// How the architectures of language models differ, and the sizes of one model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quern/llm/metadata.h"

namespace quern::llm {

enum class NormKind : uint8_t { rms, layer };
// Which numbers of a head are turned together: neighbours, or those of one half with those of the other.
enum class RopeKind : uint8_t { none, pairs, halves };
enum class ActivationKind : uint8_t { silu, gelu };

// A row of the table.
struct Architecture {
  std::string_view name;  // general.architecture
  NormKind norm = NormKind::rms;
  RopeKind rope = RopeKind::pairs;  // none: places are embedded, position_embd.weight
  ActivationKind activation = ActivationKind::silu;
  bool gated = true;                // feed forward: activation(gate x) * (up x)
  bool embedding_by_width = false;  // embeddings are multiplied by the root of their size
  // Of every this many layers the last one has no window, if there are windows at all. 0: none has one. 1:
  // all have.
  int64_t window_period = 0;
  double local_rope_base = 0;  // of layers with windows; 0: that of the others
};

const Architecture& architecture_called(const std::string& name);  // an Error says which there are
std::vector<std::string_view> architecture_names();

struct RopeScaling {
  enum class Kind : uint8_t { none, linear, yarn } kind = Kind::none;
  double factor = 1, original_context = 0, attention_factor = 1;
  double fast = 32, slow = 1,
         extrapolation = 1;  // yarn: between which numbers of turns frequencies are mixed
};

// The numbers of one model.
struct ModelSizes {
  const Architecture* architecture = nullptr;
  int64_t layers = 0, width = 0, feed_forward = 0, heads = 0, kv_heads = 0;
  int64_t key_size = 0, value_size = 0;  // of a head
  int64_t rope_size = 0;                 // how many numbers of a head are turned
  int64_t context = 0;                   // that it was trained for
  int64_t window = 0;                    // places that layers with a window see; 0: all
  int64_t window_period = 0;
  double norm_eps = 0, rope_base = 0, local_rope_base = 0;
  RopeScaling rope_scaling;
  double attention_scale = 0, attention_cap = 0, logit_cap = 0;  // caps of 0: none
  double embedding_scale = 1, residual_scale = 1, logit_scale = 1;

  bool has_window(int64_t layer) const;
};

// An Error names what the file lacks, or has wrong.
ModelSizes model_sizes(const Metadata& metadata);

}  // namespace quern::llm
