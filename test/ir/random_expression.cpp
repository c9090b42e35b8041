#include "test/ir/random_expression.h"

#include <algorithm>
#include <array>
#include <ranges>

#include "quern/ir/node/uop.h"
#include "test/fuzz.h"
#include "test/ir/evaluate.h"

namespace quern {
namespace {

constexpr std::array kFixedWidth = {dtypes::int8,  dtypes::uint8,  dtypes::int16, dtypes::uint16,
                                    dtypes::int32, dtypes::uint32, dtypes::int64, dtypes::uint64};

class Generator {
 public:
  Generator(std::mt19937_64& random, const ExpressionKind& kind) : random_(random), kind_(kind) {
    const int count = static_cast<int>(pick(random_, 1, 5));
    for (int i = 0; i < count; i++) leaves_.push_back(new_leaf(i));
  }

  UOp integer(DType dtype, int depth) {
    if (depth <= 0 || one_in(random_, 6)) return leaf(dtype);
    if (!made_.empty() && one_in(random_, 8))
      if (const UOp& old = made_[random_() % made_.size()]; old.dtype() == dtype) return old;
    const UOp made = dtype.is_index() ? index_op(depth - 1) : fixed_op(dtype, depth - 1);
    made_.push_back(made);
    return made;
  }

  UOp condition(int depth) {
    if (!made_conditions_.empty() && one_in(random_, 8))
      return made_conditions_[random_() % made_conditions_.size()];
    const UOp made = condition_op(depth - 1);
    made_conditions_.push_back(made);
    return made;
  }

 private:
  UOp make(Op op, const UOp& a, const UOp& b) { return UOp::make(op, a.dtype(), {a, b}); }

  UOp new_leaf(int i) {
    if (!kind_.dtype.is_index() && !one_in(random_, 4)) return fixed_leaf(kind_.dtype, i);
    if (!one_in(random_, 3)) {
      const UOp n = UOp::variable("n", 1, 17);
      if (one_in(random_, 5)) return UOp::range(one_in(random_, 3) ? n * 2 : n, i);
      return UOp::range(one_in(random_, 10) ? 1 : pick(random_, 2, 17), i);
    }
    const int64_t least = one_in(random_, 3) ? pick(random_, 0, 4) : pick(random_, -20, 5);
    return UOp::variable(std::string(1, static_cast<char>('a' + i)), least,
                         least + (one_in(random_, 3) ? pick(random_, 0, 1000) : pick(random_, 0, 30)));
  }

  UOp fixed_leaf(DType dtype, int i) {
    if (one_in(random_, 3)) return value_leaf(dtype, i);
    const auto least = static_cast<int64_t>(std::max<wide>(int_min(dtype), -100));
    const auto most = static_cast<int64_t>(std::min<wide>(int_max(dtype), 100));
    const int64_t x = pick(random_, least, most), y = pick(random_, least, most);
    return UOp::variable(std::string(1, static_cast<char>('a' + i)), std::min(x, y), std::max(x, y), dtype);
  }

  int64_t number() {
    switch (pick(random_, 0, 9)) {
      case 0: return pick(random_, -20, 20);
      case 1: return pick(random_, -1, 1);
      case 2: return int64_t{1} << pick(random_, 0, 10);
      case 3: return pick(random_, 1, 1000);
      case 4: return std::array{6, 10, 12, 15, 60, 24, 36, 30}[random_() % 8];
      default: return pick(random_, 1, 9);
    }
  }
  UOp constant(DType dtype) {
    if (!dtype.is_index() && one_in(random_, 5))
      return UOp::constant(dtype, wrap(dtype, static_cast<int64_t>(random_())));
    return UOp::constant(dtype, wrap(dtype, number()));
  }

  UOp leaf(DType dtype) {
    if (one_in(random_, 8)) return constant(dtype);
    return leaves_[random_() % leaves_.size()].cast(dtype);
  }

  // Seldom 0, where division has a value of its own.
  UOp divisor(DType dtype, int depth) {
    if (one_in(random_, 8)) return integer(dtype, depth);
    UOp c = constant(dtype);
    return c.equals(0) && !one_in(random_, 10) ? UOp::constant(dtype, 3) : c;
  }

  // What indices of views look like: leaves with strides, whose factors the divisors share.
  UOp strided_sum() {
    constexpr std::array strides = {1, 1, 2, 3, 4, 5, 6, 8, 12, 15, 16, 30, 60, -1, -4};
    UOp sum = constant(dtypes::index);
    for (int64_t terms = pick(random_, 1, 4); terms > 0; terms--)
      sum =
          sum + leaves_[random_() % leaves_.size()].cast(dtypes::index) * strides[random_() % strides.size()];
    return sum;
  }

  UOp index_op(int depth) {
    const DType d = dtypes::index;
    auto x = [&] { return integer(d, depth); };
    switch (pick(random_, 0, 31)) {
      default: return x() + x();
      case 25:
      case 26: return strided_sum();
      case 0:
      case 1: return x() - x();
      case 2:
      case 3:
      case 4:
      case 5: return x() * constant(d);
      case 6: return x() * x();
      case 7:
      case 8:
      case 9:
      case 10: return make(Op::FLOORDIV, x(), divisor(d, depth));
      case 11:
      case 12:
      case 13:
      case 14: return make(Op::FLOORMOD, x(), divisor(d, depth));
      case 15: return make(Op::TRUNCDIV, x(), divisor(d, depth));
      case 16: return make(Op::TRUNCMOD, x(), divisor(d, depth));
      case 17: return max(x(), x());
      case 18: return min(x(), x());
      case 19:
      case 20: return where(condition(depth), x(), x());
      case 21: return where(condition(depth), x(), x());
      case 22:
      case 23: return kind_.gates ? where(condition(depth), x(), UOp::invalid()) : x() + constant(d);
      case 24: return one_in(random_, 2) ? condition(depth).cast(d) : rare_op(d, depth);
    }
  }

  UOp fixed_op(DType d, int depth) {
    auto x = [&] { return integer(d, depth); };
    switch (pick(random_, 0, 27)) {
      case 0:
      case 1:
      case 2:
      case 3: return x() + x();
      case 4: return x() - x();
      case 5:
      case 6:
      case 7: return x() * constant(d);
      case 8: return x() * x();
      case 9:
      case 10: return make(Op::FLOORDIV, x(), divisor(d, depth));
      case 11:
      case 12: return make(Op::FLOORMOD, x(), divisor(d, depth));
      case 13: return make(Op::TRUNCDIV, x(), divisor(d, depth));
      case 14: return make(Op::TRUNCMOD, x(), divisor(d, depth));
      case 15: return max(x(), x());
      case 16: return min(x(), x());
      case 17: return where(condition(depth), x(), x());
      case 18: return kind_.gates ? where(condition(depth), x(), UOp::invalid(d)) : x() + constant(d);
      case 19:
      case 20:
      case 21: return cast_between(d, depth);
      default: return rare_op(d, depth);
    }
  }

  UOp rare_op(DType d, int depth) {
    auto x = [&] { return integer(d, depth); };
    switch (pick(random_, 0, 11)) {
      case 0:
      case 1: return x() & (one_in(random_, 2) ? x() : constant(d));
      case 2: return x() | (one_in(random_, 2) ? x() : constant(d));
      case 3: return x() ^ (one_in(random_, 2) ? x() : constant(d));
      case 4: return ~x();
      case 5:
      case 6: return x() << UOp::constant(d, pick(random_, 0, d.is_index() ? 5 : 9));
      case 7:
      case 8: return x() >> UOp::constant(d, pick(random_, 0, 9));
      case 9: return d.is_index() ? x() >> x() : x() << x();
      case 10: return UOp::make(Op::NEG, d, {x()});
      default:
        return one_in(random_, 2) ? make(Op::SUB, x(), x())
                                  : UOp::make(Op::MULACC, d, {x(), constant(d), x()});
    }
  }

  UOp cast_between(DType d, int depth) {
    if (one_in(random_, 4)) return condition(depth).cast(d);
    const DType from = one_in(random_, 3) ? dtypes::index : kFixedWidth[random_() % kFixedWidth.size()];
    return integer(from, depth).cast(d);
  }

  UOp condition_op(int depth) {
    const DType d = one_in(random_, 10) ? kFixedWidth[random_() % kFixedWidth.size()] : kind_.dtype;
    auto x = [&] { return integer(d, depth); };
    if (depth > 1 && one_in(random_, 3)) {
      const UOp a = condition(depth);
      switch (pick(random_, 0, 6)) {
        case 0:
        case 1: return a & condition(depth);
        case 2: return a | condition(depth);
        case 3: return a ^ condition(depth);
        case 4: return ~a;
        case 5: return where(condition(depth), a, condition(depth));
        default: return eq(a, condition(depth));
      }
    }
    switch (pick(random_, 0, 8)) {
      case 0:
      case 1:
      case 2: return x() < constant(d);
      case 3: return constant(d) <= x();
      case 4: return x() < x();
      case 5: return x() <= x();
      case 6: return eq(x(), one_in(random_, 2) ? constant(d) : x());
      case 7: return ne(x(), one_in(random_, 2) ? constant(d) : x());
      default: return x().cast(dtypes::bool_);
    }
  }

  std::mt19937_64& random_;
  const ExpressionKind& kind_;
  UOps leaves_, made_, made_conditions_;
};

Const random_value(std::mt19937_64& random, const UOp& leaf) {
  const DType d = leaf.dtype();
  if (leaf.op() == Op::PARAM && d.is_bool()) return Const::of_bool(one_in(random, 2));
  const Bounds b = leaf.bounds();
  const int64_t corner[] = {0, 1, -1};
  wide v = 0;
  switch (pick(random, 0, 7)) {
    case 0: v = b.min; break;
    case 1: v = b.max; break;
    case 2: v = corner[random() % 3]; break;
    default:
      v = b.min + static_cast<wide>(random() % (static_cast<uint64_t>(b.max - b.min) + 1 == 0
                                                    ? ~uint64_t{0}
                                                    : static_cast<uint64_t>(b.max - b.min) + 1));
  }
  return wrap(d, std::clamp(v, b.min, b.max));
}

}  // namespace

UOp random_expression(std::mt19937_64& random, int depth, const ExpressionKind& kind) {
  Generator generator(random, kind);
  if (kind.condition) return generator.condition(depth);
  UOp x = generator.integer(kind.dtype, depth);
  if (kind.gates && one_in(random, 4)) x = where(generator.condition(depth), x, UOp::invalid(kind.dtype));
  return x;
}

std::pair<UOp, UOp> random_gated(std::mt19937_64& random, int depth, const ExpressionKind& kind) {
  Generator generator(random, kind);
  const UOp condition = generator.condition(depth);
  return {condition, generator.integer(kind.dtype, depth)};
}

std::vector<std::vector<Const>> random_points(std::mt19937_64& random, const UOps& leaves, size_t most) {
  wide combinations = 1;
  for (const UOp& leaf : leaves) {
    const Bounds b = leaf.bounds();
    combinations = std::min<wide>(combinations * std::min<wide>(b.max - b.min + 1, 1 << 20), 1 << 20);
  }
  std::vector<std::vector<Const>> points;
  if (combinations <= static_cast<wide>(most)) {
    for (wide k = 0; k < combinations; k++) {
      wide rest = k;
      std::vector<Const> point;
      for (const UOp& leaf : leaves) {
        const Bounds b = leaf.bounds();
        const wide size = b.max - b.min + 1;
        point.push_back(wrap(leaf.dtype(), b.min + rest % size));
        rest /= size;
      }
      points.push_back(std::move(point));
    }
    return points;
  }
  for (size_t k = 0; k < most; k++) {
    std::vector<Const> point;
    for (const UOp& leaf : leaves) {
      if (k < 2)
        point.push_back(wrap(leaf.dtype(), k == 0 ? leaf.vmin() : leaf.vmax()));
      else
        point.push_back(random_value(random, leaf));
    }
    points.push_back(std::move(point));
  }
  return points;
}

UOp shrink(const UOp& failing, const std::function<bool(const UOp&)>& fails) {
  UOp best = failing;
  auto better = [&](const UOp& candidate) {
    if (same(candidate, best) || !fails(candidate)) return false;
    best = candidate;
    return true;
  };
  auto step = [&] {
    const NodeList nodes = best.toposort();
    for (const UOp& part : nodes)  // the smallest first
      if (!part.src().empty() && !same(part, best) && (part.dtype().is_int() || part.dtype().is_bool()) &&
          better(part))
        return true;
    for (const UOp& u : std::views::reverse(nodes)) {
      if (u.op() == Op::RANGE || (!u.dtype().is_int() && !u.dtype().is_bool())) continue;
      UOps simpler;
      if (u.is_int_const()) {
        for (wide v : {wide{0}, wide{1}, u.int_value() / 2, u.int_value() - (u.int_value() > 0 ? 1 : -1)})
          if (fits(u.dtype(), v) && (v < 0 ? -v : v) < (u.int_value() < 0 ? -u.int_value() : u.int_value()))
            simpler.push_back(u.const_like(v));
      } else if (!u.src().empty()) {
        for (const UOp& s : u.src())
          if (s.dtype() == u.dtype()) simpler.push_back(s);
        simpler.push_back(u.const_like(0));
        simpler.push_back(u.const_like(1));
      }
      for (const UOp& s : simpler)
        if (better(best.substitute({{u, s}}))) return true;
    }
    return false;
  };
  for (int steps = 0; steps < 300 && step();) steps++;
  return best;
}

}  // namespace quern
