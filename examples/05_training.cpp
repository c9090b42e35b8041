// Training: a network learns the exclusive or.
#include <quern/quern.h>

#include <iostream>

using quern::Tensor;
namespace nn = quern::nn;

struct Net {
  nn::Linear first{2, 16}, second{16, 1};
  QUERN_PARAMETERS(first, second)  // the one line that makes parameters known

  Tensor operator()(const Tensor& x) const { return second(first(x).tanh()); }
};

int main() {
  Tensor::manual_seed(1);
  const Tensor x = Tensor::from<float>({0, 0, 0, 1, 1, 0, 1, 1}).reshape({4, 2}),
               y = Tensor::from<float>({0, 1, 1, 0}).reshape({4, 1});
  const Net net;
  nn::Adam optimiser(nn::get_parameters(net), {.lr = 0.05});
  const auto step = quern::jit([&] {
    optimiser.zero_grad();
    const Tensor loss = net(x).binary_crossentropy_logits(y);
    loss.backward();
    optimiser.step();
    return loss;
  });
  double loss = 0;
  for (int i = 0; i < 200; i++) loss = step().item<float>();
  std::cout << "a step is " << step.kernels()
            << " kernels; the loss is below 0.05: " << (loss < 0.05 ? "yes" : "no") << "\n";
  std::cout << "0^0, 0^1, 1^0, 1^1: " << net(x).sigmoid().round().flatten() << "\n";
}
