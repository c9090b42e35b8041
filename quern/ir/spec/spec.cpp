// What each level allows, and how a graph is checked; spec_requirements.cpp is the table of what must hold.
#include "quern/ir/spec/spec.h"

#include <array>
#include <vector>

#include <fmt/format.h>

#include "quern/ir/node/node_map.h"
#include "quern/ir/spec/predicates.h"
#include "quern/ir/spec/reduce.h"
#include "quern/ir/text/parse.h"

namespace quern {
namespace {

// clang-format off
constexpr OpSet kLegal[] = {
    // tensor
    OpSet{Op::SINK, Op::GROUP, Op::AFTER, Op::NOOP, Op::CONST, Op::DEFINE_VAR, Op::BIND, Op::UNIQUE, Op::LUNIQUE,
          Op::DEVICE, Op::BUFFER, Op::PARAM, Op::IOTA, Op::REDUCE, Op::CONTIGUOUS, Op::CONTIGUOUS_BACKWARD, Op::DETACH, Op::COPY,
          Op::ALLREDUCE, Op::MULTI, Op::MSELECT, Op::MSTACK, Op::SLICE, Op::FUNCTION, Op::CALL, Op::TUPLE,
          Op::GETTUPLE, Op::STORE} |
        ops::movement | ops::elementwise,
    // kernel
    OpSet{Op::SINK, Op::GROUP, Op::AFTER, Op::END, Op::BARRIER, Op::IF, Op::ENDIF, Op::NOOP, Op::CONST, Op::DEFINE_VAR,
          Op::PARAM, Op::DEFINE_LOCAL, Op::DEFINE_REG, Op::RANGE, Op::SPECIAL, Op::REDUCE, Op::STAGE, Op::GETTUPLE,
          Op::INDEX, Op::LOAD, Op::STORE, Op::VECTORIZE, Op::GEP, Op::UNROLL, Op::CONTRACT, Op::WMMA} |
        ops::movement | ops::elementwise,
    // program
    OpSet{Op::SINK, Op::GROUP, Op::AFTER, Op::END, Op::BARRIER, Op::IF, Op::ENDIF, Op::NOOP, Op::CONST, Op::DEFINE_VAR,
          Op::PARAM, Op::DEFINE_LOCAL, Op::DEFINE_REG, Op::RANGE, Op::SPECIAL, Op::INDEX, Op::LOAD, Op::STORE,
          Op::VECTORIZE, Op::GEP, Op::WMMA} |
        ops::elementwise,
};
// clang-format on

// For each op its requirements, in the order of the table.
const std::vector<const Requirement*>& requirements_of(Op op) {
  static const auto by_op = [] {
    std::array<std::vector<const Requirement*>, kOpCount> lists;
    for (const Requirement& r : requirements())
      for (int i = 0; i < kOpCount; i++)
        if (r.ops.contains(static_cast<Op>(i))) lists[static_cast<size_t>(i)].push_back(&r);
    return lists;
  }();
  return by_op[static_cast<size_t>(op)];
}

// Never fails: a node that breaks the spec may be one that the printer does not expect.
std::string printed(const UOp& u) {
  constexpr size_t most = 2000;
  try {
    std::string text = u.text();
    if (text.size() > most)
      text = "...\n" + text.substr(text.size() - most);  // the node itself is printed last
    return text;
  } catch (const std::exception& e) {
    return fmt::format("(it cannot be printed: {})", e.what());
  }
}

// Says that the node breaks something; `context` says where it was met.
[[noreturn]] void refuse(const UOp& u, const std::string& context, const std::string& what) {
  throw SpecError(fmt::format("{}{}\n{}", context, what, printed(u)));
}

void check_requirements(const UOp& u, unsigned where, const std::string& context) {
  for (const Requirement* r : requirements_of(u.op())) {
    if ((r->where & where) == 0 || r->holds(u)) continue;
    refuse(u, context,
           fmt::format("{} breaks \"{}\": {}", name(u.op()), r->sentence,
                       (r->found ? r->found : spec::signature)(u)));
  }
}

// The source that the walk of a level does not enter, or none: a CALL's body is of another level, and a
// REDUCE's body is checked with the REDUCE, so that a STATE that is met elsewhere is legal nowhere.
size_t apart(const UOp& u) {
  if (u.op() == Op::CALL) return 0;
  if (u.op() == Op::REDUCE && u.arg().kind() == ArgKind::Reduce && u.arg().reduce().op == Op::NOOP)
    return sources_before_ranges(u) - 1;
  return u.src().size();
}

}  // namespace

std::string_view name(Level level) {
  constexpr std::string_view names[] = {"tensor", "kernel", "program"};
  return names[static_cast<int>(level)];
}

OpSet legal_ops(Level level) { return kLegal[static_cast<int>(level)]; }

void check_node(const UOp& node) { check_requirements(node, everywhere, ""); }

void check(const UOp& root, Level level, std::string_view after_pass) {
  std::string context = after_pass.empty() ? "" : fmt::format("after pass \"{}\": ", after_pass);
  context += fmt::format("{} level: ", name(level));
  const unsigned where = everywhere | (1u << static_cast<int>(level));
  NodeSet seen;
  std::vector<const UOp*> order;
  std::vector<std::pair<const UOp*, size_t>> stack;
  auto push = [&](const UOp& u) {
    if (seen.insert(u)) stack.emplace_back(&u, 0);
  };
  push(root);
  while (!stack.empty()) {
    auto& [u, next] = stack.back();
    if (next == apart(*u)) next++;
    if (next < u->src().size()) {
      push(u->src(next++));
    } else {
      if (!legal_ops(level).contains(u->op()))
        refuse(*u, context, fmt::format("{} is not legal at {} level", name(u->op()), name(level)));
      order.push_back(u);
      stack.pop_back();
    }
  }
  for (const UOp* u : order) check_requirements(*u, where, context);  // once it is known that all belong here
  for (const UOp* u : order)
    if (u->op() == Op::CALL && u->src(0).op() == Op::SINK) check(u->src(0), Level::kernel, after_pass);
}

void check_boundary(const UOp& root, Level level, std::string_view after_pass) {
  if (env::SPEC() == 0) return;
  check(root, level, after_pass);
  if (env::SPEC() < 2) return;
  const std::string text = root.text();
  std::string reason = "it parses back to another node";
  try {
    if (same(parse(text), root)) return;
  } catch (const ParseError& e) {
    reason = fmt::format("it does not parse back: {}", e.what());
  }
  throw SpecError(fmt::format("after pass \"{}\": what is printed is not what is there: {}\n{}", after_pass,
                              reason, printed(root)));
}

}  // namespace quern
