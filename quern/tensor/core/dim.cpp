#include "quern/tensor/core/dim.h"

#include <fmt/format.h>

#include "quern/ir/shape/movement.h"

namespace quern {

Dim::Dim(UOp size) : size_(std::move(size)) {
  if (!size_) throw ShapeError("a size is an empty node");
  if (!size_.dtype().is_int() || size_.dtype().lanes() != 1)
    throw DTypeError(fmt::format("a size has dtype {}; it must be a scalar integer", size_.dtype().name()));
  if (!size_.has_shape() || !size_.shape().empty())
    throw ShapeError("a size is a tensor with axes; it must be a scalar");
  size_ = size_.cast(dtypes::index).simplify();
}

int64_t Dim::value() const {
  if (is_symbolic())
    throw ShapeError(fmt::format("the size {} is symbolic; a number is needed here", text()));
  return static_cast<int64_t>(size_.int_value());
}

std::string Dim::text() const {
  const std::string shape = shape_text(Sources(&size_, 1));  // "(3,)"
  return shape.substr(1, shape.size() - 3);
}

UOps sizes_of(const Shape& shape) {
  UOps sizes;
  sizes.reserve(shape.size());
  for (const Dim& d : shape) sizes.push_back(d.uop());
  return sizes;
}

Shape shape_from(Sources sizes) { return Shape(sizes.begin(), sizes.end()); }

std::string shape_text(const Shape& shape) { return shape_text(Sources(sizes_of(shape))); }

}  // namespace quern
