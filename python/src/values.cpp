// The values of tensors for Python: arrays, lists, bytes, numbers.
#include <cstring>
#include <sstream>

#include "python/src/arrays.h"
#include "quern/engine/realize/data.h"
#include "quern/engine/realize/outputs.h"
#include "quern/engine/realize/realize.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/runtime/buffer.h"
#include "quern/schedule/facts/memory_view.h"

namespace quern::python {

using namespace nb::literals;

// ---- to Python

nb::object number_of(const Const& value, DType dtype) {
  if (dtype.is_bool()) return nb::bool_(value.as_bool());
  if (dtype.is_float()) return nb::float_(value.as_float());
  if (dtype.is_unsigned()) return nb::int_(static_cast<uint64_t>(value.as_int()));
  return nb::int_(value.as_int());
}

nb::object named_pair(const char* kind, const Tensor& first, const Tensor& second) {
  return nb::module_::import_("quern.results").attr(kind)(first, second);
}

namespace {

nb::dlpack::dtype code_of(DType d) {
  using Code = nb::dlpack::dtype_code;
  const Code code = d.is_bool()             ? Code::Bool
                    : d == dtypes::bfloat16 ? Code::Bfloat
                    : d == dtypes::fp8e4m3  ? Code::Float8_E4M3FN
                    : d == dtypes::fp8e5m2  ? Code::Float8_E5M2
                    : d.is_float()          ? Code::Float
                    : d.is_unsigned()       ? Code::UInt
                                            : Code::Int;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(d.bytes() * 8), 1};
}

// The elements in order, and the sizes, which are numbers now.
struct Values {
  std::vector<std::byte> bytes;
  Ints shape;
  DType dtype;
};

Values values_of(const Tensor& x) {
  return {x.bytes(), known_sizes(with_values(x.uop()).shape()), x.dtype()};
}

// From the innermost lists to the outermost.
nb::object nested(const Values& values) {
  const auto size = static_cast<size_t>(values.dtype.bytes());
  std::vector<nb::object> parts(values.bytes.size() / size);
  for (size_t i = 0; i < parts.size(); i++) {
    uint64_t bits = 0;
    std::memcpy(&bits, values.bytes.data() + size * i, size);
    parts[i] = number_of(from_bits(bits, values.dtype), values.dtype);
  }
  int64_t lists = 1;
  std::vector<int64_t> counts;
  for (const int64_t length : values.shape) {
    counts.push_back(lists);
    lists *= length;
  }
  for (size_t axis = counts.size(); axis-- > 0;) {
    std::vector<nb::object> outer;
    auto part = parts.begin();
    for (int64_t i = 0; i < counts[axis]; i++) {
      nb::list list;
      for (int64_t k = 0; k < values.shape[axis]; k++) list.append(*part++);
      outer.push_back(std::move(list));
    }
    parts = std::move(outer);
  }
  return parts[0];
}

// The most that arrays of NumPy and memoryviews have.
constexpr size_t kMostAxes = 64;

void check_axes(const char* who, const Tensor& x) {
  if (static_cast<size_t>(x.ndim()) > kMostAxes)
    throw ShapeError(std::string(who) + ": the tensor has " + std::to_string(x.ndim()) +
                     " axes, arrays of NumPy have at most 64");
}

// An array of some framework over bytes that it owns.
template <class Framework>
nb::object owning_array(Values values) {
  auto* const kept = new Values(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Values*>(p); });
  kept->bytes.reserve(1);
  const std::vector<size_t> shape(kept->shape.begin(), kept->shape.end());
  const nb::ndarray<Framework> array(kept->bytes.data(), shape.size(), shape.data(), owner, nullptr,
                                     code_of(kept->dtype), nb::device::cpu::value);
  return nb::cast(array);
}

// NumPy has neither bfloat16 nor floats of 8 bits.
Tensor known_to_numpy(const Tensor& x) {
  return x.dtype() == dtypes::bfloat16 || x.dtype().is_fp8() ? x.cast(dtypes::float32) : x;
}

nb::object to_numpy(const Tensor& x) {
  check_axes("numpy", x);
  return owning_array<nb::numpy>(values_of(known_to_numpy(x)));
}

nb::object to_memoryview(const Tensor& x) {
  check_axes("data", x);
  return owning_array<nb::memview>(values_of(known_to_numpy(x)));
}

nb::object as_array(const Tensor& x, nb::handle dtype, nb::handle /*copy*/) {
  nb::object array = to_numpy(x);
  return dtype.is_none() ? array : array.attr("astype")(dtype);
}

// Memory of the host that holds the elements in order: the tensor's own where it can be, else a copy.
struct HostMemory {
  UOp node;
  BufferPtr buffer;
  std::byte* at;
};
HostMemory host_memory(const Tensor& given) {
  Tensor x(values_in_memory(given));
  const Texts devices = x.devices();
  if (devices.size() != 1 || !Device::get(devices[0]).is_host_memory()) x = x.to("CPU").realize();
  UOp u = with_values(x.uop());
  std::optional<MemoryView> view = contiguous_view(u);
  if (!view || view->memory.op() != Op::BUFFER || !view->offset.is_int_const()) {
    u = realize_copy(quern::contiguous(u));
    view = contiguous_view(u);
  }
  const BufferPtr buffer = buffer_of(view->memory);
  const auto offset = static_cast<int64_t>(view->offset.int_value()) * u.dtype().bytes();
  return {u, buffer, static_cast<std::byte*>(buffer->memory()) + offset};
}

nb::object shared_array(const Tensor& x) {
  check_axes("__dlpack__", x);
  if (x.numel() == Dim(0)) return owning_array<nb::array_api>(values_of(x));  // nothing is nowhere
  auto* const kept = new HostMemory(host_memory(x));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<HostMemory*>(p); });
  const Ints sizes = known_sizes(kept->node.shape());
  const std::vector<size_t> shape(sizes.begin(), sizes.end());
  return nb::cast(nb::ndarray<nb::array_api>(kept->at, shape.size(), shape.data(), owner, nullptr,
                                             code_of(x.dtype()), nb::device::cpu::value));
}

Tensor from_shared(nb::handle data) {
  let_go();
  const Array array = array_of(data);
  const bool is_aligned =
      reinterpret_cast<uintptr_t>(array.data) % static_cast<size_t>(array.dtype.bytes()) == 0;
  if (!is_aligned || !array.is_in_order() || !Device::get(default_device()).is_host_memory())
    return copy_of(array, "");
  const Shape shape(array.shape.begin(), array.shape.end());
  const Tensor shared = Tensor::from_blob(array.data, shape, array.dtype, keep_alive(array.owner), "");
  // A value that is read there is no memory that can be written: one that is written gets its own.
  return array.is_read_only ? shared.contiguous_backward() : shared;
}

nb::object item(const Tensor& x) { return number_of(x.item_const(), x.dtype()); }

bool is_realized(const UOp& u) { return memory_base(u).op() == Op::BUFFER; }

nb::str written(const Tensor& x) {
  std::string where;
  for (const std::string& device : x.devices()) where += (where.empty() ? "" : "+") + device;
  if (where.empty()) where = default_device();
  const std::string sizes = text(nb::str(to_python(x.shape())), "sizes");
  std::string head = "<Tensor " + where + " " + x.dtype().name() + " " + sizes;
  if (!is_realized(x.uop())) return text_object(head + ">");
  std::ostringstream values;
  values << x;
  const bool one_line = values.str().find('\n') == std::string::npos;
  return text_object(head + (one_line ? " " : "\n") + values.str() + ">");
}

}  // namespace

void bind_values(TensorClass& tensor) {
  tensor.def(
      "__init__",
      [](Tensor* self, nb::handle data, nb::handle device, std::optional<DType> dtype, nb::handle grad) {
        const std::vector<std::string> names = devices(device);
        Tensor made = on_all(tensor_of(data, dtype, names.empty() ? "" : names[0]), names);
        if (!grad.is_none()) made.set_requires_grad(truth("requires_grad", grad));
        new (self) Tensor(std::move(made));
      },
      "data"_a = nb::none(), "device"_a = nb::none(), "dtype"_a = nb::none(), "requires_grad"_a = nb::none(),
      "A tensor of a number, nested lists, an array, bytes, a UOp, or the file of a path.");
  tensor.def("numpy", &to_numpy, "The values as an array of NumPy. Runs.");
  tensor.def("__array__", &as_array, "dtype"_a = nb::none(), "copy"_a = nb::none());
  tensor.def("data", &to_memoryview, "The values as a memoryview. Runs.");
  tensor.def(
      "tolist", [](const Tensor& x) { return nested(values_of(x)); }, "The values as nested lists. Runs.");
  tensor.def(
      "tobytes",
      [](const Tensor& x) {
        const Values values = values_of(x);
        return nb::bytes(values.bytes.data(), values.bytes.size());
      },
      "The elements in order, as they lie in memory. Runs.");
  tensor.def("item", &item, "The value of a tensor of one element. Runs.");
  tensor.def("__float__", [](const Tensor& x) { return nb::float_(item(x)); });
  tensor.def("__int__", [](const Tensor& x) { return nb::int_(item(x)); });
  tensor.def("__bool__", [](const Tensor& x) {
    const int truth = PyObject_IsTrue(item(x).ptr());
    return truth == 1;
  });
  tensor.def("__len__", &Tensor::len);
  tensor.def("__repr__", &written);
  tensor.def("__dlpack__", [](const Tensor& x, const nb::kwargs& options) {
    return shared_array(x).attr("__dlpack__")(**options);
  });
  tensor.def("__dlpack_device__", [](const Tensor&) { return nb::make_tuple(1, 0); });
  tensor.def_static("from_dlpack", &from_shared, "x"_a,
                    "A tensor over the memory of an array, not copied where it can be.");
  tensor.def_static(
      "from_blob",
      [](uintptr_t ptr, const Shape& shape, std::optional<DType> dtype, nb::handle device, nb::object owner) {
        return Tensor::from_blob(reinterpret_cast<void*>(ptr), shape, dtype.value_or(default_float()),
                                 keep_alive(std::move(owner)), python::device(device));
      },
      "ptr"_a, "shape"_a, "dtype"_a = nb::none(), "device"_a = nb::none(), "owner"_a = nb::none(),
      "A tensor over memory of the host at an address; it lives as long as the owner does.");
  tensor.def_static(
      "from_file",
      [](nb::handle path, nb::handle shape, std::optional<DType> dtype) {
        return Tensor::from_file(
            python::path(path),
            shape.is_none() ? std::optional<Shape>() : std::optional<Shape>(python::shape(shape)),
            dtype.value_or(dtypes::uint8));
      },
      "path"_a, "shape"_a = nb::none(), "dtype"_a = nb::none(), "A tensor that is the contents of a file.");
}

}  // namespace quern::python
