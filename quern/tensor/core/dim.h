// Sizes of tensors: numbers, or integers that are known later; and lists of axes and sizes as arguments.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "quern/ir/node/uop.h"

namespace quern {

// One size: a number, or an expression of Variables.
class Dim {
 public:
  template <std::integral Integer>
  Dim(Integer value) : size_(UOp::index(static_cast<int64_t>(value))) {}  // NOLINT(*-explicit-*)
  Dim(UOp size);  // NOLINT(*-explicit-*): a scalar integer: DTypeError, ShapeError otherwise

  const UOp& uop() const { return size_; }
  bool is_symbolic() const { return !size_.is_const(); }
  int64_t value() const;                                              // ShapeError when it is symbolic
  int64_t max() const { return static_cast<int64_t>(size_.vmax()); }  // the greatest it can be
  std::string text() const;
  friend bool operator==(const Dim& a, const Dim& b) { return same(a.size_, b.size_); }
  friend Dim operator+(const Dim& a, const Dim& b) { return {a.size_ + b.size_}; }
  friend Dim operator-(const Dim& a, const Dim& b) { return {a.size_ - b.size_}; }
  friend Dim operator*(const Dim& a, const Dim& b) { return {a.size_ * b.size_}; }
  friend Dim operator/(const Dim& a, const Dim& b) { return {a.size_ / b.size_}; }  // rounded down
  friend Dim operator%(const Dim& a, const Dim& b) { return {a.size_ % b.size_}; }  // has the sign of b

 private:
  UOp size_;
};
using Shape = std::vector<Dim>;

std::string shape_text(const Shape& shape);
UOps sizes_of(const Shape& shape);
Shape shape_from(Sources sizes);

// A size or offset that is given its value when the program runs: Variable("n", 1, 4096).bind(17).
class Variable {
 public:
  Variable(std::string name, int64_t min, int64_t max) : uop_(UOp::variable(std::move(name), min, max)) {}
  Dim bind(int64_t value) const { return Dim(uop_.bind(value)); }
  const UOp& uop() const { return uop_; }

 private:
  UOp uop_;
};

// One integer, several, or none given at all (which means all axes, or the default).
class IntList {
 public:
  IntList() = default;
  template <std::integral Integer>
  IntList(Integer value)  // NOLINT(*-explicit-*)
      : given_(true), one_for_all_(true), values_{static_cast<int64_t>(value)} {}
  IntList(std::initializer_list<int64_t> values) : given_(true), values_(values) {}  // NOLINT(*-explicit-*)
  IntList(Ints values) : given_(true), values_(std::move(values)) {}                 // NOLINT(*-explicit-*)

  bool given() const { return given_; }
  bool one_for_all() const { return one_for_all_; }  // a number, not a list
  const Ints& values() const { return values_; }

 private:
  bool given_ = false, one_for_all_ = false;
  Ints values_;
};
using Axes = IntList;

}  // namespace quern
