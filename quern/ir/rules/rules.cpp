// Rules and lists of them.
#include "quern/ir/rules/rules.h"

#include <fmt/format.h>

#include <cstring>

#include "quern/ir/rules/compiled_rule.h"

namespace quern {

// ---- a rule
// -------------------------------------------------------------------------------------------------------

namespace {

// clang tells the line of each rule in a list, g++ that of the list's end: there the patterns say where they
// stand.
std::source_location source_location_of([[maybe_unused]] const Pat& left, [[maybe_unused]] const Pat& right,
                                        std::source_location where) {
#ifndef __clang__
  for (const Pat* pattern : {&left, &right})
    if (static_cast<bool>(*pattern) && pattern->data().where.line() != 0) return pattern->data().where;
#endif
  return where;
}

}  // namespace

Rule::Rule(Pat left, Pat right, Pat condition, std::source_location where)
    : left_(std::move(left)),
      right_(std::move(right)),
      condition_(std::move(condition)),
      where_(source_location_of(left_, right_, where)) {}

Rule::Rule(Pat left, detail::RuleFunction function, const char* note, std::source_location where)
    : left_(std::move(left)),
      function_(std::move(function)),
      note_(note),
      where_(source_location_of(left_, right_, where)) {}

uint64_t Rule::next_id() {
  static constinit std::atomic<uint64_t> made{0};
  return made.fetch_add(1, std::memory_order_relaxed);
}

std::string Rule::text() const {
  if (*note_ != '\0') return note_;
  std::string s = left_.text() + " -> " + (has_function() ? "(function)" : right_.text(true));
  if (static_cast<bool>(condition_)) s += "  if " + condition_.text(true);
  return s;
}

std::string Rule::location() const {
  const char* file = where_.file_name();
  const char* inside = std::strstr(file, "quern/");  // from the project's root, wherever it was built
  for (const char* next = inside; next; next = std::strstr(next + 1, "quern/")) inside = next;
  if (!inside) inside = std::strstr(file, "test/");
  return fmt::format("{}:{}", inside ? inside : file, where_.line());
}

// ---- a list of rules
// ----------------------------------------------------------------------------------------------

struct detail::CompiledRules {
  RuleList list;
  std::vector<CompiledRule> rules;
  std::array<std::vector<Candidate>, kOpCount> by_op;
  OpSet roots;
  bool rebuilds = true;
};

namespace {

std::unique_ptr<const detail::CompiledRules> compile(RuleList list) {
  auto made = std::make_unique<detail::CompiledRules>();
  made->list = std::move(list);
  made->rules.reserve(made->list.size());
  for (const Rule& rule : made->list) made->rules.push_back(detail::compile_rule(rule));
  for (const detail::CompiledRule& rule : made->rules) {
    const OpSet roots = rule.parts[static_cast<size_t>(rule.left)].ops;
    made->roots |= roots;
    made->rebuilds &= rule.rule->rebuilds();
    for (int i = 0; i < kOpCount; i++)
      if (roots.contains(static_cast<Op>(i))) made->by_op[static_cast<size_t>(i)].emplace_back(rule);
  }
  return made;
}

}  // namespace

Rules::Rules(RuleList list) : compiled_(compile(std::move(list)).release()) {}
Rules::~Rules() { delete compiled_.load(); }  // NOLINT(cppcoreguidelines-owning-memory)

const detail::CompiledRules& Rules::compiled() const {
  const detail::CompiledRules* known = compiled_.load(std::memory_order_acquire);
  if (known) return *known;
  auto made = compile(make_());
  if (compiled_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *known;
}

const RuleList& Rules::list() const { return compiled().list; }
OpSet Rules::roots() const { return compiled().roots; }
bool Rules::rebuilds() const { return compiled().rebuilds; }

Rules::Step Rules::apply(const UOp& node, Sources now, Context context) const {
  for (const detail::Candidate& candidate : compiled().by_op[static_cast<size_t>(node.op())]) {
    if (!candidate.may_match(node)) continue;
    if (UOp result = detail::apply_rule(candidate.rule(), node, now, context))
      return {std::move(result), candidate.rule().rule};
  }
  return {};
}

Rules::Step Rules::apply_observed(const UOp& node, Sources now, Context context,
                                  detail::AttemptObserver& observer) const {
  for (const detail::Candidate& candidate : compiled().by_op[static_cast<size_t>(node.op())]) {
    if (!candidate.may_match(node)) continue;
    const int64_t start = observer.clock();
    UOp result = detail::apply_rule(candidate.rule(), node, now, context);
    observer.attempt(*candidate.rule().rule, static_cast<bool>(result), observer.clock() - start);
    if (result) return {std::move(result), candidate.rule().rule};
  }
  return {};
}

RuleList operator+(const Rules& a, const Rules& b) { return RuleList(a.list()) + b; }
RuleList operator+(RuleList a, const Rules& b) {
  a.insert(a.end(), b.list().begin(), b.list().end());
  return a;
}

}  // namespace quern
