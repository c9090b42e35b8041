// A training step of a network for MNIST: bench_train; see train.py.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "quern/quern.h"

namespace {

using namespace quern;
using Clock = std::chrono::steady_clock;

constexpr int64_t kBatch = 128;

struct Net {
  nn::Conv2d first{1, 32, 5}, second{32, 32, 5};
  nn::BatchNorm norm{32};
  nn::Conv2d third{32, 64, 3}, fourth{64, 64, 3};
  nn::BatchNorm last_norm{64};
  nn::Linear out{576, 10};
  QUERN_PARAMETERS(first, second, norm, third, fourth, last_norm, out)

  Tensor operator()(const Tensor& x) const {
    Tensor y = norm(second(first(x).relu()).relu()).max_pool2d();
    y = last_norm(fourth(third(y).relu()).relu()).max_pool2d();
    return out(y.flatten(1));
  }
};

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void measured(const char* name, double value, const char* unit) {
  fmt::print("{{\"name\": \"{}\", \"value\": {}, \"unit\": \"{}\"}}\n", name, value, unit);
  std::fflush(stdout);
}

void run() {
  const Training on;
  const Tensor x = Tensor::randn({kBatch, 1, 28, 28}).realize(),
               y = Tensor::randint({kBatch}, 0, 10).realize();
  const auto start = Clock::now();
  const Net net;
  nn::Adam optimiser(nn::get_parameters(net));
  const auto step = jit([&](const Tensor& images, const Tensor& digits) {
    optimiser.zero_grad();
    const Tensor loss = net(images).sparse_categorical_crossentropy(digits);
    loss.backward();
    optimiser.step();
    return loss;
  });
  (void)step(x, y).item<float>();
  measured("training step, MNIST, batch 128: first", since(start), "s");
  (void)step(x, y).item<float>();
  double least = 1e30;
  for (int i = 0; i < 20; i++) {
    const auto begin = Clock::now();
    (void)step(x, y).item<float>();
    least = std::min(least, since(begin));
  }
  measured("training step, MNIST, batch 128", 1e3 * least, "ms");
  measured("training step, MNIST, batch 128: kernels", static_cast<double>(step.kernels()), "kernels");
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
