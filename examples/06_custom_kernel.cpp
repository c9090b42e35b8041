// A kernel of one's own, written in the nodes that the compiler itself uses: the differences of neighbours.
#include <quern/quern.h>

#include <iostream>

using quern::Op, quern::Tensor, quern::UOp, quern::UOps;

// out[i] = in[i + 1] - in[i]
UOp differences(const UOps& memory) {
  const UOp i = UOp::range(7, 0);
  auto element = [&](const UOp& at) {
    const UOp place = UOp::make(Op::INDEX, memory[1].dtype(), {memory[1], at});
    return UOp::make(Op::LOAD, quern::dtypes::float32, {place});
  };
  const UOp place = UOp::make(Op::INDEX, memory[0].dtype(), {memory[0], i});
  const UOp store = UOp::make(Op::STORE, quern::dtypes::void_, {place, element(i + 1) - element(i)});
  return UOp::sink(UOps{UOp::make(Op::END, quern::dtypes::void_, {store, i})});
}

int main() {
  const Tensor in = Tensor::from<float>({1, 2, 4, 8, 16, 32, 64, 128}), out = Tensor::empty({7});
  const auto results = quern::custom_kernel({out, in}, differences);
  std::cout << "differences: " << results[0] << "\n";

  // It is part of the graph like anything else: it is scheduled with what comes before and after it.
  std::cout << "their sum: " << quern::custom_kernel({Tensor::empty({7}), in * 2}, differences)[0].sum()
            << "\n";

  // It cannot leave its memory: an index that would is an error before anything runs.
  try {
    (void)quern::custom_kernel({Tensor::empty({7}), Tensor::ones({7}).contiguous()}, differences);
  } catch (const quern::Error& e) {
    std::cout << "an error: " << e.what() << "\n";
  }
}
