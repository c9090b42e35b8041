// The compiler of the INTERP device at work: the tree of loops as it grows. Internal to interp/; its parts
// stand in compile.cpp (where nodes run), compile_memory.cpp and compile_loops.cpp.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "quern/runtime/interp/emit.h"

namespace quern::interp {

[[noreturn]] void refuse(const UOp& u, const std::string& why);

bool is_thread(const UOp& range);  // its steps are the threads of a workgroup
UOps closed_by(const UOp& u);      // the ranges that a loop node goes over, outermost first

// One loop of the tree, or the kernel itself.
struct Region {
  Region* parent;
  UOp range;  // none: the kernel
  uint32_t variable;
  uint32_t block;
  // The first slot of what runs here; kNoSlot: an effect.
  std::unordered_map<const detail::Node*, uint32_t> slots;
};

class Compiler {
 public:
  explicit Compiler(const UOp& kernel);
  Code result();

 private:
  // ---- where things run

  static Region& home_of(const UOp& u, Region& from);
  static bool runs_outside(const UOp& u, const Region& region, const UOps& closed);

  // What a loop node needs and can be run before it. This keeps recursion to the depth of loops in loops: a
  // chain of a thousand reduces, each needing the one before, is run in order, not from within.
  static UOps outer_needs(const UOp& loop, const Region& region);

  // Sees to it that u has run, in the region or one around it.
  void run(const UOp& u, Region& region);
  static UOps sources(const UOp& u);

  // The first slot of a value that has run.
  uint32_t slot(const UOp& u, Region& region);

  // ---- nodes

  uint32_t plain_node(const UOp& u, Region& at);
  static uint32_t lanes_before(const UOp& reduce, size_t pick);
  uint32_t elementwise(const UOp& u, Region& at);

  // ---- memory

  static const UOp& memory_under(const UOp& x);
  uint32_t area_of(const UOp& memory);

  // Slots with the position of an INDEX in its memory, in scalars; one for each lane of the indices.
  uint32_t address(const UOp& index, Region& at);

  // Each thread has registers of its own: they stand one behind the other. `threads` are those of the
  // threads' ranges that no loop around goes over, with their variables.
  using Threads = std::vector<std::pair<UOp, uint32_t>>;
  uint32_t of_thread(const UOp& memory, uint32_t position, uint32_t area, uint32_t block, Region& at,
                     const Threads& threads);
  uint32_t index_constant(int64_t value);
  static const Region* loop_over(const UOp& range, const Region& at);
  static const UOp& index_under(const UOp& address);

  struct Access {
    uint32_t area, position, gathered;  // slots of the position, and how many there are
    DType element;
  };
  Access access(const UOp& index, Region& at);
  uint32_t read(const UOp& u, Region& at);
  uint32_t write(const UOp& u, Region& at);

  // ---- loops

  uint32_t loop_node(const UOp& u, Region& at);
  void keep(const UOp& stage, Region& inner);
  uint32_t start_reduce(const UOp& u, Region& at);
  void add_to_reduce(const UOp& u, uint32_t to, Region& inner);

  // The body of a REDUCE, lane by lane: its STATEs are the accumulated and the incoming values.
  void combine(const UOp& u, uint32_t to, Region& inner);

  Code code_;
  Emitter emit_{code_};
  UOps threads_;
  std::unordered_map<const detail::Node*, uint32_t> areas_;
  UOps kept_;  // nodes in tables by address stay alive
};

}  // namespace quern::interp
