// How well the cost model orders candidates: bench_model [--seed N] [--beam] [--list] [NAME | --kernel FILE].
// Each kernel is measured with the model's first lists of opts, with what the compiler chooses, and with
// others from all over the order.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>

#include "quern/codegen/choose/by_cost.h"
#include "quern/codegen/choose/heuristic.h"
#include "quern/codegen/lower.h"
#include "quern/engine/realize/outputs.h"
#include "quern/engine/search/measure.h"
#include "quern/ir/text/parse.h"
#include "quern/quern.h"
#include "quern/runtime/device.h"
#include "quern/schedule/schedule.h"

namespace {

using namespace quern;

struct Given {
  uint64_t seed = 0;
  bool beam = false, list = false;
  std::string only, kernel;
};

// Sizes: those that people write, and with a seed others near them.
class Sizes {
 public:
  explicit Sizes(uint64_t seed) : seed_(seed), random_(seed) {}
  int64_t operator()(int64_t n) {
    if (seed_ == 0) return n;
    const auto change = static_cast<double>(random_() % 1000) / 1000;
    auto m = static_cast<int64_t>(static_cast<double>(n) * std::exp2(change * 1.6 - 0.8));
    if (random_() % 2 == 0 && m > 16) m -= m % 16;
    return std::max<int64_t>(1, m);
  }

 private:
  uint64_t seed_;
  std::mt19937_64 random_;
};

struct Program {
  std::string name;
  std::function<Tensor(Sizes&)> make;
};

Tensor memory(const std::vector<Dim>& shape) { return Tensor::empty(shape).realize(); }

std::vector<Program> programs() {
  const auto of = [](int64_t a, int64_t b) { return [=](Sizes& n) { return memory({n(a), n(b)}); }; };
  std::vector<Program> list;
  const auto add = [&](std::string name, std::function<Tensor(Sizes&)> make) {
    list.push_back({std::move(name), std::move(make)});
  };
  add("add", [=](Sizes& n) { return of(1024, 1024)(n) + 1.0; });
  add("add odd", [](Sizes& n) { return memory({n(1000003)}) + 1.0; });
  add("add odd rows", [=](Sizes& n) { return of(1001, 777)(n) * 2.0; });
  add("add transposed", [=](Sizes& n) {
    const int64_t a = n(1024), b = n(1024);
    return memory({a, b}) + memory({b, a}).transpose();
  });
  add("transpose", [=](Sizes& n) { return of(1000, 1500)(n).transpose().contiguous(); });
  add("add column", [=](Sizes& n) {
    const int64_t a = n(1024), b = n(512);
    return memory({a, b}) + memory({a, 1});
  });

  add("exp", [=](Sizes& n) { return of(1000, 1000)(n).exp(); });
  add("gelu", [=](Sizes& n) { return of(777, 1024)(n).gelu(); });
  add("sum rows", [=](Sizes& n) { return of(1024, 1024)(n).sum(1); });
  add("sum columns", [=](Sizes& n) { return of(1024, 1024)(n).sum(0); });
  add("sum odd rows", [=](Sizes& n) { return of(777, 1001)(n).sum(1); });
  add("sum odd columns", [=](Sizes& n) { return of(1001, 777)(n).sum(0); });
  add("sum middle", [](Sizes& n) { return memory({n(64), n(128), n(96)}).sum(1); });
  add("sum short", [](Sizes& n) { return memory({n(100000), 3}).sum(1); });
  add("max rows", [=](Sizes& n) { return of(512, 2048)(n).max(1); });
  add("softmax", [=](Sizes& n) { return of(512, 1000)(n).softmax(-1); });
  add("softmax columns", [=](Sizes& n) { return of(1000, 512)(n).softmax(0); });
  add("layernorm", [=](Sizes& n) { return of(512, 768)(n).layernorm(-1); });
  add("mean of squares", [=](Sizes& n) { return of(512, 768)(n).square().mean(0); });
  const auto product = [&](std::string name, int64_t a, int64_t k, int64_t b) {
    add("product " + name, [=](Sizes& n) {
      const int64_t m = n(a), kk = n(k), c = n(b);
      return memory({m, kk}).matmul(memory({kk, c}));
    });
  };
  product("square", 512, 512, 512);
  product("odd", 333, 777, 555);
  product("flat", 17, 65536, 17);
  product("few rows", 16, 1024, 1024);
  product("tall", 8192, 64, 64);
  product("small", 64, 64, 64);
  add("product transposed", [](Sizes& n) {
    const int64_t a = n(16), k = n(256), b = n(1024);
    return memory({a, k}).matmul(memory({b, k}).transpose());
  });
  add("product of transposed", [](Sizes& n) {
    const int64_t a = n(256), k = n(512), b = n(256);
    return memory({k, a}).transpose().matmul(memory({k, b}));
  });
  add("matrix vector", [](Sizes& n) {
    const int64_t a = n(2048), k = n(2048);
    return memory({a, k}).matmul(memory({k}));
  });
  add("vector matrix", [](Sizes& n) {
    const int64_t a = n(2048), k = n(2048);
    return memory({k}).matmul(memory({k, a}));
  });
  add("batched product", [](Sizes& n) {
    const int64_t i = n(32), a = n(64), k = n(64), b = n(64);
    return memory({i, a, k}).matmul(memory({i, k, b}));
  });
  add("two products", [](Sizes& n) {
    const int64_t a = n(16), k = n(256), j = n(128), b = n(1024);
    return memory({a, k}).matmul(memory({b, k}).transpose()) +
           memory({a, j}).matmul(memory({b, j}).transpose());
  });
  const auto convolution = [&](std::string name, int64_t batch, int64_t in, int64_t size, int64_t out,
                               int64_t window, ConvOptions o) {
    add("convolution " + name, [=](Sizes& n) {
      const int64_t g = o.groups > 1 ? in / o.groups : 0;
      const int64_t i = g > 0 ? in : n(in), s = n(size), k = g > 0 ? out : n(out);
      return memory({batch, i, s, s}).conv2d(memory({k, g > 0 ? g : i, window, window}), {}, o);
    });
  };
  convolution("3x3", 1, 64, 28, 64, 3, {.padding = {1}});
  convolution("1x1", 4, 128, 28, 64, 1, {});
  convolution("strided", 2, 32, 56, 64, 3, {.stride = {2}, .padding = {1}});
  convolution("grouped", 2, 64, 28, 64, 3, {.groups = 8, .padding = {1}});
  convolution("depthwise", 2, 64, 56, 64, 3, {.groups = 64, .padding = {1}});
  convolution("7x7", 1, 3, 112, 64, 7, {.stride = {2}, .padding = {3}});
  add("max pool", [](Sizes& n) { return memory({2, n(32), n(56), n(56)}).max_pool2d({2, 2}); });
  add("average pool", [](Sizes& n) { return memory({2, n(64), n(28), n(28)}).avg_pool2d({3, 3}); });
  return list;
}

struct Result {
  double first = 1, best_of_five = 1, chosen = 1;
  int right = 0, pairs = 0;
};

Result measure(const std::string& name, const UOp& kernel, Device& device, const Given& given) {
  const std::optional<Optimisable> start = before_opts(kernel, device.spec());
  if (!start) return {};
  const std::optional<cost::Summary> summary = cost::summary_of(start->program);
  if (!summary) return {};
  const std::vector<Priced> priced = priced_opts(*summary, device.spec());
  std::vector<Candidate> candidates;
  const auto add = [&](const Opts& opts) { candidates.emplace_back().opts = opts; };
  add(start->chosen);
  for (size_t i = 0; i < priced.size(); i++)
    if (i < 5 || (i < 40 && i % 5 == 0) || i % (priced.size() / 12 + 1) == 0) add(priced[i].opts);
  add(heuristic_opts(start->program, device.spec()));
  DeviceMeasurer measurer(device, kernel, {.seconds = 30});
  measurer.measure(candidates, Candidate::kNever);
  for (Candidate& c : candidates)  // measured once
    for (const Candidate& other : candidates)
      if (c.opts == other.opts) c.seconds = std::min(c.seconds, other.seconds);
  double best = Candidate::kNever, five = Candidate::kNever, first = Candidate::kNever;
  const auto price = [&](const Opts& opts) -> int64_t {
    const std::optional<cost::LoopPlan> shape = cost::plan_of(*summary, opts);
    return shape ? cost::picoseconds(cost::work_of(*summary, *shape, device.spec()), device.spec()) : -1;
  };
  for (size_t i = 0; i < candidates.size(); i++) {
    best = std::min(best, candidates[i].seconds);
    if (i == 1) first = candidates[i].seconds;
    if (i >= 1 && i <= 5) five = std::min(five, candidates[i].seconds);
  }
  if (given.beam) best = std::min(best, search(*start, 2, measurer).best.seconds);
  Result r{.first = first / best, .best_of_five = five / best, .chosen = candidates[0].seconds / best};
  for (size_t i = 0; i < candidates.size(); i++)
    for (size_t k = 0; k < i; k++) {
      const double a = candidates[i].seconds, b = candidates[k].seconds;
      const int64_t pa = price(candidates[i].opts), pb = price(candidates[k].opts);
      if (!std::isfinite(a) || !std::isfinite(b) || pa < 0 || pb < 0 || std::max(a, b) < 1.2 * std::min(a, b))
        continue;
      r.pairs++, r.right += (a < b) == (pa < pb) ? 1 : 0;
    }
  fmt::print(
      "{:<24} {:>4} lists  best {:>9.1f} us  chosen {:>5.2f}  first {:>5.2f}  of five {:>5.2f}  ordered "
      "{:>3.0f}%\n",
      name, priced.size(), best * 1e6, r.chosen, r.first, r.best_of_five,
      100.0 * r.right / std::max(1, r.pairs));
  if (given.list)
    for (size_t i = 0; i < candidates.size(); i++) {
      const Candidate& c = candidates[i];
      std::string parts;
      if (const auto shape = cost::plan_of(*summary, c.opts)) {
        const cost::Work w = cost::work_of(*summary, *shape, device.spec());
        parts = fmt::format(
            "compute {:.0f} chain {:.0f} l2 {:.0f} l3 {:.0f} memory {:.0f} spills {:.0f} once {:.0f}",
            w.compute, w.chain, w.l2_bytes, w.l3_bytes, w.memory_bytes, w.spills, w.once);
      }
      fmt::print("  {} {:>9.1f} us, estimated {:>9.1f}  {}  [{}] {}\n",
                 i == 0                       ? "chosen"
                 : i + 1 == candidates.size() ? "rules "
                                              : "      ",
                 c.seconds * 1e6, static_cast<double>(price(c.opts)) / 1e6, to_text(c.opts), parts,
                 c.dropped);
    }
  std::fflush(stdout);
  return r;
}

void run(const Given& given) {
  Device& device = Device::get("CPU");
  if (!given.kernel.empty()) {
    std::ifstream file(given.kernel);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    (void)measure(given.kernel, parse(text), device, given);
    return;
  }
  double first = 0, five = 0, chosen = 0, worst = 1;
  int n = 0, right = 0, pairs = 0;
  Sizes sizes(given.seed);
  for (const Program& p : programs()) {
    const Tensor t = p.make(sizes);
    if (p.name.find(given.only) == std::string::npos) continue;
    const UOp sink = outputs_for({t.uop()}, Roots::realized, {}).sink;
    const Schedule schedule =
        make_schedule(sink, [&](const std::string& d) -> const DeviceSpec& { return Device::get(d).spec(); });
    for (const Step& step : schedule.steps) {
      if (step.program.op() != Op::SINK) continue;
      const Result r = measure(p.name, step.program, device, given);
      if (r.pairs == 0 || !std::isfinite(r.first)) continue;
      first += std::log(r.first), five += std::log(r.best_of_five), chosen += std::log(r.chosen);
      worst = std::max(worst, r.first);
      right += r.right, pairs += r.pairs, n++;
    }
  }
  if (n == 0) throw Error("no kernel was measured");
  const auto measured = [](const char* name, double value, const char* unit) {
    fmt::print("{{\"name\": \"{}\", \"value\": {}, \"unit\": \"{}\"}}\n", name, value, unit);
  };
  measured("kernels", n, "kernels");
  measured("pairs ordered right", 100.0 * right / pairs, "%");
  measured("the model's first, of the best", std::exp(first / n), "times");
  measured("the best of its first five, of the best", std::exp(five / n), "times");
  measured("the worst of the first, of the best", worst, "times");
  measured("what the compiler chooses, of the best", std::exp(chosen / n), "times");
}

}  // namespace

int main(int argc, char** argv) {
  Given given;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    if (arg == "--beam")
      given.beam = true;
    else if (arg == "--list")
      given.list = true;
    else if (arg == "--seed" && i + 1 < argc)
      given.seed = std::strtoull(argv[++i], nullptr, 10);
    else if (arg == "--kernel" && i + 1 < argc)
      given.kernel = argv[++i];
    else
      given.only = arg;
  }
  try {
    run(given);
  } catch (const std::exception& e) {
    std::cerr << "bench_model: " << e.what() << "\n";
    return 1;
  }
  return 0;
}
