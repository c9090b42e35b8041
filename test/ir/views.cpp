#include "test/ir/views.h"

namespace quern {
namespace {

UOps values(const Sizes& sizes) {
  UOps result;
  for (const Size& size : sizes) result.push_back(size.value);
  return result;
}

UOp product(Sources sizes) {
  UOp result = UOp::index(1);
  for (const UOp& size : sizes) result = result * size;
  return result.simplify();
}

UOp flatten(const UOps& indices, const UOps& shape) {
  UOp sum = UOp::index(0), stride = UOp::index(1);
  for (size_t i = shape.size(); i-- > 0; stride = (stride * shape[i]).simplify()) sum = sum + indices[i] * stride;
  return sum;
}

UOps unflatten(const UOp& flat, const UOps& shape) {
  UOps result(shape.size());
  UOp stride = UOp::index(1);
  for (size_t i = shape.size(); i-- > 0; stride = (stride * shape[i]).simplify()) result[i] = flat / stride % shape[i];
  return result;
}

}  // namespace

View::View(Sizes shape) : first_(values(shape)), shape_(first_) {}

View View::then(UOps shape, Step step) const {
  View result = *this;
  result.shape_ = std::move(shape);
  result.steps_.push_back(std::move(step));
  return result;
}

View View::reshape(Sizes sizes) const {
  const UOps to = values(sizes), from = shape_;
  QUERN_CHECK(same(product(to), product(from)), "a reshape keeps the number of elements");
  return then(to, [=](const UOps& i) { return unflatten(flatten(i, to), from); });
}

View View::permute(std::vector<size_t> axes) const {
  UOps to;
  for (size_t axis : axes) to.push_back(shape_[axis]);
  return then(to, [=](const UOps& i) {
    UOps result(i.size());
    for (size_t k = 0; k < axes.size(); k++) result[axes[k]] = i[k];
    return result;
  });
}

View View::shrink(std::vector<std::pair<Size, Size>> from_to) const {
  UOps to;
  for (const auto& [begin, end] : from_to) to.push_back((end.value - begin.value).simplify());
  return then(to, [=](UOps i) {
    for (size_t k = 0; k < i.size(); k++) i[k] = i[k] + from_to[k].first.value;
    return i;
  });
}

View View::pad(std::vector<std::pair<Size, Size>> before_after) const {
  UOps to;
  for (size_t k = 0; k < shape_.size(); k++)
    to.push_back((before_after[k].first.value + shape_[k] + before_after[k].second.value).simplify());
  return then(to, [=, from = shape_](UOps i) {
    for (size_t k = 0; k < i.size(); k++) {
      const UOp& offset = before_after[k].first.value;
      i[k] = where((offset <= i[k]) & (i[k] < offset + from[k]), i[k] - offset, UOp::invalid());
    }
    return i;
  });
}

View View::flip(std::vector<size_t> axes) const {
  return then(shape_, [=, shape = shape_](UOps i) {
    for (size_t axis : axes) i[axis] = shape[axis] - 1 - i[axis];
    return i;
  });
}

View View::expand(Sizes sizes) const {
  const UOps to = values(sizes);
  return then(to, [=, from = shape_](UOps i) {
    for (size_t k = 0; k < i.size(); k++)
      if (!same(from[k], to[k])) i[k] = UOp::index(0);
    return i;
  });
}

View View::split(size_t axis, Sizes parts) const {
  Sizes to;
  for (size_t i = 0; i < rank(); i++)
    if (i == axis)
      to.insert(to.end(), parts.begin(), parts.end());
    else
      to.emplace_back(shape_[i]);
  return reshape(to);
}

View View::merge(size_t axis, size_t count) const {
  Sizes to;
  for (size_t i = 0; i < rank(); i++)
    if (i > axis && i < axis + count)
      to.back() = (to.back().value * shape_[i]).simplify();
    else
      to.emplace_back(shape_[i]);
  return reshape(to);
}

UOps View::indices() const {
  UOps i;
  for (size_t axis = 0; axis < shape_.size(); axis++) i.push_back(UOp::range(shape_[axis], static_cast<int64_t>(axis)));
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) i = (*step)(i);
  return i;
}

UOp View::offset() const { return flatten(indices(), first_); }

}  // namespace quern
