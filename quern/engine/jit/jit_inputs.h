// Inputs of a captured function: whether those of a call fit, and where they are in memory.
#pragma once

#include "quern/engine/jit/jit_arguments.h"
#include "quern/engine/jit/replay.h"

namespace quern {

class JitInputs {
 public:
  // Before the function is captured: inputs are brought into memory, and each becomes a tensor over memory of
  // its own, so that what the function does with it is seen. An Error for memory that is passed twice.
  // Returns of each whether it is a copy.
  static std::vector<bool> prepare(const detail::JitArguments& given);
  JitInputs(const detail::JitArguments& prepared, const std::vector<bool>& copied);

  const UOps& buffers() const { return buffers_; }  // of each input, as captured; later what stands for it
  const VariableValues& variables() const { return variables_; }
  void recorded(const Recording& recording);  // an Error for a write that would be lost

  // Of a call: everything is compared with what was captured, addresses and variables go into the replay.
  // An Error says what does not fit. True if there is other memory, or another value, than in the last call.
  bool read(const detail::JitArguments& given, Replay& replay);
  bool apart() const { return apart_; }  // no memory of someone else, that could be any
  bool is_written(size_t input) const { return inputs_[input].written; }
  bool writes() const { return writes_; }  // into any of them

  // What stands for the memory of an input as captured, in this call: to make views of it.
  UOp flat(size_t input, const UOp& given) const;
  std::unordered_map<UOp, UOp> bindings() const;  // of variables: as captured, as in this call
  void let_go() { copies_.clear(); }              // of what was copied for a call
  void forget_memory(const std::unordered_map<UOp, UOp>& stands_for);  // that was captured

 private:
  struct Input {
    UOp view;         // over a PARAM in the place of its memory; as last seen, with the values of variables
    UOp stripped;     // without them
    bool contiguous;  // other memory in order will do
    bool copied;      // when it was captured
    bool written = false;
    int64_t identity = -1, begin = 0, bytes = 0;  // of the last call
    bool external = false;
  };
  void read_slowly(size_t i, const Tensor& given, Replay& replay);
  void check_apart();
  void collect_variables();

  std::vector<Input> inputs_;
  UOps buffers_;
  UOps dims_;  // as last seen
  UOps stripped_dims_;
  std::vector<size_t> lengths_;
  std::vector<std::any> values_;
  std::vector<std::string> texts_;
  VariableValues variables_;
  std::map<std::string, UOp> captured_binds_;
  UOps copies_;
  std::unordered_set<int64_t> written_outside_, used_outside_;  // identities of memory that is no input
  bool apart_ = true, writes_ = false;
  bool unsettled_ = true;  // the last call ended before all was read
};

}  // namespace quern
