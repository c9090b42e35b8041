// What a tensor is, and the defaults of the process.
#include "quern/tensor/core/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <mutex>

#include "quern/base/env.h"
#include "quern/base/fork.h"
#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/support.h"

namespace quern {
namespace {

struct Defaults {
  ProcessMutex lock{LockOrder::settings};
  std::string device;
};
Defaults& defaults() {
  static Defaults d;
  return d;
}

bool is_plain_float(DType dtype) { return dtype.is_float() && dtype.lanes() == 1; }
bool is_plain_int(DType dtype) { return dtype.is_int() && !dtype.is_index() && dtype.lanes() == 1; }

// A dtype by its name or a short one, in letters of any size; none if there is no such dtype.
std::optional<DType> dtype_called(std::string text) {
  static constexpr std::pair<std::string_view, DType> kShort[] = {
      {"half", dtypes::float16}, {"float", dtypes::float32}, {"double", dtypes::float64},
      {"short", dtypes::int16},  {"int", dtypes::int32},     {"long", dtypes::int64}};
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& [name, dtype] : kShort)
    if (text == name) return dtype;
  try {
    return DType::parse(text);
  } catch (const DTypeError&) {
    return {};
  }
}

DType dtype_of(const char* variable, const std::string& text, const char* kind, bool (*fits)(DType)) {
  const std::optional<DType> dtype = dtype_called(text);
  if (!dtype || !fits(*dtype))
    throw DTypeError(fmt::format("{0}={1}: {0} is the name of {2} type", variable, text, kind));
  return *dtype;
}

}  // namespace

DType default_float() {
  const std::string& text = env::DEFAULT_FLOAT();
  return text.empty() ? dtypes::float32 : dtype_of("DEFAULT_FLOAT", text, "a float", is_plain_float);
}
DType default_int() {
  const std::string& text = env::DEFAULT_INT();
  return text.empty() ? dtypes::int32 : dtype_of("DEFAULT_INT", text, "an integer", is_plain_int);
}
void set_default_float(DType dtype) {
  if (!is_plain_float(dtype))
    throw DTypeError(fmt::format("set_default_float: {} is not a float type", dtype.name()));
  env::set("DEFAULT_FLOAT", dtype.name());
}
void set_default_int(DType dtype) {
  if (!is_plain_int(dtype))
    throw DTypeError(fmt::format("set_default_int: {} is not an integer type", dtype.name()));
  env::set("DEFAULT_INT", dtype.name());
}
// Of a build with LLVM: as Device::default_name() in runtime/, which is not to be seen from here.
#ifdef QUERN_HAVE_LLVM
constexpr const char* kDevice = "CPU";
#else
constexpr const char* kDevice = "INTERP";
#endif

std::string default_device() {
  const std::lock_guard guard(defaults().lock);
  if (!defaults().device.empty()) return defaults().device;
  return env::DEVICE().empty() ? kDevice : detail::device_name("DEVICE", env::DEVICE());
}
void set_default_device(const std::string& name) {
  const std::lock_guard guard(defaults().lock);
  defaults().device = name.empty() ? name : detail::device_name("set_default_device", name);
}

namespace {

void check_value(const UOp& uop) {
  if (!uop) throw Error("Tensor: an empty node");
  if (!uop.has_shape() || uop.dtype().is_void() || uop.dtype().is_ptr() || uop.dtype().lanes() != 1)
    throw Error(fmt::format("Tensor: {} of dtype {} is not a value with a shape", name(uop.op()),
                            uop.dtype().name()));
  if (uop.dtype().is_index())
    throw DTypeError("Tensor: a tensor has no dtype index; cast it, or use from_dim");
}

}  // namespace

Tensor::Tensor(const UOp& uop) {
  check_value(uop);
  state_ = std::make_shared<detail::TensorState>(uop);
}
Tensor::Tensor(const View& view) : Tensor(view.read()) {}

Tensor& Tensor::operator=(const Tensor& other) {
  state_ = other.state();
  return *this;
}
Tensor& Tensor::operator=(Tensor&& other) noexcept {
  state_ = other.is_unread() ? other.state() : std::move(other.state_);
  return *this;
}
Tensor& Tensor::operator=(const View& view) { return *this = view.read(); }

// Only Views are made unread.
void Tensor::read_view() const { state_ = static_cast<const View*>(this)->read().state_; }

Tensor Tensor::of_state(std::shared_ptr<detail::TensorState> state) {
  if (!state) throw Error("Tensor::of_state: no state");
  return Tensor(std::move(state));
}

Tensor Tensor::seen_as(const UOp& view) const {
  return Tensor(std::make_shared<detail::TensorState>(view, *state()));
}

Shape Tensor::shape() const {
  const UOp u = uop();
  return shape_from(u.shape());
}
int64_t Tensor::ndim() const { return std::ssize(uop().shape()); }
Dim Tensor::size(int64_t axis) const {
  const UOp u = uop();
  return {u.shape()[static_cast<size_t>(detail::resolve_axis("size", axis, std::ssize(u.shape())))]};
}
Dim Tensor::numel() const { return {elements_in(uop().shape())}; }
int64_t Tensor::len() const {
  if (ndim() == 0) throw ShapeError("len: a tensor of no axes has no length");
  return size(0).value();
}
std::string Tensor::device() const {
  const Texts names = devices();
  return names.empty() ? "" : names[0];
}

const Tensor& Tensor::set_requires_grad(bool value) const {
  if (value && !dtype().is_float())
    throw DTypeError(
        fmt::format("requires_grad: gradients need floats, this tensor is {}", detail::text(*this)));
  // Equal constants are one node. With memory of its own, this tensor is not taken for another one.
  const UOp mine = uop();
  const bool sizes_known = std::ranges::all_of(mine.shape(), [](const UOp& s) { return s.is_const(); });
  if (value && sizes_known && !mine.ops_below().contains(Op::BUFFER))
    state()->set(detail::in_new_memory("requires_grad", *this).uop());
  state()->requires_grad = value;
  return *this;
}
std::optional<Tensor> Tensor::grad() const {
  if (!state()->grad) return {};
  return Tensor(state()->grad);
}
void Tensor::set_grad(const std::optional<Tensor>& grad) const {
  if (!grad) {
    state()->grad = nullptr;
    return;
  }
  const UOp mine = uop(), its = grad->uop();
  if (!same_sizes(mine.shape(), its.shape()))
    throw ShapeError(fmt::format("set_grad: the gradient has shape {}, the tensor {}",
                                 shape_text(grad->shape()), shape_text(shape())));
  if (grad->state() == state()) throw Error("set_grad: a tensor cannot be its own gradient");
  state()->grad = grad->state();
}

Tensor Tensor::sequential(const std::vector<std::function<Tensor(const Tensor&)>>& layers) const {
  Tensor x = *this;
  for (const auto& layer : layers) {
    if (!layer) throw Error("sequential: one of the layers is an empty function");
    x = layer(x);
  }
  return x;
}

void wrong_element_type(const Tensor& tensor, DType asked) {
  throw DTypeError(fmt::format("to_vector: the tensor is {}, asked for {}; cast it first",
                               detail::text(tensor), asked.name()));
}

Const item_as(const Tensor& tensor, DType asked) {
  const DType dtype = tensor.dtype();
  if (dtype.is_float() && !asked.is_float())
    throw DTypeError(fmt::format("item: the tensor is {}, asked for {}; cast it first", detail::text(tensor),
                                 asked.name()));
  const Const value = tensor.item_const();
  if (!asked.is_float() && !asked.is_bool() && !fits(asked, value.integer(dtype)))
    throw ValueError(
        fmt::format("item: {} is no value of {}", to_string(value.integer(dtype)), asked.name()));
  return convert(value, dtype, asked);
}

}  // namespace quern
