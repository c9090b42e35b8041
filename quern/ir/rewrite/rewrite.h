// graph_rewrite: applies rules to every node of a graph, until none applies or once.
#pragma once

#include <functional>
#include <string_view>

#include "quern/ir/rules/rules.h"

namespace quern {

enum class Order : uint8_t {
  after_sources,   // a node is tried when its sources are final
  before_sources,  // a node is tried before its sources; a gate can keep the rewrite from going below it
  once,            // a node is tried once, with what became of its sources; what replaces it stays as it is
};

struct RewriteOptions {
  Order order = Order::after_sources;
  std::string_view name = "rewrite";  // of the pass: for traces and messages
  UOp::Gate gate = {};       // not after_sources: where it says false, the node's sources stay as they are
  bool to_simplest = false;  // for simplify() alone: results are marked as simplest, and what is marked stays
};

// Runs to a fixed point: each distinct node is matched once, and what replaces it is rewritten until nothing
// changes. Rules that never come to rest are a RewriteError that names them. Order::once is for passes whose
// results are not to be rewritten again, or whose rules ask for the node as it was: its rules are functions
// of a node and its new sources, and a node that none of them applies to gets these sources.
UOp graph_rewrite(const UOp& root, const Rules& rules, const RewriteOptions& options = {});
UOp graph_rewrite_with(const UOp& root, const Rules& rules, Context context,
                       const RewriteOptions& options = {});

// The same with a context, a reference to which is given to rule functions that take one of its type.
template <class C>
  requires(!std::is_convertible_v<C, RewriteOptions>)
UOp graph_rewrite(const UOp& root, const Rules& rules, C& context, const RewriteOptions& options = {}) {
  return graph_rewrite_with(root, rules, {&context, &typeid(C)}, options);
}

}  // namespace quern
