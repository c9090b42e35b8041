// What the INTERP device executes: a kernel as blocks of instructions over numbered slots, with loops as
// instructions that run a block. Made by compile.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quern/ir/node/uop.h"

namespace quern::interp {

// A scalar value as eval() has it: bools and integers in `i` (uint64 as its pattern), every float as the
// double that it is exactly.
union Slot {
  int64_t i;
  double f;
};

struct Machine;

// The meaning of the fields is that of the function.
struct Instruction {
  void (*run)(const Instruction&, Machine&);
  uint32_t to = 0, a = 0, b = 0, c = 0;
  int64_t number = 0;
};

// An elementwise op that has no function of its own: eval() runs it.
struct Operation {
  Op op;
  DType out, in;
};

struct Loop {
  uint32_t variable, end;  // slots
  uint32_t block;
  bool is_of_groups = false;  // its steps are workgroups
};

// Memory that a kernel uses: an argument, or memory of its own.
struct Area {
  DType element;         // a scalar
  int64_t elements = 0;  // what the kernel was made for; kUnsized: all that the argument has
  int64_t argument = -1;
  std::string text;           // for messages: "PARAM 0"
  bool is_of_thread = false;  // each thread of a workgroup has one
};

// A thread index of a workgroup: 0 <= slot < size.
struct ThreadIndex {
  uint32_t slot;
  int64_t size;
};

struct Variable {
  std::string name;
  uint32_t slot;
  int64_t min, max;
};

struct Code {
  std::string name;  // of the kernel
  std::vector<std::vector<Instruction>> blocks;
  uint32_t first_block = 0;
  std::vector<Loop> loops;
  std::vector<Operation> operations;
  std::vector<Area> areas;
  std::vector<Variable> variables;
  std::vector<Slot> slots;       // as they are at the start: constants
  std::vector<uint8_t> invalid;  // of each slot: it holds Invalid
  std::vector<ThreadIndex> threads;
  std::vector<uint8_t> has_barrier;  // of each block: all threads run it together
};

// The state of one run.
struct Machine {
  struct Span {
    std::byte* memory;
    int64_t elements;
  };
  const Code& code;
  std::vector<Slot> slots;
  std::vector<uint8_t> invalid;
  std::vector<Span> areas;
};

inline void run_block(uint32_t block, Machine& m) {
  for (const Instruction& in : m.code.blocks[block]) in.run(in, m);
}

// Code with threads: each thread of a workgroup runs to its next BARRIER, one after the other. An Error if
// they wait at different ones. `start` is a thread at the start of the program.
void run_workgroups(const Machine& start);

// ---- instructions

using Function = void (*)(const Instruction&, Machine&);

void run_loop(const Instruction& in, Machine& m);  // a: a loop
void barrier(const Instruction& in, Machine& m);   // nothing: run_workgroups() looks for it
void copy(const Instruction& in, Machine& m);      // to = a
void by_eval(const Instruction& in, Machine& m);   // to = operations[number](a, b, c), none of them Invalid
void by_eval_or_invalid(const Instruction& in, Machine& m);  // the same, any of them may be Invalid
void select_or_invalid(const Instruction& in, Machine& m);   // to = a ? b : c, b and c may be Invalid
void join_index(const Instruction& in, Machine& m);  // to = a * slots[number] + b, b checked; c: the area

// The function that computes the op on operands that are not Invalid, or by_eval.
Function function_for(Op op, DType out, DType in);

// to = area b at a + number; 0, or slot c if that is not kNoSlot, where a is Invalid.
inline constexpr uint32_t kNoSlot = ~uint32_t{0};
Function load_for(DType element);
// area b at a + number = c; nothing where a is Invalid.
Function store_for(DType element);

}  // namespace quern::interp
