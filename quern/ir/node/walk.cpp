// Walks over graphs, and what is found on them.
#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/node/node_map.h"
#include "quern/ir/node/uop.h"

namespace quern {

namespace {

std::unique_ptr<NodeList::Nodes> nodes_below(const UOp& root, const UOp::Gate& gate) {
  auto order = detail::borrow_nodes();
  const auto visit = [&](const UOp& u) { order->push_back(u.node()); };
  if (gate)
    walk(root, gate, visit);
  else
    walk(root, visit);
  return order;
}

}  // namespace

NodeList::~NodeList() {
  if (nodes_) detail::give_back(std::move(nodes_));
}

NodeList UOp::toposort(const Gate& gate) const { return {*this, nodes_below(*this, gate)}; }

NodeList UOp::backward_slice() const {
  auto order = nodes_below(*this, {});
  order->pop_back();
  return {*this, std::move(order)};
}

UOps UOp::variables() const {
  UOps found;
  walk(
      *this, [](const UOp& u) { return u.ops_below().contains(Op::DEFINE_VAR); },
      [&](const UOp& u) {
        if (u.op() == Op::DEFINE_VAR) found.push_back(u);
      });
  std::ranges::sort(found, before);
  return found;
}

namespace {

// `may_change(node)`: could a key be below it?
template <class MayChange>
UOp substituted(const UOp& root, const std::unordered_map<UOp, UOp>& map, const MayChange& may_change) {
  NodeMap<UOp> done;
  UOps sources;
  walk(
      root, [&](const UOp& u) { return may_change(u) && !map.contains(u); },
      [&](const UOp& u) {
        if (const auto found = map.find(u); found != map.end()) {
          done.emplace(u, found->second);
          return;
        }
        sources.clear();
        bool changed = false;
        if (may_change(u))
          for (const UOp& s : u.src()) {
            const UOp* now = done.find(s);
            changed |= !same(*now, s);
            sources.push_back(*now);
          }
        done.emplace(u, changed ? u.with_src(sources) : u);
      });
  return *done.find(root);
}

}  // namespace

UOp UOp::substitute(const std::unordered_map<UOp, UOp>& map) const {
  OpSet keys;  // only nodes above one of these ops can change
  for (const auto& [key, value] : map) keys |= key.op();
  return substituted(*this, map, [&](const UOp& u) { return u.ops_below().intersects(keys); });
}

UOp UOp::substitute_open(const std::unordered_map<UOp, UOp>& ranges) const {
  return substituted(*this, ranges, [&](const UOp& u) {
    return std::ranges::any_of(u.ranges(), [&](const UOp& r) { return ranges.contains(r); });
  });
}

// Two independent 64-bit hashes. The second is kept only during the walk: keys are rare, nodes are many.
std::string UOp::key() const {
  NodeMap<uint64_t> second;
  walk(*this, [&](const UOp& u) {
    uint64_t h = detail::mix(~u.hash(), 0x2545f4914f6cdd1du);
    h = detail::mix(h, u.arg().hash() ^ (static_cast<uint64_t>(u.op()) << 32));
    for (const UOp& s : u.src()) h = detail::mix(h, *second.find(s) + 0x9e3779b97f4a7c15u);
    second.emplace(u, h);
  });
  return fmt::format("{:016x}{:016x}", hash(), *second.find(*this));
}

}  // namespace quern
