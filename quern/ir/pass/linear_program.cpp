#include "quern/ir/pass/linear_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/node/node_map.h"
#include "quern/ir/spec/spec.h"
#include "quern/ir/text/arg_text.h"

namespace quern {
namespace {

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
