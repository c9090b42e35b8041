#include "quern/base/fork.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <mutex>
#include <new>

namespace quern {
namespace {

constexpr size_t kOrders = static_cast<size_t>(LockOrder::node_memory) + 1;

// Lists that only grow, without a lock: who adds to one may hold any.
template <class T>
struct Listed {
  T item;
  const Listed* next;
};
template <class T>
void add(std::atomic<const Listed<T>*>& list, T item) {
  auto* const added = new Listed<T>{item, list.load()};  // NOLINT(cppcoreguidelines-owning-memory): stays
  while (!list.compare_exchange_weak(added->next, added)) {
  }
}

struct Held {
  void* lock;
  void (*take)(void*);
  void (*give_back)(void*);
};

constinit std::array<std::atomic<const Listed<Held>*>, kOrders> locks{};
constinit std::atomic<const Listed<void (*)()>*> child_calls{nullptr};

// One fork at a time, with the locks that there were when it began.
constinit std::mutex forking;
constinit std::array<const Listed<Held>*, kOrders> held{};

void before_fork() {
  forking.lock();
  for (size_t i = 0; i < kOrders; i++) {
    held[i] = locks[i].load();
    for (const auto* l = held[i]; l != nullptr; l = l->next) l->item.take(l->item.lock);
  }
}

void after_fork() {
  for (size_t i = kOrders; i-- > 0;)
    for (const auto* l = held[i]; l != nullptr; l = l->next) l->item.give_back(l->item.lock);
  forking.unlock();
}

void after_fork_in_child() {
  for (const auto* call = child_calls.load(); call != nullptr; call = call->next) call->item();
  after_fork();
}

void watch_forks() {
  static const bool watched = [] {
    if (::pthread_atfork(before_fork, after_fork, after_fork_in_child) != 0) throw std::bad_alloc();
    return true;
  }();
  (void)watched;
}

}  // namespace

void detail::hold_in_forks(LockOrder order, void* lock, void (*take)(void*), void (*give_back)(void*)) {
  watch_forks();
  add(locks[static_cast<size_t>(order)], Held{lock, take, give_back});
}

void in_forked_child(void (*f)()) {
  watch_forks();
  add(child_calls, f);
}

}  // namespace quern
