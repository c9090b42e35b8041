// A graph built again, node by node: the shape of most passes that are no list of rules.
#pragma once

#include "quern/ir/node/node_map.h"

namespace quern {

// `change(node, sources)` is called for every node below root, sources before users, with the sources as they
// are now. It returns what becomes of the node; none: the node with these sources.
template <class Change>
UOp rebuild(const UOp& root, const Change& change) {
  NodeMap<UOp> done;
  UOps sources;
  const NodeList order = root.toposort();
  for (const UOp& u : order) {
    sources.clear();
    bool changed = false;
    for (const UOp& s : u.src()) {
      sources.push_back(*done.find(s));
      changed |= !same(sources.back(), s);
    }
    UOp now = change(u, sources);
    if (!now) now = changed ? u.with_src(sources) : u;
    done.emplace(u, std::move(now));
  }
  return *done.find(root);
}

}  // namespace quern
