// The spec, as a table: first what holds of every op, then op by op, then level by level.
#include "quern/ir/spec.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "quern/ir/node_map.h"
#include "quern/ir/parse.h"

namespace quern {
namespace {

// ---- the words that requirements are written in

bool is_value(DType d) { return !d.is_ptr() && !d.is_void(); }
bool is_scalar_int(DType d) { return d.is_int() && d.lanes() == 1; }
bool is_bool(DType d, int lanes) { return d.is_bool() && d.lanes() == lanes; }
bool same_scalar(DType a, DType b) { return a.kind() == b.kind(); }

Sources rest(const UOp& u) { return u.src().subspan(1); }

template <class Predicate>
bool all(Sources sources, Predicate holds) {
  return std::ranges::all_of(sources, holds);
}
bool has_op(const UOp& u, OpSet ops) { return ops.contains(u.op()); }
bool has_no_value(const UOp& u) { return u.dtype().is_void(); }
bool has_value(const UOp& u) { return is_value(u.dtype()); }
bool like_first(const UOp& u) { return u.dtype() == u.src(0).dtype(); }
bool all_like_result(const UOp& u, Sources sources) {
  return all(sources, [&](const UOp& s) { return s.dtype() == u.dtype(); });
}
bool is_index_number(const UOp& u) { return u.dtype() == dtypes::index; }
bool is_integer(const UOp& u) { return is_scalar_int(u.dtype()); }

bool distinct_axes(Ints axes) {
  std::ranges::sort(axes);
  return (axes.empty() || axes.front() >= 0) && std::ranges::adjacent_find(axes) == axes.end();
}

// How many values an address or a tensor stands for: an INDEX by a vector is that many addresses.
int lanes_at(const UOp& u) {
  const bool gathers = u.op() == Op::INDEX && u.dtype().is_ptr() && u.src().size() > 1;
  return u.dtype().lanes() * (gathers ? u.src(1).dtype().lanes() : 1);
}
bool fits_memory(DType value, const UOp& memory) {
  return is_value(value) && same_scalar(value, memory.dtype()) && value.lanes() == lanes_at(memory);
}

constexpr OpSet kCombining = {Op::ADD, Op::MUL, Op::MAX, Op::MIN, Op::AND, Op::OR, Op::XOR};
constexpr OpSet kBitwise = {Op::AND, Op::OR, Op::XOR};
constexpr OpSet kIntegerDivision = {Op::FLOORDIV, Op::FLOORMOD, Op::TRUNCDIV, Op::TRUNCMOD};
constexpr OpSet kEffects = {Op::SINK, Op::GROUP, Op::END,   Op::BARRIER,
                            Op::IF,   Op::ENDIF, Op::STORE, Op::CALL};
constexpr OpSet kNames = {Op::UNIQUE, Op::LUNIQUE, Op::DEVICE};
constexpr OpSet kMayBeVoid = {Op::AFTER, Op::NOOP, Op::REDUCE, Op::FUNCTION};
constexpr OpSet kMayBePointer =
    OpSet{Op::PARAM, Op::DEFINE_LOCAL, Op::DEFINE_REG, Op::INDEX, Op::CAST, Op::AFTER, Op::NOOP} |
    ops::movement;
constexpr OpSet kLikeFirst = OpSet{Op::CONTIGUOUS, Op::CONTIGUOUS_BACKWARD,
                                   Op::DETACH,     Op::COPY,
                                   Op::ALLREDUCE,  Op::MULTI,
                                   Op::MSELECT,    Op::STAGE,
                                   Op::AFTER,      Op::FUNCTION,
                                   Op::BIND} |
                             ops::movement;
constexpr OpSet kSized = {Op::RESHAPE, Op::EXPAND, Op::PAD, Op::SHRINK};

// ---- longer requirements

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
std::string constant_and_dtype(const UOp& u) {
  constexpr const char* kinds[] = {"a bool", "an integer", "a float", "invalid"};
  const Const c = u.value();
  const char* kind = kinds[static_cast<int>(c.kind())];
  if (c.is_invalid()) return fmt::format("{} of {}", kind, u.dtype().name());
  const DType natural = c.kind() == Const::Kind::Float ? dtypes::float64 : dtypes::int64;
  return fmt::format("{}, {}, of {}", kind, to_string(c, natural), u.dtype().name());
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

bool is_permutation(const UOp& u) {
  const Ints& axes = u.arg().ints();
  return distinct_axes(axes) && (axes.empty() || *std::ranges::max_element(axes) < std::ssize(axes));
}

bool has_several_values(const UOp& reduce) { return reduce.arg().reduce().op == Op::NOOP; }
size_t states(const UOp& reduce) { return static_cast<size_t>(reduce.arg().reduce().states); }

bool counts_states(const UOp& u) {
  const int64_t k = u.arg().reduce().states;
  if (!has_several_values(u)) return k == 1;
  return k >= 1 && k < std::ssize(u.src()) && 2 * k + 1 <= std::ssize(u.src());
}
// What a REDUCE goes over: the sources that stand behind its values.
Sources reduced_over(const UOp& u) { return u.src().subspan(has_several_values(u) ? 2 * states(u) + 1 : 1); }

bool reduces_value(const UOp& u) {
  if (has_several_values(u)) return u.dtype().is_void();
  const DType from = u.src(0).dtype(), to = u.dtype();
  return is_value(from) && same_scalar(from, to) && from.lanes() % to.lanes() == 0;
}

bool initial_values_fit(const UOp& u) {
  if (!has_several_values(u)) return true;
  const size_t k = states(u);
  for (size_t i = 0; i < k; i++)
    if (!has_value(u.src(i)) || !u.src(k + i).is_const() || u.src(k + i).dtype() != u.src(i).dtype())
      return false;
  return true;
}

bool body_fits(const UOp& u) {
  if (!has_several_values(u)) return true;
  const size_t k = states(u);
  const UOp& body = u.src(2 * k);
  if (body.op() != Op::TUPLE || body.src().size() != k) return false;
  bool fit = true;
  for (size_t i = 0; i < k; i++) fit &= body.src(i).dtype() == u.src(i).dtype();
  if (!(body.ops_below() - ops::elementwise - OpSet{Op::TUPLE, Op::STATE, Op::CONST}).empty()) return false;
  walk(body, [&](const UOp& n) {
    if (n.op() == Op::TUPLE) fit &= same(n, body);
    if (n.op() != Op::STATE) return;
    const auto i = static_cast<size_t>(n.arg().integer());
    fit &= i < 2 * k && n.dtype() == u.src(i % k).dtype();
  });
  return fit;
}

// The sources that GETTUPLE picks from.
Sources picked_from(const UOp& u) {
  const UOp& x = u.src(0);
  if (x.op() == Op::REDUCE && has_several_values(x)) return x.src().first(states(x));
  const UOp& tuple = x.op() == Op::FUNCTION ? x.src(0) : x;
  return tuple.op() == Op::TUPLE ? tuple.src() : Sources();
}
bool picks_one(const UOp& u) {
  const Sources all = picked_from(u);
  const int64_t i = u.arg().integer();
  return i >= 0 && i < std::ssize(all) && all[static_cast<size_t>(i)].dtype() == u.dtype();
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
  return is_value(from) && is_value(to) && from.lanes() == to.lanes() && from.bits() == to.bits();
}

Sources operands(const UOp& u) { return u.op() == Op::WHERE ? u.src().subspan(1) : u.src(); }
bool operands_agree(const UOp& u) {
  const DType d = u.src().back().dtype();
  return is_value(d) && all(operands(u), [&](const UOp& s) { return s.dtype() == d; });
}
bool result_follows(const UOp& u) {
  const DType d = u.src().back().dtype();
  return is_comparison(u.op()) ? is_bool(u.dtype(), d.lanes()) : u.dtype() == d;
}

// Shapes are computed, which makes nodes: only at a level, never of every node.
std::string shape_error(const UOp& u) {
  try {
    (void)u.has_shape();
  } catch (const ShapeError& e) {
    return e.what();
  }
  return "";
}
bool has_right_shape(const UOp& u) { return shape_error(u).empty(); }

bool same_shape(const UOp& a, const UOp& b) {
  if (!a.has_shape() || !b.has_shape() || a.shape().size() != b.shape().size()) return false;
  for (size_t i = 0; i < a.shape().size(); i++) {
    const UOp &x = a.shape()[i], &y = b.shape()[i];
    if (!same(x, y) && !same(x.simplify(), y.simplify())) return false;
  }
  return true;
}

bool reduces_ranges(const UOp& u) {
  return all(reduced_over(u), [](const UOp& r) {
    if (r.op() != Op::RANGE) return r.is_int_const();
    const AxisKind kind = r.arg().range().kind;
    return kind == AxisKind::REDUCE || kind == AxisKind::GROUP_REDUCE || kind == AxisKind::UNROLL;
  });
}
bool ranges_or_constants(const UOp& u) {
  return all(rest(u), [](const UOp& r) { return r.op() == Op::RANGE || r.is_int_const(); });
}

// ---- what an error says that was found

// "STORE(int32*, float32) of void"
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
std::string open_ranges(const UOp& u) {
  std::string list;
  for (const UOp& r : u.ranges()) list += fmt::format("{}{}", list.empty() ? "" : ", ", r.arg().range().id);
  return "open: " + list;
}

// ---- the table

// clang-format off
constexpr Requirement kRequirements[] = {
    // every op
    {ops::all, everywhere, "it has as many sources as the table of ops says",
     [](const UOp& u) {
       const OpInfo& op = info(u.op());
       const auto n = std::ssize(u.src());
       return n >= op.least_sources && (op.most_sources < 0 || n <= op.most_sources);
     },
     number_of_sources},
    {ops::all, everywhere, "its argument is of the kind that the table of ops says",
     [](const UOp& u) {
       return u.arg().kind() == info(u.op()).arg || (u.op() == Op::SINK && u.arg().none());
     },
     [](const UOp& u) { return u.arg().none() ? std::string("none") : "another kind"; }},
    {ops::all - kMayBePointer, everywhere, "only memory and addresses are pointers",
     [](const UOp& u) { return !u.dtype().is_ptr(); }},
    {kEffects | kNames | OpSet{Op::TUPLE}, everywhere, "it has no value: its dtype is void", has_no_value},
    {ops::all - kEffects - kNames - OpSet{Op::TUPLE} - kMayBeVoid, everywhere, "it has a value: its dtype is not void",
     [](const UOp& u) { return !u.dtype().is_void(); }},
    {kLikeFirst, everywhere, "it has the dtype of its first source", like_first},

    // structure
    {Op::NOOP, everywhere, "NOOP has the dtype of its first source, or is void without one",
     [](const UOp& u) { return u.dtype() == (u.src().empty() ? dtypes::void_ : u.src(0).dtype()); }},
    {{Op::GROUP, Op::BARRIER}, everywhere, "its sources are effects",
     [](const UOp& u) { return all(u.src(), has_no_value); }},
    {Op::END, everywhere, "END closes an effect",
     [](const UOp& u) { return has_no_value(u.src(0)); }},
    {{Op::END, Op::STAGE}, everywhere, "what it closes are scalar integers",
     [](const UOp& u) { return all(rest(u), is_integer); }},
    {Op::IF, everywhere, "the condition of an IF is a scalar bool",
     [](const UOp& u) { return is_bool(u.src(0).dtype(), 1); }},
    {Op::ENDIF, everywhere, "ENDIF closes an IF",
     [](const UOp& u) { return u.src(0).op() == Op::IF; }, sources_found},

    // where values come from
    {Op::CONST, everywhere, "a constant is a value of its dtype", constant_fits, constant_and_dtype},
    {Op::CONST, everywhere, "a constant's sources are its identity and its device",
     [](const UOp& u) { return all(u.src(), [](const UOp& s) { return has_op(s, kNames); }); }, sources_found},
    {{Op::DEFINE_VAR, Op::RANGE, Op::SPECIAL}, everywhere, "it is a scalar integer", is_integer},
    {Op::DEFINE_VAR, everywhere, "a variable has a name, and bounds in order and within its dtype", variable_fits,
     [](const UOp& u) {
       const VariableArg& v = u.arg().variable();
       return fmt::format("'{}' from {} to {} of {}", v.name, v.min, v.max, u.dtype().name());
     }},
    {Op::BIND, everywhere, "BIND gives a value to a variable",
     [](const UOp& u) { return u.src(0).op() == Op::DEFINE_VAR; }, sources_found},
    {Op::BIND, everywhere, "a bound value is a constant within the variable's bounds", bound_within,
     [](const UOp& u) {
       const VariableArg& v = u.src(0).arg().variable();
       const UOp& value = u.src(1);
       const bool number = value.is_int_const();
       return fmt::format("{} for {} from {} to {}", number ? to_string(value.int_value()) : name(value.op()), v.name,
                          v.min, v.max);
     }},
    {Op::DEVICE, everywhere, "a DEVICE names at least one device",
     [](const UOp& u) {
       const Texts& names = u.arg().texts();
       return !names.empty() && std::ranges::none_of(names, &std::string::empty);
     },
     [](const UOp& u) { return fmt::format("{} names", u.arg().texts().size()); }},
    {Op::BUFFER, everywhere, "a BUFFER has an identity and a device",
     [](const UOp& u) {
       return has_op(u.src(0), {Op::UNIQUE, Op::LUNIQUE}) && u.src(1).op() == Op::DEVICE;
     },
     sources_found},
    {{Op::BUFFER, Op::SLICE}, everywhere, "it holds scalars that memory can hold, not a negative number of them",
     [](const UOp& u) { return !u.dtype().is_index() && u.dtype().lanes() == 1 && u.arg().integer() >= 0; },
     [](const UOp& u) { return fmt::format("{} of {}", u.arg().integer(), u.dtype().name()); }},
    {Op::PARAM, everywhere, "a PARAM is a slot from 0: global memory, or a value with sizes and a device", param_fits,
     [](const UOp& u) { return fmt::format("slot {}, {}", u.arg().integer(), signature(u)); }},
    {Op::DEFINE_LOCAL, everywhere, "DEFINE_LOCAL is a pointer to LOCAL memory of known size",
     [](const UOp& u) { return memory_of(u, AddrSpace::LOCAL); }},
    {Op::DEFINE_REG, everywhere, "DEFINE_REG is a pointer to REG memory of known size",
     [](const UOp& u) { return memory_of(u, AddrSpace::REG); }},
    {Op::STATE, everywhere, "states are counted from 0",
     [](const UOp& u) { return u.arg().integer() >= 0; },
     [](const UOp& u) { return std::to_string(u.arg().integer()); }},
    {{Op::RANGE, Op::SPECIAL}, everywhere, "its end has its dtype", like_first},
    {{Op::RANGE, Op::SPECIAL}, everywhere, "it has at least one step, if its end is a constant",
     [](const UOp& u) { return !u.src(0).is_int_const() || u.src(0).int_value() > 0; },
     [](const UOp& u) { return to_string(u.src(0).int_value()) + " steps"; }},
    {Op::SPECIAL, everywhere, "a hardware index has a name",
     [](const UOp& u) { return !u.arg().text().empty(); }},

    // shapes
    {kSized, everywhere, "sizes and offsets are of dtype index",
     [](const UOp& u) { return all(rest(u), is_index_number); }},
    {{Op::PAD, Op::SHRINK}, everywhere, "there are as many offsets as sizes",
     [](const UOp& u) { return rest(u).size() % 2 == 0; },
     [](const UOp& u) { return fmt::format("{} numbers", rest(u).size()); }},
    {Op::PERMUTE, everywhere, "PERMUTE lists each axis once", is_permutation,
     [](const UOp& u) { return fmt::format("{}", fmt::join(u.arg().ints(), ", ")); }},
    {Op::FLIP, everywhere, "FLIP lists axes, none twice",
     [](const UOp& u) { return distinct_axes(u.arg().ints()); },
     [](const UOp& u) { return fmt::format("{}", fmt::join(u.arg().ints(), ", ")); }},

    // tensors
    {{Op::REDUCE, Op::ALLREDUCE}, everywhere, "it combines by ADD, MUL, MAX, MIN, AND, OR or XOR, or by a body (REDUCE)",
     [](const UOp& u) {
       const Op op = u.arg().reduce().op;
       return kCombining.contains(op) || (op == Op::NOOP && u.op() == Op::REDUCE);
     },
     [](const UOp& u) { return std::string(name(u.arg().reduce().op)); }},
    {{Op::REDUCE, Op::ALLREDUCE}, everywhere, "floats have no AND, OR or XOR",
     [](const UOp& u) { return !kBitwise.contains(u.arg().reduce().op) || !u.src(0).dtype().is_float(); },
     [](const UOp& u) { return fmt::format("{} of {}", name(u.arg().reduce().op), u.src(0).dtype().name()); }},
    {{Op::REDUCE, Op::ALLREDUCE}, everywhere, "k values have k initial values and a body; one value has neither",
     counts_states,
     [](const UOp& u) {
       return fmt::format("{} by {}, {} sources", u.arg().reduce().states, name(u.arg().reduce().op), u.src().size());
     }},
    {Op::REDUCE, everywhere, "a reduced value keeps its dtype, or loses lanes; several values are void", reduces_value},
    {Op::REDUCE, everywhere, "initial values are constants of the values' dtypes", initial_values_fit},
    {Op::REDUCE, everywhere,
     "a body is a TUPLE of the values' dtypes, by elementwise ops from constants and STATEs of these dtypes", body_fits,
     [](const UOp& u) { return sources_found(u.src(2 * states(u))); }},
    {Op::REDUCE, everywhere, "a REDUCE goes over axes or over scalar integers, not over both",
     [](const UOp& u) {
       return all(reduced_over(u), is_integer) && (u.arg().reduce().axes.empty() || reduced_over(u).empty());
     }},
    {Op::REDUCE, everywhere, "a REDUCE lists axes, none twice",
     [](const UOp& u) { return distinct_axes(u.arg().reduce().axes); },
     [](const UOp& u) { return fmt::format("{}", fmt::join(u.arg().reduce().axes, ", ")); }},
    {Op::ALLREDUCE, everywhere, "ALLREDUCE goes over devices, not over axes",
     [](const UOp& u) { return u.arg().reduce().axes.empty(); }},
    {{Op::COPY, Op::ALLREDUCE}, everywhere, "its second source is a DEVICE",
     [](const UOp& u) { return u.src(1).op() == Op::DEVICE; }, sources_found},
    {{Op::MULTI, Op::MSELECT}, everywhere, "an axis or a device is counted from 0",
     [](const UOp& u) { return u.arg().integer() >= 0; },
     [](const UOp& u) { return std::to_string(u.arg().integer()); }},
    {Op::MSTACK, everywhere, "all shards have its dtype",
     [](const UOp& u) { return all_like_result(u, u.src()); }},
    {Op::SLICE, everywhere, "the offset of a SLICE is of dtype index",
     [](const UOp& u) { return is_index_number(u.src(1)); }},
    {Op::CALL, everywhere, "CALL runs a SINK, COPY or SLICE",
     [](const UOp& u) { return has_op(u.src(0), {Op::SINK, Op::COPY, Op::SLICE}); }, sources_found},
    {{Op::CALL, Op::FUNCTION}, everywhere, "arguments are values",
     [](const UOp& u) { return all(rest(u), has_value); }},
    {Op::GETTUPLE, everywhere, "GETTUPLE picks a value, and has its dtype", picks_one,
     [](const UOp& u) {
       return fmt::format("value {} of {} as {}", u.arg().integer(), picked_from(u).size(), u.dtype().name());
     }},

    // memory
    {Op::INDEX, everywhere, "indices are integers, with as many lanes each", indices_are_integers},
    {Op::INDEX, everywhere, "INDEX gives an element of what it indexes, or its address", index_gives_element},
    {Op::LOAD, everywhere, "LOAD reads from an address",
     [](const UOp& u) { return u.src(0).dtype().is_ptr(); }},
    {Op::LOAD, everywhere, "LOAD reads a value of the dtype its address points to",
     [](const UOp& u) { return fits_memory(u.dtype(), u.src(0)); },
     [](const UOp& u) { return fmt::format("{} from {}", u.dtype().name(), u.src(0).dtype().name()); }},
    {Op::LOAD, everywhere, "the value for a closed gate has the dtype of the LOAD",
     [](const UOp& u) { return all_like_result(u, rest(u)); }},
    {Op::STORE, everywhere, "STORE writes a value of the dtype its address points to",
     [](const UOp& u) { return fits_memory(u.src(1).dtype(), u.src(0)); },
     [](const UOp& u) { return fmt::format("{} into {}", u.src(1).dtype().name(), u.src(0).dtype().name()); }},

    // vectors
    {Op::VECTORIZE, everywhere, "the lanes of the sources are the lanes of the vector", lanes_add_up},
    {Op::GEP, everywhere, "GEP picks lanes that its source has", picks_lanes,
     [](const UOp& u) { return fmt::format("lanes {} in {}", fmt::join(u.arg().ints(), ", "), signature(u)); }},
    {{Op::UNROLL, Op::CONTRACT}, everywhere, "it changes the lanes of a value, not its type",
     [](const UOp& u) { return has_value(u.src(0)) && same_scalar(u.src(0).dtype(), u.dtype()); }},
    {Op::WMMA, everywhere, "WMMA multiplies values of one type and adds to one of its own dtype",
     [](const UOp& u) {
       return has_value(u.src(0)) && has_value(u.src(1)) && same_scalar(u.src(0).dtype(), u.src(1).dtype()) &&
              u.src(2).dtype() == u.dtype();
     }},

    // elementwise
    {Op::CAST, everywhere, "a cast keeps the lanes of a value, or the space of a pointer", casts},
    {Op::BITCAST, everywhere, "a bitcast keeps lanes and bits", bitcasts},
    {Op::WHERE, everywhere, "the condition of a WHERE is a bool with as many lanes as the values",
     [](const UOp& u) { return is_bool(u.src(0).dtype(), u.src(2).dtype().lanes()); }},
    {ops::alu, everywhere, "operands are values of one dtype", operands_agree},
    {ops::alu, everywhere, "the result has the operands' dtype; of a comparison it is bool", result_follows},
    {{Op::RECIP, Op::SQRT, Op::EXP2, Op::LOG2, Op::SIN, Op::TRUNC, Op::FDIV}, everywhere, "the operands are floats",
     [](const UOp& u) { return u.dtype().is_float(); }},
    {kIntegerDivision | OpSet{Op::SHL, Op::SHR}, everywhere, "the operands are integers",
     [](const UOp& u) { return u.dtype().is_int(); }},
    {kBitwise, everywhere, "the operands are integers or bools",
     [](const UOp& u) { return !u.dtype().is_float(); }},
    {Op::THREEFRY, everywhere, "the operands are uint64",
     [](const UOp& u) { return u.dtype().kind() == Scalar::UInt64; }},
    {kIntegerDivision, everywhere, "integers are not divided by the constant 0",
     [](const UOp& u) { return !u.src(1).equals(0); }},

    // tensor level
    {ops::all, at_tensor, "tensors hold scalars",
     [](const UOp& u) { return !u.dtype().is_ptr() && u.dtype().lanes() == 1; }},
    {Op::REDUCE, at_tensor, "a REDUCE goes over axes, not over ranges",
     [](const UOp& u) { return reduced_over(u).empty(); }},
    {ops::all, at_tensor, "its shape fits", has_right_shape, shape_error},
    {Op::STORE, at_tensor, "STORE writes a tensor of the same shape",
     [](const UOp& u) { return same_shape(u.src(0), u.src(1)); }},

    // kernel level
    {Op::PARAM, at_kernel_and_program, "a PARAM is a pointer",
     [](const UOp& u) { return u.dtype().is_ptr(); }},
    {Op::SINK, at_kernel_and_program, "a SINK holds effects",
     [](const UOp& u) { return all(u.src(), has_no_value); }, sources_found},
    {Op::SINK, at_kernel_and_program, "every range is closed below the SINK",
     [](const UOp& u) { return u.ranges().empty(); }, open_ranges},
    {Op::AFTER, at_kernel_and_program, "AFTER waits for effects, ranges and other AFTERs",
     [](const UOp& u) {
       return all(rest(u), [](const UOp& s) { return has_no_value(s) || has_op(s, {Op::RANGE, Op::SPECIAL, Op::AFTER}); });
     },
     sources_found},
    {Op::REDUCE, at_kernel, "a REDUCE goes over ranges, not over axes",
     [](const UOp& u) { return u.arg().reduce().axes.empty(); }},
    {Op::REDUCE, at_kernel, "what is reduced over are ranges of kind REDUCE, GROUP_REDUCE or UNROLL", reduces_ranges,
     sources_found},
    {{Op::END, Op::STAGE}, at_kernel, "what is closed are ranges, or constants where ranges were", ranges_or_constants,
     sources_found},
    {OpSet{Op::INDEX} | ops::movement, at_kernel, "indices and sizes fit the shape", has_right_shape, shape_error},
    {Op::STORE, at_kernel, "STORE writes to an INDEX",
     [](const UOp& u) { return u.src(0).op() == Op::INDEX; }, sources_found},

    // program level
    {ops::all, at_program, "index is lowered to the integers of the device",
     [](const UOp& u) { return u.dtype().kind() != Scalar::Index; }},
    {Op::RANGE, at_program, "a RANGE is a loop: no UPCAST, UNROLL or GROUP_REDUCE",
     [](const UOp& u) {
       const AxisKind kind = u.arg().range().kind;
       return kind != AxisKind::UPCAST && kind != AxisKind::UNROLL && kind != AxisKind::GROUP_REDUCE;
     },
     [](const UOp& u) { return std::string(name(u.arg().range().kind)); }},
    {Op::END, at_program, "END closes ranges",
     [](const UOp& u) { return all(rest(u), [](const UOp& r) { return r.op() == Op::RANGE; }); }, sources_found},
    {Op::INDEX, at_program, "INDEX is an address: a pointer, and one scalar index",
     [](const UOp& u) {
       return u.dtype().is_ptr() && u.src(0).dtype().is_ptr() && u.src().size() == 2 && u.src(1).dtype().lanes() == 1;
     }},
    {{Op::LOAD, Op::STORE}, at_program, "its address is an INDEX, or a cast of one",
     [](const UOp& u) {
       const UOp& address = u.src(0).op() == Op::CAST ? u.src(0).src(0) : u.src(0);
       return u.src(0).dtype().is_ptr() && address.op() == Op::INDEX;
     },
     sources_found},
};

constexpr OpSet kLegal[] = {
    // tensor
    OpSet{Op::SINK, Op::GROUP, Op::AFTER, Op::NOOP, Op::CONST, Op::DEFINE_VAR, Op::BIND, Op::UNIQUE, Op::LUNIQUE,
          Op::DEVICE, Op::BUFFER, Op::PARAM, Op::REDUCE, Op::CONTIGUOUS, Op::CONTIGUOUS_BACKWARD, Op::DETACH, Op::COPY,
          Op::ALLREDUCE, Op::MULTI, Op::MSELECT, Op::MSTACK, Op::SLICE, Op::FUNCTION, Op::CALL, Op::TUPLE,
          Op::GETTUPLE, Op::STORE} |
        ops::movement | ops::elementwise,
    // kernel
    OpSet{Op::SINK, Op::GROUP, Op::AFTER, Op::END, Op::BARRIER, Op::IF, Op::ENDIF, Op::NOOP, Op::CONST, Op::DEFINE_VAR,
          Op::PARAM, Op::DEFINE_LOCAL, Op::DEFINE_REG, Op::RANGE, Op::SPECIAL, Op::REDUCE, Op::STAGE, Op::GETTUPLE,
          Op::INDEX, Op::LOAD, Op::STORE, Op::VECTORIZE, Op::GEP, Op::UNROLL, Op::CONTRACT, Op::WMMA} |
        ops::movement | ops::elementwise,
    // program
    OpSet{Op::SINK, Op::GROUP, Op::AFTER, Op::END, Op::BARRIER, Op::IF, Op::ENDIF, Op::NOOP, Op::CONST, Op::DEFINE_VAR,
          Op::PARAM, Op::DEFINE_LOCAL, Op::DEFINE_REG, Op::RANGE, Op::SPECIAL, Op::INDEX, Op::LOAD, Op::STORE,
          Op::VECTORIZE, Op::GEP, Op::WMMA} |
        ops::elementwise,
};
// clang-format on

// ---- checking

// For each op its requirements, in the order of the table.
const std::vector<const Requirement*>& requirements_of(Op op) {
  static const auto by_op = [] {
    std::array<std::vector<const Requirement*>, kOpCount> lists;
    for (const Requirement& r : kRequirements)
      for (int i = 0; i < kOpCount; i++)
        if (r.ops.contains(static_cast<Op>(i))) lists[static_cast<size_t>(i)].push_back(&r);
    return lists;
  }();
  return by_op[static_cast<size_t>(op)];
}

// Never fails: a node that breaks the spec may be one that the printer does not expect.
std::string printed(const UOp& u) {
  constexpr size_t most = 2000;
  try {
    std::string text = u.text();
    if (text.size() > most)
      text = "...\n" + text.substr(text.size() - most);  // the node itself is printed last
    return text;
  } catch (const std::exception& e) {
    return fmt::format("(it cannot be printed: {})", e.what());
  }
}

// Says that the node breaks something; `context` says where it was met.
[[noreturn]] void refuse(const UOp& u, const std::string& context, const std::string& what) {
  throw SpecError(fmt::format("{}{}\n{}", context, what, printed(u)));
}

void check_requirements(const UOp& u, unsigned where, const std::string& context) {
  for (const Requirement* r : requirements_of(u.op())) {
    if ((r->where & where) == 0 || r->holds(u)) continue;
    refuse(
        u, context,
        fmt::format("{} breaks \"{}\": {}", name(u.op()), r->sentence, (r->found ? r->found : signature)(u)));
  }
}

// The source that the walk of a level does not enter, or none: a CALL's body is of another level, and a
// REDUCE's body is checked with the REDUCE, so that a STATE that is met elsewhere is legal nowhere.
size_t apart(const UOp& u) {
  if (u.op() == Op::CALL) return 0;
  if (u.op() == Op::REDUCE && u.arg().kind() == ArgKind::Reduce && has_several_values(u))
    return 2 * states(u);
  return u.src().size();
}

}  // namespace

std::string_view name(Level level) {
  constexpr std::string_view names[] = {"tensor", "kernel", "program"};
  return names[static_cast<int>(level)];
}

std::span<const Requirement> requirements() { return kRequirements; }
OpSet legal_ops(Level level) { return kLegal[static_cast<int>(level)]; }

void check_node(const UOp& node) { check_requirements(node, everywhere, ""); }

void check(const UOp& root, Level level, std::string_view after_pass) {
  std::string context = after_pass.empty() ? "" : fmt::format("after pass \"{}\": ", after_pass);
  context += fmt::format("{} level: ", name(level));
  const unsigned where = everywhere | (1u << static_cast<int>(level));
  NodeSet seen;
  std::vector<const UOp*> order;
  std::vector<std::pair<const UOp*, size_t>> stack;
  auto push = [&](const UOp& u) {
    if (seen.insert(u)) stack.emplace_back(&u, 0);
  };
  push(root);
  while (!stack.empty()) {
    auto& [u, next] = stack.back();
    if (next == apart(*u)) next++;
    if (next < u->src().size()) {
      push(u->src(next++));
    } else {
      if (!legal_ops(level).contains(u->op()))
        refuse(*u, context, fmt::format("{} is not legal at {} level", name(u->op()), name(level)));
      order.push_back(u);
      stack.pop_back();
    }
  }
  for (const UOp* u : order) check_requirements(*u, where, context);  // once it is known that all belong here
  for (const UOp* u : order)
    if (u->op() == Op::CALL && u->src(0).op() == Op::SINK) check(u->src(0), Level::kernel, after_pass);
}

void check_boundary(const UOp& root, Level level, std::string_view after_pass) {
  if (env::SPEC() == 0) return;
  check(root, level, after_pass);
  if (env::SPEC() < 2) return;
  const std::string text = root.text();
  std::string reason = "it parses back to another node";
  try {
    if (same(parse(text), root)) return;
  } catch (const ParseError& e) {
    reason = fmt::format("it does not parse back: {}", e.what());
  }
  throw SpecError(fmt::format("after pass \"{}\": what is printed is not what is there: {}\n{}", after_pass,
                              reason, printed(root)));
}

}  // namespace quern
