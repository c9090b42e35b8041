// Buffer: memory of a device, without a shape.
#include "quern/runtime/buffer.h"
#include "python/src/arrays.h"
#include "python/src/uop.h"
#include "quern/engine/host.h"
#include "quern/engine/realize/recording.h"
#include "quern/ir/shape/sharding.h"
#include "quern/schedule/facts/memory_view.h"

namespace quern::python {
namespace {

using namespace nb::literals;

// What Python holds: several may stand for the same memory.
struct Memory {
  BufferPtr buffer;
};

// The bytes of an object that has some, in order, until the end of a scope.
class BytesOf {
 public:
  BytesOf(const char* who, nb::handle data, bool to_write) {
    if (PyObject_CheckBuffer(data.ptr()) == 0)
      wrong_type((std::string("bytes, or an array, for ") + who).c_str(), data);
    const int flags = PyBUF_C_CONTIGUOUS | (to_write ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(data.ptr(), &view_, flags) != 0) nb::raise_python_error();
  }
  BytesOf(const BytesOf&) = delete;
  BytesOf& operator=(const BytesOf&) = delete;
  ~BytesOf() { PyBuffer_Release(&view_); }

  std::span<std::byte> span() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

void check_size(const char* who, std::span<std::byte> given, const Buffer& buffer) {
  if (std::ssize(given) != buffer.bytes())
    throw ShapeError(std::string(who) + ": " + std::to_string(given.size()) +
                     " bytes are given, the memory has " + std::to_string(buffer.bytes()));
}

// No kernel writes the memory meanwhile. A captured function would do it once, and not in replays.
template <class F>
void with_memory(const F& f) {
  Recording::refuse("a Buffer is read or written", "do it when the function has returned");
  const auto lock = lock_engine();
  release_gil(f);
}

void copy_in(const Memory& memory, nb::handle data, const char* who) {
  const BytesOf bytes(who, data, false);
  check_size(who, bytes.span(), *memory.buffer);
  with_memory([&] { memory.buffer->copy_in(bytes.span()); });
}

std::vector<std::byte> values_of(const Memory& memory) {
  std::vector<std::byte> bytes(static_cast<size_t>(memory.buffer->bytes()));
  with_memory([&] { memory.buffer->copy_out(bytes); });
  return bytes;
}

DType checked(DType dtype) {
  if (dtype.is_void() || dtype.is_index() || dtype.is_ptr() || dtype.lanes() != 1)
    throw DTypeError("Buffer: " + dtype.name() + " is not the dtype of memory");
  return dtype;
}

Memory made(nb::handle device, int64_t size, std::optional<DType> dtype, nb::handle initial_value,
            bool allocates) {
  if (size < 0) throw ShapeError("Buffer: " + std::to_string(size) + " elements; there must be 0 or more");
  const std::string given = python::device(device), name = given.empty() ? default_device() : given;
  Device* const opened = without_lock([&] { return &Device::get(Device::canonical(name)); });
  Memory memory{std::make_shared<Buffer>(*opened, checked(dtype.value_or(default_float())), size)};
  if (allocates) (void)memory.buffer->memory();
  if (!initial_value.is_none()) copy_in(memory, initial_value, "Buffer");
  return memory;
}

Memory part(const Memory& of, int64_t size, DType dtype, int64_t offset) {
  if (size < 0) throw ShapeError("view: " + std::to_string(size) + " elements; there must be 0 or more");
  if (offset % checked(dtype).bytes() != 0)
    throw ValueError("view: " + std::to_string(offset) + " bytes are no multiple of the " +
                     std::to_string(dtype.bytes()) + " of " + dtype.name());
  return {std::make_shared<Buffer>(of.buffer, dtype, size, offset)};
}

// An array of bytes over memory that the owner keeps.
template <class Owner>
nb::object bytes_array(std::byte* at, size_t size, Owner owned) {
  auto* const kept = new Owner(std::move(owned));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Owner*>(p); });
  static std::byte nothing;
  return nb::cast(nb::ndarray<nb::memview, uint8_t>(size == 0 ? &nothing : at, {size}, owner));
}

nb::object as_buffer(const Memory& memory, bool allow_zero_copy) {
  if (allow_zero_copy && memory.buffer->device().is_host_memory()) {
    Recording::refuse("a Buffer is read or written", "do it when the function has returned");
    auto* const at = static_cast<std::byte*>(memory.buffer->memory());
    return bytes_array(at, static_cast<size_t>(memory.buffer->bytes()), memory.buffer);
  }
  std::vector<std::byte> bytes = values_of(memory);
  std::byte* const at = bytes.data();  // which stays where it is
  const size_t size = bytes.size();
  return bytes_array(at, size, std::move(bytes));
}

nb::object to_numpy(const Memory& memory) {
  const std::vector<std::byte> bytes = values_of(memory);
  return nb::cast(Tensor::from_bytes(bytes.data(), bytes.size(), {Dim(memory.buffer->elements())},
                                     memory.buffer->dtype(), "CPU"))
      .attr("numpy")();
}

Memory memory_of(const UOp& u) {
  const std::optional<MemoryView> view = contiguous_view(u);
  const UOp known = view ? view->memory : UOp();
  if (!view || known.op() != Op::BUFFER || !view->offset.is_int_const())
    throw ShapeError("buffer: the node is no stretch of memory, in order: " + std::string(name(u.op())) +
                     "; that of x.contiguous().realize().uop is");
  const auto offset = static_cast<int64_t>(view->offset.int_value()) * u.dtype().bytes();
  const BufferPtr whole = buffer_of(known);
  int64_t elements = 1;
  for (const UOp& size : u.shape()) elements *= static_cast<int64_t>(size.vmax());
  if (offset == 0 && elements == whole->elements() && u.dtype() == whole->dtype()) return {whole};
  return {std::make_shared<Buffer>(whole, u.dtype(), elements, offset)};
}

}  // namespace

void bind_buffer(nb::module_& m) {
  nb::class_<Memory> buffer(m, "Buffer", "Memory of a device: so many elements of a dtype, without a shape.");
  buffer.def(
      "__init__",
      [](Memory* self, nb::handle device, int64_t size, std::optional<DType> dtype, nb::handle initial_value,
         bool preallocate) { new (self) Memory(made(device, size, dtype, initial_value, preallocate)); },
      "device"_a.none(), "size"_a, "dtype"_a = nb::none(), nb::kw_only(), "initial_value"_a = nb::none(),
      "preallocate"_a = false,
      "Memory that is allocated when it is first used, or with the bytes of a value.");
  buffer.def_prop_ro(
      "device", [](const Memory& b) { return path_object(b.buffer->device().name()); },
      "The name of its device.");
  buffer.def_prop_ro("size", [](const Memory& b) { return b.buffer->elements(); }, "The number of elements.");
  buffer.def_prop_ro("dtype", [](const Memory& b) { return b.buffer->dtype(); }, "The type of the elements.");
  buffer.def_prop_ro("nbytes", [](const Memory& b) { return b.buffer->bytes(); }, "Bytes of all elements.");
  for (const char* name : {"allocate", "ensure_allocated"})
    buffer.def(
        name,
        [](nb::handle self) {
          (void)instance<Memory>(self).buffer->memory();
          return nb::borrow(self);
        },
        "Allocates its memory, if it has none yet; returns itself.");
  for (const char* name : {"is_allocated", "is_initialized"})
    buffer.def(
        name, [](const Memory& b) { return b.buffer->is_allocated(); }, "Whether its memory is there.");
  buffer.def(
      "copyin",
      [](nb::handle self, nb::handle mv) {
        copy_in(instance<Memory>(self), mv, "copyin");
        return nb::borrow(self);
      },
      "mv"_a.none(), "Writes as many bytes as it has, of a memoryview, bytes or an array.");
  buffer.def(
      "copyout",
      [](const Memory& b, nb::handle mv) {
        const BytesOf bytes("copyout", mv, true);
        check_size("copyout", bytes.span(), *b.buffer);
        with_memory([&] { b.buffer->copy_out(bytes.span()); });
        return nb::borrow(mv);
      },
      "mv"_a.none(), "Reads all of its bytes into a memoryview or an array, which it returns.");
  for (const char* name : {"as_buffer", "as_memoryview"})
    buffer.def(name, &as_buffer, "allow_zero_copy"_a = false,
               "Its bytes as a memoryview: a copy, or, where that is allowed and can be, its memory.");
  buffer.def("numpy", &to_numpy, "Its elements as an array of NumPy.");
  buffer.def(
      "view",
      [](const Memory& b, int64_t size, nb::handle dtype, int64_t offset) {
        return part(b, size, python::dtype(dtype), offset);
      },
      "size"_a, "dtype"_a, "offset"_a = 0,
      "A part of it, from a number of bytes on, as elements of any dtype.");
  buffer.def("__repr__", [](const Memory& b) {
    return text_object("<Buffer " + b.buffer->device().name() + " " + b.buffer->dtype().name() + " " +
                       std::to_string(b.buffer->elements()) + ">");
  });
}

void bind_memory_of_nodes(UOpClass& uop) {
  uop.def_prop_ro("buffer", &memory_of,
                  "The memory that a node stands for, if its elements lie there in order.");
  uop.def_prop_ro(
      "realized",
      [](const UOp& u) -> std::optional<Memory> {
        const UOp& memory = memory_base(u);
        if (memory.op() != Op::BUFFER || !has_buffer(memory)) return {};
        return memory_of(memory);
      },
      "Its memory, or that of what it is a view of; None if it is not computed yet.");
}

}  // namespace quern::python
