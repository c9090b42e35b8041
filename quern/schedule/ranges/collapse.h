// Reduces that need no loop: a sum over what does not change is a product, a sum that picks one element is a
// read of it, a sum that counts is arithmetic.
#pragma once

#include "quern/ir/rules/rules.h"

namespace quern {

extern const Rules reduce_collapse;

}  // namespace quern
