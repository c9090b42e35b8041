// Memory of the host for tensors: aligned to 64 bytes, large pages where it is large. With GUARD=1 it ends at
// a page that nobody may touch, or begins behind one, in turn: what reads or writes beyond it dies at once.
#pragma once

#include <cstdint>

namespace quern {

// None if there is not that much. With GUARD=1 memory that ends at a page is aligned as its size is.
void* allocate_host(int64_t bytes);
void free_host(void* memory) noexcept;
bool is_guarded(void* memory) noexcept;  // memory that allocate_host gave while GUARD was set

// How much more of it can be had, as far as the system and the limits of this process tell; a huge number
// if they do not.
int64_t available_host_bytes() noexcept;

}  // namespace quern
