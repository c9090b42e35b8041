// Chains of views, and the index expressions that they come to when they are composed as the scheduler does
// it: from the ranges over the last shape down to the place in the first tensor.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "quern/ir/node/uop.h"

namespace quern {

struct Size {
  UOp value;
  Size(int size) : value(UOp::index(size)) {}  // NOLINT(google-explicit-constructor): {4, n} is a shape
  Size(const UOp& size) : value(size) {}       // NOLINT(google-explicit-constructor)
};
using Sizes = std::vector<Size>;

class View {
 public:
  explicit View(Sizes shape);  // a tensor in memory, one row after the other

  View reshape(Sizes shape) const;
  View permute(std::vector<size_t> axes) const;                     // axis i of the result is axis axes[i]
  View shrink(std::vector<std::pair<Size, Size>> from_to) const;    // begin and end of every axis
  View pad(std::vector<std::pair<Size, Size>> before_after) const;  // how much is added to every axis
  View flip(std::vector<size_t> axes) const;
  View expand(Sizes shape) const;               // axes of size 1 are repeated
  View split(size_t axis, Sizes parts) const;   // a reshape of one axis into several
  View merge(size_t axis, size_t count) const;  // a reshape of several axes into one

  const UOps& shape() const { return shape_; }
  size_t rank() const { return shape_.size(); }
  UOps indices() const;  // in the first tensor, for range i over axis i; as composed, not simplified
  UOp offset() const;    // the place in memory

 private:
  using Step =
      std::function<UOps(const UOps& indices)>;  // from indices of the result to those of the operand
  View then(UOps shape, Step step) const;
  UOps first_, shape_;
  std::vector<Step> steps_;
};

}  // namespace quern
