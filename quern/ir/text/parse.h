// Reads what print() writes, and what people write by hand. The grammar is in docs/ir-text.md.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "quern/ir/node/uop.h"

namespace quern {

// Nodes that a text may use without defining them: {{"x", node}} for %x.
using NamedNodes = std::map<std::string, UOp, std::less<>>;

// The value of the last statement. Whatever is wrong with the text is a ParseError with line and column.
UOp parse(std::string_view text, const NamedNodes& names = {});

namespace literals {
inline UOp operator""_ir(const char* text, size_t size) { return parse({text, size}); }  // "$n[1..8] + 1"_ir
}  // namespace literals

}  // namespace quern
