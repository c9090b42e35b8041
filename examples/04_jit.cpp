// jit: a function is captured on its second call, and from then on replayed without building any graph.
#include <quern/quern.h>

#include <iostream>

using quern::jit, quern::Tensor, quern::Variable;

int main() {
  int calls = 0;
  const Tensor weight = Tensor::from<float>({2, 3});
  const auto scaled = jit([&](const Tensor& x) {
    calls++;
    return x * weight;
  });
  for (float i = 0; i < 5; i++) std::cout << scaled(Tensor::from<float>({i, i}).realize()) << "\n";
  std::cout << "the function itself was called " << calls << " times; a replay is " << scaled.kernels()
            << " kernel\n";

  // What it holds may change between calls.
  weight.assign(weight * 10).realize();
  std::cout << "with other weights: " << scaled(Tensor::from<float>({1, 1}).realize()) << "\n";

  // Another shape than the captured one is an error, not a surprise.
  try {
    (void)scaled(Tensor::ones({2, 2}).contiguous().realize());
  } catch (const quern::Error& e) {
    std::cout << "an error: " << e.what() << "\n";
  }
}
