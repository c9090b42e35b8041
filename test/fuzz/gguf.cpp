// Files of GGUF.
#include "quern/io/gguf.h"

#include "test/fuzz/target.h"

FUZZ(look_at(gguf_parse(bytes, name, keep).tensors))
