#include "test/ir/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/saturate.h"

namespace quern {
namespace {

constexpr OpSet kLeaves = {Op::DEFINE_VAR, Op::RANGE, Op::SPECIAL, Op::PARAM};

// Does the mathematical result of the op on index values lie outside of 64 bits? The operands are inside.
bool leaves_index(Op op, wide a, wide b, wide c) {
  auto outside = [](wide v) { return !fits(dtypes::index, v); };
  switch (op) {
    case Op::NEG: return outside(-a);
    case Op::ADD: return outside(a + b);
    case Op::SUB: return outside(a - b);
    case Op::MUL: return outside(a * b);
    case Op::MULACC: return outside(saturating_add(a * b, c));
    case Op::FLOORDIV:
    case Op::TRUNCDIV: return b == -1 && outside(-a);
    case Op::SHL: return b >= 0 && a != 0 && (b >= 64 || outside(a * (wide{1} << static_cast<int>(b))));
    default: return false;
  }
}

std::string leaf_name(const UOp& u) {
  switch (u.op()) {
    case Op::DEFINE_VAR: return u.arg().variable().name;
    case Op::RANGE: return fmt::format("r{}", u.arg().range().id);
    case Op::SPECIAL: return u.arg().text();
    default: return fmt::format("p{}", u.arg().integer());
  }
}

}  // namespace

UOp value_leaf(DType dtype, int64_t slot) { return UOp::make(Op::PARAM, dtype, {}, slot); }

Evaluator::Evaluator(Sources roots) {
  NodeMap<uint32_t> positions;
  const UOp all = UOp::sink(roots);
  const NodeList order = all.backward_slice();
  for (const UOp& u : order)
    if (kLeaves.contains(u.op())) leaves_.push_back(u);
  std::sort(leaves_.begin(), leaves_.end(), before);
  for (const UOp& u : order) {
    QUERN_CHECK(u.dtype().lanes() == 1 && !u.dtype().is_ptr(), "only scalars are evaluated:\n" + u.text());
    QUERN_CHECK(u.is_const() || kLeaves.contains(u.op()) || is_elementwise(u.op()),
                "cannot evaluate:\n" + u.text());
    Step step;
    step.node = u;
    step.countable = u.dtype().is_int() || u.dtype().is_bool();
    if (step.countable) step.bounds = u.bounds();
    if (kLeaves.contains(u.op()))
      step.leaf = static_cast<int>(std::find(leaves_.begin(), leaves_.end(), u) - leaves_.begin());
    if (!u.is_const() && u.op() != Op::PARAM)
      for (const UOp& s : u.src()) step.sources[step.count++] = *positions.find(s);
    positions.emplace(u, static_cast<uint32_t>(steps_.size()));
    steps_.push_back(std::move(step));
  }
  values_.resize(steps_.size());
  for (size_t i = 0; i < steps_.size(); i++)
    if (steps_[i].node.is_const()) values_[i] = {steps_[i].node.value()};
  for (const UOp& root : roots) roots_.push_back(*positions.find(root));
}

bool Evaluator::run(std::span<const Const> given) {
  for (size_t i = 0; i < steps_.size(); i++) {
    const Step& step = steps_[i];
    const UOp& u = step.node;
    if (step.leaf >= 0) {
      const Const value = given[static_cast<size_t>(step.leaf)];
      values_[i] = {value};
      if (u.op() == Op::PARAM) continue;
      const wide v = value.integer(u.dtype());
      if (v < step.bounds.min || v > step.bounds.max) return false;
      if (u.op() == Op::DEFINE_VAR) continue;
      const Evaluated& end = values_[step.sources[0]];
      if (end.overflow || end.value.is_invalid() || v >= end.value.integer(u.dtype())) return false;
      continue;
    }
    if (u.is_const()) continue;
    std::array<Const, 3> args;
    bool overflow = false;
    for (size_t s = 0; s < step.count; s++) {
      args[s] = values_[step.sources[s]].value;
      overflow |= values_[step.sources[s]].overflow;
    }
    if (u.op() == Op::WHERE && !args[0].is_invalid()) {
      const Evaluated& picked = values_[step.sources[args[0].as_bool() ? 1 : 2]];
      values_[i] = {picked.value, picked.overflow || values_[step.sources[0]].overflow};
      continue;
    }
    const DType in = u.src().back().dtype();
    if (!overflow && u.dtype().is_index() && in.is_index()) {
      const bool valid =
          std::none_of(args.begin(), args.begin() + step.count, [](Const c) { return c.is_invalid(); });
      overflow = valid && leaves_index(u.op(), args[0].as_int(), args[1].as_int(), args[2].as_int());
    }
    values_[i] = {eval(u.op(), u.dtype(), in, {args.data(), step.count}), overflow};
  }
  return true;
}

std::string Evaluator::broken_bounds() const {
  for (size_t i = 0; i < steps_.size(); i++) {
    const Step& step = steps_[i];
    const Evaluated& e = values_[i];
    if (!step.countable || e.overflow || e.value.is_invalid()) continue;
    const wide v = e.value.integer(step.node.dtype());
    if (v >= step.bounds.min && v <= step.bounds.max) continue;
    return fmt::format("is {}, but its bounds are {} to {}, at {}:\n{}", to_string(v),
                       to_string(step.bounds.min), to_string(step.bounds.max), point(), step.node.text());
  }
  return {};
}

std::string Evaluator::point() const {
  std::string s;
  for (size_t i = 0; i < steps_.size(); i++)
    if (steps_[i].leaf >= 0)
      s += fmt::format("{}{} = {}", s.empty() ? "" : ", ", leaf_name(steps_[i].node),
                       to_string(values_[i].value, steps_[i].node.dtype()));
  return s;
}

std::optional<Const> evaluate(const UOp& expression, const std::unordered_map<UOp, Const>& leaves) {
  Evaluator e(expression);
  std::vector<Const> values;
  for (const UOp& leaf : e.leaves()) values.push_back(leaves.at(leaf));
  if (!e.run(values) || e.result().overflow) return std::nullopt;
  return e.result().value;
}

}  // namespace quern
