// What a pass is called and what it needs, for those who list passes and for those who ask whether one runs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "quern/ir/pass/device_spec.h"

namespace quern {

// What a pass needs: of the device, of whoever asks for the kernel, or of the kernel.
enum class Need : uint8_t {
  workgroups,        // the device runs a kernel by workgroups of threads
  cores,             // the device's cores run a kernel's loops
  near_memory,       // a thread has memory of its own that is near, for more than registers hold
  cached_stores,     // stores may go past the caches, and lines of memory can be fetched ahead
  address_integers,  // addresses are added in 64 bits
  splittable_loops,  // the kernel's loops may be split, and whoever asks allows it
  free_loops,        // nobody wrote opts for the loops as they are: a pass may make other loops of them
  free_choice,       // nobody wrote opts, and no search found any: "choose opts" makes them
  float_order,       // sums of floats may be added in another order, and need not be rounded at each step
};
std::string_view name(Need need);

class Needs {
 public:
  constexpr Needs() = default;
  constexpr Needs(std::initializer_list<Need> needs) {
    for (const Need n : needs) bits_ |= bit(n);
  }
  constexpr void set(Need n, bool is_met) { bits_ = is_met ? bits_ | bit(n) : bits_ & ~bit(n); }
  constexpr bool contains(Need n) const { return (bits_ & bit(n)) != 0; }
  constexpr bool contains_all(Needs others) const { return (others.bits_ & ~bits_) == 0; }
  std::string text() const;  // "workgroups, float order"

 private:
  static constexpr uint32_t bit(Need n) { return 1U << static_cast<unsigned>(n); }
  uint32_t bits_ = 0;
};

// Of these, what the device has.
Needs needs_met(const DeviceSpec& device);

// A pass without its function, for those who list passes.
struct PassInfo {
  std::string_view stage, name, file;
  Needs needs;
  bool is_rules = false;
  std::string_view result;
};

// The passes as a table in Markdown: `quern ir --passes`, and the pages in docs/.
std::string pass_table(std::span<const PassInfo> passes);

}  // namespace quern
