// Saving and loading: parameters by name, in files that other libraries read as well.
#include <quern/quern.h>

#include <filesystem>
#include <iostream>

using quern::Tensor;
namespace nn = quern::nn;

struct Net {
  nn::Linear first{4, 8}, second{8, 2};
  nn::BatchNorm norm{8};
  QUERN_PARAMETERS(first, second, norm)

  Tensor operator()(const Tensor& x) const { return second(norm(first(x)).relu()); }
};

int main() {
  const std::string path = (std::filesystem::temp_directory_path() / "quern-example.safetensors").string();
  const Net net, other;
  quern::io::safe_save(nn::get_state_dict(net), path, {{"made by", "07_saving"}});
  nn::load_state_dict(other, quern::io::safe_load(path));
  const Tensor x = Tensor::ones({3, 4});
  std::cout << "both compute the same: " << (net(x).allclose(other(x)) ? "yes" : "no") << "\n";
  for (const auto& [name, tensor] : quern::io::safe_load(path))
    std::cout << name << ": " << tensor.numel().value() << " of " << tensor.dtype().name() << "\n";
  std::cout << "made by: " << quern::io::safe_load_metadata(path).at("made by") << "\n";

  // What does not fit is named, and nothing has changed.
  try {
    nn::load_state_dict(nn::Linear(4, 9), quern::io::safe_load(path));
  } catch (const quern::Error& e) {
    std::cout << "an error: " << e.what() << "\n";
  }
  std::filesystem::remove(path);
}
