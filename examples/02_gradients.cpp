// Gradients: of any scalar by any tensors it was computed from, also of gradients.
#include <quern/quern.h>

#include <iostream>

using quern::Tensor;

int main() {
  const Tensor x = Tensor::from<float>({-2, -1, 0, 1, 2});
  const Tensor y = (x * x * x).sum();
  const Tensor slope = y.gradient({x})[0];
  const Tensor bend =
      slope.sum().gradient({x})[0];  // before slope runs: numbers do not know how they came to be
  std::cout << "d/dx x^3 = " << slope << "\n";
  std::cout << "and once more: " << bend << "\n";

  // backward() adds to the grad of every tensor that requires one: a line is fitted to four points.
  const Tensor points = Tensor::from<float>({0, 1, 2, 3}), values = Tensor::from<float>({1, 3, 5, 7});
  const Tensor a = Tensor::zeros({1}).contiguous(), b = Tensor::zeros({1}).contiguous();
  for (const Tensor& p : {a, b}) p.set_requires_grad();
  for (int i = 0; i < 200; i++) {
    for (const Tensor& p : {a, b}) p.set_grad({});
    (points * a + b - values).square().mean().backward();
    Tensor::realize_all({a.assign(a.detach() - *a.grad() * 0.1), b.assign(b.detach() - *b.grad() * 0.1)});
  }
  std::cout << "the line through (0, 1), (1, 3), (2, 5), (3, 7): " << (a * 100).round() / 100 << " x + "
            << (b * 100).round() / 100 << "\n";
}
