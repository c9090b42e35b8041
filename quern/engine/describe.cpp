#include "quern/engine/describe.h"

#include <fmt/format.h>

namespace quern {

std::string describe(const Step& step, bool reasons, bool kernel) {
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
    for (const std::string& reason : step.program.arg().kernel().reasons) text += "\n       kept: " + reason;
  if (kernel) text += "\n" + step.program.text() + "\n";
  return text;
}

std::string describe(const Schedule& schedule) {
  std::string text;
  for (const Step& step : schedule.steps) text += describe(step, true, false) + "\n";
  return text;
}

}  // namespace quern
