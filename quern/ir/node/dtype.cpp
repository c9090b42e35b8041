#include "quern/ir/node/dtype.h"

#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "quern/base/error.h"

namespace quern {

namespace {

constexpr const char* kScalarNames[] = {"void",    "bool",    "index",    "int8",    "uint8",  "int16",
                                        "uint16",  "int32",   "uint32",   "int64",   "uint64", "fp8e4m3",
                                        "fp8e5m2", "float16", "bfloat16", "float32", "float64"};
static_assert(std::size(kScalarNames) == static_cast<int>(Scalar::Float64) + 1);

constexpr const char* kSpaceNames[] = {"GLOBAL", "LOCAL", "REG"};

constexpr Scalar join(Scalar a, Scalar b) {
  if (a > b) std::swap(a, b);
  if (a == Scalar::FP8E4M3 && b == Scalar::FP8E5M2) return Scalar::Float16;
  if (a == Scalar::Float16 && b == Scalar::BFloat16) return Scalar::Float32;
  // Of two types the later in the enumeration holds the other, but for a signed before an unsigned integer:
  // these meet in the signed integer after the unsigned. After uint64 there is none.
  const DType first(a), second(b);
  const bool mixed = first.is_signed() && !first.is_index() && second.is_unsigned();
  return mixed && b != Scalar::UInt64 ? static_cast<Scalar>(static_cast<int>(b) + 1) : b;
}

// Reads the text of a dtype from left to right.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), rest_(text) {}

  bool accept(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  // A number as name() prints it: no sign, no leading zeros.
  int64_t number() {
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const bool canonical = !rest_.empty() && rest_[0] != '-' && (rest_[0] != '0' || stop == rest_.data() + 1);
    if (error != std::errc() || !canonical) fail("expected a number");
    rest_.remove_prefix(static_cast<size_t>(stop - rest_.data()));
    return value;
  }

  bool done() const { return rest_.empty(); }

  [[noreturn]] void fail(std::string_view reason) const {
    throw DTypeError(fmt::format("'{}' is not a dtype: {} at '{}'", text_, reason, rest_));
  }

 private:
  std::string_view text_, rest_;
};

std::optional<Scalar> accept_scalar(Reader& reader) {
  // No name is the beginning of another, so that the first that fits is the one.
  for (size_t i = 0; i < std::size(kScalarNames); i++)
    if (reader.accept(kScalarNames[i])) return static_cast<Scalar>(i);
  return std::nullopt;
}

}  // namespace

const char* name(AddrSpace space) { return kSpaceNames[static_cast<int>(space)]; }

DType DType::vec(int lanes) const {
  if (is_ptr_) throw DTypeError(fmt::format("{} is a pointer: there are no vectors of pointers", name()));
  if (lanes < 1 || lanes > kMaxLanes)
    throw DTypeError(
        fmt::format("a vector of {} has 1 to {} lanes, not {}", scalar().name(), kMaxLanes, lanes));
  if (lanes > 1 && is_void()) throw DTypeError("there are no vectors of void");
  DType result(scalar_);
  result.lanes_ = static_cast<uint16_t>(lanes);
  return result;
}

DType DType::ptr(int64_t size, AddrSpace space) const {
  if (is_ptr_ || is_void()) throw DTypeError(fmt::format("there are no pointers to {}", name()));
  if (size < 0 && size != kUnsized)
    throw DTypeError(fmt::format("a pointer to {} cannot have {} elements", name(), size));
  DType result = *this;
  result.is_ptr_ = true;
  result.space_ = space;
  result.size_ = size;
  return result;
}

DType DType::base() const {
  DType result(scalar_);
  result.lanes_ = lanes_;
  return result;
}

int64_t DType::bytes() const {
  if (is_ptr_) return 8;
  return int64_t{(bits() + 7) / 8} * lanes_;
}

std::string DType::name() const {
  std::string text = kScalarNames[static_cast<int>(scalar_)];
  if (lanes_ != 1) text += fmt::format("x{}", lanes_);
  if (!is_ptr_) return text;
  text += '*';
  if (size_ != kUnsized) text += fmt::format("[{}]", size_);
  if (space_ != AddrSpace::GLOBAL) text += fmt::format("@{}", quern::name(space_));
  return text;
}

DType DType::parse(std::string_view text) {
  Reader reader(text);
  const std::optional<Scalar> scalar = accept_scalar(reader);
  if (!scalar) reader.fail("expected the name of a scalar type");
  DType result(*scalar);
  if (reader.accept("x")) {
    const int64_t lanes = reader.number();
    if (lanes < 2 || lanes > kMaxLanes) reader.fail(fmt::format("expected 2 to {} lanes", kMaxLanes));
    result = result.vec(static_cast<int>(lanes));
  }
  if (reader.accept("*")) {
    int64_t size = kUnsized;
    if (reader.accept("[")) {
      size = reader.number();
      if (!reader.accept("]")) reader.fail("expected ']'");
    }
    AddrSpace space = AddrSpace::GLOBAL;
    if (reader.accept("@LOCAL"))
      space = AddrSpace::LOCAL;
    else if (reader.accept("@REG"))
      space = AddrSpace::REG;
    result = result.ptr(size, space);
  }
  if (!reader.done()) reader.fail("unexpected text");
  return result;
}

DType promote(DType a, DType b) {
  const bool promotes = !a.is_ptr() && !b.is_ptr() && !a.is_void() && !b.is_void();
  if (!promotes || a.lanes() != b.lanes())
    throw DTypeError(fmt::format("{} and {} have no common type", a.name(), b.name()));
  return DType(join(a.kind(), b.kind())).vec(a.lanes());
}

}  // namespace quern
