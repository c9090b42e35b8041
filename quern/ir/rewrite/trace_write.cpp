// Writes the file of a trace: every string, op, dtype, argument and node once, where it is first needed.
#include <bit>
#include <unordered_map>

#include "quern/base/file.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/rewrite/trace.h"
#include "quern/ir/rewrite/trace_format.h"

namespace quern {
namespace trace_format {
namespace {

class Bytes {
 public:
  void byte(uint8_t value) { text_.push_back(static_cast<char>(value)); }
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<uint8_t>(value | 0x80));
    byte(static_cast<uint8_t>(value));
  }
  void integer(int64_t value) {  // zigzag: small absolute values are short
    number((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }
  void fixed(uint64_t value) {
    for (int i = 0; i < 8; i++) byte(static_cast<uint8_t>(value >> (8 * i)));
  }
  void raw(std::string_view bytes) { text_ += bytes; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A section of the file: entries of one kind, written as they are first needed.
struct Section : Bytes {
  uint64_t count = 0;
};

void take(const Arg& arg, Const& value) { value = arg.constant(); }
void take(const Arg& arg, int64_t& value) { value = arg.integer(); }
void take(const Arg& arg, RangeArg& value) { value = arg.range(); }
template <class T>
void take(const Arg& arg, T& value) {
  value = arg.get<T>();
}

class Encoder {
 public:
  std::string encode(const RewriteTrace& trace) {
    for (const RuleName& rule : trace.rules) {
      rules_.number(string(rule.text));
      rules_.number(string(rule.location));
      rules_.count++;
    }
    for (const RewritePass& pass : trace.passes) {
      passes_.number(string(pass.name));
      passes_.number(pass.depth);
      passes_.number(pass.thread);
      passes_.number(node(pass.root));
      passes_.number(pass.result ? node(pass.result) + 1 : 0);
      passes_.number(pass.steps.size());
      for (const RewriteStep& step : pass.steps) {
        passes_.number(step.rule);
        passes_.number(node(step.before));
        passes_.number(node(step.after));
      }
      passes_.count++;
    }
    Bytes file;
    file.raw(kMagic);
    file.number(kVersion);
    for (const Section* section : {&strings_, &ops_, &dtypes_, &kinds_, &args_, &nodes_, &rules_, &passes_}) {
      file.number(section->count);
      file.raw(section->text());
    }
    return file.text();
  }

 private:
  uint64_t string(std::string_view text) {
    const auto [known, added] = string_index_.emplace(text, strings_.count);
    if (added) {
      strings_.number(text.size());
      strings_.raw(text);
      strings_.count++;
    }
    return known->second;
  }

  uint64_t op(Op op) {
    auto& known = op_index_[static_cast<size_t>(op)];
    if (known == kUnknown) {
      ops_.number(string(name(op)));
      known = ops_.count++;
    }
    return known;
  }

  uint64_t dtype(DType dtype) {
    const auto [known, added] = dtype_index_.emplace(dtype.name(), dtypes_.count);
    if (added) {
      dtypes_.number(string(known->first));
      dtypes_.count++;
    }
    return known->second;
  }

  uint64_t kind(ArgKind kind) {
    auto& known = kind_index_[static_cast<size_t>(kind)];
    if (known == kUnknown) {
      kinds_.number(string(kKindNames[static_cast<size_t>(kind)]));
      const std::vector<FieldName> fields = fields_of(kind);
      kinds_.number(fields.size());
      for (const FieldName& field : fields) {
        kinds_.number(string(field.name));
        kinds_.byte(static_cast<uint8_t>(field.type));
      }
      known = kinds_.count++;
    }
    return known;
  }

  // 0 for none, else its position and 1.
  uint64_t arg(const Arg& arg) {
    if (arg.none()) return 0;
    const auto [known, added] = arg_index_.emplace(arg, args_.count + 1);
    if (added) {
      args_.number(kind(arg.kind()));
      with_value(arg.kind(), [&](auto value) {
        take(arg, value);
        each_field(value, [&](std::string_view, const auto& member) { field(member); });
      });
      args_.count++;
    }
    return known->second;
  }
  void field(int64_t value) { args_.integer(value); }
  void field(bool value) { args_.byte(value ? 1 : 0); }
  void field(const std::string& value) { args_.number(string(value)); }
  void field(const Ints& value) {
    args_.number(value.size());
    for (int64_t i : value) args_.integer(i);
  }
  void field(const Texts& value) {
    args_.number(value.size());
    for (const std::string& text : value) args_.number(string(text));
  }
  void field(Op value) { args_.number(string(name(value))); }
  void field(AxisKind value) { args_.number(string(name(value))); }
  void field(AddrSpace value) { args_.number(string(name(value))); }
  void field(Const value) {
    args_.byte(static_cast<uint8_t>(value.kind()));
    switch (value.kind()) {
      case Const::Kind::Bool: args_.byte(value.as_bool() ? 1 : 0); break;
      case Const::Kind::Int: args_.integer(value.as_int()); break;
      case Const::Kind::Float: args_.fixed(std::bit_cast<uint64_t>(value.as_float())); break;
      case Const::Kind::Invalid: break;
    }
  }

  uint64_t node(const UOp& root) {
    walk(
        root, [&](const UOp& u) { return !node_index_.contains(u); },
        [&](const UOp& u) {
          if (!node_index_.emplace(u, nodes_.count).second) return;
          nodes_.number(op(u.op()));
          nodes_.number(dtype(u.dtype()));
          nodes_.number(arg(u.arg()));
          nodes_.number(arg(u.tag()));
          nodes_.number(u.src().size());
          for (const UOp& s : u.src()) nodes_.number(nodes_.count - *node_index_.find(s));  // how far back
          nodes_.count++;
        });
    return *node_index_.find(root);
  }

  static constexpr uint64_t kUnknown = ~uint64_t{0};
  struct HashArg {
    size_t operator()(const Arg& arg) const { return arg.hash(); }
  };
  template <size_t N>
  static constexpr std::array<uint64_t, N> unknown() {
    std::array<uint64_t, N> all{};
    all.fill(kUnknown);
    return all;
  }

  Section strings_, ops_, dtypes_, kinds_, args_, nodes_, rules_, passes_;
  std::unordered_map<std::string, uint64_t> string_index_, dtype_index_;
  std::array<uint64_t, kOpCount> op_index_ = unknown<kOpCount>();
  std::array<uint64_t, kKindNames.size()> kind_index_ = unknown<kKindNames.size()>();
  std::unordered_map<Arg, uint64_t, HashArg> arg_index_;
  NodeMap<uint64_t> node_index_;
};

}  // namespace
}  // namespace trace_format

std::string encode_trace(const RewriteTrace& trace) { return trace_format::Encoder().encode(trace); }
void write_trace(const RewriteTrace& trace, const std::string& path) {
  write_file(path, encode_trace(trace));
}

}  // namespace quern
