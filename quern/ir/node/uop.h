// UOp: the one kind of node that every program is made of, from tensors down to instructions.
//
// A node is (op, dtype, sources, argument, tag). Nodes are immutable and interned: making the same node twice
// gives the same pointer, so equality is pointer equality. A UOp is an 8-byte counted handle; a node that
// nothing refers to is freed at once. Nothing here recurses on the depth of a graph, and all of it may be
// used from several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quern/base/error.h"
#include "quern/ir/node/arg.h"
#include "quern/ir/node/const.h"
#include "quern/ir/node/dtype.h"
#include "quern/ir/node/node_memory.h"
#include "quern/ir/node/op.h"

namespace quern {

class UOp;
class NodeList;
using Sources = std::span<const UOp>;
using UOps = std::vector<UOp>;

// Inclusive bounds of an integer or bool value.
struct Bounds {
  wide min, max;
  friend bool operator==(const Bounds&, const Bounds&) = default;
};

namespace detail {

struct Derived;  // shape, ranges and device, computed on demand (derived.h)

// A node is kept in two halves at a fixed distance (node_memory.h): what walks and rules look at first, and
// the rest. A walk over a large graph waits for memory, so what it touches has to be small: one cache line a
// node, its sources included, which stand right before the near half.
struct Far {
  Arg arg;
  std::unique_ptr<const Arg> tag;  // null: none
  OpSet below;                     // the ops of this node and of everything it is made from
  mutable std::atomic<int64_t> bounds_min, bounds_max;
  mutable std::atomic<Derived*> derived;
};

// The interned node. Only uop.cpp makes and frees them; everything else sees it through UOp.
struct Node {
  std::atomic<uint32_t> refs;
  uint32_t source_count;
  Op op;
  mutable std::atomic<uint8_t> bounds_known;
  mutable std::atomic<uint8_t> simplest;  // simplify() is known to give the node itself
  DType dtype;
  uint64_t hash;

  const UOp* sources() const;  // source_count of them
  const Far& far() const { return *static_cast<const Far*>(far_half(this)); }
  Far& far() { return *static_cast<Far*>(far_half(this)); }  // NOLINT(*-make-member-function-const)
};

void destroy(Node* node) noexcept;

}  // namespace detail

class UOp {
 public:
  UOp() = default;  // none: no node at all
  UOp(const UOp& o) noexcept : node_(o.node_) {
    if (node_) node_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  UOp(UOp&& o) noexcept : node_(std::exchange(o.node_, nullptr)) {}
  UOp& operator=(const UOp& o) noexcept {
    UOp copy(o);
    std::swap(node_, copy.node_);
    return *this;
  }
  UOp& operator=(UOp&& o) noexcept {
    std::swap(node_, o.node_);
    return *this;
  }
  ~UOp() {
    if (node_ && node_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) detail::destroy(node_);
  }

  // The one way to make a node. With SPEC=2 it is checked as it is made (spec.h).
  static UOp make(Op op, DType dtype, Sources sources = {}, Arg arg = {}, Arg tag = {});
  static UOp make(Op op, DType dtype, std::initializer_list<UOp> sources, Arg arg = {}, Arg tag = {}) {
    return make(op, dtype, Sources(sources.begin(), sources.size()), std::move(arg), std::move(tag));
  }

  explicit operator bool() const { return node_ != nullptr; }
  friend bool same(const UOp& a, const UOp& b) { return a.node_ == b.node_; }  // the same node

  Op op() const { return node_->op; }
  DType dtype() const { return node_->dtype; }
  Sources src() const;
  const UOp& src(size_t i) const;
  const Arg& arg() const { return node_->far().arg; }
  const Arg& tag() const { return node_->far().tag ? *node_->far().tag : kNoTag; }
  const Hints& hints() const {  // those of its tag, if it has such a one
    return tag().kind() == ArgKind::Hints ? tag().get<Hints>() : kNoHints;
  }

  uint64_t hash() const { return node_->hash; }           // of the structure; the same in every process
  OpSet ops_below() const { return node_->far().below; }  // its own op included
  const detail::Node* node() const { return node_; }

  // Changed copies. What is not named stays, the tag too.
  struct Change;
  UOp replace(const Change& change) const;
  UOp with_src(Sources sources) const;
  UOp rtag(Arg tag) const;
  // The same with one more hint: u.with_hint(&Hints::prefetch, 64).
  template <class T>
  UOp with_hint(T Hints::* hint, std::type_identity_t<T> value) const {
    Hints all = hints();
    all.*hint = std::move(value);
    return rtag(std::move(all));
  }

  // Constants. value() and int_value() need a CONST.
  bool is_const() const { return node_->op == Op::CONST; }
  bool is_invalid() const { return is_const() && value().is_invalid(); }
  Const value() const { return arg().constant(); }
  wide int_value() const { return value().integer(node_->dtype); }
  bool is_int_const() const {  // an integer or bool CONST that is not Invalid
    return is_const() && (dtype().is_int() || dtype().is_bool()) && !value().is_invalid();
  }
  bool equals(wide v) const { return is_int_const() && int_value() == v; }

  // Makers. Each throws when what it is given cannot be.
  static UOp constant(DType dtype, Const value);  // already of the dtype
  static UOp constant(DType dtype, wide value);   // DTypeError when out of range
  static UOp constant(DType dtype, double value);
  static UOp constant(DType dtype, int value) { return constant(dtype, static_cast<wide>(value)); }
  static UOp constant(DType dtype, int64_t value) { return constant(dtype, static_cast<wide>(value)); }
  static UOp constant(DType dtype, bool value) { return constant(dtype, static_cast<wide>(value)); }
  static UOp index(int64_t value) { return constant(dtypes::index, static_cast<wide>(value)); }
  static UOp boolean(bool value) { return constant(dtypes::bool_, static_cast<wide>(value)); }
  static UOp invalid(DType dtype = dtypes::index) { return constant(dtype, Const::invalid()); }
  static UOp variable(std::string name, int64_t min, int64_t max, DType dtype = dtypes::index);
  static UOp range(const UOp& end, int64_t id, AxisKind kind = AxisKind::LOOP);
  static UOp range(int64_t end, int64_t id, AxisKind kind = AxisKind::LOOP) {
    return range(index(end), id, kind);
  }
  static UOp sink(Sources sources) { return make(Op::SINK, dtypes::void_, sources); }
  static UOp alu(Op op, Sources operands);  // dtype from the operands, which must agree: else DTypeError
  static UOp alu(Op op, std::initializer_list<UOp> operands) {
    return alu(op, Sources(operands.begin(), operands.size()));
  }

  UOp cast(DType to) const;     // itself when it has that dtype; a pointer may become one to other elements
  UOp bitcast(DType to) const;  // DTypeError unless the bits are as many
  UOp const_like(wide value) const { return constant(node_->dtype, value); }

  // A variable given a value, and apart again.
  UOp bind(int64_t value) const;
  std::pair<UOp, int64_t> unbind() const;

  // Everything this node is made from, sources first, itself last. Where `gate` refuses a node, the node is
  // listed but what lies below it is not walked into.
  using Gate = std::function<bool(const UOp&)>;
  NodeList toposort(const Gate& gate = {}) const;
  NodeList backward_slice() const;  // the same without the node itself
  UOps variables() const;           // DEFINE_VARs below, by name

  // All occurrences of the keys become their values at once; values are not substituted again.
  UOp substitute(const std::unordered_map<UOp, UOp>& map) const;
  // The same for RANGEs, where they are open: parts of the graph in which none of them is are not entered.
  UOp substitute_open(const std::unordered_map<UOp, UOp>& ranges) const;
  UOp simplify() const;  // by the rules in symbolic.h

  // Derived facts: computed once per node when first asked for, then kept with it.
  Bounds bounds() const;  // of an integer or bool; of anything else an InternalError
  wide vmin() const { return bounds().min; }
  wide vmax() const { return bounds().max; }
  bool has_shape() const;      // false for nodes without one: effects, ranges of a kernel, ...
  const UOps& shape() const;   // sizes as index UOps; ShapeError when there is none or it is wrong
  Ints int_shape() const;      // ShapeError when a size is symbolic
  const UOps& ranges() const;  // RANGEs that are open here, outermost first
  Texts device() const;        // none: {}

  std::string text() const;  // print.h
  std::string key() const;   // 128 bits of the structure as 32 hex digits; the same in every process

 private:
  static const Arg kNoTag;
  static const Hints kNoHints;
  explicit UOp(detail::Node* node) : node_(node) {}
  detail::Node* node_ = nullptr;
  friend struct UOpAccess;
};
static_assert(sizeof(UOp) == 8);
inline const Arg UOp::kNoTag;
inline const Hints UOp::kNoHints;

inline const UOp* detail::Node::sources() const {
  return reinterpret_cast<const UOp*>(this) - source_count;  // NOLINT(*-reinterpret-cast)
}
inline Sources UOp::src() const { return {node_->sources(), node_->source_count}; }
inline const UOp& UOp::src(size_t i) const { return node_->sources()[i]; }

struct UOp::Change {
  std::optional<Op> op = {};
  std::optional<DType> dtype = {};
  std::optional<Sources> src = {};
  std::optional<Arg> arg = {}, tag = {};
};

namespace detail {
// The node's address is a handle that does not count: good while something else holds the node.
inline const UOp& borrowed_handle(const Node* const& node) {
  static_assert(sizeof(UOp) == sizeof(const Node*));
  return reinterpret_cast<const UOp&>(node);  // NOLINT: a UOp is the address and nothing else
}
}  // namespace detail

// Nodes of one graph in a row, as a const container of UOps. It holds the root and by that all of them, and
// does not count them one by one: a walk of 100,000 nodes spends half its time on that. References to its
// elements are good for as long as it lives; copies of them are handles like any other.
class NodeList {
 public:
  using value_type = UOp;
  using const_iterator = const UOp*;
  using Nodes = std::vector<const detail::Node*>;

  NodeList(UOp root, std::unique_ptr<Nodes> nodes) : root_(std::move(root)), nodes_(std::move(nodes)) {}
  NodeList(NodeList&&) = default;
  NodeList& operator=(NodeList&&) = default;
  ~NodeList();

  size_t size() const { return nodes_->size(); }
  bool empty() const { return nodes_->empty(); }
  const UOp* begin() const { return empty() ? nullptr : &detail::borrowed_handle(nodes_->front()); }
  const UOp* end() const { return begin() + size(); }
  const UOp& operator[](size_t i) const { return begin()[i]; }
  const UOp& back() const { return begin()[size() - 1]; }
  operator Sources() const { return {begin(), size()}; }  // NOLINT(*-explicit-*)

 private:
  UOp root_;
  std::unique_ptr<Nodes> nodes_;  // borrowed memory, as in node_map.h
};

// Structural order: variables before ranges before expressions, constants last; never by address.
int compare(const UOp& first, const UOp& second);
inline bool before(const UOp& a, const UOp& b) { return compare(a, b) < 0; }

// Arithmetic. Operands must have the same dtype (a number takes that of the other operand). Integer / and %
// round towards minus infinity; truncating forms have names. Dividing integers by a constant 0 is an Error.
UOp operator+(const UOp& a, const UOp& b);
UOp operator-(const UOp& a, const UOp& b);  // a + b * -1
UOp operator*(const UOp& a, const UOp& b);
UOp operator/(const UOp& a, const UOp& b);  // FLOORDIV, or FDIV of floats
UOp operator%(const UOp& a, const UOp& b);  // FLOORMOD
UOp operator-(const UOp& a);                // a * -1
UOp operator~(const UOp& a);                // XOR with all ones: not of a bool, complement of an integer
UOp operator&(const UOp& a, const UOp& b);
UOp operator|(const UOp& a, const UOp& b);
UOp operator^(const UOp& a, const UOp& b);
UOp operator<<(const UOp& a, const UOp& b);
UOp operator>>(const UOp& a, const UOp& b);
UOp operator<(const UOp& a, const UOp& b);
UOp operator<=(const UOp& a, const UOp& b);
UOp operator>(const UOp& a, const UOp& b);   // b < a
UOp operator>=(const UOp& a, const UOp& b);  // b <= a
UOp eq(const UOp& a, const UOp& b);
UOp ne(const UOp& a, const UOp& b);
UOp max(const UOp& a, const UOp& b);
UOp min(const UOp& a, const UOp& b);
UOp truncdiv(const UOp& a, const UOp& b);
UOp truncmod(const UOp& a, const UOp& b);
UOp where(const UOp& condition, const UOp& yes, const UOp& no);

// The same with a number on one side.
template <class T>
concept Number = std::is_arithmetic_v<T>;
template <Number T>
UOp number_like(const UOp& other, T value) {
  if constexpr (std::is_floating_point_v<T>)
    return UOp::constant(other.dtype(), static_cast<double>(value));
  else
    return UOp::constant(other.dtype(), static_cast<wide>(value));
}
#define QUERN_WITH_NUMBERS(function)       \
  template <Number T>                      \
  UOp function(const UOp& a, T b) {        \
    return function(a, number_like(a, b)); \
  }                                        \
  template <Number T>                      \
  UOp function(T a, const UOp& b) {        \
    return function(number_like(b, a), b); \
  }
QUERN_WITH_NUMBERS(operator+)
QUERN_WITH_NUMBERS(operator-)
QUERN_WITH_NUMBERS(operator*)
QUERN_WITH_NUMBERS(operator/)
QUERN_WITH_NUMBERS(operator%)
QUERN_WITH_NUMBERS(operator&)
QUERN_WITH_NUMBERS(operator|)
QUERN_WITH_NUMBERS(operator^)
QUERN_WITH_NUMBERS(operator<<)
QUERN_WITH_NUMBERS(operator>>)
QUERN_WITH_NUMBERS(operator<)
QUERN_WITH_NUMBERS(operator<=)
QUERN_WITH_NUMBERS(operator>)
QUERN_WITH_NUMBERS(operator>=)
QUERN_WITH_NUMBERS(eq)
QUERN_WITH_NUMBERS(ne)
QUERN_WITH_NUMBERS(max)
QUERN_WITH_NUMBERS(min)
QUERN_WITH_NUMBERS(truncdiv)
QUERN_WITH_NUMBERS(truncmod)
#undef QUERN_WITH_NUMBERS

inline bool operator==(const UOp& a, const UOp& b) { return same(a, b); }  // the same node, not CMPEQ

// How many nodes are alive in this process: for tests of leaks, and for curiosity.
size_t live_nodes();

// Memory lives as long as the UNIQUE node that is its identity: whoever knows something about memory is told
// when one is freed, with its argument. The callback runs in the thread that let go of the last reference,
// and must not throw.
void on_identity_freed(void (*callback)(int64_t identity) noexcept);
void no_more_on_identity_freed(void (*callback)(int64_t identity) noexcept);

// The dtype that an elementwise op gives for these operands; DTypeError if they do not fit together.
DType result_dtype(Op op, Sources operands);

}  // namespace quern

template <>
struct std::hash<quern::UOp> {
  size_t operator()(const quern::UOp& u) const noexcept { return u ? u.hash() : 0; }
};
