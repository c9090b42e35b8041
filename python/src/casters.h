// What Python passes, as arguments of quern's functions: numbers beside tensors, sizes, shapes, axes and
// dtypes. A value that is none of these is a TypeError that says what was expected.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "quern/tensor/core/tensor.h"

namespace nb = nanobind;

namespace quern::python {

[[noreturn]] void wrong_type(const char* expected, nb::handle given, const std::string& more = "");
std::string kind_of(nb::handle h);
std::string shown(nb::handle given);  // its value, for errors

// Of an object of that type; one that was made without __init__() is a TypeError.
template <class T>
const T& instance(nb::handle h) {
  if (!nb::inst_ready(h))
    throw nb::type_error(("a " + kind_of(h) + " whose __init__() was not called").c_str());
  return nb::cast<const T&>(h);
}

bool is_tensor(nb::handle h);
bool is_sequence(nb::handle h);  // a list or a tuple
bool is_number(nb::handle h);    // of Python or NumPy
bool is_bool(nb::handle h);      // of Python or NumPy
std::optional<Operand> try_operand(nb::handle h);
bool truth(const char* name, nb::handle h);  // True or False, of the argument of this name
const Tensor& tensor(nb::handle h);
Operand operand(nb::handle h);  // a tensor or number; arrays and lists become tensors
int64_t integer(nb::handle h, const char* expected);
std::string text(nb::handle h, const char* expected);  // in UTF-8
std::string path(nb::handle h);                        // of a file, as open() takes it
nb::str path_object(const std::string& path);          // and back
Dim dim(nb::handle h);
Tensor tensor_of_node(const UOp& node);     // of a size: its value
Shape shape(nb::handle h);                  // a size or several
Shape shape_of_args(const nb::args& args);  // f(2, 3) or f((2, 3))
IntList int_list(nb::handle h);             // None: not given
nb::object the_object(const UOp& node);     // that stands for it; or none
void remember_object(const UOp& node, nb::handle object);
const DType* the_scalar(DType dtype);                                         // one for each; none of vectors
DType dtype(nb::handle h);                                                    // a DType, or its name
Tensor beside(const Tensor& x, nb::handle list, std::optional<DType> dtype);  // where x is
std::vector<Index> indices(const Tensor& x, nb::handle h);                    // of x
std::string device(nb::handle h);                                             // None: ""
// Where something is made: a name, or a tuple of names, on each of which it is whole. None: no names.
std::vector<std::string> devices(nb::handle h);
Tensor on_all(const Tensor& x,
              const std::vector<std::string>& devices);  // x is on the first of them, if there is one

nb::str text_object(const std::string& text);  // what is not UTF-8, as files have it, is escaped
nb::object to_python(const Dim& dim);          // an int, or a UOp
nb::object to_python(const Shape& shape);

}  // namespace quern::python

namespace nanobind::detail {

// One that throws what is wrong, instead of refusing without a word.
#define QUERN_CASTER(Type, Text, function, ...)               \
  template <>                                                 \
  struct type_caster<Type> {                                  \
    static constexpr auto Name = const_name(Text);            \
    using Value = Type;                                       \
    template <typename T_>                                    \
    using Cast = movable_cast_t<T_>;                          \
    template <typename T_>                                    \
    static constexpr bool can_cast() {                        \
      return true;                                            \
    }                                                         \
    bool from_python(handle src, uint32_t, cleanup_list*) {   \
      value.emplace(quern::python::function(src));            \
      return true;                                            \
    }                                                         \
    explicit operator Value*() { return &*value; }            \
    explicit operator Value&() { return *value; }             \
    explicit operator Value&&() { return std::move(*value); } \
    __VA_ARGS__                                               \
    std::optional<Type> value;                                \
  }

QUERN_CASTER(quern::Operand, "Tensor | float | int | bool", operand);
QUERN_CASTER(
    quern::Dim, "int | UOp", dim, static handle from_cpp(const quern::Dim& d, rv_policy, cleanup_list*) {
      return quern::python::to_python(d).release();
    });
QUERN_CASTER(
    quern::Shape, "tuple[int | UOp, ...]", shape,
    static handle from_cpp(const quern::Shape& s, rv_policy, cleanup_list*) {
      return quern::python::to_python(s).release();
    });
QUERN_CASTER(quern::IntList, "int | tuple[int, ...]", int_list);
#undef QUERN_CASTER

// An object for each node, so that `x.uop is x.uop` holds.
template <>
struct type_caster<quern::UOp> : type_caster_base<quern::UOp> {
  template <typename T>
  static handle from_cpp(T&& value, rv_policy, cleanup_list* cleanup) {
    const quern::UOp node = [&] {
      if constexpr (std::is_pointer_v<std::decay_t<T>>)
        return *value;
      else
        return value;
    }();
    if (nb::object one = quern::python::the_object(node); one.is_valid()) return one.release();
    const handle made = type_caster_base<quern::UOp>::from_cpp(node, rv_policy::copy, cleanup);
    quern::python::remember_object(node, made);
    return made;
  }
};

// An object for each scalar type, so that `x.dtype is dtypes.float32` holds.
template <>
struct type_caster<quern::DType> : type_caster_base<quern::DType> {
  template <typename T>
  static handle from_cpp(T&& value, rv_policy policy, cleanup_list* cleanup) {
    const quern::DType dtype = [&] {
      if constexpr (std::is_pointer_v<std::decay_t<T>>)
        return *value;
      else
        return value;
    }();
    if (const quern::DType* one = quern::python::the_scalar(dtype))
      return type_caster_base<quern::DType>::from_cpp(one, rv_policy::reference, cleanup);
    return type_caster_base<quern::DType>::from_cpp(std::forward<T>(value), policy, cleanup);
  }
};

// A dtype, by name too.
template <>
struct type_caster<std::optional<quern::DType>> {
  NB_TYPE_CASTER(std::optional<quern::DType>, const_name("DType | str | None"))
  bool from_python(handle src, uint32_t, cleanup_list*) {
    value.reset();
    if (!src.is_none()) value = quern::python::dtype(src);
    return true;
  }
};

}  // namespace nanobind::detail
