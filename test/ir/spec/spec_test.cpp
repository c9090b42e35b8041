// For each requirement of the spec a node that breaks it, and what is said then; and graphs that are legal.
#include "quern/ir/spec/spec.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/ir/variables.h"

namespace quern {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr DType f32 = dtypes::float32, i32 = dtypes::int32, nothing = dtypes::void_;

// ---- parts that examples are made of
// ---------------------------------------------------------------------------------

UOp make(Op op, DType dtype, const UOps& sources = {}, const Arg& arg = {}) {
  return UOp::make(op, dtype, sources, arg);
}

UOp tensor(const Ints& sizes, int slot = 0, DType dtype = f32) {
  UOps sources;
  for (const int64_t size : sizes) sources.push_back(UOp::index(size));
  return make(Op::PARAM, dtype, sources, slot);
}
UOp memory(int slot, int64_t size = 64) { return make(Op::PARAM, f32.ptr(size), {}, slot); }
UOp loop(int id, DType dtype = dtypes::index) { return UOp::range(UOp::constant(dtype, 4), id); }
UOp reduce_loop(int id) { return UOp::range(4, id, AxisKind::REDUCE); }
UOp value_at(const UOp& m, const UOp& i) { return make(Op::INDEX, m.dtype().base(), {m, i}); }
UOp address_at(const UOp& m, const UOp& i) { return make(Op::INDEX, m.dtype(), {m, i}); }
UOp store(const UOp& to, const UOp& value) { return make(Op::STORE, nothing, {to, value}); }
UOp end(const UOp& effect, const UOps& ranges) {
  UOps sources = {effect};
  sources.insert(sources.end(), ranges.begin(), ranges.end());
  return make(Op::END, nothing, sources);
}
UOp device(const Texts& names = {"CPU"}) { return make(Op::DEVICE, nothing, {}, names); }
UOp buffer(int id, int64_t size) {
  return make(Op::BUFFER, f32, {make(Op::UNIQUE, nothing, {}, id), device()}, size);
}
UOp state(int i, DType dtype = f32) { return make(Op::STATE, dtype, {}, i); }
UOp tuple(const UOps& values) { return make(Op::TUPLE, nothing, values); }

// The maximum, and the sum of exponentials relative to it, in one pass: what a softmax needs.
UOp running_max_and_sum() {
  const UOp most = max(state(0), state(2));
  const auto scaled = [&](int sum, int max_of) {
    return state(sum) * UOp::alu(Op::EXP2, {state(max_of) - most});
  };
  return tuple({most, scaled(1, 0) + scaled(3, 2)});
}
UOp several(const UOps& values, const UOps& initial, const UOp& body, const UOps& ranges,
            const Ints& axes = {}) {
  UOps sources = values;
  for (const UOps& more : {initial, UOps{body}, ranges})
    sources.insert(sources.end(), more.begin(), more.end());
  return make(Op::REDUCE, nothing, sources, ReduceArg{Op::NOOP, axes, std::ssize(values)});
}
UOps start_of_max_and_sum() { return {UOp::constant(f32, min_value(f32)), floating(0)}; }

std::string spec_error(const UOp& u, Level level, std::string_view pass = {}) {
  try {
    check(u, level, pass);
  } catch (const SpecError& e) {
    return e.what();
  }
  return "";
}
std::string spec_error(const UOp& u) {
  try {
    check_node(u);
  } catch (const SpecError& e) {
    return e.what();
  }
  return "";
}

class Spec : public testing::Test {
  env::Override off_{"SPEC", 0};  // nodes that break the spec are made here
};

// ---- broken requirements
// ---------------------------------------------------------------------------------------------

struct Broken {
  Where where;
  const char* sentence;
  UOp node;
  const char* found;
};

std::vector<Broken> broken() {
  const UOp x = floating(1), i = whole(3), r = loop(0), k = reduce_loop(1), p = memory(0);
  const UOp effect = store(address_at(p, r), x), n = UOp::variable("n", 1, 8),
            unique = make(Op::UNIQUE, nothing, {}, 0);
  const auto reduce = [](Op op, const Ints& axes, int64_t states) {
    return Arg(ReduceArg{op, axes, states});
  };
  const DType v4 = f32.vec(4);
  const UOp vector = UOp::constant(v4, 1.0);
  const UOps starts = {floating(0), floating(0)};
  const UOp sums = tuple({state(0) + state(2), state(1) + state(3)});
  const char* body =
      "a body is a TUPLE of the values' dtypes, by elementwise ops from constants and STATEs of these dtypes";
  const char* constant = "a constant is a value of its dtype";
  const char* combines = "it combines by ADD, MUL, MAX, MIN, AND, OR or XOR, or by a body (REDUCE)";
  return {
      {everywhere, "it has as many sources as the table of ops says", make(Op::ADD, i32, {i}),
       "1, not 2 to 2"},
      {everywhere, "it has as many sources as the table of ops says", make(Op::VECTORIZE, f32),
       "0, not 1 to any number"},
      {everywhere, "its argument is of the kind that the table of ops says", make(Op::CONST, i32), "none"},
      {everywhere, "its argument is of the kind that the table of ops says", make(Op::ADD, i32, {i, i}, 3),
       "another kind"},
      {everywhere, "only memory and addresses are pointers", make(Op::LOAD, f32.ptr(), {p}),
       "LOAD(float32*[64]) of float32*"},
      {everywhere, "it has no value: its dtype is void", make(Op::SINK, i32), "SINK() of int32"},
      {everywhere, "it has a value: its dtype is not void", make(Op::PARAM, nothing, {}, 0),
       "PARAM() of void"},
      {everywhere, "it has the dtype of its first source", make(Op::CONTIGUOUS, i32, {x}),
       "CONTIGUOUS(float32) of int32"},

      {everywhere, "NOOP has the dtype of its first source, or is void without one", make(Op::NOOP, i32),
       "of int32"},
      {everywhere, "its sources are effects", make(Op::GROUP, nothing, {x}), "GROUP(float32)"},
      {everywhere, "END closes an effect", end(x, {r}), "END(float32, index)"},
      {everywhere, "what it closes are scalar integers", end(effect, {x}), "END(void, float32)"},
      {everywhere, "the condition of an IF is a scalar bool", make(Op::IF, nothing, {i}), "IF(int32)"},
      {everywhere, "ENDIF closes an IF", make(Op::ENDIF, nothing, {effect}), "ENDIF(STORE)"},

      {everywhere, constant, UOp::constant(dtypes::int8, Const::of_int(300)), "an integer, 300, of int8"},
      {everywhere, constant, UOp::constant(dtypes::uint8, Const::of_int(-1)), "an integer, -1, of uint8"},
      {everywhere, constant, UOp::constant(f32, Const::of_float(0.1)), "a float, 0.1, of float32"},
      {everywhere, constant, UOp::constant(i32, Const::of_float(1)), "a float, 1.0, of int32"},
      {everywhere, constant, UOp::constant(i32, Const::of_bool(true)), "a bool, 1, of int32"},
      {everywhere, constant, UOp::constant(dtypes::bool_, Const::of_int(1)), "an integer, 1, of bool"},
      {everywhere, constant, UOp::constant(f32, Const::invalid()), "invalid of float32"},
      {everywhere, "a constant's sources are its identity and its device",
       make(Op::CONST, i32, {i}, Const::of_int(1)), "CONST(CONST)"},
      {everywhere, "it is a scalar integer", make(Op::DEFINE_VAR, f32, {}, VariableArg{"n", 0, 1}),
       "DEFINE_VAR() of float32"},
      {everywhere, "a variable has a name, and bounds in order and within its dtype",
       make(Op::DEFINE_VAR, dtypes::int8, {}, VariableArg{"n", 0, 128}), "'n' from 0 to 128 of int8"},
      {everywhere, "BIND gives a value to a variable", make(Op::BIND, i32, {i, i}), "BIND(CONST, CONST)"},
      {everywhere, "a bound value is a constant within the variable's bounds",
       make(Op::BIND, dtypes::index, {n, UOp::index(9)}), "9 for n from 1 to 8"},
      {everywhere, "a bound value is a constant within the variable's bounds",
       make(Op::BIND, dtypes::index, {n, n}), "DEFINE_VAR for n from 1 to 8"},
      {everywhere, "a DEVICE names at least one device", device({}), "0 names"},
      {everywhere, "a BUFFER has an identity and a device", make(Op::BUFFER, f32, {device(), device()}, 4),
       "BUFFER(DEVICE, DEVICE)"},
      {everywhere, "it holds scalars that memory can hold, not a negative number of them",
       make(Op::BUFFER, dtypes::index, {unique, device()}, 4), "4 of index"},
      {everywhere, "it holds scalars that memory can hold, not a negative number of them", buffer(0, -1),
       "-1 of float32"},
      {everywhere, "a PARAM is a slot from 0: global memory, or a value with sizes and a device", memory(-1),
       "slot -1"},
      {everywhere, "a PARAM is a slot from 0: global memory, or a value with sizes and a device",
       make(Op::PARAM, f32, {i}, 0), "PARAM(int32) of float32"},
      {everywhere, "DEFINE_LOCAL is a pointer to LOCAL memory of known size",
       make(Op::DEFINE_LOCAL, f32.ptr(4), {}, 0), "float32*[4]"},
      {everywhere, "DEFINE_REG is a pointer to REG memory of known size",
       make(Op::DEFINE_REG, f32.ptr(DType::kUnsized, AddrSpace::REG), {}, 0), "float32*@REG"},
      {everywhere, "states are counted from 0", state(-1), "-1"},
      {everywhere, "its end has its dtype", make(Op::RANGE, i32, {UOp::index(4)}, RangeArg{}),
       "RANGE(index) of int32"},
      {everywhere, "it has at least one step, if its end is a constant",
       make(Op::RANGE, dtypes::index, {UOp::index(0)}, RangeArg{}), "0 steps"},
      {everywhere, "a hardware index has a name", make(Op::SPECIAL, i32, {i}, ""), "SPECIAL(int32)"},

      {everywhere, "sizes and offsets are of dtype index", make(Op::RESHAPE, f32, {x, i}),
       "RESHAPE(float32, int32)"},
      {everywhere, "there are as many offsets as sizes", make(Op::PAD, f32, {x, UOp::index(0)}), "1 numbers"},
      {everywhere, "PERMUTE lists each axis once", make(Op::PERMUTE, f32, {x}, Ints{0, 2}), "0, 2"},
      {everywhere, "FLIP lists axes, none twice", make(Op::FLIP, f32, {x}, Ints{1, 1}), "1, 1"},

      {everywhere, combines, make(Op::REDUCE, f32, {x}, reduce(Op::SUB, {}, 1)), "SUB"},
      {everywhere, "IOTA counts in integers that hold its size, which is of dtype index",
       make(Op::IOTA, dtypes::int8, {UOp::index(1000)}), "int8 of index"},
      {everywhere, combines, make(Op::ALLREDUCE, f32, {x, device()}, reduce(Op::NOOP, {}, 1)), "NOOP"},
      {everywhere, "floats have no AND, OR or XOR", make(Op::REDUCE, f32, {x}, reduce(Op::XOR, {}, 1)),
       "XOR of float32"},
      {everywhere, "k values have k initial values and a body; one value has neither",
       make(Op::REDUCE, f32, {x}, reduce(Op::ADD, {}, 2)), "2 by ADD, 1 sources"},
      {everywhere, "k values have k initial values and a body; one value has neither",
       make(Op::REDUCE, nothing, {x, x, x, x}, reduce(Op::NOOP, {}, 2)), "2 by NOOP, 4 sources"},
      {everywhere, "k values have k initial values and a body; one value has neither",
       make(Op::REDUCE, nothing, {x, x, x, x}, reduce(Op::NOOP, {}, int64_t{1} << 62)), "4 sources"},
      {everywhere, "a reduced value keeps its dtype, or loses lanes; several values are void",
       make(Op::REDUCE, i32, {x, k}, reduce(Op::ADD, {}, 1)), "REDUCE(float32, index) of int32"},
      {everywhere, "a reduced value keeps its dtype, or loses lanes; several values are void",
       make(Op::REDUCE, f32.vec(3), {vector, k}, reduce(Op::ADD, {}, 1)), "of float32x3"},
      {everywhere, "initial values are constants of the values' dtypes", several({x, x}, {x, i}, sums, {k}),
       "int32"},
      {everywhere, "initial values are constants of the values' dtypes",
       several({x, x}, {x, x + x}, sums, {k}), "REDUCE("},
      {everywhere, body, several({x, x}, starts, x, {k}), "CONST()"},
      {everywhere, body, several({x, x}, starts, tuple({state(0)}), {k}), "TUPLE(STATE)"},
      {everywhere, body, several({x, x}, starts, tuple({state(0), state(4)}), {k}), "TUPLE(STATE, STATE)"},
      {everywhere, body, several({x, x}, starts, tuple({state(0), state(1, i32)}), {k}),
       "TUPLE(STATE, STATE)"},
      {everywhere, body, several({x, x}, starts, tuple({state(0), state(3, i32).cast(f32)}), {k}),
       "TUPLE(STATE, CAST)"},
      {everywhere, body, several({x, x}, starts, tuple({state(0), value_at(p, r)}), {k}),
       "TUPLE(STATE, INDEX)"},
      {everywhere, "a REDUCE goes over axes or over scalar integers, not over both",
       make(Op::REDUCE, f32, {x, k}, reduce(Op::ADD, {0}, 1)), "REDUCE(float32, index)"},
      {everywhere, "a REDUCE lists axes, none twice", make(Op::REDUCE, f32, {x}, reduce(Op::ADD, {1, 1}, 1)),
       "1, 1"},
      {everywhere, "ALLREDUCE goes over devices, not over axes",
       make(Op::ALLREDUCE, f32, {x, device()}, reduce(Op::ADD, {0}, 1)), "ALLREDUCE(float32, void)"},
      {everywhere, "its second source is a DEVICE", make(Op::COPY, f32, {x, x}), "COPY(CONST, CONST)"},
      {everywhere, "an axis or a device is counted from 0", make(Op::MULTI, f32, {x}, -1), "-1"},
      {everywhere, "all shards have its dtype", make(Op::MSTACK, f32, {x, i}), "MSTACK(float32, int32)"},
      {everywhere, "the offset of a SLICE is of dtype index", make(Op::SLICE, f32, {buffer(0, 9), i}, 4),
       "SLICE(float32, int32)"},
      {everywhere, "CALL runs a SINK, COPY or SLICE", make(Op::CALL, nothing, {x}), "CALL(CONST)"},
      {everywhere, "arguments are values", make(Op::FUNCTION, f32, {x, UOp::sink({})}, FunctionArg{}),
       "FUNCTION(float32, void)"},
      {everywhere, "GETTUPLE picks a value, and has its dtype", make(Op::GETTUPLE, f32, {tuple({x, i})}, 2),
       "value 2 of 2"},
      {everywhere, "GETTUPLE picks a value, and has its dtype", make(Op::GETTUPLE, f32, {tuple({x, i})}, 1),
       "value 1 of 2 as float32"},
      {everywhere, "GETTUPLE picks a value, and has its dtype", make(Op::GETTUPLE, f32, {x}, 0),
       "value 0 of 0"},
      {everywhere, "GETTUPLE picks a value, and has its dtype",
       make(Op::GETTUPLE, f32, {several({x, x}, starts, sums, {k})}, 2), "value 2 of 2"},

      {everywhere, "indices are integers, with as many lanes each", value_at(p, x),
       "INDEX(float32*[64], float32)"},
      {everywhere, "INDEX gives an element of what it indexes, or its address", make(Op::INDEX, i32, {p, r}),
       "of int32"},
      {everywhere, "INDEX gives an element of what it indexes, or its address",
       make(Op::INDEX, f32.ptr(4, AddrSpace::LOCAL), {p, r}), "float32*[4]@LOCAL"},
      {everywhere, "LOAD reads from an address", make(Op::LOAD, f32, {x}), "LOAD(float32)"},
      {everywhere, "LOAD reads a value of the dtype its address points to",
       make(Op::LOAD, i32, {address_at(p, r)}), "int32 from float32*[64]"},
      {everywhere, "LOAD reads a value of the dtype its address points to",
       make(Op::LOAD, v4, {address_at(p, r)}), "float32x4 from float32*[64]"},
      {everywhere, "the value for a closed gate has the dtype of the LOAD",
       make(Op::LOAD, f32, {address_at(p, r), i}), "int32"},
      {everywhere, "STORE writes a value of the dtype its address points to", store(address_at(p, r), i),
       "int32 into float32*[64]"},
      {everywhere, "the last source says of each lane whether it is accessed",
       make(Op::LOAD, f32, {address_at(p, r), x, i}), "LOAD"},

      {everywhere, "the lanes of the sources are the lanes of the vector", make(Op::VECTORIZE, v4, {x, x}),
       "VECTORIZE(float32, float32) of float32x4"},
      {everywhere, "GEP picks lanes that its source has", make(Op::GEP, f32, {vector}, Ints{4}), "lanes 4"},
      {everywhere, "GEP picks lanes that its source has", make(Op::GEP, f32, {vector}, Ints{0, 1}),
       "lanes 0, 1"},
      {everywhere, "it changes the lanes of a value, not its type", make(Op::UNROLL, i32, {vector}, Ints{4}),
       "UNROLL(float32x4) of int32"},
      {everywhere, "WMMA multiplies values of one type and adds to one of its own dtype",
       make(Op::WMMA, v4, {vector, vector, x}, "mma"), "WMMA(float32x4, float32x4, float32)"},

      {everywhere, "a cast keeps the lanes of a value, or the space of a pointer",
       make(Op::CAST, i32, {vector}), "CAST(float32x4) of int32"},
      {everywhere, "a cast keeps the lanes of a value, or the space of a pointer",
       make(Op::CAST, f32.ptr(), {x}), "CAST(float32)"},
      {everywhere, "a bitcast keeps lanes, and bits unless it has an axis",
       make(Op::BITCAST, dtypes::int16, {x}), "BITCAST(float32) of int16"},
      {everywhere, "the condition of a WHERE is a bool with as many lanes as the values",
       make(Op::WHERE, f32, {i, x, x}), "WHERE(int32, "},
      {everywhere, "the condition of a WHERE is a bool with as many lanes as the values",
       make(Op::WHERE, v4, {UOp::boolean(true), vector, vector}), "WHERE(bool, "},
      {everywhere, "operands are values of one dtype", make(Op::ADD, f32, {x, i}), "ADD(float32, int32)"},
      {everywhere, "operands are values of one dtype", make(Op::ADD, f32, {p, p}), "ADD(float32*[64], "},
      {everywhere, "the result has the operands' dtype; of a comparison it is bool",
       make(Op::ADD, i32, {x, x}), "of int32"},
      {everywhere, "the result has the operands' dtype; of a comparison it is bool",
       make(Op::CMPLT, f32, {x, x}), "of float32"},
      {everywhere, "the operands are floats", make(Op::SQRT, i32, {i}), "SQRT(int32)"},
      {everywhere, "the operands are integers", make(Op::SHL, f32, {x, x}), "SHL(float32, float32)"},
      {everywhere, "the operands are integers or bools", make(Op::AND, f32, {x, x}), "AND(float32, float32)"},
      {everywhere, "the operands are uint64", make(Op::THREEFRY, i32, {i, i}), "THREEFRY(int32, int32)"},
      {everywhere, "integers are not divided by the constant 0", make(Op::FLOORDIV, i32, {i, whole(0)}),
       "FLOORDIV(int32, int32)"},

      {at_tensor, "tensors hold scalars", vector, "of float32x4"},
      {at_tensor, "a SLICE is a part of memory, from a constant offset on",
       make(Op::SLICE, f32, {buffer(0, 9), n}, 4), "SLICE(BUFFER, DEFINE_VAR)"},
      {at_tensor, "a SLICE is a part of memory, from a constant offset on",
       make(Op::SLICE, f32, {tensor({9}) + tensor({9}), UOp::index(1)}, 4), "SLICE(ADD, CONST)"},
      {at_tensor, "a REDUCE goes over axes, not over ranges",
       make(Op::REDUCE, f32, {x, UOp::index(0)}, reduce(Op::ADD, {}, 1)), "REDUCE(float32, index)"},
      {at_tensor, "its shape fits", make(Op::RESHAPE, f32, {tensor({2, 6}), UOp::index(5)}),
       "RESHAPE: (2, 6) has 12 elements, (5) has 5"},
      {at_tensor, "its shape fits", tensor({2, 3}, 0) + tensor({3, 2}, 1),
       "ADD: shapes (2, 3) and (3, 2) differ"},
      {at_tensor, "STORE writes a tensor of the same shape", store(buffer(0, 4), buffer(1, 5)),
       "STORE(float32, float32)"},

      {at_kernel_and_program, "a PARAM is a pointer", tensor({}, 0), "PARAM() of float32"},
      {at_kernel_and_program, "a SINK holds effects", UOp::sink(UOps{x}), "SINK(CONST)"},
      {at_kernel, "every range is closed below the SINK", UOp::sink(UOps{effect}), "open: 0"},
      {at_kernel_and_program,
       "AFTER waits for effects, ranges (or the CONST of a single step) and other AFTERs",
       make(Op::AFTER, p.dtype(), {p, x}), "AFTER(PARAM, CONST)"},
      {at_kernel, "a REDUCE goes over ranges, not over axes",
       make(Op::REDUCE, f32, {x}, reduce(Op::ADD, {0}, 1)), "REDUCE(float32)"},
      {at_kernel, "what is reduced over are ranges of kind REDUCE, GROUP_REDUCE or UNROLL",
       make(Op::REDUCE, f32, {x, r}, reduce(Op::ADD, {}, 1)), "REDUCE(CONST, RANGE)"},
      {at_kernel, "what is closed are ranges, or constants where ranges were", end(effect, {r * 2}),
       "END(STORE, MUL)"},
      {at_kernel, "indices and sizes fit the shape", make(Op::INDEX, f32, {p, r, r}),
       "2 indices into shape (64)"},
      {at_kernel, "STORE writes to an INDEX", store(p, x), "STORE(PARAM, CONST)"},

      {at_program, "index is lowered to the integers of the device", UOp::index(1), "of index"},
      {at_program, "a RANGE is a loop: no UPCAST, UNROLL or GROUP_REDUCE",
       UOp::range(whole(4), 0, AxisKind::UPCAST), "UPCAST"},
      {at_program, "END closes ranges", end(store(address_at(p, i), x), {i}), "END(STORE, CONST)"},
      {at_program, "INDEX is an address: a pointer, and one scalar index", value_at(p, i), "of float32"},
      {at_program, "its address is an INDEX, or a cast of one", make(Op::LOAD, f32, {p}), "LOAD(PARAM)"},
  };
}

TEST_F(Spec, EachRequirementIsEnforcedAndSaysWhatItFound) {
  for (const Broken& b : broken()) {
    const std::string said = fmt::format("{} breaks \"{}\": ", name(b.node.op()), b.sentence);
    if (b.where == everywhere) {
      EXPECT_THAT(spec_error(b.node), StartsWith(said));
      EXPECT_THAT(spec_error(b.node), HasSubstr(b.found));
    }
    for (const Level level : {Level::tensor, Level::kernel, Level::program})
      if (b.where & (1 << static_cast<int>(level))) {
        EXPECT_EQ(spec_error(b.node), "") << "only wrong at a level: " << b.sentence;
        EXPECT_THAT(spec_error(b.node, level), StartsWith(fmt::format("{} level: {}", name(level), said)));
        EXPECT_THAT(spec_error(b.node, level), HasSubstr(b.found));
      }
  }
}

TEST_F(Spec, EveryRequirementHasAnExampleThatBreaksIt) {
  std::map<std::string, int> examples;
  for (const Broken& b : broken()) examples[b.sentence]++;
  for (const Requirement& r : requirements()) {
    EXPECT_TRUE(examples.contains(r.sentence)) << "no example breaks: " << r.sentence;
    EXPECT_FALSE(r.ops.empty()) << r.sentence;
  }
  std::vector<std::string> sentences;
  for (const Requirement& r : requirements()) sentences.emplace_back(r.sentence);
  for (const auto& [sentence, count] : examples)
    EXPECT_THAT(sentences, testing::Contains(sentence)) << "not in the spec";
  std::ranges::sort(sentences);
  EXPECT_EQ(std::ranges::adjacent_find(sentences), sentences.end()) << "two requirements with one sentence";
}

// ---- what levels allow
// -----------------------------------------------------------------------------------------------

TEST_F(Spec, EachLevelListsItsOps) {
  const UOp x = tensor({2, 3}), r = loop(0);
  EXPECT_THAT(spec_error(make(Op::RESHAPE, f32.ptr(64), {memory(0), UOp::index(64)}), Level::program),
              HasSubstr("RESHAPE is not legal at program level"));
  EXPECT_THAT(spec_error(r, Level::tensor), StartsWith("tensor level: RANGE is not legal at tensor level"));
  EXPECT_THAT(spec_error(buffer(0, 4), Level::kernel), HasSubstr("is not legal at kernel level"));
  EXPECT_THAT(spec_error(make(Op::STAGE, f32, {x}, StageArg{}), Level::tensor),
              HasSubstr("STAGE is not legal"));
  EXPECT_THAT(spec_error(make(Op::REDUCE, f32, {floating(1)}, ReduceArg{}), Level::program),
              HasSubstr("REDUCE is not legal"));
  for (const Level level : {Level::tensor, Level::kernel, Level::program})
    EXPECT_THAT(spec_error(state(0), level), HasSubstr("STATE is not legal")) << "outside of a body";
}

TEST_F(Spec, EveryOpIsLegalSomewhere) {
  const OpSet legal = legal_ops(Level::tensor) | legal_ops(Level::kernel) | legal_ops(Level::program);
  EXPECT_EQ(ops::all - legal, OpSet(Op::STATE)) << "which stands in bodies only";
}

// ---- legal graphs
// ----------------------------------------------------------------------------------------------------

TEST_F(Spec, ALegalTensorGraph) {
  const UOp n = UOp::variable("n", 1, 8).bind(3);
  const UOp x = make(Op::RESHAPE, f32, {buffer(0, 12), UOp::index(3), UOp::index(4)});
  const UOp one_like = make(
      Op::EXPAND, f32,
      {make(Op::RESHAPE, f32, {floating(1), UOp::index(1), UOp::index(1)}), UOp::index(3), UOp::index(4)});
  const UOp y = make(Op::PERMUTE, f32, {UOp::alu(Op::EXP2, {x + one_like})}, Ints{1, 0});
  const UOp sum = make(Op::REDUCE, f32, {y}, ReduceArg{Op::ADD, {0}, 1});
  const UOp part = make(Op::SHRINK, f32, {sum, UOp::index(0), UOp::index(0), UOp::index(1), n});
  const UOp both =
      several({y, one_like.cast(i32).cast(f32)}, start_of_max_and_sum(), running_max_and_sum(), {}, {1});
  const UOp most = make(Op::GETTUPLE, f32, {both}, 0);
  const UOp assigned = make(Op::AFTER, f32, {buffer(1, 12), store(buffer(1, 12), buffer(2, 12))});
  const UOp copy = make(Op::COPY, f32, {make(Op::CONTIGUOUS, f32, {most}), device({"CUDA"})});
  const UOp function =
      make(Op::FUNCTION, nothing, {tuple({tensor({2}) + tensor({2}), tensor({2})}), part}, FunctionArg{"f"});
  const UOp sink = UOp::sink(UOps{part, copy, assigned, make(Op::GETTUPLE, f32, {function}, 1)});
  EXPECT_EQ(spec_error(sink, Level::tensor), "");
}

// out[i, j] = sum over k of a[i, k] * b[k, j]
UOp matmul() {
  const UOp i = loop(0), j = loop(1), k = reduce_loop(2);
  const UOp product = value_at(memory(1), i * 4 + k) * value_at(memory(2), k * 4 + j);
  const UOp sum = make(Op::REDUCE, f32, {product, k}, ReduceArg{Op::ADD, {}, 1});
  return make(Op::SINK, nothing, {end(store(address_at(memory(0), i * 4 + j), sum), {i, j})},
              KernelArg{"matmul", {}});
}

TEST_F(Spec, ALegalMatmulKernel) { EXPECT_EQ(spec_error(matmul(), Level::kernel), ""); }

TEST_F(Spec, ALegalKernelWithShapedMemoryStagesAndGates) {
  const UOp i = loop(0), j = loop(1), k = loop(2);
  const UOp shaped = make(Op::RESHAPE, f32.ptr(64), {memory(1), UOp::index(8), UOp::index(8)});
  const UOp gated = where(i < 3, j, UOp::invalid());
  const UOp value = make(Op::INDEX, f32, {shaped, i, gated});
  const UOp stage = make(Op::STAGE, f32, {value, j}, StageArg{AddrSpace::LOCAL, {}, true, "used twice"});
  const UOp effect = store(address_at(memory(0), i * 4 + k), make(Op::INDEX, f32, {stage, k}));
  EXPECT_EQ(spec_error(UOp::sink(UOps{end(effect, {i, k})}), Level::kernel), "");
}

TEST_F(Spec, ALegalSoftmaxKernelWithOneReduceOfTwoValues) {
  const UOp i = loop(0), k = reduce_loop(1), j = loop(2);
  const UOp both = several({value_at(memory(1), i * 4 + k), floating(1)}, start_of_max_and_sum(),
                           running_max_and_sum(), {k});
  const UOp most = make(Op::GETTUPLE, f32, {both}, 0), sum = make(Op::GETTUPLE, f32, {both}, 1);
  const UOp result = UOp::alu(Op::EXP2, {value_at(memory(1), i * 4 + j) - most}) / sum;
  EXPECT_EQ(spec_error(UOp::sink(UOps{end(store(address_at(memory(0), i * 4 + j), result), {j, i})}),
                       Level::kernel),
            "");
}

TEST_F(Spec, ALegalCustomKernelWithARegisterAccumulator) {
  const UOp i = loop(0), k = reduce_loop(1), zero = UOp::index(0);
  const UOp acc = make(Op::DEFINE_REG, f32.ptr(1, AddrSpace::REG), {}, 0);
  const UOp cleared = make(Op::AFTER, acc.dtype(), {acc, store(address_at(acc, zero), floating(0)), i});
  const UOp added =
      store(address_at(cleared, zero), value_at(cleared, zero) + value_at(memory(1), i * 4 + k));
  const UOp done = make(Op::AFTER, acc.dtype(), {acc, end(added, {k})});
  EXPECT_EQ(spec_error(UOp::sink(UOps{end(store(address_at(memory(0), i), value_at(done, zero)), {i})}),
                       Level::kernel),
            "");
}

TEST_F(Spec, ALegalProgram) {
  const UOp thread = make(Op::SPECIAL, i32, {whole(16)}, "lidx0"), r = loop(0, i32), zero = whole(0);
  const UOp acc = make(Op::DEFINE_REG, f32.ptr(1, AddrSpace::REG), {}, 0);
  const UOp local = make(Op::DEFINE_LOCAL, f32.ptr(16, AddrSpace::LOCAL), {}, 1);
  const auto load = [](const UOp& address) { return make(Op::LOAD, address.dtype().base(), {address}); };
  const UOp vectors = address_at(memory(1), thread * 4 + r).cast(f32.vec(4).ptr(16));
  const UOp four = load(vectors) * UOp::constant(f32.vec(4), 2.0);
  const UOp cleared = make(Op::AFTER, acc.dtype(), {acc, store(address_at(acc, zero), floating(0))});
  const UOp lane = make(Op::GEP, f32, {four}, Ints{3});
  const UOp loop_end = end(store(address_at(cleared, zero), load(address_at(cleared, zero)) + lane), {r});
  const UOp result = load(address_at(make(Op::AFTER, acc.dtype(), {acc, loop_end}), zero));
  const UOp shared = store(address_at(local, thread), result);
  const UOp seen = make(Op::AFTER, local.dtype(), {local, make(Op::BARRIER, nothing, {shared})});
  const UOp gate = make(Op::IF, nothing, {thread < 1});
  const UOp out = make(Op::AFTER, memory(0).dtype(), {memory(0), gate});
  const UOp write = store(address_at(out, thread), load(address_at(seen, whole(15))));
  EXPECT_EQ(spec_error(UOp::sink(UOps{write, make(Op::ENDIF, nothing, {gate})}), Level::program), "");
}

TEST_F(Spec, TheBodyOfACallIsAKernel) {
  const UOp call = make(Op::CALL, nothing, {matmul(), buffer(0, 64), buffer(1, 64), buffer(2, 64)});
  const UOp graph = UOp::sink(UOps{make(Op::AFTER, f32, {buffer(0, 64), call})});
  EXPECT_EQ(spec_error(graph, Level::tensor), "");
  const UOp open = UOp::sink(UOps{store(address_at(memory(0), loop(0)), floating(0))});
  EXPECT_THAT(
      spec_error(UOp::sink(UOps{make(Op::CALL, nothing, {open, buffer(0, 64)})}), Level::tensor,
                 "split kernels"),
      StartsWith("after pass \"split kernels\": kernel level: SINK breaks \"every range is closed below the "
                 "SINK\""));
}

// ---- the error, and when it comes
// ------------------------------------------------------------------------------------

TEST_F(Spec, TheErrorNamesPassLevelOpRequirementAndNode) {
  const UOp bad = store(address_at(memory(0), loop(0)), whole(7));
  const std::string text = spec_error(UOp::sink(UOps{end(bad, {loop(0)})}), Level::kernel, "split kernels");
  EXPECT_THAT(
      text,
      StartsWith("after pass \"split kernels\": kernel level: STORE breaks \"STORE writes a value of the "
                 "dtype its address points to\": int32 into float32*[64]\n"));
  EXPECT_THAT(text, HasSubstr(bad.text()));
}

TEST_F(Spec, TheErrorIsOfASaneLength) {
  UOp x = tensor({2}, 0);
  for (int i = 0; i < 5000; i++) x = UOp::alu(i % 2 ? Op::EXP2 : Op::SQRT, {x});
  const std::string text = spec_error(x + tensor({3}, 1), Level::tensor);
  EXPECT_LT(text.size(), 3000U);
  EXPECT_THAT(text, HasSubstr("shapes (2) and (3) differ"));
}

TEST_F(Spec, NodesAreCheckedAsTheyAreMadeWhenAsked) {
  const UOp x = floating(1), i = whole(1);
  EXPECT_FALSE(checks_every_node());
  const size_t live = live_nodes();
  {
    const env::Override on("SPEC", 2);
    EXPECT_TRUE(checks_every_node());
    EXPECT_THROW(make(Op::ADD, f32, {x, i}), SpecError);
    EXPECT_EQ(matmul().op(), Op::SINK);
  }
  EXPECT_EQ(live_nodes(), live) << "the node that broke the spec is gone";
  EXPECT_EQ(make(Op::ADD, f32, {x, i}).op(), Op::ADD);
}

TEST_F(Spec, BoundariesAreCheckedAsMuchAsTheEnvironmentAsks) {
  const UOp bad = make(Op::ADD, f32, {floating(1), whole(1)});
  EXPECT_NO_THROW(check_boundary(bad, Level::tensor, "early rewrites"));
  const env::Override on("SPEC", 1);
  EXPECT_THROW(check_boundary(bad, Level::tensor, "early rewrites"), SpecError);
  const env::Override all("SPEC", 2);
  EXPECT_NO_THROW(check_boundary(matmul(), Level::kernel, "split kernels")) << "what is printed parses back";
}

TEST_F(Spec, DeepGraphsAreChecked) {
  UOp x = tensor({2});
  for (int i = 0; i < 100'000; i++) x = x + x;
  EXPECT_EQ(spec_error(x, Level::tensor), "");
}

}  // namespace
}  // namespace quern
