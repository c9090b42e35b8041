// What the tests of files in Python ask quern to do: it reads and writes files, so that the packages of
// others can be compared with it.
#include <chrono>
#include <iostream>

#include "quern/base/error.h"
#include "quern/io/io.h"

namespace {

using namespace quern;  // NOLINT: a program

StateDict load(const std::string& path) {
  if (path.ends_with(".gguf")) return io::gguf_load(path).tensors;
  if (path.ends_with(".pt")) return io::torch_load(path);
  if (path.ends_with(".npz")) return io::npz_load(path);
  if (path.ends_with(".npy")) return {{"array", io::npy_load(path)}};
  return io::safe_load(path);
}

void save(const StateDict& tensors, const std::string& path) {
  if (path.ends_with(".npz")) return io::npz_save(tensors, path);
  if (path.ends_with(".npy")) return io::npy_save(tensors.begin()->second, path);
  io::safe_save(tensors, path, {{"made by", "quern"}});
}

// Saves one file again and again, each time with other numbers, and says so when the first one is there.
[[noreturn]] void save_forever(const std::string& path) {
  for (int64_t i = 1;; i++) {
    const Tensor large = Tensor::full({1 << 18}, i, {.dtype = dtypes::int64}).contiguous();
    io::safe_save({{"large", large}, {"small", Tensor::full({3}, i, {.dtype = dtypes::int64})}}, path);
    std::cout << "saved" << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 3 && words[0] == "convert") {
      save(load(words[1]), words[2]);
    } else if (words.size() == 2 && words[0] == "save-forever") {
      save_forever(words[1]);
    } else {
      std::cerr << "usage: io_tool convert FROM TO | io_tool save-forever FILE\n";
      return 2;
    }
  } catch (const Error& e) {
    std::cerr << "io_tool: " << e.what() << "\n";
    return 1;
  }
}
