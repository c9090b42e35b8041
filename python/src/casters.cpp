#include "python/src/casters.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "python/src/arrays.h"
#include "quern/runtime/device.h"
#include "quern/tensor/core/support.h"

namespace quern::python {

using namespace nb::literals;

namespace {

// In UTF-8; halves of characters are escaped.
std::string text_of(const nb::str& given) {
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(given.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) nb::raise_python_error();
  return {PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
}

}  // namespace

std::string kind_of(nb::handle h) { return text(nb::str(h.type().attr("__name__")), "a name"); }

// A value as it is written, unless that is long, or tells of objects: then what it is.
std::string shown(nb::handle given) {
  if (is_tensor(given) && nb::inst_ready(given)) return "a Tensor: " + detail::text(instance<Tensor>(given));
  if (nb::isinstance<nb::type_object>(given)) return "the class " + text(given.attr("__name__"), "a name");
  const bool is_plain = given.is_none() || PyBool_Check(given.ptr()) != 0 || PyLong_Check(given.ptr()) != 0 ||
                        PyFloat_Check(given.ptr()) != 0 || nb::isinstance<nb::str>(given) ||
                        is_sequence(given) || nb::isinstance<nb::dict>(given);
  if (!is_plain) return kind_of(given);
  constexpr size_t kLongest = 80;
  const nb::object written = nb::steal(PyObject_Repr(given.ptr()));
  if (!written.is_valid()) {
    PyErr_Clear();
    return kind_of(given);
  }
  const std::string value = text_of(nb::borrow<nb::str>(written));
  const bool has_objects = !nb::isinstance<nb::str>(given) && value.find('<') != std::string::npos;
  return value.size() <= kLongest && !has_objects ? value : kind_of(given);
}

void wrong_type(const char* expected, nb::handle given, const std::string& more) {
  throw nb::type_error(
      ("expected " + std::string(expected) + ", got " + (more.empty() ? shown(given) : kind_of(given)) + more)
          .c_str());
}

bool is_tensor(nb::handle h) { return nb::isinstance<Tensor>(h); }

bool is_sequence(nb::handle h) { return nb::isinstance<nb::list>(h) || nb::isinstance<nb::tuple>(h); }

namespace {

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
  throw DTypeError("the integer " + text(nb::str(number), "digits") + " does not fit in 64 bits");
}

// The kind of a scalar of NumPy that is a number beside a tensor: b, i, u or f. Arrays of no axes are arrays.
char numpy_kind(nb::handle h) {
  if (!is_numpy_scalar(h)) return 0;
  const nb::object dtype = h.attr("dtype");
  const std::string kind = text(dtype.attr("kind"), "a kind");
  const bool is_known = std::string_view("biuf").find(kind) != std::string_view::npos;
  return is_known && nb::cast<int>(dtype.attr("itemsize")) <= 8 ? kind[0] : 0;
}

double float_of(nb::handle h) {
  const double value = PyFloat_AsDouble(h.ptr());
  if (PyErr_Occurred() != nullptr) nb::raise_python_error();
  return value;
}

bool bool_of(nb::handle h) {
  const int value = PyObject_IsTrue(h.ptr());
  if (value < 0) nb::raise_python_error();
  return value == 1;
}

Operand operand_of_integer(nb::handle h) {
  const wide value = wide_of(h);
  if (fits(dtypes::int64, value)) return static_cast<int64_t>(value);
  return static_cast<uint64_t>(value);
}

}  // namespace

int64_t integer(nb::handle h, const char* expected) {
  if (PyIndex_Check(h.ptr()) == 0 || is_tensor(h)) wrong_type(expected, h);
  const wide value = wide_of(h);
  if (!fits(dtypes::int64, value))
    throw ValueError("the integer " + to_string(value) + " does not fit in 64 bits");
  return static_cast<int64_t>(value);
}

std::string text(nb::handle h, const char* expected) {
  if (!nb::isinstance<nb::str>(h)) wrong_type(expected, h);
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(h.ptr(), &size);
  if (bytes == nullptr) nb::raise_python_error();  // half a character
  return {bytes, static_cast<size_t>(size)};
}

std::string path(nb::handle h) {
  PyObject* made = nullptr;
  if (PyUnicode_FSConverter(h.ptr(), &made) == 0) nb::raise_python_error();
  const nb::bytes bytes = nb::steal<nb::bytes>(made);
  return {bytes.c_str(), bytes.size()};
}

nb::str path_object(const std::string& path) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

bool is_number(nb::handle h) {
  return PyBool_Check(h.ptr()) || PyLong_Check(h.ptr()) || PyFloat_Check(h.ptr()) || numpy_kind(h) != 0;
}

bool is_bool(nb::handle h) {
  if (PyLong_Check(h.ptr()) || PyFloat_Check(h.ptr())) return PyBool_Check(h.ptr()) != 0;
  return numpy_kind(h) == 'b';
}

std::optional<Operand> try_operand(nb::handle h) {
  if (is_tensor(h)) return instance<Tensor>(h);
  if (PyBool_Check(h.ptr()) != 0) return Operand(h.ptr() == Py_True);
  if (PyLong_Check(h.ptr()) != 0) return operand_of_integer(h);
  if (PyFloat_Check(h.ptr()) != 0) return Operand(float_of(h));
  switch (numpy_kind(h)) {
    case 'b': return Operand(bool_of(h));
    case 'f': return Operand(float_of(h));
    case 'i':
    case 'u': return operand_of_integer(h);
    default: break;
  }
  if (nb::isinstance<UOp>(h)) return Operand(tensor_of_node(instance<UOp>(h)));
  if (is_sequence(h) || has_array_interface(h)) return Operand(tensor_of(h, {}, ""));
  return {};
}

bool truth(const char* name, nb::handle h) {
  if (PyBool_Check(h.ptr()) == 0) wrong_type((std::string("a bool as ") + name).c_str(), h);
  return h.ptr() == Py_True;
}

const Tensor& tensor(nb::handle h) {
  if (!is_tensor(h)) wrong_type("a Tensor", h);
  return instance<Tensor>(h);
}

Operand operand(nb::handle h) {
  std::optional<Operand> found = try_operand(h);
  if (!found) wrong_type("a Tensor or a number", h);
  return *std::move(found);
}

Dim dim(nb::handle h) {
  if (nb::isinstance<UOp>(h)) return Dim(instance<UOp>(h));
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
  if (nb::isinstance<DType>(h)) return instance<DType>(h);
  if (!nb::isinstance<nb::str>(h)) {
    // float, int and bool of Python, as users of NumPy write
    if (h.ptr() == reinterpret_cast<PyObject*>(&PyFloat_Type)) return default_float();
    if (h.ptr() == reinterpret_cast<PyObject*>(&PyLong_Type)) return default_int();
    if (h.ptr() == reinterpret_cast<PyObject*>(&PyBool_Type)) return dtypes::bool_;
    wrong_type("a dtype, such as dtypes.float32 or 'float32'", h);
  }
  const std::string name = text(h, "the name of a dtype");
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

namespace {

bool names_a_dtype(nb::handle h) {
  try {
    (void)dtype(h);
    return true;
  } catch (const DTypeError&) {
    return false;
  }
}

}  // namespace

std::string device(nb::handle h) {
  if (h.is_none()) return "";
  if (nb::isinstance<DType>(h))
    throw nb::type_error(("expected the name of a device, got the dtype " + instance<DType>(h).name() +
                          ": cast() converts to a dtype")
                             .c_str());
  if (!nb::isinstance<nb::str>(h)) wrong_type("the name of a device", h);
  std::string name = path(h);  // DISK:file has one
  try {
    Device::canonical(name);  // an Error here, not when it runs
  } catch (const DeviceError& e) {
    if (!names_a_dtype(h)) throw;
    throw DeviceError(std::string(e.what()) + "; cast('" + name + "') converts to that dtype");
  }
  return name;
}

std::vector<std::string> devices(nb::handle h) {
  if (h.is_none()) return {};
  if (!is_sequence(h)) return {device(h)};
  std::vector<std::string> names;
  for (nb::handle part : nb::borrow<nb::sequence>(h)) {
    if (part.is_none()) wrong_type("the name of a device", part);
    names.push_back(device(part));
  }
  if (names.empty()) throw ValueError("no device is named");
  return names;
}

Tensor on_all(const Tensor& x, const std::vector<std::string>& devices) {
  return devices.size() > 1 ? x.shard(devices) : x;
}

namespace {

// Of a slice: beyond 64 bits is as far as 64 bits go.
int64_t limited(nb::handle h, const char* expected) {
  if (PyIndex_Check(h.ptr()) == 0 || is_tensor(h)) wrong_type(expected, h);
  constexpr int64_t kMost =
      std::numeric_limits<int64_t>::max();  // and of the least the one that has a negative
  const Py_ssize_t value = PyNumber_AsSsize_t(h.ptr(), nullptr);
  if (value == -1 && PyErr_Occurred() != nullptr) nb::raise_python_error();
  return std::max<int64_t>(value, -kMost);
}
std::optional<Dim> bound(nb::handle h) {
  if (h.is_none()) return {};
  if (nb::isinstance<UOp>(h)) return dim(h);
  return Dim(limited(h, "a size: an int, or a UOp"));
}

int64_t place(nb::handle h) {
  const Py_ssize_t value = PyNumber_AsSsize_t(h.ptr(), PyExc_OverflowError);
  if (value != -1 || PyErr_Occurred() == nullptr) return value;
  if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) nb::raise_python_error();
  PyErr_Clear();
  throw IndexError("index " + text(nb::str(h), "digits") + " is out of bounds");
}
// A list is one index, as an array of what is in it would be; what indices are beside that is none of its
// elements.
void check_elements(nb::handle h) {
  if (is_sequence(h)) {
    for (nb::handle part : nb::borrow<nb::sequence>(h)) check_elements(part);
  } else if (!is_tensor(h) && !is_number(h) && !has_array_interface(h)) {
    throw IndexError("a list as an index has integers or bools, not " + kind_of(h) +
                     "; several indices are a tuple: x[a, b]");
  }
}
void check_places(nb::handle h) {
  if (is_sequence(h))
    for (nb::handle part : nb::borrow<nb::sequence>(h)) check_places(part);
  else if (PyLong_Check(h.ptr()) != 0)
    (void)place(h);
}

// Integers of a list may be more than the default integer holds.
Tensor places(const Tensor& x, nb::handle list) {
  check_elements(list);
  try {
    return beside(x, list, {});
  } catch (const DTypeError&) {
    check_places(list);
    return beside(x, list, dtypes::int64);
  }
}

Index index(const Tensor& x, nb::handle h) {
  if (h.is_none()) return newaxis;
  if (h.ptr() == Py_Ellipsis) return ellipsis;
  if (is_tensor(h)) return instance<Tensor>(h);
  if (nb::isinstance<UOp>(h)) return Dim(instance<UOp>(h));
  if (nb::isinstance<nb::slice>(h)) {
    const nb::object step = h.attr("step");
    return Slice{bound(h.attr("start")), bound(h.attr("stop")),
                 step.is_none() ? 1 : limited(step, "an int as the step of a slice")};
  }
  if (PyBool_Check(h.ptr()) != 0) throw IndexError("a bool is no index; a mask is a Tensor of bools");
  if (is_sequence(h) && nb::len(h) == 0) return Tensor::zeros({0}, {.dtype = default_int()});
  if (is_sequence(h) || (has_array_interface(h) && !is_number(h))) return places(x, h);
  if (PyIndex_Check(h.ptr()) == 0)
    throw IndexError("expected an int, a slice, ..., None or a Tensor as an index, got " + kind_of(h));
  return place(h);
}

}  // namespace

Tensor beside(const Tensor& x, nb::handle list, std::optional<DType> dtype) {
  const Texts devices = x.devices();
  // Memory that is made on the device of a file would be that file.
  const bool is_anywhere = devices.empty() || devices[0].starts_with("DISK");
  if (devices.size() <= 1) return tensor_of(list, dtype, is_anywhere ? "" : devices[0]);
  return tensor_of(list, dtype, "").shard(devices);
}

std::vector<Index> indices(const Tensor& x, nb::handle h) {
  std::vector<Index> all;
  if (!nb::isinstance<nb::tuple>(h)) return {index(x, h)};
  for (nb::handle part : nb::borrow<nb::tuple>(h)) all.push_back(index(x, part));
  return all;
}

namespace {

// The objects that stand for nodes, by weak references: a node is there for as long as its object is.
struct Objects {
  std::unordered_map<const quern::detail::Node*, nb::weakref> all;
  size_t most = 1024;  // before those that are gone are taken out
};

Objects& objects() {
  static auto* const made = new Objects;  // NOLINT(cppcoreguidelines-owning-memory): Python ends before it
  return *made;
}

}  // namespace

nb::object the_object(const UOp& node) {
  const auto found = objects().all.find(node.node());
  if (found == objects().all.end()) return {};
  nb::object object = found->second();
  return object.is_none() ? nb::object() : object;
}

void remember_object(const UOp& node, nb::handle object) {
  auto& [all, most] = objects();
  if (all.size() >= most) {
    std::erase_if(all, [](const auto& each) { return each.second().is_none(); });
    most = std::max<size_t>(1024, 2 * all.size());
  }
  all.insert_or_assign(node.node(), nb::weakref(object));
}

nb::str text_object(const std::string& text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
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
