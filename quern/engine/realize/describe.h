// Steps of a schedule as text.
#pragma once

#include <string>

#include "quern/schedule/schedule.h"

namespace quern {

// "kernel e_4_4   INTERP  3 buffers", on request with why its memory is kept.
std::string describe(const Step& step, bool reasons);
std::string describe(const Schedule& schedule);  // a line a step, with reasons

// What one step did, on all of its devices.
struct Ran {
  int64_t operations = 0, bytes = 0, devices = 0;
  double seconds = 0;
  Texts opts = {};
};

// Tells of a step that ran: DEBUG=2 and more a line, in columns, with colours on a terminal; PROFILE at the
// end.
void note_run(const Step& step, const Ran& ran);

}  // namespace quern
