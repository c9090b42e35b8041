#include "quern/tensor/indexing/places.h"

#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/places.h"
#include "quern/tensor/core/support.h"

namespace quern {
namespace detail {
namespace {

bool is_one(const Tensor& x, int64_t axis) { return x.size(axis) == Dim(1); }
bool is_one_of_many(const Tensor& x, int64_t axis, const Dim& size) {
  return is_one(x, axis) && !(size == Dim(1));
}
bool has_known_shape(const Tensor& x) {
  for (const Dim& d : x.shape())
    if (d.is_symbolic()) return false;
  return true;
}

PlacesForm form_of(const PlacesOf& of, const Tensor& index) {
  return {.outer = of.outer.value(),
          .places = of.places.value(),
          .inner = of.inner.value(),
          .count = index.size(1).value(),
          .one_outer_of_index = is_one_of_many(index, 0, of.outer),
          .one_inner_of_index = is_one_of_many(index, 2, of.inner)};
}

// (outer, places, count, inner): does the index say this place?
Tensor hits(const Tensor& index, const Dim& places) {
  return wrapped(index, places).unsqueeze(1).eq(iota(places, dtypes::int64).reshape({1, places, 1, 1}));
}

// As sums over all places.
Tensor put_by_sums(const char* who, const Tensor& x, const Tensor& index, const Tensor& source, Op op) {
  const Tensor hit = hits(index, x.size(1)), values = source.unsqueeze(1);
  const DType dtype = x.dtype();
  if (index.size(1) == Dim(1)) {  // at most one value for each place
    const Tensor here = hit.reshape({hit.size(0), hit.size(1), hit.size(3)}),
                 value = values.reshape(source.shape());
    if (op == Op::NOOP) return here.where(value, x);
    const Tensor all = broadcast_to(who, value, x.shape());
    return here.where(apply(op, x, all), x);
  }
  auto combined = [&](const Tensor& where, Op by) {
    const Tensor neutral = number(neutral_of(by, dtype), dtype, {});
    return reduced(who, where.where(values, neutral), by, 2, false);
  };
  if (op != Op::NOOP) return apply(op, x, broadcast_to(who, combined(hit, op), x.shape()));
  const Tensor order = iota(index.size(1), dtypes::int64).reshape({1, 1, index.size(1), 1});
  const Tensor last = hit.where(order, -1).max(2, true);
  const Tensor any = last.ge(0).squeeze(2);
  return any.where(combined(hit & last.eq(order), Op::ADD), x);
}

}  // namespace

Tensor wrapped(const Tensor& index, const Dim& size) {
  const Tensor i = index.cast(dtypes::int64);
  if (index.dtype().is_unsigned()) return i;
  return i.lt(0).where(i + Tensor::from_dim(size, dtypes::int64), i);
}

PlacesOf places_of_axes(const Tensor& x, int64_t first, int64_t axes) {
  PlacesOf of;
  for (int64_t a = 0; a < x.ndim(); a++) {
    Dim& size = a < first ? of.outer : a < first + axes ? of.places : of.inner;
    size = product(size, x.size(a));
  }
  return of;
}

Tensor as_picked(const Tensor& y, const Tensor& x, const PlacesOf& of, const Tensor& index) {
  if (!x.is_floating_point() || !of.is_known() || !has_known_shape(index)) return y;
  return Tensor(quern::as_picked(y.uop(), x.uop(), index.uop(), form_of(of, index)));
}

Tensor pick(const char* who, const Tensor& x, const Tensor& index) {
  const Tensor hit =
      wrapped(index, x.size(1)).unsqueeze(2).eq(iota(x.size(1), dtypes::int64).reshape({1, 1, x.size(1), 1}));
  const Tensor found = reduced(who, hit.where(x.unsqueeze(1), number(0, x.dtype(), {})), Op::ADD, 2, false);
  return as_picked(found, x, {x.size(0), x.size(1), x.size(2)}, index);
}

Tensor put(const char* who, const Tensor& x, const Tensor& index, const Tensor& source, Op op) {
  if (x.numel() == Dim(0) || index.numel() == Dim(0)) return own_value(x);
  const bool adds = op == Op::ADD || op == Op::MUL;
  if (adds && x.is_floating_point() && x.dtype().bits() < 32)
    return put(who, x.cast(sum_dtype(x.dtype())), index, source, op).cast(x.dtype());
  const Tensor y = put_by_sums(who, x, index, source.cast(x.dtype()), op);
  const PlacesOf of{x.size(0), x.size(1), x.size(2)};
  if (!of.is_known() || !has_known_shape(index) || !has_known_shape(source)) return y;
  PlacesForm form = form_of(of, index);
  form.one_outer_of_source = is_one_of_many(source, 0, of.outer);
  form.one_of_source = is_one_of_many(source, 1, index.size(1));
  form.one_inner_of_source = is_one_of_many(source, 2, of.inner);
  form.op = op;
  return Tensor(quern::as_put(y.uop(), x.uop(), index.uop(), source.uop(), form));
}

}  // namespace detail

namespace {

struct Put {
  PlacesForm form;
  Tensor x, index, source, result;
};

Shape three(int64_t a, int64_t b, int64_t c) { return {a, b, c}; }
Tensor shaped(const UOp& x, const Ints& sizes) { return Tensor(reshape(x, sizes_of(sizes))); }
Ints target_shape(const PlacesForm& f) { return {f.outer, f.places, f.inner}; }

Put put_of(const UOp& tuple) {
  const PlacesForm f = places_form(tuple);
  return {f, shaped(tuple.src(1), target_shape(f)), shaped(tuple.src(2), f.index_shape()),
          shaped(tuple.src(3), f.source_shape()),
          Tensor(UOp::make(Op::GETTUPLE, tuple.src(0).dtype(), {tuple}, int64_t{0}))};
}

// For each value of the source what g has in its place.
Tensor at_places(const Put& p, const Tensor& g) { return detail::pick("gradient", g, p.index); }
Tensor filled(const Put& p, DType dtype, double value) {
  return detail::number(value, dtype, three(p.form.outer, p.form.places, p.form.inner));
}

// Which value of the source was the last for its place.
Tensor is_last(const Put& p) {
  const Ints sizes = p.form.index_shape();
  const Tensor none = detail::number(-1, dtypes::int64, three(sizes[0], p.form.places, sizes[2]));
  const Tensor order = detail::iota(p.form.count, dtypes::int64).reshape({1, p.form.count, 1});
  const Tensor last = detail::put("gradient", none, p.index, order, Op::NOOP);
  return detail::pick("gradient", last, p.index).eq(order);
}

// Each value of the source by the product of all others of its place. If it is the only 0 there, the product
// with a 1 in its place; if there are more, 0.
Tensor to_factors(const Put& p, const Tensor& g) {
  const Tensor zero = p.source.eq(0);
  const Tensor zeros =
      detail::put("gradient", filled(p, dtypes::int64, 0), p.index, zero.cast(dtypes::int64), Op::ADD);
  const Tensor only = zero & at_places(p, zeros).eq(1);
  // Of a source that is the same for several places all of them have to agree: else it is as large as they
  // are.
  const Tensor ones = only.where(1, p.source);
  const Tensor others = detail::put("gradient", p.x, p.index, ones, Op::MUL);
  const Tensor quotient = at_places(p, g * p.result) / zero.where(1, p.source).cast(g.dtype());
  return zero.where(only.where(at_places(p, g * others), 0), quotient);
}

// The value that came out, and how much of the gradient each value that equals it gets.
struct Shares {
  Tensor of_x, of_source, share;
};
Shares shares(const Put& p, const Tensor& g) {
  const Tensor of_x = p.x.eq(p.result), of_source = p.source.eq(at_places(p, p.result));
  const Tensor count =
      detail::put("gradient", of_x.cast(g.dtype()), p.index, of_source.cast(g.dtype()), Op::ADD);
  return {of_x, of_source, g / count.maximum(1)};
}

}  // namespace

UOp picked_to_source(const UOp& tuple, const UOp& gradient) {
  const PlacesForm f = places_form(tuple);
  const DType dtype = tuple.src(1).dtype();
  const Tensor zeros = detail::number(0, dtype, three(f.outer, f.places, f.inner));
  const Tensor result = detail::put("gradient", zeros, shaped(tuple.src(2), f.index_shape()),
                                    shaped(gradient, {f.outer, f.count, f.inner}), Op::ADD);
  return reshape(result.uop(), tuple.src(1).shape());
}

UOp put_to_target(const UOp& tuple, const UOp& gradient) {
  const Put p = put_of(tuple);
  const Tensor g = shaped(gradient, target_shape(p.form));
  Tensor result = g;
  switch (p.form.op) {
    case Op::ADD: break;
    case Op::NOOP:
      result = detail::put("gradient", g, p.index, detail::number(0, g.dtype(), three(1, 1, 1)), Op::NOOP);
      break;
    case Op::MUL:
      result = g * detail::put("gradient", filled(p, g.dtype(), 1), p.index, p.source, Op::MUL);
      break;
    default: {
      const Shares s = shares(p, g);
      result = s.of_x.where(s.share, 0);
    }
  }
  return reshape(result.uop(), tuple.src(1).shape());
}

UOp put_to_source(const UOp& tuple, const UOp& gradient) {
  const Put p = put_of(tuple);
  const Tensor g = shaped(gradient, target_shape(p.form));
  Tensor result = g;
  switch (p.form.op) {
    case Op::ADD: result = at_places(p, g); break;
    case Op::NOOP: result = is_last(p).where(at_places(p, g), 0); break;
    case Op::MUL: result = to_factors(p, g); break;
    default: {
      const Shares s = shares(p, g);
      result = s.of_source.where(at_places(p, s.share), 0);
    }
  }
  const DType dtype = tuple.src(3).dtype();
  Ints same;  // a value that was put several times
  const Ints sizes = p.form.source_shape();
  for (int64_t axis = 0; axis < 3; axis++)
    if (sizes[static_cast<size_t>(axis)] == 1) same.push_back(axis);
  if (!same.empty()) result = result.sum(same, true, detail::sum_dtype(result.dtype()));
  return reshape(result.cast(dtype).uop(), tuple.src(3).shape());
}

}  // namespace quern
