// The operations. One table gives each its name, how many sources it takes and what its argument is; printer,
// parser and spec all read it.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace quern {

// What kind of argument an op carries (see arg.h).
enum class ArgKind : uint8_t {
  None,
  Const,
  Int,
  Ints,
  Text,
  Texts,
  Variable,
  Range,
  Reduce,
  Stage,
  Kernel,
  Function,
  Hints
};

// X(name, least sources, most sources (-1: any number), kind of argument)
// Elementwise ops come last, from the unary to the ternary: the group tests below are comparisons.
// clang-format off
#define QUERN_OPS(X)                                                                                              \
  /* structure: what is run, and in which order */                                                                \
  X(SINK, 0, -1, Kernel)          /* everything that must happen */                                               \
  X(GROUP, 0, -1, None)           /* several effects as one */                                                    \
  X(AFTER, 1, -1, None)           /* src[0], seen after the effects src[1:] */                                    \
  X(END, 1, -1, None)             /* the effect src[0], its ranges src[1:] closed */                              \
  X(BARRIER, 0, -1, None)         /* all threads of the workgroup have done src */                                \
  X(IF, 1, -1, None)              /* open a gate: condition, then what must precede it */                         \
  X(ENDIF, 1, 1, None)            /* close it */                                                                  \
  X(NOOP, 0, -1, None)            /* src[0] if it has one, else nothing */                                        \
  /* where values come from */                                                                                    \
  X(CONST, 0, -1, Const)          /* the same value everywhere; src: its device, if any */                        \
  X(DEFINE_VAR, 0, 0, Variable)   /* a symbolic integer with bounds */                                            \
  X(BIND, 1, 2, None)             /* a variable and its value (the value stripped: cache keys) */                 \
  X(UNIQUE, 0, 0, Int)            /* identity of a buffer */                                                      \
  X(LUNIQUE, 0, 0, Int)           /* the same, local to one schedule */                                           \
  X(DEVICE, 0, 0, Texts)          /* a device, or several */                                                      \
  X(BUFFER, 2, 2, Int)            /* memory: identity, device; arg: elements */                                   \
  X(PARAM, 0, -1, Int)            /* a slot of a function or kernel; src: its shape, then its device */           \
  X(DEFINE_LOCAL, 0, 0, Int)      /* memory of a workgroup */                                                     \
  X(DEFINE_REG, 0, 0, Int)        /* memory of a thread */                                                        \
  X(STATE, 0, 0, Int)             /* in a REDUCE's body: left state 0..k-1, right state k..2k-1 */                \
  X(RANGE, 1, 1, Range)           /* a loop: 0 <= value < src[0] */                                               \
  X(SPECIAL, 1, 1, Text)          /* a hardware index: 0 <= value < src[0] */                                     \
  /* shapes: they move values and compute none */                                                                 \
  X(RESHAPE, 1, -1, None)         /* x, sizes */                                                                  \
  X(EXPAND, 1, -1, None)          /* x, sizes */                                                                  \
  X(PAD, 1, -1, Int)              /* x, offsets, sizes: x stands at the offsets, 0 around it; 1: unseen */         \
  X(SHRINK, 1, -1, None)          /* x, offsets, sizes: the part of x at the offsets */                           \
  X(PERMUTE, 1, 1, Ints)          /* axis i of the result is axis arg[i] of x */                                  \
  X(FLIP, 1, 1, Ints)             /* the axes that are reversed */                                                \
  /* tensors */                                                                                                   \
  X(IOTA, 1, 1, None)             /* 0, 1, ..., src[0] - 1 along one axis */                                      \
  X(REDUCE, 1, -1, Reduce)        /* see arg.h, ReduceArg */                                                      \
  X(CONTIGUOUS, 1, 1, Texts)      /* the user wants this in memory; arg: opts of the kernel, if given */           \
  X(CONTIGUOUS_BACKWARD, 1, 1, None)                                                                              \
  X(DETACH, 1, 1, None)           /* no gradient flows through */                                                 \
  X(COPY, 2, 2, None)             /* x, device */                                                                 \
  X(ALLREDUCE, 2, 2, Reduce)      /* x, device */                                                                 \
  X(MULTI, 1, 1, Int)             /* sharded over devices on an axis */                                           \
  X(MSELECT, 1, 1, Int)           /* the shard of one device */                                                   \
  X(MSTACK, 1, -1, None)          /* one value a device */                                                        \
  X(STAGE, 1, -1, Stage)          /* x gets memory; its ranges src[1:] end here */                                \
  X(SLICE, 2, 2, Int)             /* a view of memory: buffer, offset; arg: elements */                           \
  X(FUNCTION, 1, -1, Function)    /* body, arguments */                                                           \
  X(CALL, 1, -1, None)            /* a kernel, its arguments */                                                   \
  X(TUPLE, 0, -1, None)                                                                                           \
  X(GETTUPLE, 1, 1, Int)                                                                                          \
  /* memory */                                                                                                    \
  X(INDEX, 1, -1, None)           /* memory or tensor, indices; a gate is an index that may be invalid */         \
  X(LOAD, 1, 3, None)             /* address; value where the gate is false; of each lane: is it read */          \
  X(STORE, 2, 3, Texts)           /* address, value; of each lane: is it written; arg: opts, if given */           \
  /* vectors */                                                                                                   \
  X(VECTORIZE, 1, -1, None)                                                                                       \
  X(GEP, 1, 1, Ints)              /* lanes of a vector */                                                         \
  X(UNROLL, 1, -1, Ints)          /* lanes that stand for the values of expanded ranges */                        \
  X(CONTRACT, 1, -1, Ints)        /* the opposite: expanded ranges become lanes */                                \
  X(WMMA, 3, 3, Text)             /* a tensor core instruction: a, b, accumulator */                              \
  /* elementwise, unary */                                                                                        \
  X(CAST, 1, 1, None)                                                                                             \
  X(BITCAST, 1, 1, None)                                                                                          \
  X(NEG, 1, 1, None)                                                                                              \
  X(RECIP, 1, 1, None)                                                                                            \
  X(SQRT, 1, 1, None)                                                                                             \
  X(EXP2, 1, 1, None)                                                                                             \
  X(LOG2, 1, 1, None)                                                                                             \
  X(SIN, 1, 1, None)                                                                                              \
  X(COS, 1, 1, None)                                                                                              \
  X(TRUNC, 1, 1, None)                                                                                            \
  /* elementwise, binary */                                                                                       \
  X(ADD, 2, 2, None)                                                                                              \
  X(MUL, 2, 2, None)                                                                                              \
  X(MAX, 2, 2, None)              /* NaN if either is; -0.0 < 0.0 */                                              \
  X(MIN, 2, 2, None)                                                                                              \
  X(AND, 2, 2, None)                                                                                              \
  X(OR, 2, 2, None)                                                                                               \
  X(XOR, 2, 2, None)              /* with all ones: the complement, "not" of a bool */                            \
  X(CMPEQ, 2, 2, None)                                                                                            \
  X(CMPNE, 2, 2, None)                                                                                            \
  X(CMPLT, 2, 2, None)                                                                                            \
  X(CMPLE, 2, 2, None)                                                                                            \
  X(SUB, 2, 2, None)                                                                                              \
  X(FDIV, 2, 2, None)             /* of floats */                                                                 \
  X(FLOORDIV, 2, 2, None)         /* of integers, towards minus infinity */                                       \
  X(FLOORMOD, 2, 2, None)         /* has the sign of the divisor */                                               \
  X(TRUNCDIV, 2, 2, None)         /* of integers, towards zero */                                                 \
  X(TRUNCMOD, 2, 2, None)         /* has the sign of the dividend */                                              \
  X(SHL, 2, 2, None)                                                                                              \
  X(SHR, 2, 2, None)              /* arithmetic for signed types */                                               \
  X(POW, 2, 2, None)                                                                                              \
  X(THREEFRY, 2, 2, None)         /* random bits: counter, key */                                                 \
  /* elementwise, ternary */                                                                                      \
  X(WHERE, 3, 3, None)                                                                                            \
  X(MULACC, 3, 3, None)           /* a * b + c; floats: rounded once */
// clang-format on

enum class Op : uint8_t {
#define X(name, least, most, arg) name,
  QUERN_OPS(X)
#undef X
};

struct OpInfo {
  std::string_view name;
  int least_sources, most_sources;
  ArgKind arg;
};

inline constexpr OpInfo kOps[] = {
#define X(name, least, most, arg) {#name, least, most, ArgKind::arg},
    QUERN_OPS(X)
#undef X
};
inline constexpr int kOpCount = sizeof(kOps) / sizeof(kOps[0]);
static_assert(kOpCount <= 128, "OpSet has 128 bits");

constexpr const OpInfo& info(Op op) { return kOps[static_cast<int>(op)]; }
constexpr std::string_view name(Op op) { return info(op).name; }
std::optional<Op> op_named(std::string_view name);

constexpr bool is_movement(Op op) { return op >= Op::RESHAPE && op <= Op::FLIP; }
constexpr bool is_elementwise(Op op) { return op >= Op::CAST; }  // casts included
constexpr bool is_alu(Op op) { return op >= Op::NEG; }           // casts excluded
constexpr bool is_unary(Op op) { return op >= Op::CAST && op <= Op::TRUNC; }
constexpr bool is_binary(Op op) { return op >= Op::ADD && op <= Op::THREEFRY; }
constexpr bool is_ternary(Op op) { return op >= Op::WHERE; }
constexpr bool is_commutative(Op op) { return op >= Op::ADD && op <= Op::CMPNE; }
constexpr bool is_associative(Op op) { return op >= Op::ADD && op <= Op::XOR; }  // ADD, MUL: of integers only
constexpr bool is_comparison(Op op) { return op >= Op::CMPEQ && op <= Op::CMPLE; }

// A set of ops as 128 bits.
class OpSet {
 public:
  constexpr OpSet() = default;
  constexpr OpSet(Op op) { insert(op); }  // NOLINT(google-explicit-constructor): an op is the set of itself
  constexpr OpSet(std::initializer_list<Op> ops) {
    for (Op op : ops) insert(op);
  }
  static constexpr OpSet all() {
    OpSet s;
    for (int i = 0; i < kOpCount; i++) s.insert(static_cast<Op>(i));
    return s;
  }
  template <class Predicate>
  static constexpr OpSet where(Predicate predicate) {
    OpSet s;
    for (int i = 0; i < kOpCount; i++)
      if (predicate(static_cast<Op>(i))) s.insert(static_cast<Op>(i));
    return s;
  }
  constexpr void insert(Op op) { (static_cast<int>(op) < 64 ? low_ : high_) |= bit(op); }
  constexpr bool contains(Op op) const { return ((static_cast<int>(op) < 64 ? low_ : high_) & bit(op)) != 0; }
  constexpr bool empty() const { return (low_ | high_) == 0; }
  constexpr int size() const { return std::popcount(low_) + std::popcount(high_); }
  constexpr Op first() const {  // of a set that is not empty
    return static_cast<Op>(low_ != 0 ? std::countr_zero(low_) : 64 + std::countr_zero(high_));
  }
  constexpr bool intersects(OpSet o) const { return ((low_ & o.low_) | (high_ & o.high_)) != 0; }
  constexpr OpSet operator|(OpSet o) const { return {low_ | o.low_, high_ | o.high_}; }
  constexpr OpSet operator&(OpSet o) const { return {low_ & o.low_, high_ & o.high_}; }
  constexpr OpSet operator-(OpSet o) const { return {low_ & ~o.low_, high_ & ~o.high_}; }
  constexpr OpSet& operator|=(OpSet o) { return *this = *this | o; }
  friend constexpr bool operator==(const OpSet&, const OpSet&) = default;

 private:
  constexpr OpSet(uint64_t low, uint64_t high) : low_(low), high_(high) {}
  static constexpr uint64_t bit(Op op) { return uint64_t{1} << (static_cast<int>(op) & 63); }
  uint64_t low_ = 0, high_ = 0;
};

namespace ops {
inline constexpr OpSet all = OpSet::all();
inline constexpr OpSet movement = OpSet::where(is_movement);
inline constexpr OpSet elementwise = OpSet::where(is_elementwise);
inline constexpr OpSet alu = OpSet::where(is_alu);
inline constexpr OpSet unary = OpSet::where(is_unary);
inline constexpr OpSet binary = OpSet::where(is_binary);
inline constexpr OpSet comparison = OpSet::where(is_comparison);
}  // namespace ops

// What a loop is: how the device goes over a RANGE.
enum class AxisKind : uint8_t { LOOP, GLOBAL, LOCAL, WARP, THREAD, REDUCE, GROUP_REDUCE, UPCAST, UNROLL };
inline constexpr int kAxisKinds = 9;
std::string_view name(AxisKind kind);
std::optional<AxisKind> axis_kind_named(std::string_view name);

}  // namespace quern
