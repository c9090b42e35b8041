#include "python/src/arrays.h"

#include <cstring>

namespace quern::python {
namespace {

using namespace nb::literals;

constexpr const char* kExpected = "numbers: a number, a list, an array of numbers, bytes or a Tensor";

[[noreturn]] void no_dtype(const std::string& what) {
  throw DTypeError(what + ", which quern has no dtype for");
}

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
  no_dtype("an array of " + kind + std::to_string(d.bits));
}

// The owner has nanobind's array, which has what it was made of: a capsule's tensor, or a buffer that
// nobody may resize meanwhile.
template <class Imported>
Array described(const Imported& array, bool is_read_only) {
  if (array.device_type() != nb::device::cpu::value && array.device_type() != nb::device::cuda_host::value)
    throw DeviceError("an array that is not in the memory of the host: copy it there first");
  const nb::capsule owner(new Imported(array), [](void* p) noexcept { delete static_cast<Imported*>(p); });
  auto* const data = const_cast<std::byte*>(static_cast<const std::byte*>(array.data()));
  Array result{owner, data, {}, {}, dtype_of(array.dtype()), is_read_only};
  for (size_t i = 0; i < array.ndim(); i++) {
    result.shape.push_back(static_cast<int64_t>(array.shape(i)));
    result.strides.push_back(array.stride(i));
  }
  return result;
}

// ---- DLPack

// It is marked as used, so that nobody else frees what it had.
Array from_capsule(nb::handle capsule) {
  nb::ndarray<> writable;
  if (nb::try_cast(capsule, writable, false)) return described(writable, false);
  nb::ndarray<nb::ro> read_only;
  if (nb::try_cast(capsule, read_only, false)) return described(read_only, true);
  const char* const name = PyCapsule_GetName(capsule.ptr());
  if (name != nullptr && std::strncmp(name, "used_dltensor", 13) == 0)
    throw ValueError("a capsule of DLPack that was used before: __dlpack__() has to make one in each call");
  throw nb::type_error("expected a capsule of DLPack, with an array of at most 128 axes");
}

// Older libraries know of no versions.
nb::object asked_for_capsule(nb::handle data) {
  const nb::object method = data.attr("__dlpack__");
  try {
    return method("max_version"_a = nb::make_tuple(1, 0));
  } catch (const nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
  }
  return method();
}

// None if what has a buffer, too, refuses.
std::optional<Array> from_dlpack(nb::handle data) {
  try {
    const nb::object capsule = asked_for_capsule(data);
    if (PyCapsule_CheckExact(capsule.ptr()) == 0) wrong_type("a capsule from __dlpack__()", capsule);
    return from_capsule(capsule);
  } catch (const nb::python_error& e) {
    if (!e.matches(PyExc_BufferError) || PyObject_CheckBuffer(data.ptr()) == 0) throw;
    return {};
  }
}

// Who has no flag for it in DLPack may say it of the buffer (JAX).
bool has_read_only_buffer(nb::handle data) {
  if (PyObject_CheckBuffer(data.ptr()) == 0) return false;
  Py_buffer view;
  const bool refused = PyObject_GetBuffer(data.ptr(), &view, PyBUF_WRITABLE) != 0;
  if (refused)
    PyErr_Clear();
  else
    PyBuffer_Release(&view);
  return refused;
}

// ---- buffers

nb::object memoryview(PyObject* made) {
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

// Those of a memoryview have strides, always. Where these are no multiple of an element it is a copy.
Array from_buffer(nb::handle data) {
  nb::object view = memoryview(PyMemoryView_FromObject(data.ptr()));
  nb::ndarray<nb::ro> array;
  if (nb::try_cast(view, array, false)) return described(array, nb::cast<bool>(view.attr("readonly")));
  view = memoryview(PyMemoryView_GetContiguous(data.ptr(), PyBUF_READ, 'C'));
  if (!nb::try_cast(view, array, false))
    no_dtype("a buffer with elements '" + nb::cast<std::string>(nb::str(view.attr("format"))) + "'");
  return described(array, true);
}

// ---- NumPy

bool is_of_numpy(nb::handle h, const char* type) {
  const nb::object numpy = nb::steal(PyImport_GetModule(nb::str("numpy").ptr()));
  const bool is_loaded = numpy.is_valid() && nb::hasattr(numpy, type);  // another thread may be at it
  return is_loaded && nb::isinstance(h, numpy.attr(type));
}

nb::object numpy_function(const char* name) { return nb::module_::import_("numpy").attr(name); }

// With bytes in the order of this machine's, elements in order, and no axes if it is a scalar.
nb::object plain_array(nb::handle array) {
  const nb::object dtype = dtype_of_numpy(array);
  const nb::object known =
      nb::cast<bool>(dtype.attr("isnative")) ? dtype : nb::object(dtype.attr("newbyteorder")("="));
  return numpy_function("asanyarray")(array, known, "order"_a = "C");
}

// Of an array with axes.
void copy_elements(const Array& from, size_t axis, const std::byte* at, std::byte*& to) {
  const int64_t size = from.dtype.bytes(), length = from.shape[axis], stride = from.strides[axis] * size;
  const bool is_last = axis + 1 == from.shape.size();
  if (is_last && stride == size) {
    std::memcpy(to, at, static_cast<size_t>(length * size));
    to += length * size;
    return;
  }
  for (int64_t i = 0; i < length; i++, at += stride) {
    if (!is_last) {
      copy_elements(from, axis + 1, at, to);
    } else {
      std::memcpy(to, at, static_cast<size_t>(size));
      to += size;
    }
  }
}

}  // namespace

bool Array::is_in_order() const {
  int64_t expected = 1;
  bool in_order = true;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    in_order = in_order && (shape[i] == 1 || strides[i] == expected);
    expected *= shape[i];
  }
  return in_order;
}

bool has_array_interface(nb::handle h) { return nb::hasattr(h.type(), "__array_interface__"); }

bool is_numpy_scalar(nb::handle h) {
  const bool is_of_python =
      PyFloat_CheckExact(h.ptr()) || PyLong_CheckExact(h.ptr()) || PyBool_Check(h.ptr());
  return !is_of_python && is_of_numpy(h, "generic");
}

nb::object dtype_of_numpy(nb::handle h) {
  nb::object dtype = h.attr("dtype");
  const std::string kind = nb::cast<std::string>(dtype.attr("kind"));
  const auto name = [&] { return text(nb::str(dtype), "a name"); };
  if (kind == "c" || (kind == "f" && nb::cast<int>(dtype.attr("itemsize")) > 8))
    no_dtype("an array of " + name());
  if (std::string_view("biuf").find(kind) == std::string_view::npos)
    wrong_type(kExpected, h, " of " + name());
  return dtype;
}

Array array_of(nb::handle data) {
  const bool is_numpy = is_numpy_scalar(data) || is_of_numpy(data, "ndarray");
  const nb::object array = is_numpy ? plain_array(data) : nb::borrow(data);
  if (PyCapsule_CheckExact(array.ptr()) != 0) return from_capsule(array);
  if (nb::hasattr(array.type(), "__dlpack__"))
    if (std::optional<Array> found = from_dlpack(array)) {
      found->is_read_only = found->is_read_only || has_read_only_buffer(array);
      return *std::move(found);
    }
  if (PyObject_CheckBuffer(array.ptr()) != 0) return from_buffer(array);
  if (has_array_interface(array)) {
    // An exception in it is the user's to see, and NumPy hides some.
    nb::getattr(array, "__array_interface__");
    return array_of(numpy_function("asarray")(array));
  }
  wrong_type(kExpected, data);
}

Tensor copy_of(const Array& array, const std::string& device) {
  const Shape shape(array.shape.begin(), array.shape.end());
  size_t bytes = static_cast<size_t>(array.dtype.bytes());
  for (const int64_t size : array.shape) bytes *= static_cast<size_t>(size);
  if (array.is_in_order()) return Tensor::from_bytes(array.data, bytes, shape, array.dtype, device);
  std::vector<std::byte> in_order(bytes);
  std::byte* to = in_order.data();
  copy_elements(array, 0, array.data, to);
  return Tensor::from_bytes(in_order.data(), bytes, shape, array.dtype, device);
}

}  // namespace quern::python
