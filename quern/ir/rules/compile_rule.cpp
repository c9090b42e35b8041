// Turns a rule into tables, and refuses one that could not be evaluated.
#include <fmt/format.h>

#include <map>
#include <set>

#include "quern/ir/rules/compiled_rule.h"

namespace quern::detail {
namespace {

class Compiler {
 public:
  explicit Compiler(const Rule& rule) {
    out_.rule = &rule;
    out_.left = add(rule.left(), true);
    out_.captures = static_cast<int>(slots_.size());
    const std::set<std::string> always = always_captured(rule.left());
    for (const auto& [name, slot] : slots_)
      if (!always.contains(name))
        refuse(fmt::format("{} can match and not capture {}", rule.left().text(), name));
    if (!rule.has_function()) {
      out_.right = add(rule.right(), false);
      check(rule.right(), Use::value);
    }
    if (static_cast<bool>(rule.condition())) {
      out_.condition = add(rule.condition(), false);
      check(rule.condition(), Use::integer);
    }
    if (rule.has_function() && !rule.rebuilds() && rule.function().captures != out_.captures)
      refuse(fmt::format("{} captures {} nodes, but its function takes {}", rule.left().text(), out_.captures,
                         rule.function().captures));
  }
  CompiledRule take() { return std::move(out_); }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw RewriteError(fmt::format("{}: {}", out_.rule->location(), what));
  }

  // The names that are captured however the pattern matches: whichever alternative, however many sources.
  static std::set<std::string> always_captured(const Pat& pattern) {
    const Pat::Data& d = pattern.data();
    std::set<std::string> names;
    if (d.mode != Pat::SourceMode::each)
      for (const Pat& part : d.parts) {
        std::set<std::string> inside = always_captured(part);
        if (d.kind == Pat::Kind::either && &part != &d.parts.front())
          std::erase_if(names, [&](const std::string& name) { return !inside.contains(name); });
        else
          names.merge(inside);
      }
    if (!d.name.empty()) names.insert(d.name);
    return names;
  }

  // What a right side or condition may be made of, so that it can be evaluated whatever is matched.
  enum class Use : uint8_t { value, constant, integer, interval };
  void check(const Pat& pattern, Use use) const {
    const Pat::Data& d = pattern.data();
    const bool right = use == Use::value;
    auto require = [&](bool holds, std::string_view what) {
      if (!holds) refuse(fmt::format("{}: {}", pattern.text(), what));
    };
    if (!d.name.empty()) {
      if (use == Use::constant) require(constant_.contains(d.name), "what is folded must be constants");
      return;
    }
    switch (d.kind) {
      case Pat::Kind::literal:
        return require(use <= Use::constant || std::holds_alternative<wide>(d.number) ||
                           (use == Use::integer && std::holds_alternative<bool>(d.number)),
                       "a condition is of integers");
      case Pat::Kind::either: return require(false, "alternatives stand on left sides only");
      case Pat::Kind::fold: return check(d.parts[0], right ? Use::constant : use);
      case Pat::Kind::exact: return check(d.parts[0], right ? Use::integer : use);
      case Pat::Kind::least:
      case Pat::Kind::greatest:
        require(use == Use::integer, "bounds stand in conditions only");
        return require(slots_.contains(d.parts[0].data().name), "bounds are of variables only");
      case Pat::Kind::no_wrap:
        require(use == Use::integer, "it stands in conditions only");
        return check(d.parts[0], Use::interval);
      case Pat::Kind::node: break;
    }
    require(d.mode == Pat::SourceMode::exactly && d.ops.size() == 1 && (d.ops - ops::alu).empty(),
            "neither a variable nor an elementwise op");
    const OpInfo& known = info(d.ops.first());
    require(static_cast<int>(d.parts.size()) == known.least_sources, "wrong number of operands");
    if (use == Use::integer)
      require((d.ops - kIntegerOps).empty(), "not an op for conditions and exact constants");
    if (use == Use::interval) require((d.ops - kIntervalOps).empty(), "no_wrap takes sums and products");
    for (const Pat& part : d.parts) check(part, use);
  }
  static constexpr OpSet kIntegerOps = {Op::ADD,   Op::MUL, Op::MAX,   Op::MIN,      Op::AND,
                                        Op::OR,    Op::XOR, Op::CMPEQ, Op::CMPNE,    Op::CMPLT,
                                        Op::CMPLE, Op::SHL, Op::SHR,   Op::FLOORDIV, Op::FLOORMOD};
  static constexpr OpSet kIntervalOps = {Op::ADD, Op::MUL};

  int add(const Pat& pattern, bool may_define) {
    const Pat::Data& d = pattern.data();
    if (may_define && d.kind > Pat::Kind::either) refuse(pattern.text() + " cannot stand on a left side");
    const auto at = out_.parts.size();
    out_.parts.emplace_back();
    Part p;
    p.kind = d.kind, p.mode = d.mode, p.ops = d.ops, p.types = d.types, p.data = &d;
    p.wants_const = d.kind == Pat::Kind::node && d.ops == OpSet(Op::CONST) && !d.arg;
    p.plain = !d.dtype && !d.arg && !d.tag && !p.wants_const;
    if (!d.name.empty()) {
      const auto found = slots_.find(d.name);
      if (found != slots_.end())
        p.slot = found->second;
      else if (may_define)
        p.slot = slots_[d.name] = static_cast<int16_t>(slots_.size());
      else
        refuse(fmt::format("the right side or condition uses {}, which the left side {} does not have",
                           d.name, out_.rule->left().text()));
      if (slots_.size() > kMaxCaptures) refuse(fmt::format("more than {} variables", kMaxCaptures));
      if (may_define && (d.kind == Pat::Kind::literal || p.wants_const)) constant_.insert(d.name);
    }
    std::vector<uint16_t> parts;
    parts.reserve(d.parts.size());
    for (const Pat& part : d.parts) parts.push_back(static_cast<uint16_t>(add(part, may_define)));
    p.first = static_cast<uint16_t>(out_.children.size());
    p.count = static_cast<uint16_t>(parts.size());
    out_.children.insert(out_.children.end(), parts.begin(), parts.end());
    out_.parts[at] = p;
    return static_cast<int>(at);
  }
  CompiledRule out_;
  std::map<std::string, int16_t> slots_;
  std::set<std::string> constant_;  // variables that stand for constants
};

}  // namespace

CompiledRule compile_rule(const Rule& rule) { return Compiler(rule).take(); }

}  // namespace quern::detail
