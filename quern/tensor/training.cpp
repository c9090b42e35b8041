#include "quern/tensor/training.h"

#include <utility>

namespace quern {
namespace {

thread_local bool training = false;

}  // namespace

bool is_training() { return training; }
Training::Training(bool on) : before_(std::exchange(training, on)) {}
Training::~Training() { training = before_; }

}  // namespace quern
