#include "quern/io/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "quern/engine/realize/data.h"
#include "quern/io/bytes.h"
#include "quern/io/gguf_blocks.h"
#include "quern/io/mapped_file.h"

namespace quern::io {
namespace {

constexpr int kMostGgufDepth = 4;  // of lists in lists
constexpr uint32_t kMostGgufAxes = 4;
constexpr uint64_t kMostElements = 1 << 24;  // of a list: a byte of the file becomes a value of forty
constexpr uint64_t kMostName = 0xffff, kMostAlignment = 1 << 20;

enum GgufKind : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, Text, List, U64, I64, F64 };

// What the file says of one tensor.
struct GgufEntry {
  std::string name;
  const BlockType* type = nullptr;
  Shape shape;
  int64_t elements = 1;
  uint64_t at = 0, bytes = 0;  // from the beginning of the data
};

class GgufReader {
 public:
  GgufReader(std::span<std::byte> bytes, const std::string& name) : in_(bytes, name, "GGUF") {}

  Gguf read(const KeepAlive& keep_alive) {
    if (in_.text(4, "its first bytes") != "GGUF") in_.refuse("it does not begin with GGUF");
    const auto version = in_.number<uint32_t>("its version");
    if (version == 0x02000000 || version == 0x03000000) in_.refuse("it is big endian");
    if (version != 2 && version != 3) in_.refuse(fmt::format("version {}; quern reads 2 and 3", version));
    const auto tensors = in_.number<uint64_t>("the number of tensors");
    const auto values = in_.number<uint64_t>("the number of values");
    // Even an empty name and one byte take this much: no memory is asked for what cannot be there.
    need_room(values, 8 + 4 + 1, "values");
    Gguf file;
    for (uint64_t i = 0; i < values; i++) {
      const std::string key = text(kMostName, "a key");
      const auto kind = in_.number<uint32_t>("the kind of a value");
      if (!file.metadata.emplace(key, value(key, kind, 0)).second)
        in_.refuse(fmt::format("the key '{}' stands in it twice", key));
    }
    need_room(tensors, 8 + 4 + 4 + 8, "tensors");
    const uint64_t alignment = alignment_of(file);
    std::vector<GgufEntry> entries;
    entries.reserve(tensors);
    for (uint64_t i = 0; i < tensors; i++) entries.push_back(entry(alignment));
    const uint64_t begin = (in_.position() + alignment - 1) / alignment * alignment;
    if (entries.empty()) return file;
    in_.go_to(begin, "the data");
    const std::span<std::byte> data = in_.take(in_.left(), "the data");
    check_places(entries, data.size());
    for (const GgufEntry& e : entries)
      if (!file.tensors.emplace(e.name, tensor(e, data.subspan(e.at, e.bytes), keep_alive)).second)
        in_.refuse(fmt::format("tensor '{}' stands in it twice", e.name));
    return file;
  }

 private:
  void need_room(uint64_t count, uint64_t bytes, const char* what) const {
    if (count > in_.left() / bytes) in_.refuse(fmt::format("{} {} in {} bytes", count, what, in_.left()));
  }

  std::string text(uint64_t most, const std::string& what) {
    const auto length = in_.number<uint64_t>(what);
    if (length > most) in_.refuse(fmt::format("{} of {} bytes", what, length));
    return in_.text(length, what);
  }

  static uint64_t least_bytes(uint32_t kind) {
    switch (kind) {
      case U16:
      case I16: return 2;
      case U32:
      case I32:
      case F32: return 4;
      case Text:
      case U64:
      case I64:
      case F64: return 8;
      case List: return 12;
      default: return 1;
    }
  }

  GgufValue value(const std::string& key, uint32_t kind, int depth) {
    const auto integer = [&](auto number) -> GgufValue {
      if constexpr (std::is_signed_v<decltype(number)>)
        return {int64_t{number}};
      else
        return {uint64_t{number}};
    };
    switch (kind) {
      case U8: return integer(in_.number<uint8_t>(key));
      case I8: return integer(in_.number<int8_t>(key));
      case U16: return integer(in_.number<uint16_t>(key));
      case I16: return integer(in_.number<int16_t>(key));
      case U32: return integer(in_.number<uint32_t>(key));
      case I32: return integer(in_.number<int32_t>(key));
      case U64: return integer(in_.number<uint64_t>(key));
      case I64: return integer(in_.number<int64_t>(key));
      case F32: return {double{in_.number<float>(key)}};
      case F64: return {in_.number<double>(key)};
      case Text: return {text(in_.left(), fmt::format("'{}'", key))};
      case Bool: {
        const auto byte = in_.number<uint8_t>(key);
        if (byte > 1) in_.refuse(fmt::format("'{}' is a bool of value {}", key, byte));
        return {byte == 1};
      }
      case List: return {list(key, depth + 1)};
      default: in_.refuse(fmt::format("'{}' is of kind {}, which there is not", key, kind));
    }
  }

  std::vector<GgufValue> list(const std::string& key, int depth) {
    if (depth > kMostGgufDepth) in_.refuse(fmt::format("'{}' is nested too deeply", key));
    const auto kind = in_.number<uint32_t>(key);
    const auto count = in_.number<uint64_t>(key);
    need_room(count, least_bytes(kind), "elements of a list");
    if (count > kMostElements)
      in_.refuse(fmt::format("'{}' is a list of {} elements; {} are allowed", key, count, kMostElements));
    std::vector<GgufValue> all;
    all.reserve(count);
    for (uint64_t i = 0; i < count; i++) all.push_back(value(key, kind, depth));
    return all;
  }

  uint64_t alignment_of(const Gguf& file) const {
    const auto found = file.metadata.find("general.alignment");
    if (found == file.metadata.end()) return 32;
    const auto* const given = std::get_if<uint64_t>(&found->second.value);
    if (given == nullptr || !std::has_single_bit(*given) || *given < 8 || *given > kMostAlignment)
      in_.refuse("general.alignment is no power of two from 8 on");
    return *given;
  }

  GgufEntry entry(uint64_t alignment) {
    GgufEntry e;
    e.name = text(kMostName, "the name of a tensor");
    const auto axes = in_.number<uint32_t>(e.name);
    if (axes > kMostGgufAxes) refuse(e, fmt::format("has {} axes; {} are allowed", axes, kMostGgufAxes));
    wide elements = 1;
    int64_t row = 1;
    for (uint32_t i = 0; i < axes; i++) {
      const auto size = in_.number<uint64_t>(e.name);
      if (size > uint64_t{1} << 48) refuse(e, fmt::format("has a size of {}", size));
      elements = std::min(elements * static_cast<wide>(size), wide{1} << 60);
      if (i == 0) row = static_cast<int64_t>(size);
      e.shape.insert(e.shape.begin(), Dim(static_cast<int64_t>(size)));
    }
    const auto type = in_.number<uint32_t>(e.name);
    e.type = block_type(type);
    if (e.type == nullptr) refuse(e, fmt::format("is of type {}, which quern does not read", type));
    if (row % e.type->elements != 0)
      refuse(e, fmt::format("has rows of {}; {} has blocks of {}", row, e.type->name, e.type->elements));
    e.elements = static_cast<int64_t>(elements);
    e.bytes = static_cast<uint64_t>(elements / e.type->elements * e.type->bytes);
    e.at = in_.number<uint64_t>(e.name);
    if (e.at % alignment != 0) refuse(e, fmt::format("stands at {}, no multiple of {}", e.at, alignment));
    return e;
  }

  [[noreturn]] void refuse(const GgufEntry& e, const std::string& why) const {
    in_.refuse(fmt::format("tensor '{}' {}", e.name, why));
  }

  void check_places(const std::vector<GgufEntry>& entries, uint64_t size) const {
    std::vector<const GgufEntry*> sorted;
    for (const GgufEntry& e : entries) {
      if (e.at > size || e.bytes > size - e.at)
        refuse(e, fmt::format("has {} bytes at {} of {}: it is cut off", e.bytes, e.at, size));
      sorted.push_back(&e);
    }
    std::ranges::sort(sorted, {}, [](const GgufEntry* e) { return std::pair(e->at, e->bytes); });
    for (size_t i = 1; i < sorted.size(); i++)
      if (sorted[i]->at < sorted[i - 1]->at + sorted[i - 1]->bytes)
        refuse(*sorted[i], fmt::format("overlaps '{}'", sorted[i - 1]->name));
  }

  static Tensor tensor(const GgufEntry& e, std::span<std::byte> data, const KeepAlive& keep_alive) {
    if (e.type->values == nullptr) return tensor_in_place(data, e.shape, e.type->dtype, keep_alive);
    if (e.elements == 0) return Tensor::zeros(e.shape, {.dtype = e.type->dtype});
    const Shape blocks{e.elements / e.type->elements, e.type->bytes};
    return e.type->values(tensor_in_place(data, blocks, dtypes::uint8, keep_alive)).reshape(e.shape);
  }

  ByteReader in_;
};

}  // namespace

Gguf gguf_parse(std::span<std::byte> bytes, const std::string& name, const KeepAlive& keep_alive) {
  return GgufReader(bytes, name).read(keep_alive);
}

namespace {

Gguf load_one(const std::string& path) {
  const auto file = MappedFile::open(path);
  return gguf_parse(file->bytes(), path, file);
}

// A number of the metadata; 0 if it is not there.
int64_t number_called(const Gguf& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) return 0;
  if (const auto* number = std::get_if<int64_t>(&found->second.value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&found->second.value)) return static_cast<int64_t>(*number);
  return 0;
}

constexpr int64_t kMostParts = 99999;  // five digits

}  // namespace

Gguf gguf_load(const std::string& path) {
  Gguf file = load_one(path);
  const int64_t parts = number_called(file, "split.count");
  if (parts <= 1) return file;
  const std::string of_all = fmt::format("-of-{:05}.gguf", parts), first = "-00001" + of_all;
  if (parts > kMostParts || number_called(file, "split.no") != 0 || !path.ends_with(first))
    throw Error(fmt::format("{}: one of {} parts of a file of GGUF: give the first, which is called ...{}",
                            path, parts, first));
  const std::string stem = path.substr(0, path.size() - first.size());
  for (int64_t i = 2; i <= parts; i++) {
    const std::string name = fmt::format("{}-{:05}{}", stem, i, of_all);
    Gguf part = load_one(name);
    if (number_called(part, "split.count") != parts || number_called(part, "split.no") != i - 1)
      throw Error(fmt::format("{}: not part {} of {} of {}", name, i, parts, path));
    for (auto& [tensor, values] : part.tensors)
      if (!file.tensors.emplace(tensor, values).second)
        throw Error(fmt::format("{}: tensor '{}' stands in a part before it, too", name, tensor));
  }
  const int64_t tensors = number_called(file, "split.tensors.count");
  if (tensors != 0 && tensors != std::ssize(file.tensors))
    throw Error(fmt::format("{}: its {} parts have {} tensors, it says {}", path, parts, file.tensors.size(),
                            tensors));
  return file;
}

}  // namespace quern::io
