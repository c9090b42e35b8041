#include "quern/ir/shape/places.h"

namespace quern {
namespace {

// Tags begin with one of these: other TUPLEs have tags of numbers, too, and theirs are above 0.
constexpr int64_t kPicked = -1, kPut = -2;

UOp marked(int64_t kind, std::initializer_list<UOp> sources, const PlacesForm& f) {
  const Ints numbers{kind,
                     f.outer,
                     f.places,
                     f.inner,
                     f.count,
                     f.one_outer_of_index,
                     f.one_inner_of_index,
                     f.one_outer_of_source,
                     f.one_of_source,
                     f.one_inner_of_source,
                     static_cast<int64_t>(f.op)};
  const UOp tuple = UOp::make(Op::TUPLE, dtypes::void_, sources, {}, numbers);
  return UOp::make(Op::GETTUPLE, tuple.src(0).dtype(), {tuple}, int64_t{0});
}

bool is_marked(const UOp& tuple, int64_t kind) {
  return tuple.op() == Op::TUPLE && tuple.tag().kind() == ArgKind::Ints && tuple.tag().ints()[0] == kind;
}

}  // namespace

UOp as_picked(const UOp& y, const UOp& x, const UOp& index, const PlacesForm& form) {
  return marked(kPicked, {y, x, index}, form);
}
UOp as_put(const UOp& y, const UOp& x, const UOp& index, const UOp& source, const PlacesForm& form) {
  return marked(kPut, {y, x, index, source}, form);
}

bool is_picked(const UOp& tuple) { return is_marked(tuple, kPicked); }
bool is_put(const UOp& tuple) { return is_marked(tuple, kPut); }

PlacesForm places_form(const UOp& tuple) {
  const Ints& n = tuple.tag().ints();
  return {.outer = n[1],
          .places = n[2],
          .inner = n[3],
          .count = n[4],
          .one_outer_of_index = n[5] != 0,
          .one_inner_of_index = n[6] != 0,
          .one_outer_of_source = n[7] != 0,
          .one_of_source = n[8] != 0,
          .one_inner_of_source = n[9] != 0,
          .op = static_cast<Op>(n[10])};
}

}  // namespace quern
