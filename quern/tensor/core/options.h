// Arguments of layers that have many: each field has the default that users expect.
#pragma once

#include "quern/tensor/core/dim.h"

namespace quern {

// One number stands for all spatial axes. Padding is one number, one an axis, or two an axis (before and
// after, the last axis first).
struct ConvOptions {
  int64_t groups = 1;
  IntList stride = 1, dilation = 1, padding = 0;
};

struct ConvTransposeOptions {
  int64_t groups = 1;
  IntList stride = 1, dilation = 1, padding = 0, output_padding = 0;
};

// Pooling. No stride means the size of the window.
struct PoolOptions {
  IntList stride = {}, dilation = 1, padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // of averages
};

struct AttentionOptions {
  double dropout = 0;
  bool causal = false;
  bool enable_gqa = false;
};

}  // namespace quern
