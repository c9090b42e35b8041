// Fusion: what becomes one kernel, what does not and why, and how to read a kernel.
#include <quern/quern.h>

#include <iostream>

using quern::Tensor;

int main() {
  const Tensor x = Tensor::empty({64, 512}), w = Tensor::empty({512, 256});

  // A softmax is one kernel: three loops one after the other under the loop over rows.
  std::cout << "softmax:\n" << x.softmax().schedule() << "\n";

  // So are two products with what follows them.
  std::cout << "silu(x @ w) * (x @ w2):\n"
            << (x.matmul(w).silu() * x.matmul(Tensor::empty({512, 256}))).schedule() << "\n";

  // Two products, one of which needs all of the other, are two. Memory between them says why it is there.
  std::cout << "(x @ w) @ v:\n" << x.matmul(w).matmul(Tensor::empty({256, 512})).schedule() << "\n";

  // DEBUG=2 in the environment shows each kernel as it runs, DEBUG=4 its source, DEBUG=7 its machine code.
}
