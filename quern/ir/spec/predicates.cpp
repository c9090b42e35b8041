#include "quern/ir/spec/predicates.h"

#include <fmt/format.h>

#include "quern/ir/spec/reduce.h"

namespace quern::spec {
namespace {

// How many values an address or a tensor stands for: an INDEX by a vector is that many addresses.
int lanes_at(const UOp& u) {
  const bool gathers = u.op() == Op::INDEX && u.dtype().is_ptr() && u.src().size() > 1;
  return u.dtype().lanes() * (gathers ? u.src(1).dtype().lanes() : 1);
}

Sources operands(const UOp& u) { return u.op() == Op::WHERE ? u.src().subspan(1) : u.src(); }

}  // namespace

bool constant_fits(const UOp& u) {
  const Const c = u.value();
  const DType d = u.dtype();
  switch (c.kind()) {
    case Const::Kind::Bool: return d.is_bool();
    case Const::Kind::Int: return d.is_int() && wrap(d, c.as_int()) == c;
    case Const::Kind::Float: return d.is_float() && Const::of_float(round_float(d, c.as_float())) == c;
    case Const::Kind::Invalid: break;
  }
  return d.is_int();
}

bool variable_fits(const UOp& u) {
  const VariableArg& v = u.arg().variable();
  return !v.name.empty() && v.min <= v.max && fits(u.dtype(), v.min) && fits(u.dtype(), v.max);
}

bool bound_within(const UOp& u) {
  if (u.src().size() < 2) return true;
  const UOp& value = u.src(1);
  const VariableArg& v = u.src(0).arg().variable();
  return value.is_int_const() && value.dtype() == u.dtype() && v.min <= value.int_value() &&
         value.int_value() <= v.max;
}

bool memory_of(const UOp& u, AddrSpace space) {
  return u.dtype().is_ptr() && u.dtype().space() == space && u.dtype().size() > 0;
}

bool param_fits(const UOp& u) {
  if (u.arg().integer() < 0) return false;
  if (u.dtype().is_ptr()) return u.dtype().space() == AddrSpace::GLOBAL && u.src().empty();
  Sources sizes = u.src();
  if (!sizes.empty() && sizes.back().op() == Op::DEVICE) sizes = sizes.first(sizes.size() - 1);
  return all(sizes, is_index_number);
}

bool fits_memory(DType value, const UOp& memory) {
  return is_value(value) && same_scalar(value, memory.dtype()) && value.lanes() == lanes_at(memory);
}

bool index_gives_element(const UOp& u) {
  const DType memory = u.src(0).dtype(), d = u.dtype();
  if (memory.is_void() || !same_scalar(memory, d)) return false;
  if (d.is_ptr()) return d.lanes() == memory.lanes() && (!memory.is_ptr() || d.space() == memory.space());
  return d.lanes() == memory.lanes() * (u.src().size() > 1 ? u.src(1).dtype().lanes() : 1);
}

bool indices_are_integers(const UOp& u) {
  return all(rest(u), [&](const UOp& i) {
    return i.dtype().is_int() && i.dtype().lanes() == u.src(1).dtype().lanes();
  });
}

bool distinct_axes(Ints axes) {
  std::ranges::sort(axes);
  return (axes.empty() || axes.front() >= 0) && std::ranges::adjacent_find(axes) == axes.end();
}

bool is_permutation(const UOp& u) {
  const Ints& axes = u.arg().ints();
  return distinct_axes(axes) && (axes.empty() || *std::ranges::max_element(axes) < std::ssize(axes));
}

bool ranges_or_constants(const UOp& u) {
  return all(rest(u), [](const UOp& r) { return r.op() == Op::RANGE || r.is_int_const(); });
}

std::string shape_error(const UOp& u) {
  try {
    (void)u.has_shape();
  } catch (const ShapeError& e) {
    return e.what();
  }
  return "";
}

bool same_shape(const UOp& a, const UOp& b) {
  if (!a.has_shape() || !b.has_shape() || a.shape().size() != b.shape().size()) return false;
  for (size_t i = 0; i < a.shape().size(); i++) {
    const UOp &x = a.shape()[i], &y = b.shape()[i];
    if (!same(x, y) && !same(x.simplify(), y.simplify())) return false;
  }
  return true;
}

bool picks_one(const UOp& u) {
  const Sources all = picked_from(u);
  const int64_t i = u.arg().integer();
  return i >= 0 && i < std::ssize(all) && all[static_cast<size_t>(i)].dtype() == u.dtype();
}

Sources picked_from(const UOp& u) {
  const UOp& x = u.src(0);
  if (x.op() == Op::REDUCE && x.arg().reduce().op == Op::NOOP) return Reduction(x).values;
  const UOp& tuple = x.op() == Op::FUNCTION ? x.src(0) : x;
  return tuple.op() == Op::TUPLE ? tuple.src() : Sources();
}

bool lanes_add_up(const UOp& u) {
  int lanes = 0;
  for (const UOp& s : u.src()) {
    if (!has_value(s) || !same_scalar(s.dtype(), u.dtype())) return false;
    lanes += s.dtype().lanes();
  }
  return lanes == u.dtype().lanes();
}

bool picks_lanes(const UOp& u) {
  const Ints& lanes = u.arg().ints();
  const DType from = u.src(0).dtype();
  return is_value(from) && same_scalar(from, u.dtype()) && std::ssize(lanes) == u.dtype().lanes() &&
         std::ranges::all_of(lanes, [&](int64_t lane) { return lane >= 0 && lane < from.lanes(); });
}

bool casts(const UOp& u) {
  const DType from = u.src(0).dtype(), to = u.dtype();
  if (from.is_ptr() || to.is_ptr()) return from.is_ptr() && to.is_ptr() && from.space() == to.space();
  return is_value(from) && is_value(to) && from.lanes() == to.lanes();
}

bool bitcasts(const UOp& u) {
  const DType from = u.src(0).dtype(), to = u.dtype();
  if (!is_value(from) || !is_value(to) || from.lanes() != to.lanes()) return false;
  return from.bits() == to.bits() || (from.lanes() == 1 && u.src(0).has_shape() && !u.src(0).shape().empty());
}

bool operands_agree(const UOp& u) {
  const DType d = u.src().back().dtype();
  return is_value(d) && all(operands(u), [&](const UOp& s) { return s.dtype() == d; });
}

bool result_follows(const UOp& u) {
  const DType d = u.src().back().dtype();
  return is_comparison(u.op()) ? is_bool(u.dtype(), d.lanes()) : u.dtype() == d;
}

// ---- what an error says that was found

std::string signature(const UOp& u) {
  std::string sources;
  for (const UOp& s : u.src()) sources += (sources.empty() ? "" : ", ") + s.dtype().name();
  return fmt::format("{}({}) of {}", name(u.op()), sources, u.dtype().name());
}

std::string sources_found(const UOp& u) {
  std::string list;
  for (const UOp& s : u.src()) {
    list += list.empty() ? "" : ", ";
    list += name(s.op());
  }
  return fmt::format("{}({})", name(u.op()), list);
}

std::string number_of_sources(const UOp& u) {
  const OpInfo& op = info(u.op());
  const std::string most = op.most_sources < 0 ? "any number" : std::to_string(op.most_sources);
  return fmt::format("{}, not {} to {}", u.src().size(), op.least_sources, most);
}

std::string constant_and_dtype(const UOp& u) {
  constexpr const char* kinds[] = {"a bool", "an integer", "a float", "invalid"};
  const Const c = u.value();
  const char* kind = kinds[static_cast<int>(c.kind())];
  if (c.is_invalid()) return fmt::format("{} of {}", kind, u.dtype().name());
  const DType natural = c.kind() == Const::Kind::Float ? dtypes::float64 : dtypes::int64;
  return fmt::format("{}, {}, of {}", kind, to_string(c, natural), u.dtype().name());
}

std::string open_ranges(const UOp& u) {
  std::string list;
  for (const UOp& r : u.ranges()) list += fmt::format("{}{}", list.empty() ? "" : ", ", r.arg().range().id);
  return "open: " + list;
}

}  // namespace quern::spec
