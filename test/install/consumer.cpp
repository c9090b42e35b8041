#include <quern/quern.h>

#include <iostream>

int main() {
  const auto op = quern::op_named("ADD");
  std::cout << "found quern, which knows " << quern::kOpCount << " ops\n";
  return op == quern::Op::ADD ? 0 : 1;
}
