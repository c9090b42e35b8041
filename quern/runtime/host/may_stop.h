// What runs may be stopped in the middle: a kernel that takes long asks now and then, in the thread that runs
// it, whether to go on. Who begins a run knows whether it may be left half done.
#pragma once

namespace quern {

// Until the end of a scope, what this thread runs asks so: `check` throws if it is to stop.
class MayStop {
 public:
  using Check = void (*)(const void* context);
  MayStop(Check check, const void* context) : check_(check), context_(context), before_(current_) {
    current_ = this;
  }
  MayStop(const MayStop&) = delete;
  MayStop& operator=(const MayStop&) = delete;
  ~MayStop() { current_ = before_; }

  // That of this thread. None: what it runs goes on to its end.
  static const MayStop* current() { return current_; }
  void ask() const { check_(context_); }

 private:
  Check check_;
  const void* context_;
  const MayStop* before_;
  static constinit thread_local inline const MayStop* current_ = nullptr;
};

}  // namespace quern
