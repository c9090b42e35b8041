// Instances of patterns: graphs that a pattern matches, with what it leaves open chosen one by one or at
// random.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quern/ir/rules/pattern.h"

namespace quern {

// Every scalar type that has values.
inline constexpr DType kValueTypes[] = {dtypes::bool_,   dtypes::index,    dtypes::int8,    dtypes::uint8,
                                        dtypes::int16,   dtypes::uint16,   dtypes::int32,   dtypes::uint32,
                                        dtypes::int64,   dtypes::uint64,   dtypes::fp8e4m3, dtypes::fp8e5m2,
                                        dtypes::float16, dtypes::bfloat16, dtypes::float32, dtypes::float64};

// Numbers that depend on nothing but the seed (those of <random> differ between libraries).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  int64_t between(int64_t low, int64_t high);  // both included
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class List>
  const auto& of(const List& list) {
    return list[static_cast<size_t>(between(0, static_cast<int64_t>(std::size(list)) - 1))];
  }

 private:
  uint64_t state_;
};

// Can this op give the dtype, and from operands of which dtypes? `free` is the dtype of operands that the
// result does not tell: of comparisons and casts. None when they do not fit together.
std::optional<std::vector<DType>> operand_types(Op op, DType result, DType free);

// What a pattern leaves open.
struct Choices {
  std::function<UOp(const std::string& name, DType dtype)> variable, constant;
  std::function<UOp(DType dtype)> source;  // of a node whose sources may be any
  std::function<DType()> free_type;        // of operands of comparisons and casts
  std::function<size_t(size_t count)> pick = [](size_t) {
    return size_t{0};
  };  // an op of a set, an order, ...
};

// A node of that dtype that the pattern matches, conditions aside; none when there is none with these
// choices.
UOp instantiate(const Pat& pattern, DType dtype, const Choices& choices);

// Numbers where arithmetic is most likely to go wrong: small ones, limits, powers of two and their
// neighbours; of floats also NaN, infinities, signed zeros, subnormals, halves. Of a type of 8 bits every
// value.
const std::vector<Const>& special_values(DType dtype);

// Random expressions. Those of one instance share leaves, and constants that are multiples of each other.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random(seed) { restart(); }

  void restart();  // a new instance
  UOp expression(DType dtype, int depth);
  UOp constant(DType dtype);
  UOp instance(const Pat& pattern);  // none when the choices did not fit

  Random random;

 private:
  UOp leaf(DType dtype);
  UOp integer(DType dtype, int depth);
  UOp condition(DType dtype, int depth);
  UOp number(DType dtype, int depth);  // of floats
  UOp sum_of_multiples(DType dtype, int depth);
  UOp digits(DType dtype, int depth);
  DType integer_type();
  UOp wrapped(DType dtype, wide value) const { return UOp::constant(dtype, wrap(dtype, value)); }

  std::map<Scalar, UOps> leaves_, compared_;
  std::map<Scalar, UOp> recent_;
  DType favourite_type_;
  wide favourite_ = 1;
  int64_t names_ = 0;
  bool gates_ = false;  // where(condition, value, invalid) may occur
};

}  // namespace quern
