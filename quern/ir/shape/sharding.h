// Tensors on several devices. A value whose DEVICE has several names is whole on each of them; MULTI(part,
// axis) is a value cut on an axis into one equal part a device. In `part`, the variable _device_num says
// which device it is computed on.
#pragma once

#include <span>

#include "quern/ir/node/node_map.h"
#include "quern/ir/node/uop.h"

namespace quern {

struct Sharding {
  int64_t axis = -1;  // none: whole on each device
  int64_t parts = 1;
  bool cut() const { return axis >= 0; }
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

inline constexpr const char* kDeviceNumber = "_device_num";
UOp device_number(int64_t devices);  // the variable

UOps part_sizes(Sources sizes, Sharding sharding);  // of one part
UOp own_part(const UOp& whole, Sharding sharding);  // the part of the device that computes it
UOp sharded(const UOp& part, Sharding sharding);    // MULTI; `part` itself when it is not cut
UOp on_device(const UOp& index, int64_t device);    // the number in place of _device_num
bool is_cut_by_device(const UOp& u);                // SHRINK at an offset that depends on _device_num

// Where the cut axis is after a reshape: an axis with the same elements before it, whose size can be divided.
// -1 if there is none.
int64_t axis_in_reshape(Sources from, Sources to, Sharding sharding);

// How a node is cut, when its sources are: as long as parts need nothing of each other.
Sharding sharding_after(const UOp& u, std::span<const Sharding> sources);

// Of all nodes of a graph.
class Shardings {
 public:
  explicit Shardings(const UOp& root);
  Sharding operator[](const UOp& u) const {
    const Sharding* known = known_.find(u);
    return known ? *known : Sharding{};
  }

 private:
  UOp root_;
  NodeMap<Sharding> known_;
};

// What is under movement ops and MULTI.
const UOp& memory_base(const UOp& x);

}  // namespace quern
