// A rule in the form that is matched: its patterns as flat tables, variables as numbers. Internal to ir.
#pragma once

#include <cstdint>
#include <vector>

#include "quern/ir/rules.h"

namespace quern::detail {

inline constexpr int kMaxCaptures = 16;

// A pattern node with its variable resolved to a slot and its parts to positions.
struct Part {
  Pat::Kind kind = Pat::Kind::node;
  Pat::SourceMode mode = Pat::SourceMode::any;
  int16_t slot = -1;
  bool plain = false;  // nothing to check but ops, types and slot
  bool wants_const = false;
  uint16_t first = 0, count = 0;  // its parts, in CompiledRule::children
  OpSet ops;
  Types types;
  const Pat::Data* data = nullptr;
};

struct CompiledRule {
  const Rule* rule = nullptr;
  std::vector<Part> parts;
  std::vector<uint16_t> children;
  int left = -1, right = -1, condition = -1;
  int captures = 0;
};

// A RewriteError when the rule makes no sense: unknown variables, a function with other arguments, ...
CompiledRule compile_rule(const Rule& rule);

// What the rule makes of the node; none if it does not match, refuses, or gives the node itself.
UOp apply_rule(const CompiledRule& rule, const UOp& node, Context context);

// Rejects by the ops of the sources, before a matcher is set up.
inline bool may_match(const CompiledRule& rule, const UOp& u) {
  const Part& p = rule.parts[static_cast<size_t>(rule.left)];
  if (!p.types.contains(u.dtype())) return false;
  if (p.mode == Pat::SourceMode::each) {
    const OpSet wanted = rule.parts[rule.children[p.first]].ops;
    for (const UOp& s : u.src())
      if (!wanted.contains(s.op())) return false;
  }
  if (p.mode != Pat::SourceMode::exactly && p.mode != Pat::SourceMode::prefix) return true;
  if (p.mode == Pat::SourceMode::exactly ? u.src().size() != p.count : u.src().size() < p.count) return false;
  auto ops = [&](size_t i) { return rule.parts[rule.children[p.first + i]].ops; };
  if (p.count == 2 && is_commutative(u.op()))
    return (ops(0).contains(u.src(0).op()) && ops(1).contains(u.src(1).op())) ||
           (ops(0).contains(u.src(1).op()) && ops(1).contains(u.src(0).op()));
  for (size_t i = 0; i < p.count; i++)
    if (!ops(i).contains(u.src(i).op())) return false;
  return true;
}

}  // namespace quern::detail
