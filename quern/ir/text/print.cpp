#include "quern/ir/text/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

#include "quern/ir/node/node_map.h"
#include "quern/ir/text/arg_text.h"
#include "quern/ir/text/notation.h"

namespace quern {
namespace {

using notation::kLoosest, notation::kTightest, notation::kUnary;

constexpr int kMostNested = 12;  // levels of nesting in a line; what prints them recurses no deeper
constexpr int kWidest = 100;     // columns of a line, roughly: long names and lists of sources may go beyond
constexpr int kReference = 3;    // the width of %12

// How a constant says its dtype: not at all (it is that of the operand beside it), where it is neither index
// nor bool, or always.
enum class Suffix : uint8_t { never, usual, always };

enum class Spot : uint8_t {
  inside,          // in the line of its only user
  line,            // on a line of its own, and a number
  leaf,            // a constant or a variable: wherever it is used
  range,           // the same, but its end stands where it is first used
  declared_range,  // a range with a line of its own for its end
};

struct Item {
  Spot place = Spot::inside;
  uint8_t depth = 0;
  int width = 0;
  uint32_t uses = 0;
  uint32_t number = 0;
};

// Finds out which names mean one node only.
template <class Name>
class UniqueNames {
 public:
  void add(const Name& name, const UOp& u) {
    const auto [entry, added] = first_.emplace(name, &u);
    const UOp& other = *entry->second;
    const bool alike =
        other.dtype() == u.dtype() && other.arg() == u.arg() &&
        std::ranges::equal(other.src(), u.src(), [](const UOp& a, const UOp& b) { return same(a, b); });
    if (!added && !alike) shared_.insert(name);
  }
  bool is_unique(const Name& name) const { return !shared_.contains(name); }
  bool first_use(const Name& name) { return is_unique(name) ? used_.insert(name).second : true; }

 private:
  std::unordered_map<Name, const UOp*> first_;
  std::unordered_set<Name> shared_, used_;
};

class Printer {
 public:
  explicit Printer(const UOp& root) : root_(root), order_(root.toposort()) {}

  std::string run() {
    gather();
    for (const UOp& u : order_) arrange(u);
    uint32_t numbers = 0;
    for (const UOp& u : order_) {
      Item& item = items_[u];
      if (item.place == Spot::line) {
        item.number = numbers++;
        fmt::format_to(std::back_inserter(out_), "%{} = ", item.number);
      } else if (item.place != Spot::declared_range) {
        continue;
      }
      node(u, kLoosest, Suffix::usual);
      out_ += '\n';
    }
    node(root_, kLoosest, Suffix::usual);
    return std::move(out_);
  }

 private:
  // ---- which node stands where
  // ------------------------------------------------------------------------------------

  void gather() {
    for (const UOp& u : order_) {
      items_.emplace(u);
      for (const UOp& s : u.src()) items_[s].uses++;
      if (notation::is_variable(u)) variables_.add(u.arg().variable().name, u);
      if (notation::is_range(u)) ranges_.add(u.arg().range().id, u);
    }
  }

  bool is_short_range(const UOp& u) const {
    return notation::is_range(u) && u.tag().none() && ranges_.is_unique(u.arg().range().id);
  }

  // Decides for the node and its sources, which are decided but for what this node asks of them.
  void arrange(const UOp& u) {
    Item& item = items_[u];
    item.width = head_width(u);
    if (notation::is_literal(u) || notation::is_variable(u)) {
      item.place = Spot::leaf;
      return;
    }
    std::vector<Item*> movable;
    for (const UOp& s : u.src()) {
      Item& source = items_[s];
      const bool inside = source.place == Spot::inside || source.place == Spot::range;
      if (inside && source.depth >= kMostNested) move_out(source);
      item.width += width_of(source) + 1;
      item.depth = std::max<uint8_t>(item.depth, depth_of(source));
      if (inside && source.depth > 0 && width_of(source) > 2 * kReference) movable.push_back(&source);
    }
    if (item.width > kWidest) {
      std::ranges::sort(movable, [](const Item* a, const Item* b) {  // the widest first, then in order
        return a->width != b->width ? a->width > b->width : a < b;
      });
      for (Item* source : movable) {
        if (item.width <= kWidest) break;
        item.width -= width_of(*source);
        move_out(*source);
        item.width += width_of(*source);
      }
      item.depth = 0;
      for (const UOp& s : u.src()) item.depth = std::max<uint8_t>(item.depth, depth_of(items_[s]));
    }
    item.depth++;
    item.place = is_short_range(u) ? Spot::range : item.uses > 1 ? Spot::line : Spot::inside;
  }

  static void move_out(Item& item) {
    if (!has_line(item)) item.place = item.place == Spot::range ? Spot::declared_range : Spot::line;
  }
  static bool has_line(const Item& item) {
    return item.place == Spot::line || item.place == Spot::declared_range;
  }
  static int width_of(const Item& item) { return has_line(item) ? kReference : item.width; }
  static uint8_t depth_of(const Item& item) { return has_line(item) ? 0 : item.depth; }

  // Of all but the sources.
  static int head_width(const UOp& u) {
    if (notation::is_literal(u)) return kReference;
    std::string text;
    if (notation::is_variable(u)) {
      text = u.arg().variable().name;
    } else if (notation::is_range(u)) {
      text = name(u.arg().range().kind);
    } else {
      if (!notation::infix(u.op())) text += name(u.op());
      if (!u.arg().none()) print_arg(text, u.arg(), info(u.op()).arg);
      if (u.dtype() != notation::default_dtype(u.op(), u.src(), u.arg())) text += u.dtype().name();
    }
    print_tag(text, u.tag());
    return static_cast<int>(text.size()) + 1;
  }

  // ---- text
  // -------------------------------------------------------------------------------------------------------

  // A source: what stands for it, or the node itself.
  void source(const UOp& u, int level, Suffix suffix) {
    const Item& item = items_[u];
    if (item.place == Spot::line)
      fmt::format_to(std::back_inserter(out_), "%{}", item.number);
    else
      node(u, level, suffix);
  }

  // `level`: how tightly what stands around it binds.
  void node(const UOp& u, int level, Suffix suffix) {
    const auto* function = notation::function(u.op());
    if (notation::is_literal(u))
      literal(u, suffix);
    else if (notation::is_variable(u))
      variable(u);
    else if (notation::is_range(u))
      range(u);
    else if (!is_checked(u))
      call(u, name(u.op()));
    else if (function)
      call(u, function->name);
    else
      infix_operator(u, level);
  }

  void infix_operator(const UOp& u, int level) {
    const bool negation = is_not(u);
    const auto* infix = notation::infix(u.op());
    const int own = negation ? kUnary : infix->level;
    const bool parentheses = own < level || !u.tag().none();
    if (parentheses) out_ += '(';
    if (negation) {
      out_ += '!';
      source(u.src(0), kUnary, Suffix::usual);
    } else {
      const Suffix operands = suffix_of_operands(u);
      source(u.src(0), own == notation::kComparisons ? own + 1 : own, operands);  // comparisons do not chain
      out_.append(" ").append(infix->sign).append(" ");
      source(u.src(1), own + 1, operands);
    }
    if (parentheses) out_ += ')';
    print_tag(out_, u.tag());
  }

  // Infix operators and functions in small letters are checked when they are read: only what passes is
  // written so.
  static bool is_checked(const UOp& u) {
    if (!notation::infix(u.op()) && !notation::function(u.op())) return false;
    if (!u.arg().none() || notation::divides_by_zero(u.op(), u.src())) return false;
    try {
      return result_dtype(u.op(), u.src()) == u.dtype();
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      return false;
    }
  }

  static bool is_not(const UOp& u) {
    if (u.op() != Op::XOR || !u.dtype().is_bool()) return false;
    const UOp& ones = u.src(1);
    return notation::is_literal(ones) && ones.tag().none() && ones.value().as_bool();
  }

  static Suffix suffix_of_operands(const UOp& u) {
    const Sources operands = notation::alike(u.op(), u.src());
    bool typed = false;
    for (const UOp& s : operands) {
      if (s.dtype() != operands[0].dtype()) return Suffix::always;
      typed |= !notation::is_literal(s) || !s.tag().none();
    }
    return typed ? Suffix::never : Suffix::usual;
  }

  void literal(const UOp& u, Suffix suffix) {
    const Const value = u.value();
    out_ += to_string(value, u.dtype());
    const bool plain = (u.dtype() == dtypes::index && !value.is_invalid()) || u.dtype() == dtypes::bool_;
    const bool tagged = !u.tag().none();  // a tag makes it a node: it does not look around for its dtype
    const bool needed = suffix == Suffix::always || (!plain && (suffix == Suffix::usual || tagged));
    if (needed) out_.append(":").append(u.dtype().name());
    print_tag(out_, u.tag());
  }

  void variable(const UOp& u) {
    const VariableArg& v = u.arg().variable();
    out_.append("$").append(notation::is_word(v.name) ? v.name : in_quotes(v.name));
    if (variables_.first_use(v.name)) {
      fmt::format_to(std::back_inserter(out_), "[{}..{}]", v.min, v.max);
      if (u.dtype() != dtypes::index) out_.append(":").append(u.dtype().name());
    }
    print_tag(out_, u.tag());
  }

  void range(const UOp& u) {
    const RangeArg r = u.arg().range();
    fmt::format_to(std::back_inserter(out_), "r{}", r.id);
    if (!is_short_range(u) || ranges_.first_use(r.id)) {
      out_ += '[';
      source(u.src(0), kLoosest, Suffix::usual);
      if (r.kind != AxisKind::LOOP) out_.append(", ").append(name(r.kind));
      out_ += ']';
    }
    print_tag(out_, u.tag());
  }

  void call(const UOp& u, std::string_view name) {
    out_.append(name).append("(");
    const Suffix operands = is_alu(u.op()) ? suffix_of_operands(u) : Suffix::usual;
    for (size_t i = 0; i < u.src().size(); i++) {
      if (i > 0) out_ += ", ";
      const bool condition = u.op() == Op::WHERE && i == 0;
      source(u.src(i), kLoosest, condition ? Suffix::usual : operands);
    }
    const OpInfo& op = info(u.op());
    if (!u.arg().none()) {
      if (op.most_sources != 0 || !u.src().empty()) out_ += "; ";
      const bool value = u.op() == Op::CONST && u.arg().kind() == ArgKind::Const;
      if (value && notation::is_value(u.value(), u.dtype()))
        out_ += to_string(u.value(), u.dtype());
      else
        print_arg(out_, u.arg(), op.arg);
    }
    out_ += ')';
    if (u.dtype() != notation::default_dtype(u.op(), u.src(), u.arg()))
      out_.append(":").append(u.dtype().name());
    print_tag(out_, u.tag());
  }

  const UOp& root_;
  const NodeList order_;
  NodeMap<Item> items_;
  UniqueNames<std::string> variables_;
  UniqueNames<int64_t> ranges_;
  std::string out_;
};

}  // namespace

std::string print(const UOp& root) { return root ? Printer(root).run() : "none"; }

std::string UOp::text() const { return print(*this); }

std::ostream& operator<<(std::ostream& out, const UOp& u) { return out << print(u); }

}  // namespace quern
