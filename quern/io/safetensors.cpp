#include "quern/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "quern/base/error.h"
#include "quern/base/file.h"
#include "quern/engine/realize/data.h"
#include "quern/io/bytes.h"
#include "quern/io/dtype_names.h"
#include "quern/io/mapped_file.h"

namespace quern::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostJsonHeader = 100'000'000;  // as the format has it
constexpr size_t kMostSafetensorsAxes = 64;
constexpr int kMostJsonDepth = 8;

constexpr std::array<DTypeName, 15> kSafetensorsNames = {{{"BOOL", dtypes::bool_},
                                                          {"U8", dtypes::uint8},
                                                          {"I8", dtypes::int8},
                                                          {"F8_E5M2", dtypes::fp8e5m2},
                                                          {"F8_E4M3", dtypes::fp8e4m3},
                                                          {"I16", dtypes::int16},
                                                          {"U16", dtypes::uint16},
                                                          {"F16", dtypes::float16},
                                                          {"BF16", dtypes::bfloat16},
                                                          {"I32", dtypes::int32},
                                                          {"U32", dtypes::uint32},
                                                          {"F32", dtypes::float32},
                                                          {"F64", dtypes::float64},
                                                          {"I64", dtypes::int64},
                                                          {"U64", dtypes::uint64}}};

// What the header says of one tensor.
struct SafetensorsEntry {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t begin = 0, end = 0;
};

class SafetensorsReader {
 public:
  SafetensorsReader(std::span<std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(fmt::format("{}: not a file of safetensors: {}", file_, why));
  }

  std::span<std::byte> data() const { return data_; }
  std::span<std::byte> header() const { return bytes_.subspan(8, bytes_.size() - 8 - data_.size()); }

  std::vector<SafetensorsEntry> entries(Metadata* metadata) {
    const Json header = parsed_header();
    std::vector<SafetensorsEntry> all;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__")
        read_metadata(value, metadata);
      else
        all.push_back(entry(name, value));
    }
    check_places(all);
    return all;
  }

 private:
  Json parsed_header() {
    if (bytes_.size() < 8)
      refuse(fmt::format("it has {} bytes, the length of its header alone takes 8", bytes_.size()));
    uint64_t length = 0;
    for (size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(bytes_[i]);
    if (length > kMostJsonHeader)
      refuse(fmt::format("a header of {} bytes; {} are allowed", length, kMostJsonHeader));
    if (length > bytes_.size() - 8)
      refuse(fmt::format("a header of {} bytes in a file of {}: it is cut off", length, bytes_.size()));
    const auto* const text =
        reinterpret_cast<const char*>(bytes_.data()) + 8;  // NOLINT: bytes are characters
    data_ = bytes_.subspan(8 + length);
    if (length == 0 || text[0] != '{') refuse("its header does not begin with {");
    // Names that stand twice would hide one of two tensors.
    std::vector<std::set<std::string>> keys;
    bool is_deep = false;
    std::string twice;
    const auto look = [&](int depth, nlohmann::json::parse_event_t event, Json& value) {
      if (depth > kMostJsonDepth) is_deep = true;
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
        twice = value.get<std::string>();
      return !is_deep;
    };
    Json header;
    try {
      header = Json::parse(text, text + length, look);
    } catch (const nlohmann::json::exception& e) {
      refuse(fmt::format("its header is not JSON: {}", e.what()));
    }
    if (is_deep) refuse("its header is nested too deeply");
    if (!twice.empty()) refuse(fmt::format("'{}' stands in its header twice", twice));
    if (!header.is_object()) refuse("its header is no JSON object");
    return header;
  }

  void read_metadata(const Json& value, Metadata* metadata) const {
    if (!value.is_object()) refuse("__metadata__ is no object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse(fmt::format("__metadata__: '{}' is not text", key));
      if (metadata != nullptr) metadata->emplace(key, text.get<std::string>());
    }
  }

  uint64_t natural(const Json& value, const std::string& what) const {
    if (!value.is_number_unsigned())
      refuse(fmt::format("{} is {}, expected a number from 0", what, value.dump()));
    return value.get<uint64_t>();
  }

  SafetensorsEntry entry(const std::string& name, const Json& value) const {
    const std::string who = fmt::format("tensor '{}'", name);
    if (!value.is_object()) refuse(who + " is no object");
    for (const char* field : {"dtype", "shape", "data_offsets"})
      if (!value.contains(field)) refuse(fmt::format("{} has no {}", who, field));
    if (value.size() != 3) refuse(fmt::format("{} has other fields than dtype, shape and data_offsets", who));
    SafetensorsEntry e{.name = name, .dtype = {}, .shape = {}};
    const Json& dtype = value["dtype"];
    const auto known = std::ranges::find_if(
        kSafetensorsNames, [&](const DTypeName& n) { return dtype.is_string() && dtype == n.text; });
    if (known == kSafetensorsNames.end())
      refuse(fmt::format("{} has the dtype {}, which quern does not know", who, dtype.dump()));
    e.dtype = known->dtype;
    const Json &shape = value["shape"], &offsets = value["data_offsets"];
    if (!shape.is_array() || shape.size() > kMostSafetensorsAxes)
      refuse(who + ": its shape is no list of sizes");
    wide bytes = e.dtype.bytes();
    bool empty = false;
    for (const Json& size : shape) {
      const uint64_t n = natural(size, who + ": a size");
      if (n > uint64_t{1} << 48) refuse(fmt::format("{} has a size of {}", who, n));
      empty = empty || n == 0;
      bytes = std::min(bytes * static_cast<wide>(std::max<uint64_t>(n, 1)), wide{1} << 62);
      e.shape.emplace_back(static_cast<int64_t>(n));
    }
    if (empty) bytes = 0;
    if (!offsets.is_array() || offsets.size() != 2) refuse(who + ": data_offsets are not two numbers");
    e.begin = natural(offsets[0], who + ": an offset");
    e.end = natural(offsets[1], who + ": an offset");
    if (e.begin > e.end || e.end > data_.size())
      refuse(fmt::format("{} stands at {} to {} of {} bytes", who, e.begin, e.end, data_.size()));
    if (static_cast<wide>(e.end - e.begin) != bytes)
      refuse(fmt::format("{} has {} bytes, its shape needs {}", who, e.end - e.begin,
                         static_cast<uint64_t>(bytes)));
    return e;
  }

  // One behind the other, without gaps: what nobody refers to could hide something.
  void check_places(const std::vector<SafetensorsEntry>& all) const {
    std::vector<const SafetensorsEntry*> sorted;
    sorted.reserve(all.size());
    for (const SafetensorsEntry& e : all) sorted.push_back(&e);
    std::ranges::sort(sorted, [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
      return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
    });
    uint64_t at = 0;
    for (const SafetensorsEntry* e : sorted) {
      if (e->begin < at) refuse(fmt::format("tensor '{}' overlaps another one", e->name));
      if (e->begin > at)
        refuse(fmt::format("nothing stands at {} to {}, before tensor '{}'", at, e->begin, e->name));
      at = e->end;
    }
    if (at != data_.size()) refuse(fmt::format("{} bytes behind the last tensor", data_.size() - at));
  }

  std::span<std::byte> bytes_, data_;
  const std::string& file_;
};

const char* name_of(DType dtype, const std::string& tensor) {
  for (const DTypeName& n : kSafetensorsNames)
    if (n.dtype == dtype) return n.text;
  throw DTypeError(fmt::format("safe_save: tensor '{}' is {}, which files of safetensors do not hold", tensor,
                               dtype.name()));
}

NamedTensors parse_in_order(std::span<std::byte> bytes, const std::string& name, const KeepAlive& keep_alive,
                            Metadata* metadata) {
  SafetensorsReader reader(bytes, name);
  NamedTensors all;
  for (const SafetensorsEntry& e : reader.entries(metadata))
    all.emplace_back(e.name, tensor_in_place(reader.data().subspan(e.begin, e.end - e.begin), e.shape,
                                             e.dtype, keep_alive));
  return all;
}

}  // namespace

StateDict safe_parse(std::span<std::byte> bytes, const std::string& name, const KeepAlive& keep_alive,
                     Metadata* metadata) {
  const NamedTensors all = parse_in_order(bytes, name, keep_alive, metadata);
  return {all.begin(), all.end()};
}

StateDict safe_load(const std::string& path) {
  const auto file = MappedFile::open(path);
  return safe_parse(file->bytes(), path, file);
}

NamedTensors safe_load_in_order(const std::string& path) {
  const auto file = MappedFile::open(path);
  return parse_in_order(file->bytes(), path, file, nullptr);
}

std::string safe_load_header(const std::string& path) {
  const auto file = MappedFile::open(path);
  SafetensorsReader reader(file->bytes(), path);
  reader.entries(nullptr);
  return std::string(text_of(reader.header()));
}

Metadata safe_load_metadata(const std::string& path) {
  const auto file = MappedFile::open(path);
  Metadata metadata;
  SafetensorsReader(file->bytes(), path).entries(&metadata);
  return metadata;
}

void safe_save(const StateDict& tensors, const std::string& path, const Metadata& metadata) {
  safe_save_in_order({tensors.begin(), tensors.end()}, path, metadata);
}

void safe_save_in_order(const NamedTensors& tensors, const std::string& path, const Metadata& metadata) {
  // Wider dtypes first, as the format's own library does it, so that each stands where its dtype may stand.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(),
                           [&](size_t i) { return tensors[i].second.dtype().bytes(); });
  std::vector<Json> entries(tensors.size());
  std::set<std::string> names;
  uint64_t at = 0;
  std::vector<Tensor> wanted;
  for (const size_t i : order) {
    const auto& [name, tensor] = tensors[i];
    if (name == "__metadata__") throw Error("safe_save: a tensor cannot be called __metadata__");
    if (!names.insert(name).second) throw Error(fmt::format("safe_save: there are two tensors '{}'", name));
    Json shape = Json::array();
    uint64_t bytes = static_cast<uint64_t>(tensor.dtype().bytes());
    for (const Dim& d : tensor.shape()) {
      if (d.is_symbolic()) throw ShapeError(fmt::format("safe_save: tensor '{}' has a symbolic size", name));
      shape.push_back(d.value());
      bytes *= static_cast<uint64_t>(d.value());
    }
    entries[i] = {
        {"dtype", name_of(tensor.dtype(), name)}, {"shape", shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
    wanted.push_back(tensor);
  }
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (size_t i = 0; i < tensors.size(); i++) header[tensors[i].first] = std::move(entries[i]);
  Tensor::realize_all(wanted);
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error("safe_save: a name is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::array<std::byte, 8> length{};
  for (size_t i = 0; i < 8; i++) length[i] = static_cast<std::byte>(text.size() >> (8 * i));
  NewFile file(path);
  file.write(length);
  file.write(std::as_bytes(std::span(text)));
  for (const Tensor& tensor : wanted) file.write(tensor.bytes());
  file.finish();
}

}  // namespace quern::io
