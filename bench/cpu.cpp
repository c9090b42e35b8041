// Kernels on one core of the CPU: bench_cpu; see cpu.py.
#include <fmt/format.h>

#include <chrono>
#include <iostream>

#include "quern/quern.h"

namespace {

using namespace quern;
using Clock = std::chrono::steady_clock;

// Seconds of the best of several runs.
template <class F>
double best(const F& run) {
  run();
  run();
  double least = 1e30;
  double total = 0;
  for (int i = 0; i < 200 && (i < 5 || total < 0.5); i++) {
    const auto start = Clock::now();
    run();
    const std::chrono::duration<double> time = Clock::now() - start;
    least = std::min(least, time.count());
    total += time.count();
  }
  return least;
}

void measured(const std::string& name, double value, const char* unit) {
  fmt::print("{{\"name\": \"{}\", \"value\": {}, \"unit\": \"{}\"}}\n", name, value, unit);
}

Tensor data(const Shape& shape) {
  Tensor x = Tensor::randn(shape);
  x.realize();
  return x;
}

void matmul(int64_t n, int64_t k, int64_t m) {
  const Tensor a = data({n, k}), b = data({k, m});
  const double seconds = best([&] { a.matmul(b).realize(); });
  measured(fmt::format("matmul {}x{}x{}", n, k, m), 2e-9 * static_cast<double>(n * k * m) / seconds,
           "GFLOP/s");
}

template <class F>
void rate(const char* name, double bytes, const F& make) {
  measured(name, bytes * 1e-9 / best([&] { make().realize(); }), "GB/s");
}

void all() {
  for (const int64_t n : {256, 512, 1024}) matmul(n, n, n);
  matmul(1, 4096, 4096);
  const Tensor x = data({4096, 1024}), y = data({4096, 1024}), w = data({512, 512}), v = data({512, 512});
  const double once = 4.0 * 4096 * 1024;
  measured("matmul transposed 512", 2e-9 * 512 * 512 * 512 / best([&] { v.matmul(w.transpose()).realize(); }),
           "GFLOP/s");
  rate("add 4096x1024", 3 * once, [&] { return x + y; });
  rate("sum of all 4096x1024", once, [&] { return x.sum(); });
  rate("sum of rows 4096x1024", once, [&] { return x.sum({1}); });
  rate("sum of columns 4096x1024", once, [&] { return x.sum({0}); });
  rate("max of rows 4096x1024", once, [&] { return x.max({1}); });
  rate("softmax 4096x1024", 2 * once, [&] { return x.softmax(1); });
  rate("gelu 4096x1024", 2 * once, [&] { return x.gelu(); });
  rate("transpose 4096x1024", 2 * once, [&] { return x.transpose().contiguous(); });
}

}  // namespace

int main() {
  try {
    all();
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
