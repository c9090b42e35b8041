// Steps of a schedule as text.
#pragma once

#include <string>

#include "quern/schedule/schedule.h"

namespace quern {

// "kernel e_4_4   INTERP  3 buffers", on request with why its memory is kept.
std::string describe(const Step& step, bool reasons);
std::string describe(const Schedule& schedule);  // a line a step, with reasons

// For DEBUG=2 and more: a step that ran, in columns, with colours on a terminal.
std::string describe_run(const Step& step, double seconds, int64_t operations, int64_t bytes,
                         const Texts& opts);

}  // namespace quern
