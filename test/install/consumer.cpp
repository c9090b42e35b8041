// The README's example, built against the installed package.
#include <quern/quern.h>

#include <iostream>

int main() {
  const quern::UOp i = quern::UOp::range(8, 0), j = quern::UOp::range(4, 1);  // 0 <= i < 8, 0 <= j < 4
  const quern::UOp flat = i * 4 + j;
  const quern::UOp index = flat / 4 * 4 + flat % 4;  // what a reshape, there and back, leaves behind
  std::cout << index.text() << "\n" << index.simplify().text() << "\n";
  return index.simplify() == flat ? 0 : 1;
}
