// Pictures.
#include "quern/io/image.h"

#include "test/fuzz/target.h"

FUZZ(look_at(image_parse(bytes, name, 1 << 16)))
