// Programs of tensors as data: lists of calls that can be run, made smaller and printed as C++.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "quern/tensor/core/tensor.h"

namespace quern::program {

enum class Call {
  input,    // numbers: the shape; data; dtype
  full,     // numbers: the shape; number; dtype
  unary,    // name
  binary,   // name; the second operand is from[1], or number if there is none
  clamp,    // from -number to number
  where,    // condition, yes, no
  cast,     // dtype
  reshape,  // numbers: the shape
  expand,   // numbers: the shape
  permute,  // numbers: the order
  flip,     // numbers: the axes
  pad,      // numbers: before and after, the last axis first; number
  slice,    // numbers: start, stop, step of each axis; step 0: the index `start` alone
  reduce,   // name; numbers: the axes; keepdim
  scan,     // name; numbers: the axis
  matmul,   // two
  cat,      // numbers: the axis; several
  pick,     // from[0] indexed by from[1] along the first axis
  contiguous,
  clone,
  assign,  // from[0] is the target; the value is from[1] or number
  set,     // the same, to a slice
};

struct Instruction {
  Call call;
  std::string name = {};
  std::vector<size_t> from = {};  // earlier instructions
  Ints numbers = {};
  double number = 0;
  bool keepdim = false;
  DType dtype = dtypes::void_;
  std::vector<double> data = {};

  bool writes() const { return call == Call::assign || call == Call::set; }
};

// What is known of a value before it is run.
struct Facts {
  Ints shape = {};
  DType dtype = dtypes::void_;
  double most = 0;        // of the absolute values
  double error = 0;       // by which a float32 may be away from the exact value
  size_t owner = 0;       // the instruction whose memory it views, or may view
  bool memory = false;    // the owner has memory, however the program is run
  bool writable = false;  // each element is a place of its own among those of the owner
  bool unsure = false;    // a view if the owner was run before, else a copy
  int64_t elements() const;
};

struct Program {
  std::vector<Instruction> list;
  std::vector<size_t> outputs;    // realised at once, at the end
  bool keep_all = true;           // the other tensors are alive then, and are looked at too
  std::string device = "INTERP";  // where it is run lazily; eagerly it is run on INTERP
  bool floats = false;            // random floats: compared with a tolerance; otherwise to the bit
  std::string source() const;     // as C++
};

enum class How { lazily, eagerly, eagerly_in_float64 };

struct Run {
  std::vector<std::vector<double>> values;  // of each instruction; empty if it was not looked at
  std::vector<std::vector<std::byte>> bytes;
};
Run run(const Program& program, How how);

// Made one instruction at a time, without running it.
class Building {
 public:
  void add(const Instruction& instruction);  // throws what the call throws
  void undo();                               // the last one, if it writes nothing
  size_t size() const { return facts_.size(); }
  const Facts& operator[](size_t i) const { return facts_[i]; }
  bool is_unsure(size_t i) const;  // what is written there may be seen elsewhere, or not

 private:
  std::vector<Tensor> tensors_;
  std::vector<Facts> facts_;
};
std::vector<Facts> facts_of(const Program& program);

// What is wrong when it is run in both ways; nothing if all is well. `kind` is the same for failures that are
// alike.
struct Failure {
  std::string kind, text;
};
std::optional<Failure> check(const Program& program);

Program random_program(std::mt19937_64& random, bool floats, int64_t instructions);
Program shrink(Program program, const Failure& failure);

}  // namespace quern::program
