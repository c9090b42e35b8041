// Makers of tensor-level nodes: what moves values, what reduces them, and effects on memory. They check what
// they are given (ShapeError, DTypeError) and make nothing where nothing would change.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

UOps sizes_of(const Ints& sizes);  // numbers as index nodes
inline UOps sizes_of(std::initializer_list<int64_t> sizes) { return sizes_of(Ints(sizes)); }
std::string shape_text(Sources sizes);  // "(2, n, 3)"
UOp elements_in(Sources sizes);         // their product, simplified
bool same_sizes(Sources a, Sources b);  // surely equal, axis by axis

UOp reshape(const UOp& x, Sources sizes);  // reshapes of reshapes are one
UOp expand(const UOp& x, Sources sizes);   // axes of size 1 repeat; the number of axes stays
UOp permute(const UOp& x, Ints order);     // axis i of the result is axis order[i] of x
Ints inverse_order(const Ints& order);     // of a permutation
UOp flip(const UOp& x, Ints axes);
UOp pad(const UOp& x, Sources offsets, Sources sizes);     // x stands at the offsets, zeros around it
UOp pad_unseen(const UOp& x, Sources sizes);               // zeros behind x, which no element of a view is
UOp shrink(const UOp& x, Sources offsets, Sources sizes);  // the part of x at the offsets
UOp reduce(const UOp& x, Op op, Ints axes);  // axes of size 1 stay in the result; none: x itself

UOp contiguous(const UOp& x);
UOp detach(const UOp& x);
UOp device_node(const std::string& name);
UOp copy_to(const UOp& x, const UOp& device);                      // x itself when it is there already
UOp store(const UOp& target, const UOp& value);                    // into memory, seen through movement ops
UOp after(const UOp& x, Sources effects);                          // x, seen after the effects
UOp new_buffer(DType dtype, int64_t elements, const UOp& device);  // with an identity of its own

// A kernel of the user's is called by CALL(SINK, memory of its PARAMs), and writes into some of that memory
// where it is. Which of so many PARAMs it stores into, by slot; and the arguments of a call that are stored
// into, each once.
std::vector<bool> written_params(const UOp& kernel, size_t count);
UOps written_arguments(const UOp& call);

// The same value as a node of its own: nodes that are equal are one, and what users made twice is two.
// Without identities: the graph as it computes, which is what schedules are made of.
UOp with_new_identity(const UOp& x);
UOp without_identity(const UOp& x);  // of one node: a CONST or NOOP with an identity; none if it has none

// A constant of this shape: CONST, RESHAPE, EXPAND.
UOp full(Sources sizes, const UOp& constant);

// What is under movement ops: the node that computes or holds the values.
const UOp& base_of(const UOp& x);

// The value that x reshapes. Reshapes of reshapes are one, so a view need not go through the very node that
// it is a view of.
const UOp& under_reshapes(const UOp& x);

// What AFTERs are about: the node that a chain of them begins at, however long it is.
const UOp& memory_under(const UOp& x);

// Views, whose elements are elements of what is under them: movement ops but for PADs that can be seen, and
// what says that gradients end. What is under them; and the view without the ends of gradients.
bool is_view(const UOp& x);
const UOp& viewed_by(const UOp& x);
UOp without_detach(const UOp& view);

}  // namespace quern
