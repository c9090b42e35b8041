// Rewrites shown to a person: what became what, and by which rule.
#pragma once

#include <iosfwd>

#include "quern/ir/rewrite/trace.h"

namespace quern::apps {

bool use_colour();  // standard output is a terminal, and NO_COLOR is not set

// Each step of the outermost passes, numbered. Steps of passes that ran inside a rule are left out: the
// rule's own step shows what came of them.
void print_steps(std::ostream& out, const RewriteTrace& trace);

}  // namespace quern::apps
