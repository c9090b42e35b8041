// Layers, optimisers and what is around them.
#pragma once

#include "quern/nn/attention.h"  // IWYU pragma: export
#include "quern/nn/layers.h"     // IWYU pragma: export
#include "quern/nn/norms.h"      // IWYU pragma: export
#include "quern/nn/optim.h"      // IWYU pragma: export
#include "quern/nn/recurrent.h"  // IWYU pragma: export
#include "quern/nn/state.h"      // IWYU pragma: export
#include "quern/nn/training.h"   // IWYU pragma: export
