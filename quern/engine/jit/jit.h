// Functions that are captured once and replayed: auto step = jit([&](Tensor x, Tensor y) { ... }).
// The first call runs the function, the second runs it and remembers what it ran, and later ones run that
// again on the tensors they are given, without calling the function (docs/jit.md).
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "quern/engine/host.h"
#include "quern/engine/jit/jit_arguments.h"

namespace quern {
namespace detail {

// The calls of one function, whatever its type.
class JitCalls {
 public:
  JitCalls();
  JitCalls(const JitCalls&) = delete;
  JitCalls& operator=(const JitCalls&) = delete;
  ~JitCalls();

  struct Captured;
  struct Replayed {
    std::unique_lock<EngineMutex> lock = {};       // nothing else runs until the results are taken
    std::shared_ptr<Captured> captured = nullptr;  // which another thread may replace
    const std::vector<Tensor>* kept = nullptr;     // the outputs, or
    std::vector<Tensor> own = {};
    const size_t* lengths = nullptr;
    explicit operator bool() const { return lock.owns_lock(); }
    JitResults results() const { return {kept != nullptr ? kept->data() : own.data(), lengths}; }
  };
  // None if the function is to be run.
  Replayed replay(const JitArguments& given);
  // Runs the function, which may find other tensors in its arguments than were given; captures it if it is
  // time.
  void run(const JitArguments& given, const std::function<JitArguments()>& function);

  void reset();
  bool is_captured() const;
  int64_t kernels() const;       // of a replay
  int64_t memory_bytes() const;  // that a replay needs between its kernels

 private:
  std::shared_ptr<Captured> capture(const JitArguments& given, const std::function<JitArguments()>& function,
                                    const std::vector<uint64_t>& numbers);

  bool has_run_ = false;
  std::vector<uint64_t> numbers_;  // hashes of those of the host that it made tensors of, when it ran last
  std::shared_ptr<Captured> captured_;
};

}  // namespace detail

// Copies are the same function with the same memory of its calls. Threads may share them.
template <class Function>
class Jit {
 public:
  explicit Jit(Function function)
      : function_(std::make_shared<Function>(std::move(function))),
        calls_(std::make_shared<detail::JitCalls>()) {}

  template <class... Given>
  auto operator()(Given&&... given) const {
    using Result =
        std::decay_t<decltype(std::invoke(*function_, std::declval<detail::JitKept<Given>&>()...))>;
    static_assert(
        std::is_void_v<Result> ||
            detail::holds_only_tensors<std::conditional_t<std::is_void_v<Result>, Tensor, Result>>(),
        "jit: the function must return tensors (also in pairs, tuples, vectors, optionals) or "
        "nothing: other results would not change in a replay");
    std::tuple<detail::JitKept<Given>...> kept(std::forward<Given>(given)...);
    detail::JitArguments arguments;
    detail::take_apart_all(kept, arguments);
    const detail::JitCalls::Replayed replayed = calls_->replay(arguments);
    if constexpr (std::is_void_v<Result>) {
      if (replayed) return;
      calls_->run(arguments, [&] {
        std::apply(*function_, kept);
        return detail::JitArguments();
      });
    } else {
      if (replayed) {
        detail::JitResults results = replayed.results();
        return detail::put_together<Result>(results);
      }
      std::optional<Result> result;
      calls_->run(arguments, [&] {
        result.emplace(std::apply(*function_, kept));
        detail::JitArguments outputs;
        detail::take_apart(*result, outputs);
        return outputs;
      });
      return *std::move(result);
    }
  }

  void reset() const { calls_->reset(); }  // the next call is the first one again
  bool is_captured() const { return calls_->is_captured(); }
  int64_t kernels() const { return calls_->kernels(); }
  int64_t memory_bytes() const { return calls_->memory_bytes(); }

 private:
  std::shared_ptr<Function> function_;
  std::shared_ptr<detail::JitCalls> calls_;
};

template <class Function>
Jit<std::decay_t<Function>> jit(Function&& function) {
  return Jit<std::decay_t<Function>>(std::forward<Function>(function));
}

}  // namespace quern
