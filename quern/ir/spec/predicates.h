// The words that the spec's requirements are written in: predicates on nodes and their sources, and what an
// error says that was found instead.
#pragma once

#include <algorithm>
#include <string>

#include "quern/ir/node/uop.h"

namespace quern::spec {

// ---- short words

inline bool is_value(DType d) { return !d.is_ptr() && !d.is_void(); }
inline bool is_scalar_int(DType d) { return d.is_int() && d.lanes() == 1; }
inline bool is_bool(DType d, int lanes) { return d.is_bool() && d.lanes() == lanes; }
inline bool same_scalar(DType a, DType b) { return a.kind() == b.kind(); }

inline Sources rest(const UOp& u) { return u.src().subspan(1); }

template <class Predicate>
bool all(Sources sources, Predicate holds) {
  return std::ranges::all_of(sources, holds);
}
inline bool has_op(const UOp& u, OpSet ops) { return ops.contains(u.op()); }
inline bool has_no_value(const UOp& u) { return u.dtype().is_void(); }
inline bool has_value(const UOp& u) { return is_value(u.dtype()); }
inline bool like_first(const UOp& u) { return u.dtype() == u.src(0).dtype(); }
inline bool all_like_result(const UOp& u, Sources sources) {
  return all(sources, [&](const UOp& s) { return s.dtype() == u.dtype(); });
}
inline bool is_index_number(const UOp& u) { return u.dtype() == dtypes::index; }
inline bool is_integer(const UOp& u) { return is_scalar_int(u.dtype()); }

// ---- constants, variables and memory

bool constant_fits(const UOp& u);
bool variable_fits(const UOp& u);
bool bound_within(const UOp& u);
bool memory_of(const UOp& u, AddrSpace space);
bool param_fits(const UOp& u);
bool fits_memory(DType value, const UOp& memory);
bool index_gives_element(const UOp& u);
bool indices_are_integers(const UOp& u);

// ---- axes and shapes

bool distinct_axes(Ints axes);
bool is_permutation(const UOp& u);
bool ranges_or_constants(const UOp& u);

// Shapes are computed, which makes nodes: only at a level, never of every node.
std::string shape_error(const UOp& u);
inline bool has_right_shape(const UOp& u) { return shape_error(u).empty(); }
bool same_shape(const UOp& a, const UOp& b);

// ---- values made of values

bool picks_one(const UOp& u);
Sources picked_from(const UOp& u);  // the sources that GETTUPLE picks from
bool lanes_add_up(const UOp& u);
bool picks_lanes(const UOp& u);
bool casts(const UOp& u);
bool bitcasts(const UOp& u);
bool operands_agree(const UOp& u);
bool result_follows(const UOp& u);

// ---- what an error says that was found

std::string signature(const UOp& u);  // "STORE(int32*, float32) of void"
std::string sources_found(const UOp& u);
std::string number_of_sources(const UOp& u);
std::string constant_and_dtype(const UOp& u);
std::string open_ranges(const UOp& u);

}  // namespace quern::spec
