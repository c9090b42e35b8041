#include "python/src/casters.h"

#include "python/src/bind.h"
#include "quern/runtime/device.h"

namespace quern::python {

using namespace nb::literals;

void wrong_type(const char* expected, nb::handle given) {
  const std::string name = nb::cast<std::string>(nb::str(given.type().attr("__name__")));
  throw nb::type_error(("expected " + std::string(expected) + ", got " + name).c_str());
}

bool is_tensor(nb::handle h) { return nb::isinstance<Tensor>(h); }

namespace {

bool is_sequence(nb::handle h) { return nb::isinstance<nb::list>(h) || nb::isinstance<nb::tuple>(h); }

// An integer of Python that fits 64 bits, with a sign or without.
wide wide_of(nb::handle h) {
  const nb::object number = nb::steal(PyNumber_Index(h.ptr()));
  if (!number) nb::raise_python_error();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0) return value;
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(number.ptr());
    if (PyErr_Occurred() == nullptr) return large;
    PyErr_Clear();
  }
  throw DTypeError("the integer " + nb::cast<std::string>(nb::str(number)) + " does not fit in 64 bits");
}

int64_t integer(nb::handle h, const char* expected) {
  if (PyIndex_Check(h.ptr()) == 0 || is_tensor(h)) wrong_type(expected, h);
  const wide value = wide_of(h);
  if (!fits(dtypes::int64, value))
    throw ValueError("the integer " + to_string(value) + " does not fit in 64 bits");
  return static_cast<int64_t>(value);
}

// Scalars of NumPy are of the module numpy, and have no axes; 0-dimensional arrays are arrays.
bool is_numpy_scalar(nb::handle h, const char* kind) {
  const std::string module = nb::cast<std::string>(nb::str(nb::getattr(h.type(), "__module__", nb::str(""))));
  if (module != "numpy") return false;
  const std::string name = nb::cast<std::string>(nb::str(h.type().attr("__name__")));
  return name.starts_with(kind);
}

}  // namespace

bool is_number(nb::handle h) {
  return PyBool_Check(h.ptr()) || PyLong_Check(h.ptr()) || PyFloat_Check(h.ptr()) ||
         is_numpy_scalar(h, "bool") || is_numpy_scalar(h, "float") || is_numpy_scalar(h, "int") ||
         is_numpy_scalar(h, "uint");
}

std::optional<Operand> try_operand(nb::handle h) {
  if (is_tensor(h)) return nb::cast<const Tensor&>(h);
  if (PyBool_Check(h.ptr()) != 0) return Operand(h.ptr() == Py_True);
  if (PyLong_Check(h.ptr()) != 0) {
    const wide value = wide_of(h);
    if (fits(dtypes::int64, value)) return Operand(static_cast<int64_t>(value));
    return Operand(static_cast<uint64_t>(value));
  }
  if (PyFloat_Check(h.ptr()) != 0) return Operand(PyFloat_AsDouble(h.ptr()));
  if (is_numpy_scalar(h, "bool")) return Operand(PyObject_IsTrue(h.ptr()) == 1);
  if (is_numpy_scalar(h, "float")) return Operand(PyFloat_AsDouble(h.ptr()));
  if (is_numpy_scalar(h, "int") || is_numpy_scalar(h, "uint")) {
    const wide value = wide_of(h);
    if (fits(dtypes::int64, value)) return Operand(static_cast<int64_t>(value));
    return Operand(static_cast<uint64_t>(value));
  }
  if (nb::isinstance<UOp>(h)) return Operand(Tensor::from_dim(Dim(nb::cast<UOp>(h))));
  if (is_sequence(h) || nb::hasattr(h, "__array_interface__")) return Operand(tensor_of(h, {}, ""));
  return {};
}

bool truth(const char* name, nb::handle h) {
  if (PyBool_Check(h.ptr()) == 0) wrong_type((std::string("a bool as ") + name).c_str(), h);
  return h.ptr() == Py_True;
}

const Tensor& tensor(nb::handle h) {
  if (!is_tensor(h)) wrong_type("a Tensor", h);
  return nb::cast<const Tensor&>(h);
}

Operand operand(nb::handle h) {
  std::optional<Operand> found = try_operand(h);
  if (!found) wrong_type("a Tensor or a number", h);
  return *std::move(found);
}

Dim dim(nb::handle h) {
  if (nb::isinstance<UOp>(h)) return Dim(nb::cast<UOp>(h));
  return Dim(integer(h, "a size: an int, or a UOp"));
}

Shape shape(nb::handle h) {
  if (!is_sequence(h)) return {dim(h)};
  Shape result;
  for (nb::handle part : nb::borrow<nb::sequence>(h)) result.push_back(dim(part));
  return result;
}

Shape shape_of_args(const nb::args& args) {
  if (args.size() == 1 && is_sequence(args[0])) return shape(args[0]);
  return shape(args);
}

IntList int_list(nb::handle h) {
  if (h.is_none()) return {};
  if (!is_sequence(h)) return IntList(integer(h, "an int, or a tuple of them"));
  Ints values;
  for (nb::handle part : nb::borrow<nb::sequence>(h)) values.push_back(integer(part, "an int"));
  return {std::move(values)};
}

DType dtype(nb::handle h) {
  if (nb::isinstance<DType>(h)) return nb::cast<DType>(h);
  if (!nb::isinstance<nb::str>(h)) {
    // float, int and bool of Python, as users of NumPy write
    if (h.ptr() == reinterpret_cast<PyObject*>(&PyFloat_Type)) return default_float();
    if (h.ptr() == reinterpret_cast<PyObject*>(&PyLong_Type)) return default_int();
    if (h.ptr() == reinterpret_cast<PyObject*>(&PyBool_Type)) return dtypes::bool_;
    wrong_type("a dtype, such as dtypes.float32 or 'float32'", h);
  }
  const std::string name = nb::cast<std::string>(h);
  static const std::pair<const char*, DType> others[] = {
      {"half", dtypes::float16},          {"float", dtypes::float32},
      {"double", dtypes::float64},        {"char", dtypes::int8},
      {"uchar", dtypes::uint8},           {"short", dtypes::int16},
      {"ushort", dtypes::uint16},         {"int", dtypes::int32},
      {"uint", dtypes::uint32},           {"long", dtypes::int64},
      {"ulong", dtypes::uint64},          {"bf16", dtypes::bfloat16},
      {"default_float", default_float()}, {"default_int", default_int()}};
  for (const auto& [other, type] : others)
    if (name == other) return type;
  return DType::parse(name);
}

std::string device(nb::handle h) {
  if (h.is_none()) return "";
  if (!nb::isinstance<nb::str>(h)) wrong_type("the name of a device", h);
  std::string name = nb::cast<std::string>(h);
  Device::canonical(name);  // an Error here, not when it runs
  return name;
}

namespace {

std::optional<Dim> bound(nb::handle h) {
  if (h.is_none()) return {};
  return dim(h);
}

Index index(const Tensor& x, nb::handle h) {
  if (h.is_none()) return newaxis;
  if (h.ptr() == Py_Ellipsis) return ellipsis;
  if (is_tensor(h)) return nb::cast<const Tensor&>(h);
  if (nb::isinstance<UOp>(h)) return Dim(nb::cast<UOp>(h));
  if (nb::isinstance<nb::slice>(h)) {
    const nb::object step = h.attr("step");
    return Slice{bound(h.attr("start")), bound(h.attr("stop")),
                 step.is_none() ? 1 : integer(step, "an int as the step of a slice")};
  }
  if (PyBool_Check(h.ptr()) != 0) throw IndexError("a bool is no index; a mask is a Tensor of bools");
  if (is_sequence(h) && nb::len(h) == 0) return Tensor::zeros({0}, {.dtype = default_int()});
  if (is_sequence(h) || (nb::hasattr(h, "__array_interface__") && !is_number(h))) return beside(x, h, {});
  if (PyIndex_Check(h.ptr()) == 0)
    throw IndexError("expected an int, a slice, ..., None or a Tensor as an index, got " +
                     nb::cast<std::string>(nb::str(h.type().attr("__name__"))));
  return integer(h, "an int");
}

}  // namespace

Tensor beside(const Tensor& x, nb::handle list, std::optional<DType> dtype) {
  const Texts devices = x.devices();
  if (devices.size() <= 1) return tensor_of(list, dtype, devices.empty() ? "" : devices[0]);
  return tensor_of(list, dtype, "").shard(devices);
}

std::vector<Index> indices(const Tensor& x, nb::handle h) {
  std::vector<Index> all;
  if (!nb::isinstance<nb::tuple>(h)) return {index(x, h)};
  for (nb::handle part : nb::borrow<nb::tuple>(h)) all.push_back(index(x, part));
  return all;
}

nb::object to_python(const Dim& dim) {
  if (dim.is_symbolic()) return nb::cast(dim.uop());
  return nb::int_(dim.value());
}

nb::object to_python(const Shape& shape) {
  nb::list sizes;
  for (const Dim& d : shape) sizes.append(to_python(d));
  return nb::tuple(sizes);
}

}  // namespace quern::python
