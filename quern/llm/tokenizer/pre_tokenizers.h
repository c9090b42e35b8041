// How a text is cut before tokens are made of it: by the name that files of GGUF give.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::llm {

struct PreTokenizer {
  std::vector<std::string> expressions;  // one after the other (quern/llm/tokenizer/regex.h)
  // A piece that is a token as it stands becomes that token, whatever the merges say.
  bool whole_pieces = false;
  bool add_bos = false, add_eos = false;  // if the file does not say
};

// An Error for a name that is not known.
PreTokenizer pre_tokenizer_called(std::string_view name);
std::vector<std::string_view> pre_tokenizer_names();

}  // namespace quern::llm
