// Outputs of a captured function: each call gives tensors with memory of their own. Memory of outputs that
// nobody holds any more is used again, with the tensor and its nodes, so that a small call makes nothing new.
#pragma once

#include "quern/engine/jit/jit_inputs.h"

namespace quern {

class JitOutputs {
 public:
  JitOutputs(const detail::JitArguments& outputs, const Recording& recording, const JitInputs& inputs);

  const UOps& made() const {
    return made_;
  }  // BUFFERs as captured that each call has others for; later PARAMs
  void forget_memory(const std::unordered_map<UOp, UOp>& stands_for);  // that was captured
  const size_t* lengths() const { return lengths_.data(); }

  // Tensors for a call, and their addresses into the replay, in which they are given from number `first` on.
  // `rebound`: variables have other values than in the last call. None: they are in `own`, not kept here.
  const std::vector<Tensor>* take(Replay& replay, size_t first, const JitInputs& inputs,
                                  const detail::JitArguments& given, bool rebound, std::vector<Tensor>& own);

 private:
  struct Output {
    UOp view;             // as captured
    int64_t input, made;  // what it is a view of: one of them, or (-1, -1) memory that is bound
  };
  // The outputs of one call.
  struct Set {
    UOps buffers;                   // one for each of made_
    std::vector<BufferPtr> memory;  // of each, on each device
    std::vector<Tensor> tensors;
    UOps views;  // what each tensor was made as
    struct Count {
      const detail::Node* node;
      uint32_t references;
    };
    std::vector<Count> counts;  // while nobody else holds them
    uint64_t binding = 0;
  };
  Set make(const JitInputs& inputs, const detail::JitArguments& given) const;
  void count(Set& set) const;
  bool is_free(const Set& set) const;
  UOps views(const Set& set, const JitInputs& inputs, const detail::JitArguments& given) const;

  static constexpr size_t kMostKept = 2;  // the one that is held during the next call, and that call's
  static constexpr int64_t kMostBytes = 1 << 20;

  std::vector<Output> outputs_;
  UOps made_;
  std::vector<size_t> lengths_;
  bool keeps_ = true, is_symbolic_ = false;
  uint64_t binding_ = 1;  // counts how often variables changed
  std::vector<Set> kept_;
};

}  // namespace quern
