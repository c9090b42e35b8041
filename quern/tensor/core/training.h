// What holds for a while, of each thread by itself: whether a model is being trained, which dropout and the
// statistics of batches ask; and whether values carry gradients.
#pragma once

#include "quern/tensor/core/live.h"

namespace quern {

bool is_training();

// const Training on;  from here to the end of the block.
class Training {
 public:
  explicit Training(bool on = true);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

 private:
  bool before_;
};

// const NoGrad off;  until the end of the block what this thread computes carries no gradient: tensors that
// are made in it are detached at its end, and what is written into others is detached when it is written.
// backward() may be called in it.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  detail::LiveMark begin_;
};

bool is_grad_enabled();  // false within a NoGrad

}  // namespace quern
