#include "quern/ir/pass/linear_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/node/node_map.h"
#include "quern/ir/spec/spec.h"
#include "quern/ir/text/arg_text.h"

namespace quern {
namespace {

constexpr size_t kFewRare = 8;     // nodes that cost no more than a branch
constexpr size_t kMostCopies = 4;  // of a node, in as many branches
constexpr OpSet kCalls = {Op::EXP2, Op::LOG2, Op::SIN, Op::COS, Op::POW};
constexpr OpSet kUnlisted = {Op::CONST, Op::AFTER, Op::NOOP};
bool is_gate_of_index(const UOp& u) { return u.op() == Op::WHERE && u.src(2).is_invalid(); }

// What the node uses, with what is not listed looked through.
void add_uses(const UOp& u, UOps& uses) {
  if (u.op() == Op::INDEX) {
    uses.push_back(storage_of(u.src(0)));
    if (u.src().size() < 2) return;
    if (has_gate(u)) uses.push_back(gate_of(u));
    uses.push_back(position_of(u));
    return;
  }
  for (const UOp& s : u.src()) {
    const UOp* x = &s;
    while ((x->op() == Op::AFTER || x->op() == Op::NOOP) && !x->src().empty()) x = &x->src(0);
    uses.push_back(*x);
  }
}
UOps uses_of(const UOp& u) {
  UOps uses;
  if (u.op() == Op::END) return u.src(1).op() == Op::RANGE ? UOps{u.src(1)} : UOps{};
  if (u.op() == Op::IF) return {u.src(0)};
  add_uses(u, uses);
  std::erase_if(uses, [](const UOp& x) { return kUnlisted.contains(x.op()) || x.dtype().is_void(); });
  return uses;
}

}  // namespace

const UOp& storage_of(const UOp& pointer) {
  const UOp* u = &pointer;
  while (u->op() == Op::AFTER || u->op() == Op::NOOP || u->op() == Op::CAST || u->op() == Op::INDEX)
    u = &u->src(0);
  return *u;
}

const UOp& index_of_address(const UOp& address) {
  const UOp* u = &address;
  while (u->op() == Op::CAST || u->op() == Op::AFTER || u->op() == Op::NOOP) u = &u->src(0);
  QUERN_CHECK(u->op() == Op::INDEX, "an address that is no INDEX:\n" + address.text());
  return *u;
}

std::unordered_map<UOp, UOps> rare_parts(const LinearProgram& program) {
  std::unordered_map<UOp, UOps> parts;
  if (std::ranges::none_of(program.list, is_rare)) return parts;
  const UOps& list = program.list;
  NodeMap<int> home;  // the loop or gate in which a node stands
  std::vector<int> open{0};
  int regions = 0;
  for (const UOp& u : list) {
    if (u.op() == Op::END || u.op() == Op::ENDIF) open.pop_back();
    home[u] = open.back();
    if (u.op() == Op::RANGE || u.op() == Op::IF) open.push_back(++regions);
  }
  // The WHEREs to whose parts a node belongs; none: it is computed in any case. A WHERE may stand in a part.
  std::unordered_map<UOp, UOps> owners;
  const std::function<void(const UOps&, UOps&)> add_outermost = [&](const UOps& from, UOps& to) {
    for (const UOp& w : from)
      if (const auto found = owners.find(w); found != owners.end())
        add_outermost(found->second, to);
      else if (std::ranges::none_of(to, [&](const UOp& x) { return same(x, w); }))
        to.push_back(w);
  };
  const auto are_same = [](const UOps& a, const UOps& b) {
    return std::ranges::equal(a, b, [](const UOp& x, const UOp& y) { return same(x, y); });
  };
  std::unordered_map<UOp, UOps> wanted;  // by which WHEREs; none: in any case
  const auto want = [&](const UOp& u, const UOps& by) {
    const auto [so_far, is_new] = wanted.emplace(u, by);
    UOps& all = so_far->second;
    if (is_new || all.empty() || are_same(all, by)) return;
    UOps both;
    if (!by.empty()) add_outermost(all, both), add_outermost(by, both);
    all = both.size() <= kMostCopies ? both : UOps{};
  };
  for (size_t i = list.size(); i-- > 0;) {  // users come before what they use
    const UOp& u = list[i];
    const bool may =
        (is_elementwise(u.op()) || u.op() == Op::GEP || u.op() == Op::VECTORIZE) && !u.dtype().is_ptr();
    UOps of;
    if (const auto by = wanted.find(u); may && by != wanted.end()) of = by->second;
    if (std::ranges::any_of(of, [&](const UOp& w) { return *home.find(w) != *home.find(u); })) of = {};
    if (!of.empty()) owners[u] = of;
    if (is_rare(u))
      want(u.src(0), of), want(u.src(2), of), want(u.src(1), {u});
    else
      for (const UOp& s : uses_of(u)) want(s, of);
  }
  for (const UOp& u : list)
    if (const auto found = owners.find(u); found != owners.end())
      for (const UOp& w : found->second) parts[w].push_back(u);
  // What costs no more than a branch is computed in any case, for all that need it.
  NodeSet always;
  const auto is_call = [](const UOp& u) { return kCalls.contains(u.op()); };
  std::erase_if(parts, [&](const auto& part) {
    const auto& [where, nodes] = part;
    if (nodes.size() > kFewRare || owners.contains(where) || std::ranges::any_of(nodes, is_call))
      return false;
    for (const UOp& u : nodes) always.insert(u);
    return true;
  });
  for (auto& [where, nodes] : parts) std::erase_if(nodes, [&](const UOp& u) { return always.contains(u); });
  return parts;
}

std::string LinearProgram::text() const {
  NodeMap<size_t> numbers;
  std::string out;
  size_t depth = 0;
  auto reference = [&](const UOp& given) -> std::string {
    const UOp* u = &given;
    while ((u->op() == Op::AFTER || u->op() == Op::NOOP) && !u->src().empty()) u = &u->src(0);
    if (u->is_const()) return to_string(u->value(), u->dtype().scalar());
    if (is_gate_of_index(*u)) {
      const size_t *gate = numbers.find(u->src(0)), *at = numbers.find(u->src(1));
      return fmt::format("{} if {}", at ? fmt::format("%{}", *at) : to_string(u->src(1).value(), u->dtype()),
                         gate ? fmt::format("%{}", *gate) : "?");
    }
    const size_t* number = numbers.find(*u);
    return number ? fmt::format("%{}", *number) : std::string(quern::name(u->op()));
  };
  for (const UOp& u : list) {
    if ((u.op() == Op::END || u.op() == Op::ENDIF) && depth > 0) depth--;
    out += fmt::format("{:{}}", "", 2 * depth + 2);
    if (!u.dtype().is_void()) out += fmt::format("%{} = ", numbers.size());
    out += quern::name(u.op());
    if (u.op() == Op::END) {
      out += fmt::format(" {}", reference(u.src(1)));
    } else if (u.op() != Op::ENDIF) {
      std::string sources;
      for (const UOp& s : u.src()) {
        if (u.op() == Op::BARRIER) break;
        sources += (sources.empty() ? "" : ", ") + reference(s);
      }
      if (!u.arg().none()) {
        sources += sources.empty() ? "" : "; ";
        if (u.op() == Op::RANGE)
          sources += fmt::format("r{}, {}", u.arg().range().id, quern::name(u.arg().range().kind));
        else
          print_arg(sources, u.arg(), info(u.op()).arg);
      }
      out += fmt::format("({})", sources);
      if (!u.dtype().is_void()) out += ":" + u.dtype().name();
    }
    numbers.emplace(u, numbers.size());
    if (u.op() == Op::RANGE || u.op() == Op::IF) depth++;
    out += "\n";
  }
  return out;
}

void check(const LinearProgram& program) {
  NodeSet seen;
  UOps open;
  auto refuse = [&](const UOp& u, const std::string& why) {
    throw SpecError(
        fmt::format("linear program {}: {}: {}\n{}", program.name, name(u.op()), why, program.text()));
  };
  for (const UOp& u : program.list) {
    if (!legal_ops(Level::program).contains(u.op()) || kUnlisted.contains(u.op()))
      refuse(u, "it does not belong into a list");
    check_node(u);
    for (const UOp& s : uses_of(u))
      if (!seen.contains(s) && !(s.is_const()))
        refuse(u, fmt::format("its source {} does not stand before it", name(s.op())));
    if (u.op() == Op::END || u.op() == Op::ENDIF) {
      const UOp& bracket = u.op() == Op::END ? u.src(1) : u.src(0);
      if (open.empty() || !same(open.back(), bracket)) refuse(u, "it closes what is not the innermost");
      open.pop_back();
    }
    if (u.op() == Op::RANGE || u.op() == Op::IF) {
      if (std::ranges::find(open, u) != open.end()) refuse(u, "it is open already");
      open.push_back(u);
    }
    if (u.op() == Op::STORE) {
      const UOp& index = index_of_address(u.src(0));
      const bool gated = has_gate(index);
      if (gated && (open.empty() || open.back().op() != Op::IF || !same(open.back().src(0), gate_of(index))))
        refuse(u, "it has a gate and stands outside of it");
    }
    if (u.op() == Op::LOAD && has_gate(index_of_address(u.src(0))) && u.src().size() < 2)
      refuse(u, "it has a gate and no value for where it is closed");
    seen.insert(u);
  }
  if (!open.empty()) refuse(open.back(), "it is never closed");
}

}  // namespace quern
