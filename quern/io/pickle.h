// Pickles, as Python's module pickle writes them, read as data: nothing in them is run. What a pickle would
// call stays a call, and it may name only what the reader allows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quern/io/bytes.h"

namespace quern::io {

struct Pickled {
  enum class Kind : uint8_t {
    None,
    Bool,
    Int,
    Float,
    Text,
    Bytes,
    Tuple,
    List,
    Set,
    FrozenSet,
    Dict,        // items: key, value, key, value, ...
    Global,      // text: "module.name"
    Call,        // items: the function, its arguments as a tuple
    Persistent,  // items: one, what it is known by outside the pickle
  };
  Kind kind = Kind::None;
  int64_t integer = 0;  // of Int and Bool
  double number = 0;    // of Float
  std::string text;     // of Text, Bytes and Global
  std::vector<uint32_t> items;
};

const char* name(Pickled::Kind kind);

// All values of a pickle, which refer to each other by their places: a list may contain itself.
struct Pickle {
  std::vector<Pickled> values;
  uint32_t root = 0;
  const Pickled& operator[](uint32_t i) const { return values[i]; }
};

// Protocols 2 to 5. OrderedDict and defaultdict become Dict. An Error names what `is_allowed`
// refuses, by its module and its name.
Pickle read_pickle(ByteReader& in, bool (*is_allowed)(const std::string& global));

}  // namespace quern::io
