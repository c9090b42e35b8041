#include "quern/engine/realize/describe.h"

#include <fmt/format.h>
#include <unistd.h>

#include "quern/base/env.h"
#include "quern/base/profile.h"
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

namespace {

std::string what_runs(const Step& step) {
  if (step.program.op() == Op::COPY) return fmt::format("from {}", fmt::join(step.buffers[1].device(), "+"));
  return step.program.arg().none() ? "" : step.program.arg().kernel().name;
}

std::string describe_run(const Step& step, const std::string& what, const std::string& devices,
                         const Ran& ran) {
  const bool copies = step.program.op() == Op::COPY;
  const double time = std::max(ran.seconds, 1e-9);
  auto rate = [&](int64_t count) { return static_cast<double>(count) / time * 1e-9; };
  std::string text = fmt::format(
      "{} {} {:<8} {:>3} buffers {} {:>9.2f} GFLOPS {:>8.2f} GB/s  mem {:>7.3f} GB  {}\n",
      copies ? "copy  " : "kernel", coloured(copies ? "36" : "1", fmt::format("{:<32}", what)), devices,
      step.buffers.size(), coloured(colour_of(ran.seconds), fmt::format("{:>10.3f} ms", ran.seconds * 1e3)),
      rate(ran.operations), rate(ran.bytes), static_cast<double>(GlobalCounters::mem_used.load()) * 1e-9,
      coloured("2", fmt::format("{}", fmt::join(ran.opts, " "))));
  if (env::DEBUG() >= 3 && !copies)
    for (const std::string& reason : step.reasons) text += "       kept: " + reason + "\n";
  return text;
}

}  // namespace

void note_run(const Step& step, const Ran& ran) {
  const std::string devices = fmt::format("{}", fmt::join(step.buffers[0].device(), "+"));
  const std::string what = what_runs(step);
  if (profile::is_on()) {
    const bool copies = step.program.op() == Op::COPY;
    profile::add({.name = copies ? "copy " + what : what,
                  .device = devices,
                  .kernel = copies ? 0 : step.program.hash(),
                  .times = ran.devices,
                  .seconds = ran.seconds,
                  .operations = ran.operations,
                  .bytes = ran.bytes});
  }
  if (env::DEBUG() >= 2) std::fputs(describe_run(step, what, devices, ran).c_str(), stderr);
}

}  // namespace quern
