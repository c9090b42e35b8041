// Arrays of NumPy.
#include "quern/io/npy.h"

#include "test/fuzz/target.h"

FUZZ(look_at(npy_parse(bytes, name, keep)))
