#include "quern/io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "quern/base/error.h"
#include "quern/base/file.h"
#include "quern/engine/realize/data.h"
#include "quern/io/dtype_names.h"
#include "quern/io/mapped_file.h"
#include "quern/io/npy_header.h"
#include "quern/io/zip.h"

namespace quern::io {
namespace {

// Kind and bytes.
constexpr std::array<DTypeName, 12> kNpyNames = {{{"b1", dtypes::bool_},
                                                  {"i1", dtypes::int8},
                                                  {"u1", dtypes::uint8},
                                                  {"i2", dtypes::int16},
                                                  {"u2", dtypes::uint16},
                                                  {"i4", dtypes::int32},
                                                  {"u4", dtypes::uint32},
                                                  {"i8", dtypes::int64},
                                                  {"u8", dtypes::uint64},
                                                  {"f2", dtypes::float16},
                                                  {"f4", dtypes::float32},
                                                  {"f8", dtypes::float64}}};

DType dtype_of(const std::string& text, const ByteReader& in) {
  for (const DTypeName& n : kNpyNames) {
    const bool has_order = n.dtype.bytes() > 1;
    if (!text.empty() && text.substr(1) == n.text &&
        (has_order ? text[0] == '<' || text[0] == '>' : text[0] == '|' || text[0] == '<' || text[0] == '>'))
      return n.dtype;
  }
  in.refuse(fmt::format("an array of dtype '{}', which quern does not have", text));
}

std::string text_of_dtype(DType dtype, const std::string& who) {
  for (const DTypeName& n : kNpyNames)
    if (n.dtype == dtype) return (dtype.bytes() > 1 ? "<" : "|") + std::string(n.text);
  throw DTypeError(fmt::format("{} is {}, which NumPy does not have; cast it", who, dtype.name()));
}

// The same numbers with their bytes the other way round.
Tensor transposed(std::span<const std::byte> bytes, const Shape& shape, DType dtype) {
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  const auto width = static_cast<std::ptrdiff_t>(dtype.bytes());
  for (auto at = copy->begin(); at != copy->end(); at += width) std::reverse(at, at + width);
  return tensor_in_place(*copy, shape, dtype, copy);
}

// A header as NumPy writes it: padded, so that the numbers begin at a multiple of 64.
std::string header_of(const Tensor& tensor, const std::string& who) {
  std::string shape;
  for (const Dim& d : tensor.shape()) {
    if (d.is_symbolic()) throw ShapeError(fmt::format("{} has a symbolic size", who));
    shape += fmt::format("{}, ", d.value());
  }
  if (tensor.ndim() > 1) shape.resize(shape.size() - 2);
  if (tensor.ndim() == 1) shape.pop_back();
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 text_of_dtype(tensor.dtype(), who), shape);
  const size_t before = 10;
  text.append(63 - (before + text.size()) % 64, ' ');
  text += '\n';
  if (text.size() > 0xffff) throw ShapeError(fmt::format("{} has too many axes", who));
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(text.size() & 0xff) +
         static_cast<char>(text.size() >> 8) + text;
}

}  // namespace

Tensor npy_parse(std::span<std::byte> bytes, const std::string& name, const KeepAlive& keep_alive) {
  ByteReader in(bytes, name, "NumPy");
  const NpyHeader header = read_npy_header(in);
  const DType dtype = dtype_of(header.dtype, in);
  Shape shape(header.shape.begin(), header.shape.end());
  wide size = dtype.bytes();
  for (const int64_t n : header.shape) size = std::min(size * n, wide{1} << 62);  // all sizes are from 0
  if (size != static_cast<wide>(in.left()))
    in.refuse(fmt::format("{} bytes of numbers, its shape {} of {} needs {}", in.left(), shape_text(shape),
                          dtype.name(), static_cast<uint64_t>(size)));
  const auto numbers = in.take(in.left(), "the numbers");
  if (header.is_fortran_order) std::ranges::reverse(shape);
  Tensor tensor = header.dtype[0] == '>' && dtype.bytes() > 1
                      ? transposed(numbers, shape, dtype)
                      : tensor_in_place(numbers, shape, dtype, keep_alive);
  if (!header.is_fortran_order) return tensor;
  Ints order;
  for (int64_t a = tensor.ndim(); a-- > 0;) order.push_back(a);
  return tensor.permute(order);
}

StateDict npz_parse(std::span<std::byte> bytes, const std::string& name, const KeepAlive& keep_alive) {
  StateDict all;
  for (const ZipEntry& entry : zip_entries(bytes, name)) {
    const std::string inside = fmt::format("{}: {}", name, entry.name);
    if (!entry.name.ends_with(".npy")) throw Error(fmt::format("{}: it is no array of NumPy", inside));
    const Held held = unpacked(entry, name, keep_alive, true);
    all.emplace(entry.name.substr(0, entry.name.size() - 4), npy_parse(held.bytes, inside, held.keep_alive));
  }
  return all;
}

Tensor npy_load(const std::string& path) {
  const auto file = MappedFile::open(path);
  return npy_parse(file->bytes(), path, file);
}

StateDict npz_load(const std::string& path) {
  const auto file = MappedFile::open(path);
  return npz_parse(file->bytes(), path, file);
}

void npy_save(const Tensor& tensor, const std::string& path) {
  const std::string header = header_of(tensor, "npy_save: the tensor");
  const std::vector<std::byte> numbers = tensor.bytes();
  NewFile file(path);
  file.write(std::as_bytes(std::span(header)));
  file.write(numbers);
  file.finish();
}

void npz_save(const StateDict& tensors, const std::string& path) {
  std::vector<std::string> headers;
  std::vector<Tensor> wanted;
  for (const auto& [name, tensor] : tensors) {
    headers.push_back(header_of(tensor, fmt::format("npz_save: tensor '{}'", name)));
    wanted.push_back(tensor);
  }
  Tensor::realize_all(wanted);
  ZipWriter file(path);
  for (size_t i = 0; const auto& [name, tensor] : tensors) {
    const std::vector<std::byte> numbers = tensor.bytes();
    const std::array<std::span<const std::byte>, 2> parts = {std::as_bytes(std::span(headers[i++])), numbers};
    file.add(name + ".npy", parts);
  }
  file.finish();
}

}  // namespace quern::io
