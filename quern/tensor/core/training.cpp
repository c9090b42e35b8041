#include "quern/tensor/core/training.h"

#include <utility>

namespace quern {
namespace {

thread_local bool training = false;
thread_local int64_t blocks_without_gradients = 0;

}  // namespace

bool is_training() { return training; }
Training::Training(bool on) : before_(std::exchange(training, on)) {}
Training::~Training() { training = before_; }

bool is_grad_enabled() { return blocks_without_gradients == 0; }
NoGrad::NoGrad() : begin_(detail::live_mark()) { blocks_without_gradients++; }
NoGrad::~NoGrad() {
  blocks_without_gradients--;
  detail::detach_made_since(begin_);
}

}  // namespace quern
