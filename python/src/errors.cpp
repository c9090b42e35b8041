// quern's errors as exceptions of Python: each is an Error, and also what Python calls such a thing.
#include <cerrno>
#include <new>

#include "python/src/bind.h"
#include "quern/base/error.h"
#include "quern/base/missing_file.h"

namespace quern::python {
namespace {

struct Kinds {
  PyObject *error, *value, *shape, *axis, *dtype, *index, *device, *parse, *spec, *rewrite, *missing_file,
      *memory, *internal;
} kinds;  // they live as long as the process does

PyObject* make(nb::module_& m, const char* name, const char* doc, const nb::tuple& bases) {
  const std::string full = std::string("quern.") + name;
  PyObject* const made = PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.ptr(), nullptr);
  if (made == nullptr) nb::raise_python_error();
  m.attr(name) = nb::handle(made);
  return made;
}

// Without a file name: Python would write its own text then.
void set_missing_file(const std::exception& e) {
  const nb::object made =
      nb::steal(PyObject_CallFunctionObjArgs(kinds.missing_file, text_object(e.what()).ptr(), nullptr));
  if (!made.is_valid()) return;  // that is an exception, too
  made.attr("errno") = ENOENT;
  PyErr_SetObject(kinds.missing_file, made.ptr());
}

void translate(const std::exception_ptr& thrown, void* /*payload*/) {
  const auto set = [](PyObject* kind, const std::exception& e) {
    PyErr_SetObject(kind, text_object(e.what()).ptr());
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const InternalError& e) {
    set(kinds.internal, e);
  } catch (const AxisError& e) {
    set(kinds.axis, e);
  } catch (const ShapeError& e) {
    set(kinds.shape, e);
  } catch (const ValueError& e) {
    set(kinds.value, e);
  } catch (const DTypeError& e) {
    set(kinds.dtype, e);
  } catch (const IndexError& e) {
    set(kinds.index, e);
  } catch (const DeviceError& e) {
    set(kinds.device, e);
  } catch (const MemoryError& e) {
    set(kinds.memory, e);
  } catch (const ParseError& e) {
    set(kinds.parse, e);
  } catch (const SpecError& e) {
    set(kinds.spec, e);
  } catch (const RewriteError& e) {
    set(kinds.rewrite, e);
  } catch (const MissingFileError& e) {
    set_missing_file(e);
  } catch (const Error& e) {
    set(kinds.error, e);
  } catch (const std::bad_alloc&) {
    PyErr_SetString(kinds.memory, "out of memory");
  } catch (const std::bad_cast&) {
    PyErr_SetString(PyExc_TypeError, "an argument is of a type that is not expected here");
  }
}

}  // namespace

void bind_errors(nb::module_& m) {
  try {  // a thread's first exception takes memory: before there is none
    throw std::bad_alloc();
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
  }
  const auto bases = [](auto... b) { return nb::make_tuple(nb::handle(b)...); };
  kinds.error = make(m, "Error", "What was given cannot be: the text says what, and what was expected.",
                     bases(PyExc_RuntimeError));
  PyObject* const error = kinds.error;
  kinds.value =
      make(m, "ValueError", "An argument with a value that it cannot have.", bases(error, PyExc_ValueError));
  kinds.shape = make(m, "ShapeError", "A shape that does not fit.", bases(error, PyExc_ValueError));
  kinds.axis =
      make(m, "AxisError", "An axis that a tensor does not have.", bases(kinds.shape, PyExc_IndexError));
  kinds.dtype = make(m, "DTypeError", "A dtype that does not fit.", bases(error, PyExc_TypeError));
  kinds.index = make(m, "IndexError", "An index out of bounds, or of a kind that cannot index.",
                     bases(error, PyExc_IndexError));
  kinds.device = make(m, "DeviceError",
                      "A device that there is not, or that cannot do what it was asked for.", bases(error));
  kinds.parse = make(m, "ParseError", "Text that is no IR.", bases(error, PyExc_ValueError));
  kinds.spec =
      make(m, "SpecError", "A graph that breaks a rule of its level.", bases(error, PyExc_ValueError));
  kinds.rewrite = make(m, "RewriteError", "Rewrite rules that never come to rest.", bases(error));
  kinds.missing_file = make(m, "MissingFileError", "A file that is to be read, and is not there.",
                            bases(error, PyExc_FileNotFoundError));
  kinds.memory = make(m, "MemoryError", "Memory that there is not: the text says how much was asked for.",
                      bases(error, PyExc_MemoryError));
  kinds.internal = make(m, "InternalError", "A mistake of quern itself: please report it.", bases(error));
  nb::register_exception_translator(&translate);
}

}  // namespace quern::python
