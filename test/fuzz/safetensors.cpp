// Files of safetensors.
#include "quern/io/safetensors.h"

#include "test/fuzz/target.h"

FUZZ(look_at(safe_parse(bytes, name, keep)))
