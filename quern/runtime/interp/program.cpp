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
    run_threads(std::move(m));
}

void InterpProgram::run_threads(Machine first) const {
  int64_t count = 1;
  for (const ThreadIndex& index : code_.threads) count *= index.size;
  std::vector<Machine> threads(static_cast<size_t>(count), first);
  std::vector<std::vector<std::byte>> own;
  for (int64_t i = 0; i < count; i++) {
    Machine& m = threads[static_cast<size_t>(i)];
    int64_t left = i;
    for (const ThreadIndex& index : code_.threads) {
      m.slots[index.slot].i = left % index.size;
      left /= index.size;
    }
    for (size_t k = 0; k < code_.areas.size(); k++)
      if (code_.areas[k].is_of_thread) {
        const Area& area = code_.areas[k];
        own.emplace_back(static_cast<size_t>(area.elements * area.element.bytes()));
        m.areas[k] = {own.back().data(), area.elements};
      }
  }
  run_together(code_.first_block, threads);
}

void run_together(uint32_t block, std::vector<Machine>& threads) {
  const Code& code = threads[0].code;
  const std::vector<Instruction>& list = code.blocks[block];
  const auto is_together = [&](const Instruction& in) {
    if (in.run == barrier) return true;
    if (in.run != run_loop) return false;
    const uint32_t inside = code.loops[in.a].block;
    return inside < code.has_barrier.size() && code.has_barrier[inside] != 0;
  };
  for (size_t at = 0; at < list.size();) {
    size_t end = at;
    while (end < list.size() && !is_together(list[end])) end++;
    for (Machine& m : threads)
      for (size_t i = at; i < end; i++) list[i].run(list[i], m);
    if (end < list.size() && list[end].run == run_loop) {
      const Loop& loop = code.loops[list[end].a];
      const int64_t steps = threads[0].slots[loop.end].i;
      for (const Machine& m : threads)
        if (m.slots[loop.end].i != steps)
          throw Error(fmt::format(
              "kernel {}: a BARRIER in a loop of which threads make different numbers of steps", code.name));
      for (int64_t step = 0; step < steps; step++) {
        for (Machine& m : threads) m.slots[loop.variable].i = step;
        run_together(loop.block, threads);
      }
    }
    at = end + 1;
  }
}

}  // namespace quern::interp
