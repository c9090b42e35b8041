// Kernels of the CPU: bench_cpu; see cpu.py. `bench_cpu memory` is how fast this machine's memory is, under
// the names of the kernels that should be about as fast.
#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>

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
  for (int i = 0; i < 300 && (i < 5 || total < 0.5); i++) {
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
  std::fflush(stdout);
}

Tensor data(const Shape& shape) {
  Tensor x = Tensor::randn(shape);
  x.realize();
  return x;
}

// Replayed, as the peers' is prepared.
template <class F>
double seconds(const F& make) {
  const auto step = jit(make);
  return best([&] { step(); });
}

template <class F>
void flops(const std::string& name, double operations, const F& make) {
  measured(name, 1e-9 * operations / seconds(make), "GFLOP/s");
}
template <class F>
void rate(const char* name, double bytes, const F& make) {
  measured(name, 1e-9 * bytes / seconds(make), "GB/s");
}

void products() {
  struct Sizes {
    int64_t n, k, m;
  };
  for (const auto& [n, k, m] : {Sizes{256, 256, 256},
                                {512, 512, 512},
                                {1024, 1024, 1024},
                                {2048, 2048, 2048},
                                {1, 4096, 4096},
                                {32, 4096, 4096},
                                {4096, 64, 4096}}) {
    const Tensor a = data({n, k}), b = data({k, m});
    flops(fmt::format("matmul {}x{}x{}", n, k, m), 2.0 * static_cast<double>(n * k * m),
          [&] { return a.matmul(b); });
  }
  const double operations = 2.0 * 1024 * 1024 * 1024;
  const Tensor a = data({1024, 1024}), b = data({1024, 1024});
  flops("matmul 1024 of a transposed", operations, [&] { return a.matmul(b.transpose()); });
  const Tensor c = a.cast(dtypes::bfloat16).realize(), d = b.cast(dtypes::bfloat16).realize();
  flops("matmul 1024 of bfloat16", operations, [&] { return c.matmul(d, dtypes::float32); });
  const Tensor e = (a * 20).cast(dtypes::int8).realize(), f = (b * 20).cast(dtypes::int8).realize();
  flops("matmul 1024 of int8", operations, [&] { return e.matmul(f, dtypes::int32); });
}

void convolutions() {
  struct Sizes {
    int64_t channels, side, out, kernel, stride, padding;
  };
  for (const auto& s :
       {Sizes{64, 56, 64, 3, 1, 1}, {256, 14, 256, 3, 1, 1}, {3, 224, 64, 7, 2, 3}, {8, 32, 8, 3, 1, 1}}) {
    const Tensor x = data({1, s.channels, s.side, s.side}), w = data({s.out, s.channels, s.kernel, s.kernel});
    const int64_t side = s.side / s.stride;
    flops(fmt::format("conv {}x{}x{} to {}, {}x{} by {}", s.channels, s.side, s.side, s.out, s.kernel,
                      s.kernel, s.stride),
          2.0 * static_cast<double>(s.out * s.channels * s.kernel * s.kernel * side * side),
          [&] { return x.conv2d(w, std::nullopt, {.stride = {s.stride}, .padding = {s.padding}}); });
  }
}

constexpr double kOnce = 4.0 * 4096 * 1024;

void rows() {
  const Tensor x = data({4096, 1024}), y = data({4096, 1024});
  rate("add 4096x1024", 3 * kOnce, [&] { return x + y; });
  rate("sum of all 4096x1024", kOnce, [&] { return x.sum(); });
  rate("sum of rows 4096x1024", kOnce, [&] { return x.sum({1}); });
  rate("sum of columns 4096x1024", kOnce, [&] { return x.sum({0}); });
  rate("max of rows 4096x1024", kOnce, [&] { return x.max({1}); });
  rate("softmax 4096x1024", 2 * kOnce, [&] { return x.softmax(1); });
  rate("rmsnorm 4096x1024", 2 * kOnce, [&] { return x * ((x * x).mean({1}, true) + 1e-5).rsqrt(); });
  rate("layernorm 4096x1024", 2 * kOnce, [&] { return x.layernorm(); });
  rate("gelu (tanh) 4096x1024", 2 * kOnce, [&] { return x.gelu(); });
  rate("gelu (erf) 4096x1024", 2 * kOnce, [&] { return x.gelu("none"); });
  rate("transpose 4096x1024", 2 * kOnce, [&] { return x.transpose().contiguous(); });
}

void others() {
  const Tensor q = data({1, 8, 1024, 64}), k = data({1, 8, 1024, 64}), v = data({1, 8, 1024, 64});
  measured(
      "causal attention 8x1024x64",
      1e3 * seconds([&] { return q.scaled_dot_product_attention(k, v, std::nullopt, {.causal = true}); }),
      "ms");
  const Tensor a = data({4}), b = data({4});
  measured("add of 4 elements", 1e6 * best([&] { (a + b).realize(); }), "us");
  // Shorter than what a clock can tell: many at once.
  constexpr int kTimes = 1000;
  auto many = [](const auto& run) {
    for (int i = 0; i < kTimes; i++) run();
  };
  const auto add = jit([](const Tensor& x, const Tensor& y) { return x + y; });
  measured("add of 4 elements, replayed", 1e6 / kTimes * best([&] { many([&] { add(a, b); }); }), "us");
  const auto adds = jit([](const Tensor& x, const Tensor& y) {
    Tensor sum = x;
    for (int i = 0; i < 100; i++) sum = (sum + y).realize();
    return sum;
  });
  measured("one of 100 kernels, replayed", 1e4 / kTimes * best([&] { many([&] { adds(a, b); }); }), "us");
}

// ---- memory

// Each thread does its part of `work`, which takes where it begins and how many there are.
template <class F>
void in_parts(size_t threads, size_t elements, const F& work) {
  std::vector<std::thread> others;
  const size_t part = elements / threads;
  for (size_t i = 1; i < threads; i++) others.emplace_back([&work, i, part] { work(i * part, part); });
  work(0, part);
  for (std::thread& t : others) t.join();
}

// Reads and does next to nothing.
#if defined(__x86_64__) && defined(__GNUC__)
[[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
int read_all(const float* from, size_t count) {
  using Vector [[gnu::vector_size(64), gnu::aligned(4)]] = int;
  Vector all[4] = {};
  for (size_t i = 0; i + 64 <= count; i += 64)
    for (size_t k = 0; k < 4; k++) all[k] |= *reinterpret_cast<const Vector*>(from + i + 16 * k);
  return (all[0] | all[1] | all[2] | all[3])[0];
}

// In large pages, as tensors are.
std::unique_ptr<float, void (*)(void*)> large_array(size_t n) {
  const size_t page = size_t{2} << 20;
  void* const memory = std::aligned_alloc(page, n * sizeof(float));  // a multiple of it
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, n * sizeof(float), MADV_HUGEPAGE);
  std::memset(memory, 1, n * sizeof(float));
  return {static_cast<float*>(memory), std::free};
}

void memory() {
  const size_t n = 4096 * 1024;
  const size_t threads = std::max<size_t>(
      1,
      static_cast<size_t>(env::CPU_THREADS() > 0 ? env::CPU_THREADS() : std::thread::hardware_concurrency()));
  const std::unique_ptr<float, void (*)(void*)> first = large_array(n), second = large_array(n);
  const float* const from = first.get();
  float* const to = second.get();
  const double copying = best([&] {
    in_parts(threads, n,
             [&](size_t at, size_t count) { std::memcpy(to + at, from + at, count * sizeof(float)); });
  });
  std::atomic<int> sum{0};
  const double reading = best(
      [&] { in_parts(threads, n, [&](size_t at, size_t count) { sum += read_all(from + at, count); }); });
  for (const char* name : {"add 4096x1024", "transpose 4096x1024"})
    measured(name, 1e-9 * 2 * kOnce / copying, "GB/s");
  for (const char* name : {"sum of all 4096x1024", "sum of rows 4096x1024", "sum of columns 4096x1024"})
    measured(name, 1e-9 * kOnce / reading, "GB/s");
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count > 1 && std::string_view(arguments[1]) == "memory") {
      memory();
    } else {
      products();
      convolutions();
      rows();
      others();
    }
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
