// Pickles, in checkpoints of PyTorch.
#include "quern/io/torch.h"

#include "quern/io/bytes.h"
#include "test/fuzz/target.h"
#include "test/io/archive.h"

FUZZ(const Memory file(zip_of({{"a/data.pkl", std::string(text_of(bytes))},
                               {"a/data/0", std::string(96, '\1')},
                               {"a/data/1", std::string(3, '\1')}}));
     look_at(torch_parse(file.span(), name, file.bytes)))
