// Vocabularies of real models: each line of a file of inputs becomes the tokens of the file beside it. The
// folder of these files is QUERN_VOCABULARIES of the environment; it is no part of the repository.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "quern/base/file.h"
#include "quern/llm/tokenizer/tokenizer.h"

namespace quern::llm {
namespace {

std::vector<std::string> parts_of(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (size_t at = 0;;) {
    const size_t found = text.find(separator, at);
    parts.push_back(text.substr(at, found - at));
    if (found == std::string::npos) return parts;
    at = found + separator.size();
  }
}

TEST(Vocabularies, EveryLineHasItsTokens) {
  const char* const folder = std::getenv("QUERN_VOCABULARIES");  // NOLINT(concurrency-mt-unsafe)
  if (folder == nullptr) GTEST_SKIP() << "QUERN_VOCABULARIES is not set";
  int files = 0, lines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".gguf") || !std::filesystem::exists(path + ".inp")) continue;
    SCOPED_TRACE(path);
    const io::Gguf file = io::gguf_load(path);
    const Tokenizer tokenizer((Metadata(file.metadata)));
    const std::vector<std::string> inputs = parts_of(read_file(path + ".inp"), "\n__ggml_vocab_test__\n");
    const std::vector<std::string> outputs = parts_of(read_file(path + ".out"), "\n");
    ASSERT_GE(outputs.size() + 1, inputs.size());
    files++;
    for (size_t i = 0; i < inputs.size(); i++) {
      if (i >= outputs.size()) continue;
      std::vector<Token> expected;
      std::istringstream numbers(outputs[i]);
      for (Token token = 0; numbers >> token;) expected.push_back(token);
      const std::vector<Token> got = tokenizer.encode(inputs[i], {.add_special = false});
      EXPECT_EQ(got, expected) << inputs[i];
      lines++;
      const std::string text = tokenizer.decode(got);
      if (tokenizer.vocabulary().model != "bert") {
        EXPECT_EQ(text, inputs[i]);
      }
    }
  }
  EXPECT_GE(files, 1);
  std::cout << files << " vocabularies, " << lines << " lines\n";
}

}  // namespace
}  // namespace quern::llm
