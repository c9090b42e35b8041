// Tensors: made, combined, indexed, reduced. Nothing runs until a value is asked for.
#include <quern/quern.h>

#include <iostream>

using quern::Tensor;

int main() {
  const Tensor a = Tensor::from<float>({1, 2, 3, 4, 5, 6}).reshape({2, 3});
  const Tensor b = Tensor::arange(3);  // 0 1 2, integers
  std::cout << "a + b, with b added to each row:\n" << a + b << "\n";
  std::cout << "a times its transpose:\n" << a.matmul(a.transpose()) << "\n";
  std::cout << "the largest of each row: " << a.max(1) << "\n";
  std::cout << "the second column: " << a(quern::Slice(), 1) << "\n";

  // Views cost nothing, and see what is assigned to the memory they look at.
  const Tensor row = a(0);
  a.assign(a * 10);
  std::cout << "the first row, after a was multiplied by 10: " << row << "\n";

  // Dtypes are promoted as NumPy and PyTorch users expect.
  std::cout << "int32 + float16 is "
            << (b + Tensor::ones({3}, {.dtype = quern::dtypes::float16})).dtype().name() << "\n";

  // Wrong use is an exception that says what was given.
  try {
    (void)(a + Tensor::ones({4}));
  } catch (const quern::Error& e) {
    std::cout << "an error: " << e.what() << "\n";
  }
}
