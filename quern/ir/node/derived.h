// Facts that follow from a node's sources, kept with the node once they are known. Internal to ir.
#pragma once

#include "quern/base/small_vector.h"
#include "quern/ir/node/uop.h"

namespace quern::detail {

// Each is null until it is known; threads that race compute the same, and the first to publish wins.
struct Derived {
  std::atomic<const UOps*> shape{nullptr};
  std::atomic<const UOps*> ranges{nullptr};
  std::atomic<const UOp*> place{nullptr};   // a source, of this node or below it, that names the device
  std::atomic<const UOp*> memory{nullptr};  // the same that an AFTER is about
  ~Derived() {
    delete shape.load();   // NOLINT(cppcoreguidelines-owning-memory)
    delete ranges.load();  // NOLINT(cppcoreguidelines-owning-memory)
  }
};

Derived& derived_of(const Node* node);

// Publishes `value` unless another thread was first; gives back the one that stands.
const UOps& publish(std::atomic<const UOps*>& slot, UOps value);

// The same for the ranges that are open at `u`. A RANGE is open in itself; its own entry is not counted,
// because a node that holds itself would never be freed.
void publish_ranges(const UOp& u, UOps open);

// Calls compute(node) for root and whatever it needs, sources first, skipping nodes that are known already.
template <class Known, class Compute>
void compute_upwards(const UOp& root, Known known, Compute compute) {
  if (known(root)) return;
  struct Entry {
    const UOp* node;
    size_t next;
  };
  SmallVector<Entry, 16> stack{{&root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < node->src().size()) {
      const UOp& source = node->src(next++);
      if (!known(source)) stack.push_back({&source, 0});
    } else {
      const UOp* done = node;
      stack.shrink(stack.size() - 1);
      if (!known(*done)) compute(*done);
    }
  }
}

}  // namespace quern::detail
