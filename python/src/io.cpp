// Files of tensors.
#include <nanobind/stl/map.h>

#include "python/src/bind.h"
#include "quern/io/gguf.h"
#include "quern/io/npy.h"
#include "quern/io/safetensors.h"
#include "quern/io/torch.h"
#include "quern/tensor/core/support.h"

namespace quern::python {
namespace {

using namespace nb::literals;

// A path, or a tensor that is a file.
std::string path_of(nb::handle h) {
  if (is_tensor(h)) {
    const std::string device = instance<Tensor>(h).device();
    if (device.starts_with("DISK:")) return device.substr(5);
    throw Error("expected a path, or a tensor that is a file (Tensor(path)), got a tensor on " + device);
  }
  return path(h);
}

template <class Named>
nb::dict by_name(const Named& tensors) {
  nb::dict all;
  for (const auto& [name, tensor] : tensors) all[text_object(name)] = tensor;
  return all;
}

nb::object value_of(const io::GgufValue& v) {
  if (const auto* list = std::get_if<std::vector<io::GgufValue>>(&v.value)) {
    nb::list all;
    for (const io::GgufValue& part : *list) all.append(value_of(part));
    return all;
  }
  return std::visit(
      [](const auto& x) -> nb::object {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::string>)
          return text_object(x);
        else if constexpr (std::is_same_v<T, std::vector<io::GgufValue>>)
          return nb::none();
        else
          return nb::cast(x);
      },
      v.value);
}

// Of a path, of a tensor that is a file, or of one of the bytes of a file.
io::Gguf gguf_of(nb::handle given) {
  if (!is_tensor(given) || instance<Tensor>(given).device().starts_with("DISK:")) {
    const std::string path = path_of(given);
    return without_lock([&] { return io::gguf_load(path); });
  }
  const Tensor& x = instance<Tensor>(given);
  if (x.dtype() != dtypes::uint8 || x.ndim() != 1)
    throw DTypeError("gguf_load: expected the bytes of a file, uint8 along one axis, got " + detail::text(x));
  const auto bytes = std::make_shared<std::vector<std::byte>>(x.bytes());
  return io::gguf_parse(*bytes, "a tensor", bytes);
}

// In the order of the dictionary.
io::NamedTensors named_tensors(const nb::mapping& tensors) {
  if (!nb::hasattr(tensors, "items")) throw nb::type_error("safe_save: expected a dictionary of tensors");
  io::NamedTensors all;
  for (const nb::handle item : tensors.items()) {
    const nb::object name = item[0], tensor = item[1];
    if (!nb::isinstance<nb::str>(name) || !is_tensor(tensor))
      throw nb::type_error(nb::str("safe_save: expected tensors by name, got {!r}: {}")
                               .format(name, tensor.type().attr("__name__"))
                               .c_str());
    all.emplace_back(text(name, "a name"), instance<Tensor>(tensor));
  }
  return all;
}

// What was saved, of the objects before it.
nb::object object_of(const io::TorchItems& container, const std::vector<nb::object>& objects) {
  using Kind = io::TorchItems::Kind;
  const std::vector<uint32_t>& items = container.items;
  if (container.kind == Kind::Dict) {
    nb::dict all;
    for (size_t i = 0; i < items.size(); i += 2) all[objects[items[i]]] = objects[items[i + 1]];
    return all;
  }
  nb::list all;
  for (const uint32_t i : items) all.append(objects[i]);
  switch (container.kind) {
    case Kind::Tuple: return nb::tuple(all);
    case Kind::Set: return nb::steal(PySet_New(all.ptr()));
    case Kind::FrozenSet: return nb::steal(PyFrozenSet_New(all.ptr()));
    default: return all;
  }
}

nb::object object_of(const io::TorchValues& values) {
  std::vector<nb::object> objects;
  objects.reserve(values.size());
  for (const io::TorchValue& v : values)
    objects.push_back(std::visit(
        [&](const auto& x) -> nb::object {
          using T = std::decay_t<decltype(x)>;
          if constexpr (std::is_same_v<T, std::monostate>)
            return nb::none();
          else if constexpr (std::is_same_v<T, std::string>)
            return text_object(x);
          else if constexpr (std::is_same_v<T, io::TorchBytes>)
            return nb::bytes(x.bytes.data(), x.bytes.size());
          else if constexpr (std::is_same_v<T, io::TorchItems>)
            return object_of(x, objects);
          else
            return nb::cast(x);
        },
        v));
  return objects.back();
}

}  // namespace

void bind_io(nb::module_& m) {
  m.def(
      "safe_load",
      [](nb::handle fn) {
        const std::string path = path_of(fn);
        return by_name(without_lock([&] { return io::safe_load_in_order(path); }));
      },
      "fn"_a, "The tensors of a file of safetensors, by name.");
  m.def(
      "npz_load",
      [](nb::handle fn) {
        const std::string path = path_of(fn);
        return by_name(without_lock([&] { return io::npz_load(path); }));
      },
      "fn"_a, "The arrays of a file .npz, by name.");
  m.def(
      "torch_load",
      [](nb::handle t) {
        const std::string path = path_of(t);
        return object_of(without_lock([&] { return io::torch_load_nested(path); }));
      },
      "t"_a,
      "What torch.save was given, nested as it was: dictionaries, lists, tensors, numbers, texts. Nothing of "
      "the "
      "file is run.");
  m.def(
      "safe_load_metadata",
      [](nb::handle t) {
        const std::string path = path_of(t);
        const std::string header = without_lock([&] { return io::safe_load_header(path); });
        const nb::object file =
            is_tensor(t)
                ? nb::borrow(t)
                : nb::type<Tensor>()(nb::module_::import_("pathlib").attr("Path")(path_object(path)));
        return nb::make_tuple(file, 8 + header.size(), nb::module_::import_("json").attr("loads")(header));
      },
      "t"_a,
      "A file of safetensors: its bytes as a tensor, where in them the data begins, and its header: what it "
      "says of "
      "each tensor, and __metadata__.");
  m.def(
      "safe_save",
      [](const nb::typed<nb::mapping, std::string, Tensor>& tensors, nb::handle fn,
         const std::optional<io::Metadata>& metadata) {
        const std::string path = path_of(fn);
        const io::NamedTensors all = named_tensors(tensors);
        without_lock([&] { io::safe_save_in_order(all, path, metadata.value_or(io::Metadata())); });
      },
      "tensors"_a, "fn"_a, "metadata"_a = nb::none(), "Writes tensors as a file of safetensors.");
  m.def(
      "gguf_load",
      [](nb::handle fn) {
        const io::Gguf file = gguf_of(fn);
        nb::dict metadata;
        for (const auto& [name, value] : file.metadata) metadata[text_object(name)] = value_of(value);
        return nb::make_tuple(metadata, by_name(file.tensors));
      },
      "fn"_a,
      "What a file of GGUF says of its model, and its tensors by name. Of a model in several files the first "
      "is "
      "given, or a tensor of the bytes of a file.");
  m.def(
      "npy_load", [](nb::handle fn) { return io::npy_load(path_of(fn)); }, "fn"_a,
      "The array of a file .npy.");
  m.def(
      "npy_save",
      [](const Tensor& t, nb::handle fn) {
        const std::string path = path_of(fn);
        without_lock([&] { io::npy_save(t, path); });
      },
      "tensor"_a, "fn"_a, "Writes a file .npy.");
}

}  // namespace quern::python
