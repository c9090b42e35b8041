// Threads of workgroups, with barriers. Threads take turns, so that one that reads LOCAL memory without
// waiting for those that write it, or writes what others have yet to read, gives wrong numbers here, as it
// does elsewhere.
#include <fmt/format.h>

#include "quern/base/error.h"
#include "quern/runtime/interp/machine.h"

namespace quern::interp {
namespace {

class Thread {
 public:
  explicit Thread(const Machine& start)
      : machine(start), stack_{{start.code.first_block, 0, nullptr, 0, 0}} {}

  // To the next BARRIER, or the end of a workgroup: where that is. At the end of the program: none.
  const void* advance() {
    const Code& code = machine.code;
    while (!stack_.empty()) {
      Frame& top = stack_.back();
      const std::vector<Instruction>& list = code.blocks[top.block];
      if (top.at == list.size()) {
        const Loop* loop = top.loop;
        top.at = 0;
        top.step++;
        if (loop != nullptr && top.step < top.steps)
          machine.slots[loop->variable].i = top.step;
        else
          stack_.pop_back();
        if (loop != nullptr && loop->is_of_groups) return loop;
        continue;
      }
      const Instruction& in = list[top.at++];
      if (in.run == barrier) return &in;
      const Loop* loop = in.run == run_loop ? &code.loops[in.a] : nullptr;
      if (loop == nullptr || loop->block >= code.has_barrier.size() || code.has_barrier[loop->block] == 0) {
        in.run(in, machine);
        continue;
      }
      const int64_t steps = machine.slots[loop->end].i;
      if (steps <= 0) continue;
      machine.slots[loop->variable].i = 0;
      stack_.push_back({loop->block, 0, loop, 0, steps});
    }
    return nullptr;
  }

  Machine machine;

 private:
  struct Frame {
    uint32_t block;
    size_t at;
    const Loop* loop;
    int64_t step, steps;
  };
  std::vector<Frame> stack_;
};

}  // namespace

void run_workgroups(const Machine& start) {
  const Code& code = start.code;
  int64_t count = 1;
  for (const ThreadIndex& index : code.threads) count *= index.size;
  std::vector<Thread> threads(static_cast<size_t>(count), Thread(start));
  std::vector<std::vector<std::byte>> own;
  for (size_t i = 0; i < threads.size(); i++) {
    Machine& m = threads[i].machine;
    auto left = static_cast<int64_t>(i);
    for (const ThreadIndex& index : code.threads) {
      m.slots[index.slot].i = left % index.size;
      left /= index.size;
    }
    for (size_t k = 0; k < code.areas.size(); k++) {
      const Area& area = code.areas[k];
      if (!area.is_of_thread) continue;
      own.emplace_back(static_cast<size_t>(area.elements * area.element.bytes()));
      m.areas[k] = {own.back().data(), area.elements};
    }
  }
  const void* place = nullptr;
  for (bool forwards = true;; forwards = !forwards) {
    for (size_t i = 0; i < threads.size(); i++) {
      const void* now = threads[forwards ? i : threads.size() - 1 - i].advance();
      if (i > 0 && now != place)
        throw Error(fmt::format("kernel {}: not all threads of a workgroup come to a BARRIER", code.name));
      place = now;
    }
    if (place == nullptr) return;
  }
}

}  // namespace quern::interp
