// Steps of a schedule as text.
#pragma once

#include <string>

#include "quern/schedule/schedule.h"

namespace quern {

// "kernel e_4_4   INTERP  3 buffers", on request with why its memory is kept, and with the kernel itself.
std::string describe(const Step& step, bool reasons, bool kernel);
std::string describe(const Schedule& schedule);  // a line a step, with reasons

}  // namespace quern
