// Tensors from memory and files, and their values as bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "quern/base/file.h"
#include "quern/engine/host.h"
#include "quern/engine/realize/data.h"
#include "quern/engine/realize/outputs.h"
#include "quern/engine/realize/realize.h"
#include "quern/engine/realize/recording.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/runtime/buffer.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/disk.h"
#include "quern/tensor/core/live.h"
#include "quern/tensor/core/tensor.h"

namespace quern {
namespace {

// The number of elements of a shape that memory is given for.
int64_t elements_of(const char* who, const Shape& shape, DType dtype) {
  if (dtype.is_void() || dtype.is_index() || dtype.is_ptr() || dtype.lanes() != 1)
    throw DTypeError(fmt::format("{}: {} is not the dtype of a tensor", who, dtype.name()));
  wide elements = 1;
  for (const Dim& d : shape) {
    if (d.is_symbolic()) throw ShapeError(fmt::format("{}: shape {} is symbolic", who, shape_text(shape)));
    if (d.value() < 0)
      throw ShapeError(fmt::format("{}: shape {} has a negative size", who, shape_text(shape)));
    elements *= d.value();
    if (elements > wide{1} << 56)
      throw ShapeError(fmt::format("{}: shape {} is too large", who, shape_text(shape)));
  }
  return static_cast<int64_t>(elements);
}

UOp memory_on(const std::string& device, DType dtype, int64_t elements) {
  return new_buffer(dtype, elements,
                    device_node(Device::canonical(device.empty() ? default_device() : device)));
}

// The memory of a tensor that is one, in order and whole; none if it is anything else.
BufferPtr contiguous_memory(const UOp& u) {
  const UOp& memory = u.op() == Op::RESHAPE ? u.src(0) : u;
  return memory.op() == Op::BUFFER || memory.op() == Op::SLICE ? buffer_of(memory) : nullptr;
}

// Kernels do not run on files: what is a view of one becomes the same view of a copy. What is on several
// devices is gathered on the first of them.
UOp on_a_device_that_computes(const UOp& u) {
  if (const Texts devices = u.device(); devices.size() > 1) {
    const UOp &whole = base_of(u), gathered = copy_to(whole, device_node(devices[0]));
    return same(whole, u) ? gathered : u.substitute({{whole, gathered}});
  }
  return detail::is_on_disk(u) ? detail::copied_from_disk(u, Device::canonical(default_device())) : u;
}

}  // namespace

Tensor Tensor::from_bytes(const void* data, size_t bytes, const Shape& shape, DType dtype,
                          const std::string& device) {
  const int64_t elements = elements_of("from_bytes", shape, dtype);
  if (std::cmp_not_equal(bytes, elements * dtype.bytes()))
    throw ShapeError(fmt::format("from_bytes: {} bytes are given, {} of shape {} needs {}", bytes,
                                 dtype.name(), shape_text(shape), elements * dtype.bytes()));
  if (data == nullptr && bytes > 0) throw Error(fmt::format("from_bytes: {} bytes at a null pointer", bytes));
  const UOp memory = memory_on(device, dtype, elements);
  Recording* const recording = Recording::current();
  NumbersSeen* const seen = NumbersSeen::current();
  if (recording != nullptr || seen != nullptr) {
    const std::string_view raw(static_cast<const char*>(data), bytes);
    const size_t hash = std::hash<std::string>()(fmt::format("{} {}", dtype.name(), shape_text(shape))) * 31 +
                        std::hash<std::string_view>()(raw);
    recording != nullptr ? recording->add_constant(hash, memory) : seen->hashes.push_back(hash);
  }
  buffer_of(memory)->copy_in({static_cast<const std::byte*>(data), bytes});
  const UOp value = quern::reshape(memory, sizes_of(shape));
  // Each replay begins with the numbers: what is written is not their memory.
  return recording != nullptr ? Tensor(value).contiguous_backward() : Tensor(value);
}

namespace {
Tensor over_memory(const char* who, void* data, const Shape& shape, DType dtype, const KeepAlive& keep_alive,
                   const std::string& device) {
  const int64_t elements = elements_of(who, shape, dtype);
  Recording::refuse("a tensor is made from memory of the host",
                    "make it before the call, and pass it as an input or hold it outside");
  const UOp memory = memory_on(device, dtype, elements);
  set_buffer(memory, std::make_shared<Buffer>(Device::get(memory.device()[0]), dtype, elements, data,
                                              keep_alive.memory, keep_alive.check));
  return Tensor(quern::reshape(memory, sizes_of(shape)));
}
}  // namespace

Tensor Tensor::from_blob(void* data, const Shape& shape, DType dtype, std::shared_ptr<void> keep_alive,
                         const std::string& device) {
  return over_memory("from_blob", data, shape, dtype, keep_alive, device);
}

Tensor tensor_in_place(std::span<std::byte> bytes, const Shape& shape, DType dtype,
                       const KeepAlive& keep_alive) {
  const std::string own = default_device();
  const bool on_host = Device::get(own).is_host_memory();
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  if (address % static_cast<size_t>(dtype.bytes()) != 0)
    return Tensor::from_bytes(bytes.data(), bytes.size(), shape, dtype, on_host ? own : "CPU");
  return over_memory("from_blob", bytes.data(), shape, dtype, keep_alive, on_host ? own : "CPU");
}

Tensor Tensor::from_file(const std::string& path, std::optional<Shape> shape, DType dtype) {
  const int64_t size = open_to_read(path, "from_file: ").second.st_size;
  if (!shape) {
    (void)elements_of("from_file", {}, dtype);
    if (size % dtype.bytes() != 0)
      throw ShapeError(fmt::format("from_file: {} has {} bytes, which is no multiple of the {} of {}", path,
                                   size, dtype.bytes(), dtype.name()));
    shape = Shape{Dim(size / dtype.bytes())};
  }
  const int64_t elements = elements_of("from_file", *shape, dtype);
  if (elements * dtype.bytes() > size)
    throw ShapeError(fmt::format("from_file: {} has {} bytes, {} of shape {} needs {}", path, size,
                                 dtype.name(), shape_text(*shape), elements * dtype.bytes()));
  const UOp memory = memory_on("DISK:" + path, dtype, elements);
  (void)buffer_of(memory)->memory();  // the file is there now: if it goes, that is an error
  return Tensor(quern::reshape(memory, sizes_of(*shape)));
}

std::vector<std::byte> Tensor::bytes() const {
  Recording::refuse("values are read (numpy, item, to_vector)",
                    "return the tensor, and read it when the function has returned");
  const UOp value = on_a_device_that_computes(with_values(values_in_memory(*this)));
  wide size = value.dtype().bytes();
  for (const int64_t s : known_sizes(value.shape())) size *= s;
  if (!fits(dtypes::int64, size))
    throw ShapeError(
        fmt::format("the values of {} {} take more than 2^63 bytes", dtype().name(), shape_text(shape())));
  std::vector<std::byte> result;
  try {
    result.resize(static_cast<size_t>(size));
  } catch (const std::bad_alloc&) {
    throw MemoryError(fmt::format("out of memory, the values of {} {} take {} bytes", dtype().name(),
                                  shape_text(value.shape()), to_string(size)));
  }
  if (result.empty()) return result;
  BufferPtr memory = contiguous_memory(value);
  UOp kept;  // the memory goes with its node
  if (!memory) {
    kept = realize_copy(value.op() == Op::CONTIGUOUS ? value : quern::contiguous(value));
    memory = buffer_of(base_of(kept));
  }
  release_gil([&] { memory->copy_out(result); });
  return result;
}

Const Tensor::item_const() const {
  const UOp value = with_values(uop());
  for (const UOp& s : value.shape())
    if (!s.simplify().equals(1))
      throw ShapeError(
          fmt::format("item: a tensor of shape {} has not one element", shape_text(value.shape())));
  const std::vector<std::byte> raw = bytes();
  uint64_t bits = 0;
  std::memcpy(&bits, raw.data(), raw.size());
  return from_bits(bits, dtype());
}

}  // namespace quern
