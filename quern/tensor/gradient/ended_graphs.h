// What gradients cannot flow through any more: a value that was realized is memory, and the graph that it was
// computed by has ended there. Who asks for a gradient through it is told so, instead of getting none.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// Whether a gradient of one of these nodes flows to the value of a live tensor below it: what ends the graph
// of the node is noticed then. Graphs of more than a few thousand nodes are taken to lead to one.
bool leads_to_live_tensor(const UOps& nodes);

// These values are in memory from now on: the BUFFERs at the same places of the second list.
void end_graphs(const UOps& values, const UOps& buffers);
// The same, where it is not known what the values were computed of.
void end_unknown_graph(const UOp& buffer);

// This memory has other contents from now on: what was computed of it was computed of others.
void end_contents(const UOps& buffers);

// Whether the loss was computed of the target, or may have been, by a graph that has ended. Of a target for
// which a gradient was `found` it is only said where that is certain: there is more than what was found.
bool is_graph_lost(const UOp& loss, const UOp& target, bool found);
// Whether any graph below the loss has ended.
bool has_lost_graphs(const UOp& loss);

}  // namespace quern
