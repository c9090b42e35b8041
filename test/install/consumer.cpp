// The README's example, built against the installed package.
#include <quern/quern.h>

#include <iostream>

int main() {
  using quern::Tensor;
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}).reshape({2, 3});
  const Tensor y = x.softmax();            // nothing has run yet
  std::cout << y.schedule() << y << "\n";  // one kernel; its numbers
  const Tensor loss = (x * x).sum();
  std::cout << loss.gradient({x})[0] << "\n";
  return loss.gradient({x})[0].to_vector<float>() == std::vector<float>{2, 4, 6, 8, 10, 12} ? 0 : 1;
}
