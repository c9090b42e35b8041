// What a fork does to locks and threads. The child has a copy of all memory, and of the threads only the one
// that forked: a lock that another one held would stay locked in it for ever. So a fork waits for the locks
// of the process as a whole, and lets go of them in parent and child. What cannot be waited for is the first
// use of a static variable in another thread; in Python that has a lock, which is held in forks.
#pragma once

#include <cstdint>
#include <mutex>

namespace quern {

// Of these locks. Who holds one may wait for those that stand behind it, and for no other.
enum class LockOrder : uint8_t {
  engine,
  devices,     // that are open
  gradients,   // of custom kernels
  live,        // tensors
  statistics,  // of rewrites
  ended_graphs,
  buffers,  // of nodes
  allocation,
  device_memory,
  guarded_memory,
  profile,
  settings,  // what holds them waits for nothing
  nodes,
  node_memory,
};

namespace detail {
void hold_in_forks(LockOrder order, void* lock, void (*take)(void*), void (*give_back)(void*));
}

// From now on, for a lock that lives as long as the process.
template <class Lock>
void hold_in_forks(LockOrder order, Lock& lock) {
  detail::hold_in_forks(
      order, &lock, [](void* l) { static_cast<Lock*>(l)->lock(); },
      [](void* l) { static_cast<Lock*>(l)->unlock(); });
}

class ProcessMutex : public std::mutex {
 public:
  explicit ProcessMutex(LockOrder order) { hold_in_forks<std::mutex>(order, *this); }
};

// Is called in each child, before it lets go of the locks: to forget threads that are not there.
void in_forked_child(void (*f)());

}  // namespace quern
