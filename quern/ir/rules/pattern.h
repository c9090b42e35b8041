// Patterns: expressions in named variables that match nodes, and that build nodes from what was matched.
//
//   const Pat i = ints("i"), c0 = int_const("c0"), c1 = int_const("c1");
//   {(i / c0) / c1, i / exact(c0 * c1), c0 > 0 && c1 > 0}          a rule (see rules.h)
//
// A variable that occurs twice must match the same node both times. Operands of commutative ops match in
// either order. A pattern is data: the tests go over the rules and prove them, so a pattern holds no code.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <variant>
#include <vector>

#include "quern/ir/node/uop.h"

namespace quern {

// A set of scalar types, that a pattern variable may stand for.
class Types {
 public:
  constexpr Types() = default;
  constexpr Types(std::initializer_list<Scalar> kinds) {
    for (Scalar k : kinds) mask_ |= bit(k);
  }
  constexpr bool contains(DType d) const {
    return mask_ == ~0u || (!d.is_ptr() && (mask_ & bit(d.kind())) != 0);
  }
  constexpr Types operator|(Types o) const { return Types(mask_ | o.mask_); }
  constexpr bool is_any() const { return mask_ == ~0u; }
  static constexpr Types any() { return Types(~0u); }
  friend constexpr bool operator==(const Types&, const Types&) = default;

 private:
  constexpr explicit Types(uint32_t mask) : mask_(mask) {}
  static constexpr uint32_t bit(Scalar k) { return 1u << static_cast<int>(k); }
  uint32_t mask_ = 0;
};

namespace types {
inline constexpr Types any = Types::any();
inline constexpr Types bools{Scalar::Bool};
inline constexpr Types index{Scalar::Index};
inline constexpr Types signed_ints{Scalar::Index, Scalar::Int8, Scalar::Int16, Scalar::Int32, Scalar::Int64};
inline constexpr Types unsigned_ints{Scalar::UInt8, Scalar::UInt16, Scalar::UInt32, Scalar::UInt64};
inline constexpr Types ints = signed_ints | unsigned_ints;
inline constexpr Types floats{Scalar::FP8E4M3,  Scalar::FP8E5M2, Scalar::Float16,
                              Scalar::BFloat16, Scalar::Float32, Scalar::Float64};
inline constexpr Types exact = ints | bools;
inline constexpr Types values = ints | bools | floats;
}  // namespace types

// Where a pattern stands in the source: the line of its rule. Of a rule itself g++ 12 tells only where its
// list ends.
class SourceLine {
 public:
  SourceLine(std::source_location where)
      : where_(where) {}  // NOLINT(google-explicit-constructor): a default argument
  std::source_location where() const { return where_; }

 private:
  std::source_location where_;
};

class Pat {
 public:
  // What a pattern is made of. Rules compile it; the prover and the printer read it.
  enum class Kind : uint8_t {
    node,      // a node with one of `ops`; a plain variable has all ops
    literal,   // a CONST equal to `number`
    either,    // the first of `parts` that matches
    fold,      // right sides: the constant that parts[0] evaluates to, in the arithmetic of its dtype
    exact,     // the same, but refused if the mathematical result is not a value of the dtype
    least,     // conditions: vmin of parts[0]
    greatest,  // conditions: vmax of parts[0]
    no_wrap,   // conditions: evaluating parts[0] cannot leave its dtype
  };
  enum class SourceMode : uint8_t { any, exactly, prefix, each };
  struct Data {
    Kind kind = Kind::node;
    OpSet ops = ops::all;
    Types types = Types::any();
    std::string name;  // of the variable or capture; may be empty
    std::optional<DType> dtype;
    std::optional<Arg> arg, tag;
    std::variant<wide, double, bool> number;
    SourceMode mode = SourceMode::any;
    std::vector<Pat> parts;        // of a node: patterns of its sources
    std::source_location where{};  // line 0: a variable or literal, which stands anywhere
  };

  Pat() = default;     // none
  Pat(int number);     // NOLINT(google-explicit-constructor): literals stand in expressions
  Pat(double number);  // NOLINT(google-explicit-constructor)
  template <std::same_as<bool> Bool>
  Pat(Bool number) : Pat(literal(number)) {}  // NOLINT(google-explicit-constructor): and no pointer to bool
  explicit Pat(Data data) : data_(std::make_shared<const Data>(std::move(data))) {}

  explicit operator bool() const { return data_ != nullptr; }
  const Data& data() const { return *data_; }

  // Narrower patterns.
  Pat as(std::string name) const;  // what matches is also captured under this name
  Pat of(DType dtype) const;
  Pat of(Types types) const;
  Pat with(Arg arg) const;    // its argument is this one
  Pat tagged(Arg tag) const;  // its tag is this one; Arg() for none
  Pat and_more() const;       // further sources may follow those given

  // A chain upwards: a node with this op whose first source matches this pattern, the others `rest`; others
  // may follow.
  Pat f(OpSet ops, std::vector<Pat> rest = {}, SourceLine place = std::source_location::current()) const;

  std::string text(bool captured = false) const;  // captured: a name is all there is to say of what has one

 private:
  template <class F>
  Pat changed(F f) const;
  static Pat literal(std::variant<wide, double, bool> number);
  std::shared_ptr<const Data> data_;
};

// Variables.
Pat var(std::string name, Types types = Types::any());
inline Pat ints(std::string name) { return var(std::move(name), types::ints); }
inline Pat bools(std::string name) { return var(std::move(name), types::bools); }
inline Pat floats(std::string name) { return var(std::move(name), types::floats); }
Pat constant(std::string name, Types types = types::values);  // a CONST that is not Invalid
inline Pat int_const(std::string name) { return constant(std::move(name), types::ints); }
inline Pat float_const(std::string name) { return constant(std::move(name), types::floats); }
Pat invalid();

// Nodes by op: with any sources (op(Op::CONST) is not Invalid either), with exactly these, or with any number
// of sources that all match.
Pat op(OpSet ops, SourceLine place = std::source_location::current());
Pat op(OpSet ops, std::vector<Pat> sources, SourceLine place = std::source_location::current());
Pat each(OpSet ops, const Pat& source, SourceLine place = std::source_location::current());
Pat either(std::vector<Pat> alternatives, SourceLine place = std::source_location::current());

// Right sides and conditions.
Pat fold(const Pat& expression);
Pat exact(const Pat& expression);
Pat vmin(const Pat& variable);
Pat vmax(const Pat& variable);
Pat no_wrap(const Pat& expression);

// A pattern in an expression, and where the expression stands.
struct PatOperand {
  template <class T>
    requires std::convertible_to<const T&, Pat>
  PatOperand(const T& from, std::source_location at = std::source_location::current())  // NOLINT
      : pattern(from), where(at) {}
  Pat pattern;
  std::source_location where;
};

// Elementwise expressions. Integer / and % are FLOORDIV and FLOORMOD, as on UOps; a / of two float patterns
// is FDIV.
Pat operator+(const PatOperand& a, const PatOperand& b);
Pat operator-(const PatOperand& a, const PatOperand& b);  // a + b * -1
Pat operator-(const PatOperand& a);                       // a * -1
Pat operator*(const PatOperand& a, const PatOperand& b);
Pat operator/(const PatOperand& a, const PatOperand& b);
Pat operator%(const PatOperand& a, const PatOperand& b);
Pat operator&(const PatOperand& a, const PatOperand& b);
Pat operator|(const PatOperand& a, const PatOperand& b);
Pat operator^(const PatOperand& a, const PatOperand& b);
Pat operator<<(const PatOperand& a, const PatOperand& b);
Pat operator>>(const PatOperand& a, const PatOperand& b);
Pat operator<(const PatOperand& a, const PatOperand& b);
Pat operator<=(const PatOperand& a, const PatOperand& b);
Pat operator>(const PatOperand& a, const PatOperand& b);   // b < a
Pat operator>=(const PatOperand& a, const PatOperand& b);  // b <= a
Pat operator==(const PatOperand& a, const PatOperand& b);
Pat operator!=(const PatOperand& a, const PatOperand& b);
Pat operator~(const PatOperand& a);          // XOR with true
Pat operator&&(const Pat& a, const Pat& b);  // in conditions
Pat operator||(const Pat& a, const Pat& b);
Pat max(const PatOperand& a, const PatOperand& b);
Pat min(const PatOperand& a, const PatOperand& b);
Pat truncdiv(const PatOperand& a, const PatOperand& b);
Pat truncmod(const PatOperand& a, const PatOperand& b);
Pat where(const PatOperand& condition, const PatOperand& yes, const PatOperand& no);

}  // namespace quern
