// Tensors of what Python has: numbers, lists, bytes, arrays.
#include <cstring>

#include "python/src/arrays.h"

namespace quern::python {

namespace {

constexpr size_t kMostAxes = 64;

// What is in nested lists. Code of Python that is called on the way may change them, so each is read once.
struct Leaves {
  Ints shape;
  std::vector<nb::object> numbers;
  bool all_bool = true, any_float = false, others = false;  // others: tensors, arrays
  std::string wrong;                                        // why they are no tensor of numbers

  void refuse(const std::string& why) {
    if (wrong.empty()) wrong = why;
  }
};

void collect_leaf(nb::handle h, size_t depth, Leaves& all) {
  if (!is_number(h)) {
    all.others = true;
    return;
  }
  if (depth != all.shape.size()) all.refuse("lists of different depths make no tensor");
  const bool has_no_fraction = is_bool(h) || PyIndex_Check(h.ptr()) != 0;
  all.all_bool = all.all_bool && is_bool(h);
  all.any_float = all.any_float || !has_no_fraction;
  all.numbers.push_back(nb::borrow(h));
}

void collect(nb::handle h, size_t depth, Leaves& all) {
  if (!is_sequence(h)) return collect_leaf(h, depth, all);
  if (depth > kMostAxes) throw ShapeError("lists within lists, more than 64 deep");
  const auto length = static_cast<int64_t>(nb::len(h));
  if (depth < all.shape.size()) {
    if (length != all.shape[depth])
      all.refuse("lists of different lengths make no tensor: " + std::to_string(all.shape[depth]) + " and " +
                 std::to_string(length) + " on axis " + std::to_string(depth));
  } else if (all.numbers.empty()) {
    all.shape.push_back(length);
  } else {
    all.refuse("lists of different depths make no tensor");
  }
  int64_t count = 0;
  for (nb::handle part : nb::borrow<nb::sequence>(h)) {
    if (++count > length) break;
    collect(part, depth + 1, all);
  }
  if (count != length)
    throw ShapeError("a list says that it has " + std::to_string(length) + " elements, and gives " +
                     (count < length ? std::to_string(count) : "more"));
}

uint64_t bits_of(const Operand& number, nb::handle h, DType dtype) {
  if (number.is_tensor()) wrong_type("numbers in a list", h);
  return to_bits(number.constant(dtype).value(), dtype);
}

Tensor from_lists(nb::handle data, std::optional<DType> dtype, const std::string& device) {
  Leaves all;
  collect(data, 0, all);
  if (all.others) {
    std::vector<Tensor> parts;
    for (nb::handle part : nb::borrow<nb::sequence>(data)) {
      if (part.is_none()) wrong_type("numbers or tensors in a list", part);
      parts.push_back(tensor_of(part, dtype, device));
    }
    return Tensor::stack(parts);
  }
  if (!all.wrong.empty()) throw ShapeError(all.wrong);
  const DType type = dtype                 ? *dtype
                     : all.numbers.empty() ? default_float()
                     : all.all_bool        ? dtypes::bool_
                     : all.any_float       ? default_float()
                                           : default_int();
  const auto size = static_cast<size_t>(type.bytes());
  std::vector<std::byte> bytes(all.numbers.size() * size);
  for (size_t i = 0; i < all.numbers.size(); i++) {
    if (type == dtypes::float32 && PyFloat_Check(all.numbers[i].ptr()) != 0) {
      const auto value = static_cast<float>(PyFloat_AsDouble(all.numbers[i].ptr()));
      std::memcpy(bytes.data() + i * size, &value, size);
      continue;
    }
    const Operand number = operand(all.numbers[i]);
    const uint64_t bits = bits_of(dtype ? cast_to(number, type) : number, all.numbers[i], type);
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return Tensor::from_bytes(bytes.data(), bytes.size(), Shape(all.shape.begin(), all.shape.end()), type,
                            device);
}

Tensor from_raw(nb::handle data, DType dtype, const std::string& device) {
  const nb::bytes bytes(data);
  const auto size = static_cast<size_t>(dtype.bytes());
  if (bytes.size() % size != 0)
    throw ShapeError(std::to_string(bytes.size()) + " bytes are no multiple of the " + std::to_string(size) +
                     " of " + dtype.name());
  return Tensor::from_bytes(bytes.data(), bytes.size(), {Dim(bytes.size() / size)}, dtype, device);
}

}  // namespace

Operand cast_to(const Operand& number, DType dtype) {
  if (number.is_tensor() || number.is_bool() || !(dtype.is_int() || dtype.is_bool())) return number;
  if (dtype.is_bool())
    return number.is_int() ? number.integer() != 0 : number.constant(dtypes::float64).value().as_float() != 0;
  if (number.is_float()) {
    const Const cast = convert(number.constant(dtypes::float64).value(), dtypes::float64, dtype);
    return dtype.is_unsigned() ? wide{static_cast<uint64_t>(cast.as_int())} : wide{cast.as_int()};
  }
  const wide least = int_min(dtype), values = int_max(dtype) - least + 1;
  return least + ((number.integer() - least) % values + values) % values;
}

Tensor tensor_of(nb::handle data, std::optional<DType> dtype, const std::string& device) {
  let_go();
  const auto converted = [&](const Tensor& t) {
    const Tensor moved = device.empty() || t.device().empty() ? t : t.to(device);
    return dtype && *dtype != moved.dtype() ? moved.cast(*dtype) : moved;
  };
  if (data.is_none()) return Tensor::zeros({0}, {.dtype = dtype, .device = device});
  if (is_tensor(data)) return converted(instance<Tensor>(data));
  if (is_number(data)) {
    const Operand given = operand(data), number = dtype ? cast_to(given, *dtype) : given;
    const DType own =
        is_numpy_scalar(data) ? python::dtype(dtype_of_numpy(data).attr("name")) : number.dtype();
    Tensor made = Tensor::full({}, number, {.dtype = dtype.value_or(own), .device = device});
    made.state()->is_number = !dtype && !is_numpy_scalar(data);
    return made;
  }
  if (is_sequence(data)) return from_lists(data, dtype, device);
  if (nb::isinstance<nb::bytes>(data) || nb::isinstance<nb::bytearray>(data))
    return from_raw(data, dtype.value_or(dtypes::uint8), device);
  if (nb::isinstance<UOp>(data)) return converted(tensor_of_node(instance<UOp>(data)));
  if (nb::hasattr(data.type(), "__fspath__"))
    return converted(Tensor::from_file(path(data), {}, dtype.value_or(dtypes::uint8)));
  return converted(copy_of(array_of(data), device));
}

}  // namespace quern::python
