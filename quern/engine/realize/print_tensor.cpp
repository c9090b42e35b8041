// Tensors as text, as NumPy has them: nested brackets, columns aligned, the middle of large ones left out.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ostream>

#include "quern/engine/realize/outputs.h"
#include "quern/tensor/core/tensor.h"

namespace quern {
namespace {

constexpr int64_t kMostElements = 1000;  // more than that, or as many brackets: only the edges of each axis
constexpr int64_t kEdge = 3;
constexpr size_t kMostAxes = 64;  // more than that: nothing

class Printer {
 public:
  Printer(Ints shape, DType dtype, const std::vector<std::byte>& bytes)
      : shape_(std::move(shape)), dtype_(dtype), bytes_(bytes) {
    wide count = 1;
    for (const int64_t s : shape_) count = std::min<wide>(count * std::max<int64_t>(s, 1), kMostElements + 1);
    whole_ = count <= kMostElements;
    strides_.resize(shape_.size());
    int64_t stride = bytes.empty() ? 0 : 1;
    for (size_t i = shape_.size(); i-- > 0; stride *= shape_[i]) strides_[i] = stride;
  }

  std::string text() {
    if (shape_.size() > kMostAxes) return "[...]";
    visit(0, 0, [&](int64_t at) { width_ = std::max(width_, element(at).size()); });
    print(0, 0);
    return out_;
  }

 private:
  bool shortened(size_t axis) const { return !whole_ && shape_[axis] > 2 * kEdge; }

  // Recursion on the number of axes.
  template <class Each>
  void visit(size_t axis, int64_t at, const Each& each) {
    if (axis == shape_.size()) return each(at);
    for (int64_t i = 0; i < shape_[axis]; i++) {
      if (shortened(axis) && i == kEdge) i = shape_[axis] - kEdge;
      visit(axis + 1, at + i * strides_[axis], each);
    }
  }
  void print(size_t axis, int64_t at) {
    if (axis == shape_.size()) {
      out_ += fmt::format("{:>{}}", element(at), width_);
      return;
    }
    const bool last = axis + 1 == shape_.size();
    const std::string separator =
        last ? ", " : "," + std::string(shape_.size() - axis - 1, '\n') + std::string(axis + 1, ' ');
    out_ += '[';
    for (int64_t i = 0; i < shape_[axis]; i++) {
      if (i > 0) out_ += separator;
      if (shortened(axis) && i == kEdge) {
        out_ += "..." + separator;
        i = shape_[axis] - kEdge;
      }
      print(axis + 1, at + i * strides_[axis]);
    }
    out_ += ']';
  }
  std::string element(int64_t at) const {
    const auto size = static_cast<size_t>(dtype_.bytes());
    uint64_t bits = 0;
    std::memcpy(&bits, bytes_.data() + static_cast<size_t>(at) * size, size);
    const Const value = from_bits(bits, dtype_);
    if (dtype_.is_bool()) return value.as_bool() ? "true" : "false";
    return dtype_.is_float() ? fmt::format("{:.6g}", value.as_float()) : to_string(value.integer(dtype_));
  }

  Ints shape_;
  DType dtype_;
  const std::vector<std::byte>& bytes_;
  Ints strides_;
  bool whole_ = true;
  size_t width_ = 0;
  std::string out_;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  const std::vector<std::byte> bytes = tensor.bytes();
  const UOp value = with_values(tensor.uop());
  return out << Printer(known_sizes(value.shape()), tensor.dtype(), bytes).text();
}

}  // namespace quern
