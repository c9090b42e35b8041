// From nothing to the first result: bench_start NAME; see start.py. START_NS in the environment is when the
// process was started, by the monotonic clock.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <set>

#include "bench/models/models.h"
#include "quern/codegen/lower.h"
#include "quern/engine/realize/outputs.h"
#include "quern/quern.h"
#include "quern/runtime/device.h"
#include "quern/schedule/schedule.h"

namespace {

using namespace quern;
using namespace quern::models;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Clock::time_point process_start() {
  const char* const given = std::getenv("START_NS");
  if (given == nullptr) return Clock::now();
  return Clock::time_point(std::chrono::nanoseconds(std::stoll(given)));
}

void measured(const std::string& name, double value, const char* unit) {
  fmt::print("{{\"name\": \"{}\", \"value\": {}, \"unit\": \"{}\"}}\n", name, value, unit);
}

// Tensors to linear programs, those of equal kernels once, by one thread.
void lower_resnet50() {
  Network net{.device = "CPU"};
  const DeviceSpec spec = Device::get("CPU").spec();
  const auto start = Clock::now();
  const Tensor y = resnet50(net, 64);
  const UOp sink = outputs_for({y.uop()}, Roots::realized, {}).sink;
  const Schedule schedule =
      make_schedule(sink, [&](const std::string&) -> const DeviceSpec& { return spec; });
  std::set<const void*> seen;
  size_t instructions = 0;
  std::vector<UOp> kernels;
  for (const Step& step : schedule.steps)
    if (step.program.op() == Op::SINK && seen.insert(step.program.node()).second)
      kernels.push_back(step.program);
  for (const UOp& kernel : kernels) instructions += lower(kernel, spec, OptChoice::best).list.size();
  measured("ResNet-50, batch 64: tensors to programs", since(start), "ms");
  measured("ResNet-50, batch 64: programs", static_cast<double>(kernels.size()), "programs");
  measured("ResNet-50, batch 64: instructions", static_cast<double>(instructions), "instructions");
}

void run(const std::string& name) {
  const auto start = process_start();
  Network net{.device = "CPU"};
  if (name == "softmax") {
    const Tensor x = net.input({256, 256}), w = net.parameter({256, 256});
    const auto values = x.matmul(w).softmax(1).to_vector<float>();
    measured("softmax(x @ w) of 256x256", since(start), "ms");
    if (values.at(0) != 1.0F / 256) throw Error("that is wrong");
  } else if (name == "resnet18") {
    const auto values = resnet18(net, 1).to_vector<float>();
    measured("ResNet-18 forward, batch 1", since(start), "ms");
    if (values.size() != 1000) throw Error("that is wrong");
  } else if (name == "lower") {
    lower_resnet50();
  } else {
    throw Error("there is no work called " + name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_start softmax|resnet18|lower\n";
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
