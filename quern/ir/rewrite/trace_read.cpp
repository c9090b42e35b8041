// Reads the file of a trace, and trusts nothing in it.
#include <fmt/format.h>

#include <bit>
#include <optional>

#include "quern/base/file.h"
#include "quern/ir/rewrite/trace.h"
#include "quern/ir/rewrite/trace_format.h"

namespace quern {
namespace trace_format {
namespace {

class Decoder {
 public:
  Decoder(std::string_view bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  RewriteTrace decode() {
    header();
    section("strings", 1, [&] { strings_.emplace_back(raw(count("bytes of a string", 1))); });
    section("ops", 1, [&] { ops_.push_back(op()); });
    section("dtypes", 1, [&] { dtypes_.push_back(dtype()); });
    section("kinds of arguments", 2, [&] { kinds_.push_back(kind()); });
    section("arguments", 2, [&] { args_.push_back(arg()); });
    section("nodes", 5, [&] { nodes_.push_back(node()); });
    RewriteTrace trace;
    section("rules", 2, [&] { trace.rules.push_back(rule()); });
    section("passes", 6, [&] { trace.passes.push_back(pass(trace.rules.size())); });
    if (at_ != bytes_.size()) fail(at_, fmt::format("{} bytes follow the end", bytes_.size() - at_));
    return trace;
  }

 private:
  [[noreturn]] void fail(size_t at, const std::string& what) const {
    throw Error(fmt::format("{}: byte {}: {}", name_, at, what));
  }
  size_t left() const { return bytes_.size() - at_; }

  // ---- numbers and strings

  uint8_t byte() {
    if (left() == 0) fail(at_, "the file ends too early");
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  uint64_t number() {
    const size_t start = at_;
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t b = byte();
      if (shift == 63 && b > 1) break;
      value |= static_cast<uint64_t>(b & 0x7f) << shift;
      if (b < 0x80) return value;
    }
    fail(start, "a number of more than 64 bits");
  }
  int64_t integer() {
    const uint64_t z = number();
    return static_cast<int64_t>((z >> 1) ^ (~(z & 1) + 1));
  }
  std::string_view raw(size_t size) {
    if (left() < size) fail(at_, "the file ends too early");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  // How many things of at least so many bytes each follow.
  size_t count(std::string_view what, size_t least_bytes) {
    const size_t start = at_;
    const uint64_t n = number();
    if (n > left() / least_bytes)
      fail(start, fmt::format("{} {} do not fit into the {} bytes left", n, what, left()));
    return n;
  }
  size_t index(std::string_view what, size_t end) {
    const size_t start = at_;
    const uint64_t i = number();
    if (i >= end) fail(start, fmt::format("{} {}, of {}", what, i, end));
    return i;
  }
  uint32_t small(std::string_view what, uint64_t most) {
    const size_t start = at_;
    const uint64_t n = number();
    if (n > most) fail(start, fmt::format("{} {}, at most {} is possible", what, n, most));
    return static_cast<uint32_t>(n);
  }
  bool boolean() {
    const uint8_t b = byte();
    if (b > 1) fail(at_ - 1, fmt::format("a boolean of {}", b));
    return b == 1;
  }
  const std::string& string() { return strings_[index("string", strings_.size())]; }

  // ---- the sections

  void header() {
    if (bytes_.substr(0, kMagic.size()) != kMagic) fail(0, "not a trace of quern");
    at_ = kMagic.size();
    const uint64_t version = number();
    if (version != kVersion)
      fail(kMagic.size(), fmt::format("a trace of version {}, only {} can be read", version, kVersion));
  }
  template <class F>
  void section(std::string_view what, size_t least_bytes, F entry) {
    for (size_t n = count(what, least_bytes); n > 0; n--) entry();
  }

  // A string that must name something.
  template <class F>
  auto named(std::string_view what, F find) {
    const size_t start = at_;
    const std::string& text = string();
    const auto found = find(text);
    if (!found) fail(start, fmt::format("there is no {} \"{}\"", what, text.substr(0, 80)));
    return *found;
  }
  Op op() { return named("op", op_named); }
  DType dtype() {
    return named("dtype", [](const std::string& text) -> std::optional<DType> {
      try {
        return DType::parse(text);
      } catch (const DTypeError&) {
        return std::nullopt;
      }
    });
  }

  ArgKind kind() {
    const size_t start = at_;
    const ArgKind kind = named("kind of argument", [](const std::string& text) -> std::optional<ArgKind> {
      for (size_t i = 1; i < kKindNames.size(); i++)
        if (kKindNames[i] == text) return static_cast<ArgKind>(i);
      return std::nullopt;
    });
    const std::vector<FieldName> fields = fields_of(kind);
    bool same = count("fields", 2) == fields.size();
    for (size_t i = 0; same && i < fields.size(); i++) {
      same = string() == fields[i].name;
      same &= byte() == static_cast<uint8_t>(fields[i].type);
    }
    if (!same)
      fail(start, fmt::format("the fields of a {} argument are not those of this version of quern",
                              kKindNames[static_cast<size_t>(kind)]));
    return kind;
  }

  Arg arg() {
    const ArgKind kind = kinds_[index("kind", kinds_.size())];
    return with_value(kind, [&](auto value) {
      each_field(value, [&](std::string_view, auto& member) { field(member); });
      return Arg(std::move(value));
    });
  }
  void field(int64_t& value) { value = integer(); }
  void field(bool& value) { value = boolean(); }
  void field(std::string& value) { value = string(); }
  void field(Ints& value) {
    for (size_t n = count("integers", 1); n > 0; n--) value.push_back(integer());
  }
  void field(Texts& value) {
    for (size_t n = count("texts", 1); n > 0; n--) value.push_back(string());
  }
  void field(Op& value) { value = op(); }
  void field(AxisKind& value) { value = named("axis kind", axis_kind_named); }
  void field(AddrSpace& value) {
    value = named("address space", [](const std::string& text) -> std::optional<AddrSpace> {
      for (AddrSpace space : {AddrSpace::GLOBAL, AddrSpace::LOCAL, AddrSpace::REG})
        if (name(space) == text) return space;
      return std::nullopt;
    });
  }
  void field(Const& value) {
    const size_t start = at_;
    const uint8_t kind = byte();
    switch (static_cast<Const::Kind>(kind)) {
      case Const::Kind::Bool: value = Const::of_bool(boolean()); return;
      case Const::Kind::Int: value = Const::of_int(integer()); return;
      case Const::Kind::Float: {
        uint64_t bits = 0;
        for (int i = 0; i < 8; i++) bits |= static_cast<uint64_t>(byte()) << (8 * i);
        value = Const::of_float(std::bit_cast<double>(bits));
        return;
      }
      case Const::Kind::Invalid: value = Const::invalid(); return;
    }
    fail(start, fmt::format("a constant of kind {}", kind));
  }

  const Arg& arg_or_none() {
    static const Arg none;
    const size_t i = index("argument", args_.size() + 1);
    return i == 0 ? none : args_[i - 1];
  }

  UOp node() {
    const size_t start = at_;
    const Op op = ops_[index("op", ops_.size())];
    const DType dtype = dtypes_[index("dtype", dtypes_.size())];
    const Arg& arg = arg_or_none();
    const Arg& tag = arg_or_none();
    const size_t sources = count("sources", 1);
    sources_.clear();
    for (size_t i = 0; i < sources; i++) {
      const size_t at = at_;
      const uint64_t back = number();
      if (back == 0 || back > nodes_.size())
        fail(at, fmt::format("node {} has a source {} nodes before it", nodes_.size(), back));
      sources_.push_back(nodes_[nodes_.size() - back]);
    }
    const OpInfo& known = info(op);
    if (sources < static_cast<size_t>(known.least_sources) ||
        (known.most_sources >= 0 && sources > static_cast<size_t>(known.most_sources)))
      fail(start, fmt::format("{} with {} sources", known.name, sources));
    if (!arg.none() && arg.kind() != known.arg)
      fail(start,
           fmt::format("{} with a {} argument", known.name, kKindNames[static_cast<size_t>(arg.kind())]));
    if (op == Op::CONST && (arg.none() || !is_value(arg.constant(), dtype)))
      fail(start, fmt::format("a CONST of {} without a value of it", dtype.name()));
    try {
      return UOp::make(op, dtype, sources_, arg, tag);
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {  // the spec, when it is asked for
      fail(start, error.what());
    }
  }
  static bool is_value(Const value, DType dtype) {
    switch (value.kind()) {
      case Const::Kind::Bool: return dtype.is_bool();
      case Const::Kind::Int: return dtype.is_int() && value == wrap(dtype, value.integer(dtype));
      case Const::Kind::Float:
        return dtype.is_float() && value == Const::of_float(round_float(dtype, value.as_float()));
      case Const::Kind::Invalid: return true;
    }
    return false;
  }
  const UOp& node_at() { return nodes_[index("node", nodes_.size())]; }

  RuleName rule() {
    std::string text = string();
    return {std::move(text), string()};
  }

  RewritePass pass(size_t rules) {
    RewritePass pass;
    pass.name = string();
    const size_t start = at_;
    const uint64_t depth = number();
    pass.thread = small("thread", depths_.size());
    if (pass.thread == depths_.size())
      depths_.push_back(0);
    else
      depths_[pass.thread]++;
    if (depth > depths_[pass.thread])
      fail(start, fmt::format("depth {}, at most {} is possible", depth, depths_[pass.thread]));
    pass.depth = depths_[pass.thread] = static_cast<uint32_t>(depth);
    pass.root = node_at();
    if (const size_t result = index("result", nodes_.size() + 1); result > 0)
      pass.result = nodes_[result - 1];
    for (size_t n = count("steps", 3); n > 0; n--) {
      const auto rule = static_cast<uint32_t>(index("rule", rules));
      const UOp& before = node_at();
      pass.steps.push_back({rule, before, node_at()});
    }
    return pass;
  }

  std::string_view bytes_, name_;
  size_t at_ = 0;
  Texts strings_;
  std::vector<Op> ops_;
  std::vector<DType> dtypes_;
  std::vector<ArgKind> kinds_;
  std::vector<Arg> args_;
  UOps nodes_, sources_;
  std::vector<uint32_t> depths_;  // of the last pass, by thread
};

}  // namespace
}  // namespace trace_format

RewriteTrace decode_trace(std::string_view bytes, std::string_view name) {
  return trace_format::Decoder(bytes, name).decode();
}
RewriteTrace read_trace(const std::string& path) { return decode_trace(read_file(path), path); }

}  // namespace quern
