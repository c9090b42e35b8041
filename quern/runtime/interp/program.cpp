#include "quern/runtime/interp/program.h"

#include "quern/runtime/arguments.h"
#include "quern/runtime/interp/compile.h"

namespace quern::interp {

InterpProgram::InterpProgram(const UOp& kernel) : code_(compile(kernel)) {}
InterpProgram::InterpProgram(const LinearProgram& program) : code_(compile(program)) {}

void InterpProgram::run(std::span<const Argument> arguments, const VariableValues& variables) const {
  Machine m{code_, code_.slots, code_.invalid, {}};
  std::vector<std::vector<std::byte>> own;
  for (const Area& area : code_.areas) {
    const int64_t element = area.element.bytes();
    if (area.argument < 0) {
      std::vector<std::byte>& memory = own.emplace_back(static_cast<size_t>(area.elements * element));
      m.areas.push_back({memory.data(), area.elements});
      continue;
    }
    const Argument& given = argument_of({.slot = area.argument,
                                         .elements = area.elements,
                                         .element_bytes = element,
                                         .written = false,
                                         .dtype = std::string(area.element.name())},
                                        arguments, code_.name);
    const int64_t elements = given.bytes / element;
    m.areas.push_back({static_cast<std::byte*>(given.memory), area.elements < 0 ? elements : area.elements});
  }
  for (const Variable& v : code_.variables)
    m.slots[v.slot].i = value_of(v.name, v.min, v.max, variables, code_.name);
  if (code_.threads.empty())
    run_block(code_.first_block, m);
  else
    run_workgroups(m);
}

}  // namespace quern::interp
