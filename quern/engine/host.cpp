#include "quern/engine/host.h"

#include <atomic>
#include <chrono>

namespace quern {
namespace {

constexpr std::chrono::milliseconds kBetweenChecks{50};

constinit std::atomic<Host*> the_host{nullptr};
thread_local std::chrono::steady_clock::time_point last_check{};

}  // namespace

void Host::set(Host* host) { the_host = host; }

std::unique_lock<std::recursive_mutex> lock_engine() {
  static std::recursive_mutex mutex;
  std::unique_lock lock(mutex, std::try_to_lock);
  if (lock) return lock;
  without_host([&] { lock.lock(); });
  return lock;
}

void without_host(const std::function<void()>& f) {
  Host* const host = the_host;
  host == nullptr ? f() : host->unlocked(f);
}
void with_host(const std::function<void()>& f) {
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
