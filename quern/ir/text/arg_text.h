// Arguments and tags as text.
#pragma once

#include <string>

#include "quern/ir/node/arg.h"
#include "quern/ir/text/lexer.h"

namespace quern {

// The argument of an op; its kind is said unless it is the kind that is `usual` there: "3", but "int 3".
void print_arg(std::string& out, const Arg& arg, ArgKind usual);
Arg parse_arg(Lexer& in, ArgKind usual);

// "@done", "@3", "@[1, 2]", "@{stream: true}", "@const float 0.5"; nothing when there is none.
void print_tag(std::string& out, const Arg& tag);
Arg parse_tag(Lexer& in);  // from behind the '@'

}  // namespace quern
