// Tensors of what Python has: numbers, lists, bytes, arrays.
#include <cstring>
#include <mutex>

#include "python/src/arrays.h"

namespace quern::python {

// ---- objects that C++ keeps

namespace {

// Objects to let go of, when Python's lock is held next.
std::mutex released_mutex;
std::vector<PyObject*> released;

int let_go(void* /*unused*/) {
  std::vector<PyObject*> mine;
  {
    const std::scoped_lock lock(released_mutex);
    mine.swap(released);
  }
  for (PyObject* object : mine) Py_DECREF(object);
  return 0;
}

}  // namespace

std::shared_ptr<void> keep_alive(nb::object object) {
  return {object.release().ptr(), [](void* kept) {
            // Not at once: whoever lets go may hold a lock that another thread waits for with Python's lock
            // in hand.
            bool first = false;
            {
              const std::scoped_lock lock(released_mutex);
              first = released.empty();
              released.push_back(static_cast<PyObject*>(kept));
            }
            if (first && Py_IsInitialized() != 0) Py_AddPendingCall(&let_go, nullptr);
          }};
}

// ---- from Python

namespace {

constexpr int kMostAxes = 64;

bool is_sequence(nb::handle h) { return nb::isinstance<nb::list>(h) || nb::isinstance<nb::tuple>(h); }

using Array = nb::ndarray<nb::ro, nb::c_contig>;

Array array_of(nb::handle data) {
  Array array;
  if (!nb::try_cast<Array>(data, array, true))
    wrong_type("numbers: a number, a list, an array of numbers, bytes or a Tensor", data);
  if (array.device_type() != nb::device::cpu::value && array.device_type() != nb::device::cuda_host::value)
    throw DeviceError("an array that is not in the memory of the host: copy it there first");
  return array;
}

Shape shape_of(const Array& array) {
  Shape result;
  for (size_t i = 0; i < array.ndim(); i++) result.emplace_back(array.shape(i));
  return result;
}

}  // namespace

DType dtype_of(nb::dlpack::dtype d) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(d.code);
  if (d.lanes == 1) {
    if (code == Code::Bool && d.bits == 8) return dtypes::bool_;
    if (code == Code::Bfloat && d.bits == 16) return dtypes::bfloat16;
    if (code == Code::Float8_E4M3FN) return dtypes::fp8e4m3;
    if (code == Code::Float8_E5M2) return dtypes::fp8e5m2;
    for (const DType t : dtypes::all) {
      if (t.bits() != d.bits || t.is_fp8() || t == dtypes::bfloat16 || t.is_bool()) continue;
      if (code == Code::Float ? t.is_float()
          : code == Code::Int ? t.is_signed()
                              : code == Code::UInt && t.is_unsigned())
        return t;
    }
  }
  static constexpr const char* kinds[] = {"int", "uint", "float", "pointer", "bfloat", "complex", "bool"};
  const std::string kind =
      d.code < std::size(kinds) ? kinds[d.code] : "kind " + std::to_string(d.code) + " of ";
  throw DTypeError("an array of " + kind + std::to_string(d.bits) + ", which quern has no dtype for");
}

Tensor from_array(nb::handle data, const std::string& device) {
  const Array array = array_of(data);
  return Tensor::from_bytes(array.data(), array.nbytes(), shape_of(array), dtype_of(array.dtype()), device);
}

namespace {

// Numbers of nested lists, and what they have in common.
struct Numbers {
  Ints shape;
  std::vector<nb::handle> leaves;
  bool all_bool = true, any_float = false;
};

bool holds_tensors(nb::handle h, int depth) {
  if (!is_sequence(h)) return !is_number(h);
  if (depth > kMostAxes) throw ShapeError("lists within lists, more than 64 deep");
  for (nb::handle part : nb::borrow<nb::sequence>(h))
    if (holds_tensors(part, depth + 1)) return true;
  return false;
}

void collect(nb::handle h, size_t depth, Numbers& all) {
  if (is_sequence(h) != (depth < all.shape.size()))
    throw ShapeError("lists of different depths make no tensor");
  if (!is_sequence(h)) {
    const bool is_bool = PyBool_Check(h.ptr()) != 0;
    all.all_bool = all.all_bool && is_bool;
    all.any_float = all.any_float || (PyIndex_Check(h.ptr()) == 0 && !is_bool);
    all.leaves.push_back(h);
    return;
  }
  const auto length = static_cast<int64_t>(nb::len(h));
  if (length != all.shape[depth])
    throw ShapeError("lists of different lengths make no tensor: " + std::to_string(all.shape[depth]) +
                     " and " + std::to_string(length) + " on axis " + std::to_string(depth));
  for (nb::handle part : nb::borrow<nb::sequence>(h)) collect(part, depth + 1, all);
}

uint64_t bits_of(nb::handle h, DType dtype) {
  const std::optional<Operand> number = try_operand(h);
  if (number->is_float() && !dtype.is_float()) {
    const Const value = number->constant(dtypes::float64).value();
    return to_bits(convert(value, dtypes::float64, dtype), dtype);
  }
  if (dtype.is_bool() && !number->is_bool())
    return number->is_float() ? number->constant(dtypes::float64).value().as_float() != 0
                              : number->constant(dtypes::int64).value().as_int() != 0;
  return to_bits(number->constant(dtype).value(), dtype);
}

Tensor from_lists(nb::handle data, std::optional<DType> dtype, const std::string& device) {
  if (holds_tensors(data, 0)) {
    std::vector<Tensor> parts;
    for (nb::handle part : nb::borrow<nb::sequence>(data)) {
      if (part.is_none()) wrong_type("numbers or tensors in a list", part);
      parts.push_back(tensor_of(part, dtype, device));
    }
    return Tensor::stack(parts);
  }
  Numbers all;
  nb::object first = nb::borrow(data);
  while (is_sequence(first)) {
    const size_t length = nb::len(first);
    all.shape.push_back(static_cast<int64_t>(length));
    if (length == 0) break;
    first = nb::borrow<nb::sequence>(first)[0];
  }
  collect(data, 0, all);
  const DType type = dtype                ? *dtype
                     : all.leaves.empty() ? default_float()
                     : all.all_bool       ? dtypes::bool_
                     : all.any_float      ? default_float()
                                          : default_int();
  const auto size = static_cast<size_t>(type.bytes());
  std::vector<std::byte> bytes(all.leaves.size() * size);
  for (size_t i = 0; i < all.leaves.size(); i++) {
    if (type == dtypes::float32 && PyFloat_Check(all.leaves[i].ptr()) != 0) {
      const auto value = static_cast<float>(PyFloat_AsDouble(all.leaves[i].ptr()));
      std::memcpy(bytes.data() + i * size, &value, size);
      continue;
    }
    const uint64_t bits = bits_of(all.leaves[i], type);
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return Tensor::from_bytes(bytes.data(), bytes.size(), Shape(all.shape.begin(), all.shape.end()), type,
                            device);
}

Tensor from_raw(nb::handle data, DType dtype, const std::string& device) {
  const nb::bytes bytes(data);
  const auto size = static_cast<size_t>(dtype.bytes());
  if (bytes.size() % size != 0)
    throw ShapeError(std::to_string(bytes.size()) + " bytes are no multiple of the " + std::to_string(size) +
                     " of " + dtype.name());
  return Tensor::from_bytes(bytes.data(), bytes.size(), {Dim(bytes.size() / size)}, dtype, device);
}

}  // namespace

Tensor tensor_of(nb::handle data, std::optional<DType> dtype, const std::string& device) {
  const auto converted = [&](const Tensor& t) {
    const Tensor moved = device.empty() || t.device().empty() ? t : t.to(device);
    return dtype && *dtype != moved.dtype() ? moved.cast(*dtype) : moved;
  };
  if (data.is_none()) return Tensor::zeros({0}, {.dtype = dtype, .device = device});
  if (is_tensor(data)) return converted(nb::cast<const Tensor&>(data));
  if (is_number(data)) {
    const Operand number = operand(data);
    return Tensor::full({}, number, {.dtype = dtype ? *dtype : number.dtype(), .device = device});
  }
  if (is_sequence(data)) return from_lists(data, dtype, device);
  if (nb::isinstance<nb::bytes>(data) || nb::isinstance<nb::bytearray>(data))
    return from_raw(data, dtype.value_or(dtypes::uint8), device);
  if (nb::isinstance<UOp>(data)) return converted(Tensor(nb::cast<UOp>(data)));
  if (nb::hasattr(data, "__fspath__"))
    return converted(Tensor::from_file(nb::cast<std::string>(data.attr("__fspath__")()), {},
                                       dtype.value_or(dtypes::uint8)));
  return converted(from_array(data, device));
}

}  // namespace quern::python
