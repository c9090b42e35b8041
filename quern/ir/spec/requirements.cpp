// The table of requirements: first what holds of every op, then op by op, then level by level.
#include <fmt/format.h>

#include "quern/ir/shape/movement.h"
#include "quern/ir/spec/predicates.h"
#include "quern/ir/spec/reduce.h"
#include "quern/ir/spec/spec.h"

namespace quern {
namespace spec {
namespace {

constexpr OpSet kCombining = {Op::ADD, Op::MUL, Op::MAX, Op::MIN, Op::AND, Op::OR, Op::XOR};
constexpr OpSet kBitwise = {Op::AND, Op::OR, Op::XOR};
constexpr OpSet kIntegerDivision = {Op::FLOORDIV, Op::FLOORMOD, Op::TRUNCDIV, Op::TRUNCMOD};
constexpr OpSet kEffects = {Op::SINK, Op::GROUP, Op::END,   Op::BARRIER,
                            Op::IF,   Op::ENDIF, Op::STORE, Op::CALL};
constexpr OpSet kNames = {Op::UNIQUE, Op::LUNIQUE, Op::DEVICE};
constexpr OpSet kMayLackArgument = {Op::SINK, Op::CONTIGUOUS, Op::STORE,
                                    Op::PAD};  // what is there only if told
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
       return u.arg().kind() == info(u.op()).arg || (u.arg().none() && kMayLackArgument.contains(u.op()));
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
    {Op::IOTA, everywhere, "IOTA counts in integers that hold its size, which is of dtype index",
     [](const UOp& u) {
       return u.dtype().is_int() && !u.dtype().is_index() && u.dtype().lanes() == 1 && is_index_number(u.src(0)) &&
              fits(u.dtype(), u.src(0).vmax());
     },
     [](const UOp& u) { return fmt::format("{} of {}", u.dtype().name(), u.src(0).dtype().name()); }},
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
     [](const UOp& u) { return sources_found(*Reduction(u).combine); }},
    {Op::REDUCE, everywhere, "a REDUCE goes over axes or over scalar integers, not over both",
     [](const UOp& u) {
       return all(closed_ranges(u), is_integer) && (u.arg().reduce().axes.empty() || closed_ranges(u).empty());
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
     [](const UOp& u) { return u.src().size() < 2 || u.src(1).dtype() == u.dtype(); }},
    {{Op::LOAD, Op::STORE}, everywhere, "the last source says of each lane whether it is accessed",
     [](const UOp& u) {
       const DType value = u.op() == Op::LOAD ? u.dtype() : u.src(1).dtype();
       return u.src().size() < 3 || (u.src(2).dtype() == dtypes::bool_.vec(value.lanes()));
     }},
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
    {Op::BITCAST, everywhere, "a bitcast keeps lanes, and bits unless it has an axis", bitcasts},
    {Op::WHERE, everywhere, "the condition of a WHERE is a bool with as many lanes as the values",
     [](const UOp& u) { return is_bool(u.src(0).dtype(), u.src(2).dtype().lanes()); }},
    {ops::alu, everywhere, "operands are values of one dtype", operands_agree},
    {ops::alu, everywhere, "the result has the operands' dtype; of a comparison it is bool", result_follows},
    {{Op::RECIP, Op::SQRT, Op::EXP2, Op::LOG2, Op::SIN, Op::COS, Op::TRUNC, Op::FDIV}, everywhere, "the operands are floats",
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
    {Op::SLICE, at_tensor, "a SLICE is a part of memory, from a constant offset on",
     [](const UOp& u) {
       const UOp& memory = memory_under(u.src(0));
       return has_op(memory, {Op::BUFFER, Op::PARAM, Op::MULTI, Op::MSELECT, Op::MSTACK, Op::SLICE}) &&
              u.src(1).simplify().is_int_const();
     },
     sources_found},
    {Op::REDUCE, at_tensor, "a REDUCE goes over axes, not over ranges",
     [](const UOp& u) { return closed_ranges(u).empty(); }},
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
    {Op::AFTER, at_kernel_and_program, "AFTER waits for effects, ranges (or the CONST of a single step) and other AFTERs",
     [](const UOp& u) {
       return all(rest(u), [](const UOp& s) { return has_no_value(s) || has_op(s, {Op::RANGE, Op::SPECIAL, Op::AFTER}) || (s.is_const() && s.dtype().is_index()); });
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
// clang-format on

}  // namespace
}  // namespace spec

std::span<const Requirement> requirements() { return spec::kRequirements; }

}  // namespace quern
