// Files of tensors.
#pragma once

#include "quern/io/gguf.h"         // IWYU pragma: export
#include "quern/io/image.h"        // IWYU pragma: export
#include "quern/io/npy.h"          // IWYU pragma: export
#include "quern/io/safetensors.h"  // IWYU pragma: export
#include "quern/io/torch.h"        // IWYU pragma: export
