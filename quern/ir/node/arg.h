// The argument of a node: a small value of one of the kinds in op.h. Numbers are held in place, everything
// else in a shared immutable box, so that an Arg is 16 bytes and cheap to copy and compare.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "quern/ir/node/const.h"
#include "quern/ir/node/op.h"

namespace quern {

using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

// Structured arguments list their fields once; hashing, printing and parsing go over that list.
template <class Struct, class Member>
struct Field {
  const char* name;
  Member Struct::* member;
};
template <class Struct, class Member>
Field(const char*, Member Struct::*) -> Field<Struct, Member>;

// DEFINE_VAR: min <= value <= max.
struct VariableArg {
  std::string name;
  int64_t min = 0, max = 0;
  friend bool operator==(const VariableArg&, const VariableArg&) = default;
  static constexpr auto fields() {
    return std::tuple(Field{"name", &VariableArg::name}, Field{"min", &VariableArg::min},
                      Field{"max", &VariableArg::max});
  }
};

// RANGE: `id` tells loops of one program apart and orders them from the outermost inwards.
struct RangeArg {
  int64_t id = 0;
  AxisKind kind = AxisKind::LOOP;
  friend bool operator==(const RangeArg&, const RangeArg&) = default;
};

// REDUCE comes in two forms, over tensor axes (axes not empty, no ranges) or over ranges (axes empty):
//   one value:       REDUCE(value, ranges...)                                       op combines
//   several values:  REDUCE(values[k], initial[k], TUPLE(combined[k]), ranges...)   op is NOOP, states is k
// In the second form the TUPLE is the combining body, written in STATE nodes: 0..k-1 for what was accumulated
// so far, k..2k-1 for what comes in. The result is void; GETTUPLE picks a value.
struct ReduceArg {
  Op op = Op::ADD;
  Ints axes;
  int64_t states = 1;
  friend bool operator==(const ReduceArg&, const ReduceArg&) = default;
  static constexpr auto fields() {
    return std::tuple(Field{"op", &ReduceArg::op}, Field{"axes", &ReduceArg::axes},
                      Field{"states", &ReduceArg::states});
  }
};

// STAGE: where the value is materialised, and why it is materialised.
struct StageArg {
  AddrSpace space = AddrSpace::GLOBAL;
  Texts device;  // empty: that of the value
  bool removable = true;
  std::string reason;
  Texts opts = {};  // of the kernel that makes it, if given
  friend bool operator==(const StageArg&, const StageArg&) = default;
  static constexpr auto fields() {
    return std::tuple(Field{"space", &StageArg::space}, Field{"device", &StageArg::device},
                      Field{"removable", &StageArg::removable}, Field{"reason", &StageArg::reason},
                      Field{"opts", &StageArg::opts});
  }
};

// SINK of a kernel: its name, the optimisations asked for (none: the heuristic chooses).
struct KernelArg {
  std::string name;
  Texts opts;
  friend bool operator==(const KernelArg&, const KernelArg&) = default;
  static constexpr auto fields() {
    return std::tuple(Field{"name", &KernelArg::name}, Field{"opts", &KernelArg::opts});
  }
};

struct FunctionArg {
  std::string name;
  bool precompile = false;
  friend bool operator==(const FunctionArg&, const FunctionArg&) = default;
  static constexpr auto fields() {
    return std::tuple(Field{"name", &FunctionArg::name}, Field{"precompile", &FunctionArg::precompile});
  }
};

// A tag by which quern tells later passes something about a node. A node can have several of these.
struct Hints {
  bool stream = false;             // STORE: it goes past the caches
  bool safe = false;               // a divisor or a shift: it is one, though bounds do not show it
  bool rare = false;               // WHERE: it seldom takes its second source
  bool not_positive = false;       // EXP2: of what is not above 0
  bool by_library = false;         // a function: it stays one, and is not written in arithmetic
  bool steps_do_not_meet = false;  // SINK: see ir/shape/places.h
  int64_t prefetch = 0;            // LOAD: how far behind it lies what is read soon, in elements
  int64_t body = -1;               // SINK: the number of the program that a CALL runs
  std::string reason = {};         // CONTIGUOUS, STORE: why the value is materialised
  Ints convolution = {};           // TUPLE: groups, strides, dilations (tensor/layers/conv_gradient.h)
  Ints picked = {}, put = {};      // TUPLE: a PlacesForm (ir/shape/places.h)
  Ints custom_gradient = {};       // CALL: its number; TUPLE: that, and how many results there are
  friend bool operator==(const Hints&, const Hints&) = default;
  static constexpr auto fields() {
    return std::tuple(
        Field{"stream", &Hints::stream}, Field{"safe", &Hints::safe}, Field{"rare", &Hints::rare},
        Field{"not_positive", &Hints::not_positive}, Field{"by_library", &Hints::by_library},
        Field{"steps_do_not_meet", &Hints::steps_do_not_meet}, Field{"prefetch", &Hints::prefetch},
        Field{"body", &Hints::body}, Field{"reason", &Hints::reason},
        Field{"convolution", &Hints::convolution}, Field{"picked", &Hints::picked}, Field{"put", &Hints::put},
        Field{"custom_gradient", &Hints::custom_gradient});
  }
};

namespace detail {
struct Box {
  std::atomic<uint32_t> refs{1};
  uint64_t hash = 0;
};
template <class T>
struct BoxOf : Box {
  explicit BoxOf(T v) : value(std::move(v)) {}
  T value;
};
template <class T>
inline constexpr ArgKind kBoxKind = ArgKind::None;
template <>
inline constexpr ArgKind kBoxKind<Ints> = ArgKind::Ints;
template <>
inline constexpr ArgKind kBoxKind<std::string> = ArgKind::Text;
template <>
inline constexpr ArgKind kBoxKind<Texts> = ArgKind::Texts;
template <>
inline constexpr ArgKind kBoxKind<VariableArg> = ArgKind::Variable;
template <>
inline constexpr ArgKind kBoxKind<ReduceArg> = ArgKind::Reduce;
template <>
inline constexpr ArgKind kBoxKind<StageArg> = ArgKind::Stage;
template <>
inline constexpr ArgKind kBoxKind<KernelArg> = ArgKind::Kernel;
template <>
inline constexpr ArgKind kBoxKind<FunctionArg> = ArgKind::Function;
template <>
inline constexpr ArgKind kBoxKind<Hints> = ArgKind::Hints;

// Mixes 64 bits of input into a hash. The same in every process.
constexpr uint64_t mix(uint64_t hash, uint64_t value) {
  __extension__ typedef unsigned __int128 u128;
  const u128 product = static_cast<u128>(hash ^ 0x9e3779b97f4a7c15u) * (value ^ 0xd6e8feb86659fd93u);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ (hash << 1);
}
}  // namespace detail

class Arg {
 public:
  Arg() = default;
  Arg(Const c) : kind_(ArgKind::Const), sub_(static_cast<uint8_t>(c.kind())), value_(c.raw()) {}  // NOLINT
  Arg(int64_t i) : kind_(ArgKind::Int), value_(i) {}                                              // NOLINT
  Arg(int i) : Arg(static_cast<int64_t>(i)) {}                                                    // NOLINT
  Arg(RangeArg r) : kind_(ArgKind::Range), sub_(static_cast<uint8_t>(r.kind)), value_(r.id) {}    // NOLINT
  Arg(const char* text) : Arg(std::string(text)) {}                                               // NOLINT
  template <class T>
    requires(detail::kBoxKind<T> != ArgKind::None)
  Arg(T value);  // NOLINT(google-explicit-constructor)

  Arg(const Arg& o) noexcept : kind_(o.kind_), sub_(o.sub_), value_(o.value_) { retain(); }
  Arg(Arg&& o) noexcept : kind_(o.kind_), sub_(o.sub_), value_(o.value_) {
    o.kind_ = ArgKind::None, o.sub_ = 0, o.value_ = 0;
  }
  Arg& operator=(Arg o) noexcept {
    std::swap(kind_, o.kind_), std::swap(sub_, o.sub_), std::swap(value_, o.value_);
    return *this;
  }
  ~Arg() { release(); }

  ArgKind kind() const { return kind_; }
  bool none() const { return kind_ == ArgKind::None; }

  // Each of these needs the kind it names.
  Const constant() const {
    if (kind_ != ArgKind::Const) wrong_kind(ArgKind::Const);
    return Const::of_raw(static_cast<Const::Kind>(sub_), value_);
  }
  int64_t integer() const;
  RangeArg range() const;
  const Ints& ints() const { return get<Ints>(); }
  const std::string& text() const { return get<std::string>(); }
  const Texts& texts() const { return get<Texts>(); }
  const VariableArg& variable() const { return get<VariableArg>(); }
  const ReduceArg& reduce() const { return get<ReduceArg>(); }
  const StageArg& stage() const { return get<StageArg>(); }
  const KernelArg& kernel() const { return get<KernelArg>(); }
  const FunctionArg& function() const { return get<FunctionArg>(); }
  template <class T>
  const T& get() const {
    if (kind_ != detail::kBoxKind<T>) wrong_kind(detail::kBoxKind<T>);
    return static_cast<const detail::BoxOf<T>*>(box())->value;
  }

  uint64_t hash() const {
    if (kind_ == ArgKind::None) return 0;
    return detail::mix(static_cast<uint64_t>(kind_) * 256 + sub_,
                       boxed() ? box()->hash : static_cast<uint64_t>(value_));
  }
  friend bool operator==(const Arg& a, const Arg& b) {
    if (a.kind_ != b.kind_ || a.sub_ != b.sub_) return false;
    return a.value_ == b.value_ || (a.boxed() && equal_boxes(a, b));
  }
  // A total order by content, the same in every process.
  static int compare(const Arg& a, const Arg& b);

 private:
  bool boxed() const { return kind_ > ArgKind::Int && kind_ != ArgKind::Range; }
  const detail::Box* box() const { return reinterpret_cast<const detail::Box*>(value_); }  // NOLINT
  void retain() const {
    if (boxed()) const_cast<detail::Box*>(box())->refs.fetch_add(1, std::memory_order_relaxed);
  }
  void release() {
    if (boxed() && const_cast<detail::Box*>(box())->refs.fetch_sub(1, std::memory_order_acq_rel) == 1)
      destroy();
  }
  void destroy();
  static bool equal_boxes(const Arg& a, const Arg& b);
  [[noreturn]] void wrong_kind(ArgKind wanted) const;

  ArgKind kind_ = ArgKind::None;
  uint8_t sub_ = 0;
  int64_t value_ = 0;
};
static_assert(sizeof(Arg) == 16);

}  // namespace quern
