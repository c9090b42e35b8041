// What may stand beside a tensor: numbers in arithmetic, indices between brackets, kernels written by hand.
// Included by tensor.h, which is the header to include.
#pragma once

#include <bit>
#include <cstring>

#include "quern/tensor/core/tensor.h"

namespace quern {

// A tensor, or a number. Numbers are weak: they take the dtype of the tensor beside them where it can hold
// their kind. So does a tensor that stands for a number (Python's Tensor(0.1)).
class Operand {
 public:
  Operand(Tensor tensor) : value_(std::move(tensor)) {}  // NOLINT(*-explicit-*)
  Operand(const View& view) : value_(Tensor(view)) {}    // NOLINT(*-explicit-*)
  template <Number T>
  Operand(T number) : value_(kept(number)) {}  // NOLINT(*-explicit-*)

  bool is_tensor() const { return std::holds_alternative<Tensor>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<wide>(value_); }
  bool is_float() const { return std::holds_alternative<double>(value_); }
  const Tensor& tensor() const { return std::get<Tensor>(value_); }
  wide integer() const { return std::get<wide>(value_); }
  DType dtype() const;  // of a number: the default for its kind
  bool is_weak() const;
  DType dtype_beside(DType other) const;  // what it becomes beside a tensor of this dtype
  bool is_held_by(DType dtype) const;     // a number: whether it is one of its values, but for rounding
  UOp constant(DType dtype) const;        // a number as a CONST; DTypeError when it does not fit

 private:
  using Value = std::variant<Tensor, bool, wide, double>;
  template <Number T>
  static Value kept(T number) {
    if constexpr (std::is_same_v<T, bool>)
      return number;
    else if constexpr (std::is_floating_point_v<T>)
      return static_cast<double>(number);
    else
      return static_cast<wide>(number);
  }
  Value value_;
};

Tensor operator+(const Operand& a, const Operand& b);
Tensor operator-(const Operand& a, const Operand& b);
Tensor operator*(const Operand& a, const Operand& b);
Tensor operator/(const Operand& a, const Operand& b);
Tensor operator%(const Operand& a, const Operand& b);
Tensor operator&(const Operand& a, const Operand& b);
Tensor operator|(const Operand& a, const Operand& b);
Tensor operator^(const Operand& a, const Operand& b);
Tensor operator<(const Operand& a, const Operand& b);
Tensor operator<=(const Operand& a, const Operand& b);
Tensor operator>(const Operand& a, const Operand& b);
Tensor operator>=(const Operand& a, const Operand& b);
Tensor operator-(const Tensor& a);
Tensor operator~(const Tensor& a);

// ---- Indices

struct Slice {
  std::optional<Dim> start = {}, stop = {};
  int64_t step = 1;
};
struct Ellipsis {};
struct NewAxis {};
inline constexpr Ellipsis ellipsis;
inline constexpr NewAxis newaxis;
inline const Slice everything;  // the ":" of x[:, 0]

struct Index {
  template <std::integral Integer>
  Index(Integer i) : value(Dim(i)) {}       // NOLINT(*-explicit-*)
  Index(Dim i) : value(std::move(i)) {}     // NOLINT(*-explicit-*)
  Index(Slice s) : value(std::move(s)) {}   // NOLINT(*-explicit-*)
  Index(Ellipsis e) : value(e) {}           // NOLINT(*-explicit-*)
  Index(NewAxis n) : value(n) {}            // NOLINT(*-explicit-*)
  Index(Tensor t) : value(std::move(t)) {}  // NOLINT(*-explicit-*): integers, or a bool mask
  std::variant<Dim, Slice, Ellipsis, NewAxis, Tensor> value;
};

// x(1, Slice{0, 3}): as a tensor it is x.at({...}), which is read when it is used; assigning to it writes
// into x. A tensor that is made of it is what it was then.
class View : public Tensor {
 public:
  View(Tensor tensor, std::vector<Index> indices)
      : Tensor(Unread()), tensor_(std::move(tensor)), indices_(std::move(indices)) {}
  Tensor read() const { return tensor_.at(indices_); }
  const View& operator=(const Operand& value) const {  // NOLINT(*-assignment-*): it writes into what it views
    tensor_.set(indices_, value);
    return *this;
  }
  View& operator=(const View& other) {  // NOLINT(*-assignment-*)
    tensor_.set(indices_, other.read());
    return *this;
  }
  View(const View& other) : View(other.tensor_, other.indices_) {}
  ~View() = default;

 private:
  Tensor tensor_;
  std::vector<Index> indices_;
};

template <class... Indices>
View Tensor::operator()(Indices&&... indices) const {
  return View(*this, std::vector<Index>{Index(std::forward<Indices>(indices))...});
}

struct Tensor::Unique {
  Tensor values, inverse, counts;
};

struct Tensor::Svd {
  Tensor u, s, vh;
};

// ---- Kernels written by hand. `body` gets a PARAM a tensor (pointers, slot i) and returns the kernel, a
// SINK. Each of the results is its argument after the kernel has run; the argument itself stays as it was.
// Arguments that are not in memory are put there first. One that is written has memory of its own, also if
// the same tensor is given twice.
using KernelBody = std::function<UOp(const UOps& params)>;
using KernelGradient = std::function<std::vector<std::optional<Tensor>>(
    const std::vector<Tensor>& gradients, const std::vector<Tensor>& arguments)>;
std::vector<Tensor> custom_kernel(const std::vector<Tensor>& arguments, const KernelBody& body,
                                  const KernelGradient& gradient = {});

// ---- C++ types and dtypes

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return dtypes::bool_;
  else if constexpr (std::is_same_v<T, float>)
    return dtypes::float32;
  else if constexpr (std::is_same_v<T, double>)
    return dtypes::float64;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
    return std::is_signed_v<T> ? dtypes::int8 : dtypes::uint8;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 2)
    return std::is_signed_v<T> ? dtypes::int16 : dtypes::uint16;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
    return std::is_signed_v<T> ? dtypes::int32 : dtypes::uint32;
  else {
    static_assert(std::is_integral_v<T> && sizeof(T) == 8, "no dtype has this C++ type");
    return std::is_signed_v<T> ? dtypes::int64 : dtypes::uint64;
  }
}

[[noreturn]] void wrong_element_type(const Tensor& tensor, DType asked);
// The value of one element as a constant of the dtype that is asked for. DTypeError where floats would become
// integers or bools, ValueError for an integer that it cannot hold.
Const item_as(const Tensor& tensor, DType asked);

template <class Element>
Tensor Tensor::from(const std::vector<Element>& values, std::optional<Shape> shape,
                    const TensorOptions& options) {
  if (!shape) shape = Shape{Dim(values.size())};
  Tensor made_of = [&] {
    if constexpr (std::is_same_v<Element, bool>) {  // packed: not bytes
      const std::vector<unsigned char> bytes(values.begin(), values.end());
      return from_bytes(bytes.data(), bytes.size(), *shape, dtypes::bool_, options.device);
    } else {
      return from_bytes(values.data(), values.size() * sizeof(Element), *shape, dtype_of<Element>(),
                        options.device);
    }
  }();
  return options.dtype ? made_of.cast(*options.dtype) : made_of;
}

template <class Element>
std::vector<Element> Tensor::to_vector() const {
  if (dtype() != dtype_of<Element>()) wrong_element_type(*this, dtype_of<Element>());
  const std::vector<std::byte> raw = bytes();
  if constexpr (std::is_same_v<Element, bool>) {
    std::vector<bool> values;
    values.reserve(raw.size());
    for (const std::byte b : raw) values.push_back(b != std::byte{0});
    return values;
  } else {
    std::vector<Element> values(raw.size() / sizeof(Element));
    if (!values.empty()) std::memcpy(values.data(), raw.data(), values.size() * sizeof(Element));
    return values;
  }
}

template <class Element>
Element Tensor::item() const {
  const Const value = item_as(*this, dtype_of<Element>());
  if constexpr (std::is_floating_point_v<Element>)
    return static_cast<Element>(value.as_float());
  else if constexpr (std::is_same_v<Element, bool>)
    return value.as_bool();
  else
    return static_cast<Element>(value.as_int());
}

}  // namespace quern
