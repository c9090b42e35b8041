#include "quern/io/torch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "quern/base/error.h"
#include "quern/engine/realize/data.h"
#include "quern/io/dtype_names.h"
#include "quern/io/looks_like.h"
#include "quern/io/mapped_file.h"
#include "quern/io/pickle.h"
#include "quern/io/strided.h"
#include "quern/io/zip.h"

namespace quern::io {
namespace {

using Kind = Pickled::Kind;

constexpr int kMostPickleDepth = 64;
// Names for each reference in a file: a list may contain a list twice that contains a list twice ...
constexpr uint64_t kMostNames = 16;
constexpr uint64_t kMostCopies = 16;  // of each byte of a pickle

constexpr std::array<DTypeName, 10> kStorages = {{{"torch.FloatStorage", dtypes::float32},
                                                  {"torch.DoubleStorage", dtypes::float64},
                                                  {"torch.HalfStorage", dtypes::float16},
                                                  {"torch.BFloat16Storage", dtypes::bfloat16},
                                                  {"torch.LongStorage", dtypes::int64},
                                                  {"torch.IntStorage", dtypes::int32},
                                                  {"torch.ShortStorage", dtypes::int16},
                                                  {"torch.CharStorage", dtypes::int8},
                                                  {"torch.ByteStorage", dtypes::uint8},
                                                  {"torch.BoolStorage", dtypes::bool_}}};
constexpr const char* kUntyped = "torch.storage.UntypedStorage";  // its dtype stands with the tensor
constexpr std::array<DTypeName, 15> kDTypes = {{{"torch.float32", dtypes::float32},
                                                {"torch.float64", dtypes::float64},
                                                {"torch.float16", dtypes::float16},
                                                {"torch.bfloat16", dtypes::bfloat16},
                                                {"torch.float8_e4m3fn", dtypes::fp8e4m3},
                                                {"torch.float8_e5m2", dtypes::fp8e5m2},
                                                {"torch.int64", dtypes::int64},
                                                {"torch.int32", dtypes::int32},
                                                {"torch.int16", dtypes::int16},
                                                {"torch.int8", dtypes::int8},
                                                {"torch.uint64", dtypes::uint64},
                                                {"torch.uint32", dtypes::uint32},
                                                {"torch.uint16", dtypes::uint16},
                                                {"torch.uint8", dtypes::uint8},
                                                {"torch.bool", dtypes::bool_}}};

constexpr const char *kTensor = "torch._utils._rebuild_tensor_v2",
                     *kTensorOfDType = "torch._utils._rebuild_tensor_v3",
                     *kParameter = "torch._utils._rebuild_parameter",
                     *kParameterWithState = "torch._utils._rebuild_parameter_with_state",
                     *kOfClass = "torch._tensor._rebuild_from_type_v2";
constexpr const char *kSize = "torch.Size", *kDevice = "torch.device", *kEncoded = "_codecs.encode";
// Besides storages, dtypes and tensors: containers, and values that are no tensors.
constexpr std::array<const char*, 18> kHarmless = {"collections.OrderedDict",
                                                   "collections.defaultdict",
                                                   "builtins.set",
                                                   "builtins.frozenset",
                                                   "builtins.list",
                                                   "builtins.dict",
                                                   "builtins.int",
                                                   "builtins.float",
                                                   "__builtin__.set",
                                                   "__builtin__.frozenset",
                                                   "__builtin__.list",
                                                   "__builtin__.dict",
                                                   "__builtin__.int",
                                                   "__builtin__.float",
                                                   kEncoded,
                                                   kSize,
                                                   kDevice,
                                                   "torch.Tensor"};

template <size_t count>
std::optional<DType> dtype_in(const std::array<DTypeName, count>& names, const std::string& text) {
  for (const DTypeName& n : names)
    if (text == n.text) return n.dtype;
  return std::nullopt;
}

bool is_tensor_maker(const std::string& global) {
  return global == kTensor || global == kTensorOfDType || global == kParameter ||
         global == kParameterWithState || global == kOfClass;
}

bool is_allowed(const std::string& global) {
  return is_tensor_maker(global) || std::ranges::count(kHarmless, global) > 0 || global == kUntyped ||
         global == "torch.nn.parameter.Parameter" || dtype_in(kStorages, global) || dtype_in(kDTypes, global);
}

class Checkpoint {
 public:
  Checkpoint(std::span<std::byte> bytes, const std::string& file, const KeepAlive& keep_alive)
      : file_(file), keep_alive_(keep_alive), in_({}, file, "PyTorch") {
    if (bytes.size() >= 2 && std::to_integer<int>(bytes[0]) == 0x80)
      in_.refuse(
          "it is of PyTorch before 1.6, or was saved with _use_new_zipfile_serialization=False; save it "
          "again");
    for (ZipEntry& entry : zip_entries(bytes, file)) entries_.emplace(entry.name, std::move(entry));
    find_folder();
    if (const ZipEntry* order = entry("byteorder");
        order != nullptr && text_of(unpacked(*order, file_, keep_alive_, true).bytes) != "little")
      in_.refuse("it is not little endian");
    const Held held = unpacked(*entry("data.pkl"), file_, keep_alive_, true);
    ByteReader in(held.bytes, file, "PyTorch");
    pickle_ = read_pickle(in, is_allowed);
    pickle_size_ = held.bytes.size();
  }

  TorchValues nested() {
    places_.resize(pickle_.values.size());
    place("", pickle_.root, 0);
    return std::move(values_);
  }

  StateDict tensors() {
    const TorchValues all = nested();
    StateDict found;
    collect("", all, all.size() - 1, found);
    return found;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { in_.refuse(why); }

  const ZipEntry* entry(const std::string& name) const {
    const auto found = entries_.find(folder_ + name);
    return found == entries_.end() ? nullptr : &found->second;
  }

  // All of it stands in a folder, which is called as the file once was.
  void find_folder() {
    for (const auto& [name, e] : entries_) {
      const size_t slash = name.find('/');
      if (slash == std::string::npos || name.substr(slash) != "/data.pkl") continue;
      folder_ = name.substr(0, slash + 1);
      return;
    }
    refuse("there is no data.pkl in it");
  }

  static std::string joined(const std::string& before, const std::string& name) {
    return before.empty() ? name : before + "." + name;
  }

  // ---- Names with dots

  void collect(const std::string& path, const TorchValues& all, size_t at, StateDict& found) {
    if (++names_ > kMostNames * (all.size() + references_)) refuse("its values contain each other too often");
    if (const auto* tensor = std::get_if<Tensor>(&all[at])) {
      if (!found.emplace(path, *tensor).second) refuse(fmt::format("there are two tensors '{}'", path));
      return;
    }
    const auto* container = std::get_if<TorchItems>(&all[at]);
    if (container == nullptr) return;
    const std::vector<uint32_t>& items = container->items;
    switch (container->kind) {
      case TorchItems::Kind::List:
      case TorchItems::Kind::Tuple:
        for (size_t i = 0; i < items.size(); i++)
          collect(joined(path, std::to_string(i)), all, items[i], found);
        break;
      case TorchItems::Kind::Dict:
        for (size_t i = 0; i < items.size(); i += 2)
          collect(joined(path, key(all[items[i]], path)), all, items[i + 1], found);
        break;
      case TorchItems::Kind::Set:
      case TorchItems::Kind::FrozenSet: break;  // without order, so without names
    }
  }

  std::string key(const TorchValue& value, const std::string& path) const {
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
    refuse(fmt::format("the dictionary '{}' has a key that is neither a text nor an integer", path));
  }

  // ---- Values

  struct ValueState {
    enum class State : uint8_t { New, Open, Done } state = State::New;
    bool is_key = false;  // it may be the key of a dictionary: it never changes
    uint32_t at = 0;
    int height = 0;  // of what is nested in it
  };

  // Where the value stands, which is made when it is met first, and stands behind all that it refers to.
  const ValueState& place(const std::string& path, uint32_t of, int depth) {
    if (const Pickled& v = pickle_[of]; v.kind == Kind::Call && pickle_[v.items[0]].text == kSize) {
      argument(path, pickle_[v.items[1]], 0, Kind::Tuple);
      of = pickle_[v.items[1]].items[0];
    }
    ValueState& p = places_[of];
    if (p.state == ValueState::State::Open) refuse(fmt::format("'{}' contains itself", path));
    if (depth + p.height > kMostPickleDepth) refuse(fmt::format("'{}' is nested too deeply", path));
    if (p.state == ValueState::State::Done) return p;
    p.state = ValueState::State::Open;
    TorchValue made = value(path, of, depth, p);
    p.at = static_cast<uint32_t>(values_.size());
    p.state = ValueState::State::Done;
    values_.push_back(std::move(made));
    return p;
  }

  TorchValue value(const std::string& path, uint32_t of, int depth, ValueState& p) {
    const Pickled& v = pickle_[of];
    p.is_key = true;
    switch (v.kind) {
      case Kind::None: return std::monostate();
      case Kind::Bool: return v.integer != 0;
      case Kind::Int: return v.integer;
      case Kind::Float: return v.number;
      case Kind::Text: return v.text;
      case Kind::Bytes: return TorchBytes{v.text};
      case Kind::Tuple: return items(path, v, TorchItems::Kind::Tuple, depth, p);
      case Kind::FrozenSet: return items(path, v, TorchItems::Kind::FrozenSet, depth, p);
      case Kind::List: return items(path, v, TorchItems::Kind::List, depth, p);
      case Kind::Set: return items(path, v, TorchItems::Kind::Set, depth, p);
      case Kind::Dict: return items(path, v, TorchItems::Kind::Dict, depth, p);
      case Kind::Global:
        if (const auto dtype = dtype_in(kDTypes, v.text)) return *dtype;
        return v.text;
      case Kind::Persistent: p.is_key = false; return storage(path, v, std::nullopt, dtypes::uint8);
      case Kind::Call: break;
    }
    const std::string& function = pickle_[v.items[0]].text;
    const Pickled& arguments = pickle_[v.items[1]];
    p.is_key = !is_tensor_maker(function);
    if (is_tensor_maker(function)) return tensor(path, v.items[0], v.items[1]);
    if (function != kDevice && function != kEncoded)
      refuse(fmt::format("'{}' is made by '{}'", path, function));
    const std::string& text = argument(path, arguments, 0, Kind::Text).text;
    copies_ += text.size();  // calls may share it; what they make of it is theirs
    if (copies_ > kMostCopies * pickle_size_) refuse("its pickle copies a text too often");
    if (function == kEncoded) return TorchBytes{encoded(path, text)};
    if (arguments.items.size() == 1) return text;
    return fmt::format("{}:{}", text, argument(path, arguments, 1, Kind::Int).integer);
  }

  TorchItems items(const std::string& path, const Pickled& v, TorchItems::Kind kind, int depth,
                   ValueState& p) {
    const bool is_dict = kind == TorchItems::Kind::Dict;
    const bool is_set = kind == TorchItems::Kind::Set || kind == TorchItems::Kind::FrozenSet;
    p.is_key = kind == TorchItems::Kind::Tuple || kind == TorchItems::Kind::FrozenSet;
    TorchItems made{.kind = kind, .items = {}};
    made.items.reserve(v.items.size());
    for (size_t i = 0; i < v.items.size(); i++) {
      const ValueState& inner =
          place(shown(path, is_dict ? &pickle_[v.items[i / 2 * 2]] : nullptr, i), v.items[i], depth + 1);
      if (!inner.is_key && (is_set || (is_dict && i % 2 == 0)))
        refuse(fmt::format("the {} '{}' has a {} as a key", is_set ? "set" : "dictionary", path,
                           io::name(pickle_[v.items[i]].kind)));
      p.is_key = p.is_key && inner.is_key;
      p.height = std::max(p.height, inner.height + 1);
      made.items.push_back(inner.at);
    }
    references_ += made.items.size();
    return made;
  }

  // The path of an item for errors. A name that many paths share may be long: they end where nobody reads on.
  static std::string shown(const std::string& path, const Pickled* key, size_t i) {
    constexpr size_t kMostShown = 200;
    if (path.size() > kMostShown) return path;
    if (key == nullptr) return joined(path, std::to_string(i));
    if (key->kind == Kind::Int) return joined(path, std::to_string(key->integer));
    return joined(path, key->kind == Kind::Text ? key->text.substr(0, kMostShown) : io::name(key->kind));
  }

  // Bytes, which protocol 2 has only as a text of a character for each.
  std::string encoded(const std::string& path, const std::string& text) const {
    std::string bytes;
    for (size_t i = 0; i < text.size(); i++) {
      const auto c = static_cast<uint8_t>(text[i]);
      const auto next = i + 1 < text.size() ? static_cast<uint8_t>(text[i + 1]) : uint8_t{0};
      if (c < 0x80) {
        bytes += text[i];
      } else if ((c == 0xc2 || c == 0xc3) && next >> 6 == 2) {
        bytes += static_cast<char>((c & 3) << 6 | (next & 0x3f));
        i++;
      } else {
        refuse(fmt::format("'{}' is of bytes that are no characters of Latin-1", path));
      }
    }
    return bytes;
  }

  // ---- Tensors

  // An argument of a call that makes a tensor.
  const Pickled& argument(const std::string& path, const Pickled& arguments, size_t i, Kind kind) const {
    if (i >= arguments.items.size())
      refuse(fmt::format("tensor '{}' is made from {} values", path, arguments.items.size()));
    const Pickled& value = pickle_[arguments.items[i]];
    if (value.kind != kind)
      refuse(
          fmt::format("tensor '{}': value {} is a {}, expected a {}", path, i, name(value.kind), name(kind)));
    return value;
  }

  std::vector<int64_t> integers(const std::string& path, const Pickled& arguments, size_t i) const {
    // A torch.Size is a call of it with the tuple.
    const Pickled* tuple = i < arguments.items.size() ? &pickle_[arguments.items[i]] : nullptr;
    if (tuple != nullptr && tuple->kind == Kind::Call && pickle_[tuple->items[0]].text == kSize)
      tuple = &argument(path, pickle_[tuple->items[1]], 0, Kind::Tuple);
    else
      tuple = &argument(path, arguments, i, Kind::Tuple);
    std::vector<int64_t> all;
    all.reserve(tuple->items.size());
    for (size_t k = 0; k < tuple->items.size(); k++)
      all.push_back(argument(path, *tuple, k, Kind::Int).integer);
    return all;
  }

  Tensor tensor(const std::string& path, uint32_t function_at, uint32_t arguments_at) {
    // Parameters and tensors with attributes are tensors inside another call.
    for (int depth = 0; depth < 4; depth++) {
      const std::string& function = pickle_[function_at].text;
      const Pickled& arguments = pickle_[arguments_at];
      if (function == kTensor || function == kTensorOfDType)
        return rebuilt(path, arguments, function == kTensorOfDType);
      if (function == kParameter || function == kParameterWithState) {
        const Pickled& call = argument(path, arguments, 0, Kind::Call);
        function_at = call.items[0];
        arguments_at = call.items[1];
      } else if (function == kOfClass) {  // of (function, class, arguments, attributes)
        argument(path, arguments, 0, Kind::Global);
        argument(path, arguments, 2, Kind::Tuple);
        function_at = arguments.items[0];
        arguments_at = arguments.items[2];
      } else {
        refuse(fmt::format("tensor '{}' is made by '{}'", path, function));
      }
    }
    refuse(fmt::format("tensor '{}' is nested too deeply", path));
  }

  // (storage, offset, sizes, strides, requires_grad, hooks), and a dtype if the storage has none.
  Tensor rebuilt(const std::string& path, const Pickled& arguments, bool has_dtype) {
    const Pickled& persistent = argument(path, arguments, 0, Kind::Persistent);
    const int64_t offset = argument(path, arguments, 1, Kind::Int).integer;
    const std::vector<int64_t> sizes = integers(path, arguments, 2), strides = integers(path, arguments, 3);
    std::optional<DType> dtype;
    if (has_dtype) {
      const std::string& text = argument(path, arguments, 6, Kind::Global).text;
      dtype = dtype_in(kDTypes, text);
      if (!dtype) refuse(fmt::format("tensor '{}' has '{}' as its dtype", path, text));
    }
    const Tensor memory = storage(path, persistent, dtype);
    try {
      return strided(memory, offset, sizes, strides);
    } catch (const ShapeError& e) {
      refuse(fmt::format("tensor '{}': {}", path, e.what()));
    }
  }

  // ('storage', its class, the name of its entry, its device, its number of elements)
  Tensor storage(const std::string& path, const Pickled& persistent, std::optional<DType> dtype,
                 std::optional<DType> if_untyped = std::nullopt) {
    const Pickled& facts = argument(path, persistent, 0, Kind::Tuple);
    if (argument(path, facts, 0, Kind::Text).text != "storage")
      refuse(fmt::format("tensor '{}' is of a '{}'", path, argument(path, facts, 0, Kind::Text).text));
    const std::string& type = argument(path, facts, 1, Kind::Global).text;
    const std::string& key = argument(path, facts, 2, Kind::Text).text;
    const int64_t elements = argument(path, facts, 4, Kind::Int).integer;
    const bool is_untyped = type == kUntyped;
    if (!dtype) dtype = is_untyped ? if_untyped : dtype_in(kStorages, type);
    if (!dtype) refuse(fmt::format("tensor '{}' has memory of '{}'", path, type));
    const ZipEntry* const found = entry("data/" + key);
    if (found == nullptr) refuse(fmt::format("tensor '{}': there is no {}data/{}", path, folder_, key));
    const uint64_t width = is_untyped ? 1 : static_cast<uint64_t>(dtype->bytes());
    if (elements < 0 || found->size / width < static_cast<uint64_t>(elements))
      refuse(fmt::format("tensor '{}': {}data/{} has {} bytes, {} elements of {} are expected", path, folder_,
                         key, found->size, elements, is_untyped ? "one byte" : dtype->name()));
    const auto known = storages_.find(key);
    if (known != storages_.end() && known->second.dtype() == *dtype) return known->second;
    const Held held = unpacked(*found, file_, keep_alive_, false);
    const uint64_t whole = found->size / static_cast<uint64_t>(dtype->bytes());
    const Tensor memory = tensor_in_place(held.bytes.first(whole * static_cast<uint64_t>(dtype->bytes())),
                                          {static_cast<int64_t>(whole)}, *dtype, held.keep_alive);
    return storages_.insert_or_assign(key, memory).first->second;
  }

  const std::string& file_;
  const KeepAlive& keep_alive_;
  ByteReader in_;
  std::map<std::string, ZipEntry> entries_;
  std::string folder_;
  Pickle pickle_;
  std::map<std::string, Tensor> storages_;  // as tensors of one axis
  std::vector<ValueState> places_;          // of the values of the pickle
  TorchValues values_;
  uint64_t pickle_size_ = 0, references_ = 0, names_ = 0, copies_ = 0;
};

}  // namespace

StateDict torch_parse(std::span<std::byte> bytes, const std::string& name, const KeepAlive& keep_alive) {
  return Checkpoint(bytes, name, keep_alive).tensors();
}

TorchValues torch_parse_nested(std::span<std::byte> bytes, const std::string& name,
                               const KeepAlive& keep_alive) {
  return Checkpoint(bytes, name, keep_alive).nested();
}

namespace {

// Files of torch.save are zip archives. Of others it is said what they are.
void check_is_archive(const std::shared_ptr<MappedFile>& file, const std::string& path) {
  const auto bytes = file->bytes();
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<size_t>(bytes.size(), 64));
  if (start.starts_with("PK") || start.starts_with('\x80')) return;  // a pickle is refused by its own name
  throw Error(fmt::format("{}: not a file of torch.save, which is a zip archive: it {}", path,
                          looks_like(start, bytes.size())));
}

}  // namespace

StateDict torch_load(const std::string& path) {
  const auto file = MappedFile::open(path);
  check_is_archive(file, path);
  return torch_parse(file->bytes(), path, file);
}

TorchValues torch_load_nested(const std::string& path) {
  const auto file = MappedFile::open(path);
  check_is_archive(file, path);
  return torch_parse_nested(file->bytes(), path, file);
}

}  // namespace quern::io
