#include "quern/ir/shape/places.h"

namespace quern {
namespace {

UOp marked(Ints Hints::* hint, std::initializer_list<UOp> sources, const PlacesForm& f) {
  const Ints numbers{f.outer,
                     f.places,
                     f.inner,
                     f.count,
                     f.one_outer_of_index,
                     f.one_inner_of_index,
                     f.one_outer_of_source,
                     f.one_of_source,
                     f.one_inner_of_source,
                     static_cast<int64_t>(f.op)};
  const UOp tuple = UOp::make(Op::TUPLE, dtypes::void_, sources).with_hint(hint, numbers);
  return UOp::make(Op::GETTUPLE, tuple.src(0).dtype(), {tuple}, int64_t{0});
}

}  // namespace

UOp as_picked(const UOp& y, const UOp& x, const UOp& index, const PlacesForm& form) {
  return marked(&Hints::picked, {y, x, index}, form);
}
UOp as_put(const UOp& y, const UOp& x, const UOp& index, const UOp& source, const PlacesForm& form) {
  return marked(&Hints::put, {y, x, index, source}, form);
}

bool is_picked(const UOp& tuple) { return tuple.op() == Op::TUPLE && !tuple.hints().picked.empty(); }
bool is_put(const UOp& tuple) { return tuple.op() == Op::TUPLE && !tuple.hints().put.empty(); }

PlacesForm places_form(const UOp& tuple) {
  const Ints& n = is_put(tuple) ? tuple.hints().put : tuple.hints().picked;
  return {.outer = n[0],
          .places = n[1],
          .inner = n[2],
          .count = n[3],
          .one_outer_of_index = n[4] != 0,
          .one_inner_of_index = n[5] != 0,
          .one_outer_of_source = n[6] != 0,
          .one_of_source = n[7] != 0,
          .one_inner_of_source = n[8] != 0,
          .op = static_cast<Op>(n[9])};
}

}  // namespace quern
