#include "quern/runtime/interp/program.h"

#include <fmt/format.h>

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
    if (area.argument >= std::ssize(arguments))
      throw Error(fmt::format("kernel {}: {} has no argument, {} are given", code_.name, area.text,
                              arguments.size()));
    const Argument& given = arguments[static_cast<size_t>(area.argument)];
    const int64_t elements = given.bytes / element;
    if (area.elements > elements)
      throw Error(fmt::format("kernel {}: {} needs {} elements of {}, its argument has {} bytes", code_.name,
                              area.text, area.elements, area.element.name(), given.bytes));
    m.areas.push_back({static_cast<std::byte*>(given.memory), area.elements < 0 ? elements : area.elements});
  }
  for (const Variable& variable : code_.variables) {
    const auto given = variables.find(variable.name);
    if (given == variables.end())
      throw Error(fmt::format("kernel {}: variable {} has no value", code_.name, variable.name));
    if (given->second < variable.min || given->second > variable.max)
      throw Error(fmt::format("kernel {}: variable {} is {}, not from {} to {}", code_.name, variable.name,
                              given->second, variable.min, variable.max));
    m.slots[variable.slot].i = given->second;
  }
  if (code_.threads.empty())
    run_block(code_.first_block, m);
  else
    run_workgroups(m);
}

}  // namespace quern::interp
