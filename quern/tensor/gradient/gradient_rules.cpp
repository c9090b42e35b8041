#include "quern/tensor/gradient/gradient_rules.h"

#include <array>
#include <numbers>

namespace quern {
namespace {

// ---- elementwise

UOp negated(const UOp& x) { return UOp::alu(Op::NEG, {x}); }
UOp difference(const UOp& a, const UOp& b) { return UOp::alu(Op::SUB, {a, b}); }
UOp scaled(const UOp& x, double factor) { return x * filled_like(x, factor); }

// The operand that is the greater or less takes all of the gradient, equal operands half of it each.
UOp to_extreme(const UOp& node, const UOp& gradient, size_t source) {
  const UOp &mine = node.src(source), &other = node.src(1 - source);
  const UOp loses = node.op() == Op::MAX ? mine < other : other < mine;
  return where(loses, filled_like(gradient, 0), where(eq(mine, other), scaled(gradient, 0.5), gradient));
}

// Of where(condition, a, b): where the gradient goes to a. Of relu, where(x <= 0, 0, x), the result itself
// tells: x need not be kept for it.
UOp goes_to_first(const UOp& node) {
  const UOp zero = filled_like(node, 0);
  const bool is_relu = same(node.src(1), zero) && same(node.src(0), node.src(2) <= zero);
  return is_relu ? node <= zero : node.src(0);
}

// b * a^(b-1). Where b is 0 the gradient is 0, even if 1/a is not finite; a power of 0 is 1 and keeps
// infinities out of this gradient and out of its own gradient.
UOp to_power_base(const UOp& node, const UOp& gradient) {
  const UOp &a = node.src(0), &b = node.src(1);
  if (base_of(b).is_const() && !b.ops_below().contains(Op::PAD)) {  // the same everywhere
    const double exponent = base_of(b).value().as_float();
    if (exponent == 0) return filled_like(a, 0);
    if (exponent == 1) return gradient;
    if (exponent == 2) return gradient * scaled(a, 2);
    return gradient * scaled(UOp::alu(Op::POW, {a, filled_like(a, exponent - 1)}), exponent);
  }
  const UOp zero = filled_like(b, 0), inverse = UOp::alu(Op::RECIP, {a});
  const UOp constant_one = eq(b, zero) & ne(inverse * zero, zero);  // 0 * inf and 0 * nan are not 0
  const UOp lower = where(constant_one, zero, difference(b, filled_like(b, 1)));
  return gradient * (b * UOp::alu(Op::POW, {a, lower}));
}

// a^b * ln(a), and 0 where a is 0 and b is not negative.
UOp to_power_exponent(const UOp& node, const UOp& gradient) {
  const UOp &a = node.src(0), &b = node.src(1), zero = filled_like(a, 0);
  const UOp flat = eq(a, zero) & (zero <= b);
  const UOp log = UOp::alu(Op::LOG2, {where(flat, filled_like(a, 1), a)});
  return gradient * (node * scaled(log, std::numbers::ln2));
}

// ---- movement

UOp to_unpadded(const UOp& node, const UOp& gradient) {
  const size_t axes = node.shape().size();
  return shrink(gradient, node.src().subspan(1, axes), node.src(0).shape());
}
UOp to_unshrunk(const UOp& node, const UOp& gradient) {
  const size_t axes = node.shape().size();
  return pad(gradient, node.src().subspan(1, axes), node.src(0).shape());
}
// ---- memory and devices

UOp to_first_device(const UOp& node, const UOp& gradient) {
  const Texts device = node.src(0).device(),
              here = gradient.device();  // none: constants, which are everywhere
  if (device.empty() || here.empty() || device == here) return gradient;
  return copy_to(gradient, UOp::make(Op::DEVICE, dtypes::void_, {}, device));
}

UOp to_sliced(const UOp& node, const UOp& gradient) {
  const UOp& memory = node.src(0);
  if (memory.dtype() != node.dtype())
    throw DTypeError("gradient: a slice of " + memory.dtype().name() + " memory seen as " +
                     node.dtype().name() + " has no gradient");
  return pad(gradient, node.src().subspan(1), memory.shape());
}

// ---- the table: u is the node, g the gradient of its value

// clang-format off
constexpr GradientRule kRules[] = {
    {Op::ADD,    {[](const UOp&,   const UOp& g) { return g; },
                  [](const UOp&,   const UOp& g) { return g; }}},
    {Op::SUB,    {[](const UOp&,   const UOp& g) { return g; },
                  [](const UOp&,   const UOp& g) { return negated(g); }}},
    {Op::NEG,    {[](const UOp&,   const UOp& g) { return negated(g); }}},
    {Op::MUL,    {[](const UOp& u, const UOp& g) { return g * u.src(1); },
                  [](const UOp& u, const UOp& g) { return g * u.src(0); }}},
    {Op::MULACC, {[](const UOp& u, const UOp& g) { return g * u.src(1); },
                  [](const UOp& u, const UOp& g) { return g * u.src(0); },
                  [](const UOp&,   const UOp& g) { return g; }}},
    {Op::FDIV,   {[](const UOp& u, const UOp& g) { return g / u.src(1); },
                  [](const UOp& u, const UOp& g) { return negated(g * (u / u.src(1))); }}},
    {Op::RECIP,  {[](const UOp& u, const UOp& g) { return negated(g * (u * u)); }}},
    {Op::SQRT,   {[](const UOp& u, const UOp& g) { return g / scaled(u, 2); }}},
    {Op::EXP2,   {[](const UOp& u, const UOp& g) { return g * scaled(u, std::numbers::ln2); }}},
    {Op::LOG2,   {[](const UOp& u, const UOp& g) { return g / scaled(u.src(0), std::numbers::ln2); }}},
    {Op::SIN,    {[](const UOp& u, const UOp& g) { return g * UOp::alu(Op::COS, {u.src(0)}); }}},
    {Op::COS,    {[](const UOp& u, const UOp& g) { return negated(g * UOp::alu(Op::SIN, {u.src(0)})); }}},
    {Op::TRUNC,  {[](const UOp&,   const UOp& g) { return filled_like(g, 0); }}},
    {Op::POW,    {to_power_base, to_power_exponent}},
    {{Op::MAX, Op::MIN},
                 {[](const UOp& u, const UOp& g) { return to_extreme(u, g, 0); },
                  [](const UOp& u, const UOp& g) { return to_extreme(u, g, 1); }}},
    {Op::WHERE,  {nullptr,
                  [](const UOp& u, const UOp& g) { return where(u.src(0), g, filled_like(g, 0)); },
                  [](const UOp& u, const UOp& g) { return where(goes_to_first(u), filled_like(g, 0), g); }}},
    {Op::CAST,   {[](const UOp& u, const UOp& g) { return g.cast(u.src(0).dtype()); }}},

    {Op::RESHAPE, {[](const UOp& u, const UOp& g) { return reshape(g, u.src(0).shape()); }}},
    {Op::EXPAND,  {expand_to_source}},
    {Op::PERMUTE, {[](const UOp& u, const UOp& g) { return permute(g, inverse_order(u.arg().ints())); }}},
    {Op::FLIP,    {[](const UOp& u, const UOp& g) { return flip(g, u.arg().ints()); }}},
    {Op::PAD,     {to_unpadded}},
    {Op::SHRINK,  {to_unshrunk}},
    {Op::REDUCE,  {reduce_to_source}},

    {{Op::CONTIGUOUS, Op::NOOP}, {[](const UOp&, const UOp& g) { return g; }}},
    {Op::CONTIGUOUS_BACKWARD,    {[](const UOp&, const UOp& g) { return contiguous(g); }}},
    {Op::COPY,                   {to_first_device}},
    {Op::SLICE,                  {to_sliced}},
};
// clang-format on

}  // namespace

const GradientRule* gradient_rule(Op op) {
  static const auto by_op = [] {
    std::array<const GradientRule*, kOpCount> table{};
    for (const GradientRule& rule : kRules)
      for (int i = 0; i < kOpCount; i++)
        if (rule.ops.contains(static_cast<Op>(i))) table[static_cast<size_t>(i)] = &rule;
    return table;
  }();
  return by_op[static_cast<size_t>(op)];
}

}  // namespace quern
