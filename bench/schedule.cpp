// From tensors to kernels: bench_schedule NAME [N]; see schedule.py for the names.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <iostream>

#include "bench/models/models.h"
#include "quern/engine/realize/outputs.h"
#include "quern/schedule/schedule.h"

namespace {

using namespace quern;
using namespace quern::models;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void measured(const std::string& name, double value, const char* unit) {
  fmt::print("{{\"name\": \"{}\", \"value\": {}, \"unit\": \"{}\"}}\n", name, value, unit);
}

DeviceSpec device() {
  return {.name = "GPU",
          .parallel = {.cores = 108, .threads_per_core = 1024, .workgroup = 256, .warp = 32},
          .memory = {.registers = 255, .thread_bytes = 0, .group_bytes = 48 << 10, .l2_bytes = 40 << 20}};
}

void run(const std::string& name, int64_t n) {
  Network net;
  const auto start = Clock::now();
  std::vector<Tensor> wanted;
  std::string title = name;
  if (name == "resnet") {
    wanted = {resnet50(net, n)};
    title = fmt::format("ResNet-50 forward, batch {}", n);
  } else if (name == "llama") {
    wanted = sgd_step(llama_loss(net, {.layers = n}), net);
    title = fmt::format("llama training step, {} layers", n);
  } else if (name == "lstm") {
    wanted = sgd_step(lstm_loss(net, n), net);
    title = fmt::format("LSTM training step, {} time steps", n);
  } else {
    throw Error("there is no network called " + name);
  }
  UOps roots;
  for (const Tensor& t : wanted) roots.push_back(t.uop());
  const UOp sink = outputs_for(roots, Roots::realized, {}).sink;
  const double built = since(start);
  const DeviceSpec spec = device();
  const auto scheduling = Clock::now();
  const Schedule schedule =
      make_schedule(sink, [&](const std::string&) -> const DeviceSpec& { return spec; });
  const double scheduled = since(scheduling);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  measured(title + ": to kernels", scheduled, "ms");
  measured(title + ": to tensors", built, "ms");
  measured(title + ": kernels", static_cast<double>(schedule.steps.size()), "kernels");
  measured(title + ": memory", static_cast<double>(usage.ru_maxrss) / 1024, "MiB");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: bench_schedule NAME [N]\n";
    return 2;
  }
  try {
    run(argv[1], argc == 3 ? std::stoll(argv[2]) : 1);
  } catch (const std::exception& e) {
    std::cerr << "bench_schedule: " << e.what() << "\n";
    return 1;
  }
  return 0;
}
