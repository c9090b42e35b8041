#include "test/tensor/values.h"

#include <cmath>
#include <mutex>
#include <unordered_map>

#include "quern/ir/shape/movement.h"
#include "test/tensor/reference.h"

namespace quern {
namespace {

std::mutex lock;
std::unordered_map<int64_t, std::vector<Const>>& memory() {
  static std::unordered_map<int64_t, std::vector<Const>> m;
  return m;
}

std::vector<Const> contents(const UOp& buffer) {
  const std::lock_guard guard(lock);
  const auto found = memory().find(buffer.src(0).arg().integer());
  if (found != memory().end()) return found->second;
  return std::vector<Const>(static_cast<size_t>(buffer.arg().integer()), make_const(buffer.dtype(), 0));
}

double as_double(Const c, DType dtype) {
  return dtype.is_float() ? c.as_float() : static_cast<double>(c.integer(dtype));
}

}  // namespace

Tensor input(const Shape& shape, const std::vector<double>& elements, DType dtype) {
  const Tensor t = Tensor::empty(shape, {.dtype = dtype});
  std::vector<Const> held;
  for (const double e : elements)
    held.push_back(dtype.is_float() ? Const::of_float(round_float(dtype, e)) : make_const(dtype, e));
  const UOp buffer = base_of(t.uop());
  const std::lock_guard guard(lock);
  memory()[buffer.src(0).arg().integer()] = held;
  return t;
}

Tensor counted(const Shape& shape, DType dtype) {
  std::vector<double> elements;
  int64_t n = 1;
  for (const Dim& d : shape) n *= d.value();
  for (int64_t i = 0; i < n; i++) elements.push_back(static_cast<double>(i));
  return input(shape, elements, dtype);
}

Tensor scattered(const Shape& shape, uint32_t seed, DType dtype) {
  std::vector<double> elements;
  int64_t n = 1;
  for (const Dim& d : shape) n *= d.value();
  uint32_t state = seed * 2654435761u + 12345;
  for (int64_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    elements.push_back(static_cast<double>(state >> 8) / (1 << 22) - 2);
  }
  return input(shape, elements, dtype);
}

std::vector<double> values(const Tensor& x) {
  std::vector<double> result;
  for (const Const& c : reference::evaluate(x.uop(), contents)) result.push_back(as_double(c, x.dtype()));
  return result;
}

std::string shape(const Tensor& x) { return shape_text(x.shape()); }

double ulps(const Tensor& x, const std::vector<double>& expected) {
  const std::vector<double> got = values(x);
  if (got.size() != expected.size()) return 1e9;
  double most = 0;
  for (size_t i = 0; i < got.size(); i++) {
    const double want = round_float(x.dtype(), expected[i]);
    if (std::isnan(want) || std::isnan(got[i]) || std::isinf(want) || std::isinf(got[i])) {
      if (!(want == got[i] || (std::isnan(want) && std::isnan(got[i])))) return 1e9;
      continue;
    }
    int exponent = 0;
    std::frexp(expected[i], &exponent);
    const int least = x.dtype() == dtypes::float64 ? -1021 : -125;
    const double unit = std::ldexp(epsilon(x.dtype()), std::max(exponent, least) - 1);
    most = std::max(most, std::abs(got[i] - expected[i]) / unit);
  }
  return most;
}

// Until there is an engine, what runs is run here. Weak: the engine's own are taken where they exist.
__attribute__((weak)) Const Tensor::item_const() const { return reference::evaluate(uop(), contents).at(0); }

}  // namespace quern
