// The language that the engine is called from, where it has a lock of its own and a way to stop what runs
// (Python: its interpreter lock, Ctrl-C).
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace quern {

// The host's threads make and write tensors with its lock, so the engine has it to change them, and not while
// it compiles and runs. Of the two locks the engine's is taken first: who waits for it lets go of the host's.
class Host {
 public:
  virtual ~Host() = default;
  virtual void unlocked(const std::function<void()>& f) = 0;  // calls it without the host's lock
  virtual void locked(const std::function<void()>& f) = 0;    // and with it
  virtual void check() = 0;                                   // throws if what runs is to be stopped

  static void set(Host* host);  // for the rest of the process
};

// Runs one at a time: what a schedule overwrites must not be read by another that is being run.
// A fork waits for it. (A std::recursive_mutex could not be unlocked in the child, which is another thread to
// it.)
class EngineMutex {
 public:
  void lock();
  bool try_lock();
  void unlock();
  bool is_own() const { return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
  int depth_ = 0;
};
std::unique_lock<EngineMutex> lock_engine();

// For the end of the process, before anything static is destroyed: waits until nothing computes, which it
// does not do again but in the thread that called this. Not for ever: what hangs does not keep the process.
void stop_engine();
// Nobody waits for a thread any more that stays where it is until then, with the engine's lock perhaps.
void abandon_engine();

// The host's lock, which is Python's GIL: calls f without it, or with it. With no host both just call f.
void release_gil(const std::function<void()>& f);
void with_gil(const std::function<void()>& f);

// Asks the host whether to go on, every now and then: where nothing is half done.
bool has_host();
bool is_check_due();
void check_host();  // if it is due

}  // namespace quern
