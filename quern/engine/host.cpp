#include "quern/engine/host.h"

#include <atomic>
#include <chrono>

#include "quern/base/error.h"
#include "quern/base/fork.h"

namespace quern {
namespace {

constexpr std::chrono::milliseconds kBetweenChecks{50}, kBetweenTries{1}, kPatience{20'000};

constinit std::atomic<Host*> the_host{nullptr};
thread_local std::chrono::steady_clock::time_point last_check{};

}  // namespace

void Host::set(Host* host) { the_host = host; }

void EngineMutex::lock() {
  if (!is_own()) {
    mutex_.lock();
    owner_ = std::this_thread::get_id();
  }
  depth_++;
}
bool EngineMutex::try_lock() {
  if (!is_own()) {
    if (!mutex_.try_lock()) return false;
    owner_ = std::this_thread::get_id();
  }
  depth_++;
  return true;
}
void EngineMutex::unlock() {
  if (--depth_ > 0) return;
  owner_ = std::thread::id();
  mutex_.unlock();
}

namespace {

// With a host, who forks may hold its lock, and what runs may wait for that: the host lets forks wait where
// it can, before they begin (python/src/fork.cpp). Here the lock is taken if it is free.
struct Engine {
  struct InForks {
    Engine& engine;
    void lock() { engine.is_held = has_host() ? engine.mutex.try_lock() : (engine.mutex.lock(), true); }
    void unlock() {
      if (engine.is_held) engine.mutex.unlock();
    }
  };
  Engine() { hold_in_forks(LockOrder::engine, in_forks); }

  EngineMutex mutex;
  InForks in_forks{*this};
  bool is_held = false;
  bool is_lost = false;                    // to a thread that is not in this process
  std::atomic<bool> is_abandoned = false;  // by the thread that has it
};
Engine& engine() {
  static auto* const made = [] {
    in_forked_child([] { engine().is_lost = !engine().is_held; });
    return new Engine;  // NOLINT(cppcoreguidelines-owning-memory): used to the end
  }();
  return *made;
}

}  // namespace

std::unique_lock<EngineMutex> lock_engine() {
  if (engine().is_lost)
    throw Error(
        "nothing can be computed in this process: it was forked while another thread computed; start "
        "processes before, or with Python's os.fork or multiprocessing, which wait");
  std::unique_lock lock(engine().mutex, std::try_to_lock);
  if (lock) return lock;
  release_gil([&] { lock.lock(); });
  return lock;
}

void stop_engine() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!engine().is_lost && !engine().is_abandoned && !engine().mutex.try_lock() &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(kBetweenTries);
}
void abandon_engine() {
  if (engine().mutex.is_own()) engine().is_abandoned = true;
}

void release_gil(const std::function<void()>& f) {
  Host* const host = the_host;
  host == nullptr ? f() : host->unlocked(f);
}
void with_gil(const std::function<void()>& f) {
  Host* const host = the_host;
  host == nullptr ? f() : host->locked(f);
}

bool has_host() { return the_host != nullptr; }
bool is_check_due() { return has_host() && std::chrono::steady_clock::now() - last_check > kBetweenChecks; }
void check_host() {
  if (!is_check_due()) return;
  last_check = std::chrono::steady_clock::now();
  the_host.load()->check();
}

}  // namespace quern
