#include "quern/engine/realize/describe.h"

#include <fmt/format.h>
#include <unistd.h>

#include "quern/base/env.h"
#include "quern/runtime/counters.h"

namespace quern {
namespace {

bool use_colour() {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  return terminal && !env::NO_COLOR();
}
std::string coloured(const char* code, const std::string& text) {
  return use_colour() ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

// What is slow is to be seen: a tenth of a second, a hundredth.
const char* colour_of(double seconds) { return seconds > 0.1 ? "31" : seconds > 0.01 ? "33" : "32"; }

}  // namespace

std::string describe(const Step& step, bool reasons) {
  const Texts devices = step.buffers.empty() ? Texts() : step.buffers[0].device();
  const std::string device = fmt::format("{}", fmt::join(devices, "+"));
  if (step.program.op() == Op::COPY) {
    const Texts from = step.buffers.size() > 1 ? step.buffers[1].device() : Texts();
    return fmt::format("copy   {} -> {}, {} elements", fmt::join(from, "+"), device,
                       static_cast<int64_t>(step.buffers[0].shape()[0].vmax()));
  }
  const bool named = !step.program.arg().none();
  std::string text = fmt::format("kernel {:<20} {:<8} {} buffers",
                                 named ? step.program.arg().kernel().name : "", device, step.buffers.size());
  if (reasons && named)
    for (const std::string& reason : step.reasons) text += "\n       kept: " + reason;
  return text;
}

std::string describe(const Schedule& schedule) {
  std::string text;
  for (const Step& step : schedule.steps) text += describe(step, true) + "\n";
  return text;
}

std::string describe_run(const Step& step, double seconds, int64_t operations, int64_t bytes,
                         const Texts& opts) {
  const bool copies = step.program.op() == Op::COPY, named = !copies && !step.program.arg().none();
  const std::string devices = fmt::format("{}", fmt::join(step.buffers[0].device(), "+"));
  const std::string what = copies  ? fmt::format("from {}", fmt::join(step.buffers[1].device(), "+"))
                           : named ? step.program.arg().kernel().name
                                   : "";
  const double time = std::max(seconds, 1e-9);
  auto rate = [&](int64_t count) { return static_cast<double>(count) / time * 1e-9; };
  std::string text = fmt::format(
      "{} {} {:<8} {:>3} buffers {} {:>9.2f} GFLOPS {:>8.2f} GB/s  mem {:>7.3f} GB  {}\n",
      copies ? "copy  " : "kernel", coloured(copies ? "36" : "1", fmt::format("{:<32}", what)), devices,
      step.buffers.size(), coloured(colour_of(seconds), fmt::format("{:>10.3f} ms", seconds * 1e3)),
      rate(operations), rate(bytes), static_cast<double>(GlobalCounters::mem_used.load()) * 1e-9,
      coloured("2", fmt::format("{}", fmt::join(opts, " "))));
  if (env::DEBUG() >= 3 && named)
    for (const std::string& reason : step.reasons) text += "       kept: " + reason + "\n";
  return text;
}

}  // namespace quern
