// Words that are almost right.
#pragma once

#include <string>
#include <string_view>

namespace quern {

// "unknown op LAOD (did you mean LOAD?)"
std::string unknown_op(std::string_view word);

}  // namespace quern
