// DType. The namespace `dtypes` is python/quern/dtype.py.
#include <array>

#include "python/src/bind.h"

namespace quern::python {

using namespace nb::literals;

const DType* the_scalar(DType dtype) {
  static const auto all = [] {
    std::array<DType, static_cast<size_t>(Scalar::Float64) + 1> scalars;
    for (size_t i = 0; i < scalars.size(); i++) scalars[i] = DType(static_cast<Scalar>(i));
    return scalars;
  }();
  return dtype == dtype.scalar() ? &all[static_cast<size_t>(dtype.kind())] : nullptr;
}

namespace {

// The letter that the modules struct and array have for it.
nb::object letter(DType d) {
  static constexpr std::pair<Scalar, const char*> kLetters[] = {
      {Scalar::Bool, "?"},   {Scalar::Int8, "b"},    {Scalar::UInt8, "B"},   {Scalar::Int16, "h"},
      {Scalar::UInt16, "H"}, {Scalar::Int32, "i"},   {Scalar::UInt32, "I"},  {Scalar::Int64, "q"},
      {Scalar::UInt64, "Q"}, {Scalar::Float16, "e"}, {Scalar::Float32, "f"}, {Scalar::Float64, "d"}};
  for (const auto& [scalar, text] : kLetters)
    if (d == DType(scalar)) return nb::str(text);
  return nb::none();
}

// From bool, 0, to float64: the order in which one is converted to another.
int priority(DType d) {
  if (d.is_void() || d.is_index()) return -1;
  if (d.is_bool()) return 0;
  return static_cast<int>(d.kind()) - static_cast<int>(Scalar::Index) + (d.is_float() ? 1 : 0);
}

DType with_values(DType dtype) {
  if (dtype.is_void() || dtype.is_ptr()) throw DTypeError(dtype.name() + " has no values");
  return dtype.scalar();
}

}  // namespace

void bind_dtype(nb::module_& m) {
  nb::class_<DType>(m, "DType", "The type of the elements of a tensor.")
      .def(nb::new_([](const std::string& name) { return dtype(nb::str(name.c_str())); }), "name"_a)
      .def_prop_ro("name", &DType::name, "Such as 'float32'.")
      .def_prop_ro("itemsize", &DType::bytes, "Bytes of an element.")
      .def_prop_ro("bitsize", &DType::bits, "Bits of an element; 1 for bool.")
      .def_prop_ro("count", &DType::lanes, "Elements of a vector; 1 if it is none.")
      .def("vec", &DType::vec, "sz"_a, "A vector of it.")
      .def("scalar", &DType::scalar, "What a vector is one of.")
      .def_prop_ro("is_float", &DType::is_float)
      .def_prop_ro("is_int", &DType::is_int)
      .def_prop_ro("is_unsigned", &DType::is_unsigned)
      .def_prop_ro("is_bool", &DType::is_bool)
      .def_prop_ro("fmt", &letter, "Its letter in the module struct, such as 'f'; None if it has none.")
      .def_prop_ro("priority", &priority, "Its place in the order from bool to float64.")
      .def(
          "__lt__",
          [](DType a, DType b) {
            return std::pair(priority(a), a.lanes()) < std::pair(priority(b), b.lanes());
          },
          "other"_a)
      .def_prop_ro(
          "min", [](DType d) { return number_of(min_value(with_values(d)), d); }, "-inf of floats.")
      .def_prop_ro(
          "max", [](DType d) { return number_of(max_value(with_values(d)), d); }, "inf of floats.")
      .def("_epsilon", [](DType d) { return epsilon(d); })
      .def(
          "__eq__", [](DType a, nb::handle b) { return nb::isinstance<DType>(b) && a == instance<DType>(b); },
          "other"_a.none())
      .def("__hash__", [](DType d) { return std::hash<std::string>()(d.name()); })
      .def("__repr__", [](DType d) { return "dtypes." + d.name(); })
      .def("__reduce__", [](DType d) { return nb::make_tuple(nb::type<DType>(), nb::make_tuple(d.name())); });
  m.def("promote", &promote, "a"_a, "b"_a, "The smallest dtype that both convert to.");
  m.def("default_float", &default_float);
  m.def("default_int", &default_int);
  m.def("set_default_float", [](nb::handle d) { set_default_float(dtype(d)); });
  m.def("set_default_int", [](nb::handle d) { set_default_int(dtype(d)); });
  m.def("as_dtype", &dtype, "dtype"_a, "A DType from one, or from its name.");
}

}  // namespace quern::python
