// Values that indices pick from places, and values that are put into places, as a pair of nodes that says so:
//
//   GETTUPLE(TUPLE(y, x, index), 0)          y is what the indices pick from x
//   GETTUPLE(TUPLE(y, x, index, source), 0)  y is x with the source put where the indices say
//
// Either is y, which is written as sums over all places. A hint of the TUPLE has the rest, so that gradients
// need no such sum, and the scheduler can put values one after the other.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// Kernels that quern writes itself have the hint steps_do_not_meet: steps of their ranges of threads do not
// meet, or store the same value where they do. Kernels of the user's are looked into instead.

// x is seen as (outer, places, inner); the indices as (outer, count, inner), as are the values that are
// picked and the source. Of indices and source any of the axes may be 1: they are the same all along it.
// Indices below 0 count from the end; those that are out of range pick 0, and are put nowhere.
struct PlacesForm {
  int64_t outer = 1, places = 1, inner = 1, count = 1;
  // Is it the same all along the axis?
  bool one_outer_of_index = false, one_inner_of_index = false;
  bool one_outer_of_source = false, one_of_source = false, one_inner_of_source = false;
  Op op = Op::NOOP;  // what combines: ADD, MUL, MAX, MIN; NOOP: the last value for a place stays

  Ints index_shape() const { return {one_outer_of_index ? 1 : outer, count, one_inner_of_index ? 1 : inner}; }
  Ints source_shape() const {
    return {one_outer_of_source ? 1 : outer, one_of_source ? 1 : count, one_inner_of_source ? 1 : inner};
  }
};

UOp as_picked(const UOp& y, const UOp& x, const UOp& index, const PlacesForm& form);
UOp as_put(const UOp& y, const UOp& x, const UOp& index, const UOp& source, const PlacesForm& form);

bool is_picked(const UOp& tuple);
bool is_put(const UOp& tuple);
PlacesForm places_form(const UOp& tuple);  // of either

}  // namespace quern
