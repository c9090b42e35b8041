// Views that are the same by construction have the same index: into a random chain of views others are put
// that undo each other, and both chains must simplify to one node.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "quern/ir/symbolic/symbolic.h"
#include "quern/ir/text/print.h"
#include "test/fuzz.h"
#include "test/ir/views.h"

namespace quern {
namespace {

using Random = std::mt19937_64;

Sizes sizes_of(const View& v) { return Sizes(v.shape().begin(), v.shape().end()); }

int64_t elements(const View& v) {
  int64_t product = 1;
  for (const UOp& size : v.shape()) product *= static_cast<int64_t>(size.int_value());
  return product;
}

// A random way to write the number as a product of up to four sizes.
Sizes random_shape(Random& random, int64_t total) {
  std::vector<int64_t> parts(static_cast<size_t>(pick(random, 1, 4)), 1);
  for (int64_t p = 2; total > 1;) {
    if (total % p != 0) {
      p++;
      continue;
    }
    parts[random() % parts.size()] *= p;
    total /= p;
  }
  Sizes shape;
  for (int64_t part : parts) shape.emplace_back(static_cast<int>(part));
  return shape;
}

std::vector<size_t> random_order(Random& random, size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

std::vector<size_t> inverse(const std::vector<size_t>& order) {
  std::vector<size_t> result(order.size());
  for (size_t i = 0; i < order.size(); i++) result[order[i]] = i;
  return result;
}

std::vector<size_t> random_axes(Random& random, const View& v) {
  std::vector<size_t> axes;
  for (size_t i = 0; i < v.rank(); i++)
    if (one_in(random, 2)) axes.push_back(i);
  return axes;
}

// Two neighbouring axes become one, or one becomes two; the others stay.
View regroup(Random& random, const View& v) {
  if (v.rank() > 1 && one_in(random, 2)) return v.merge(random() % (v.rank() - 1), 2);
  const size_t axis = random() % v.rank();
  const auto size = static_cast<int64_t>(v.shape()[axis].int_value());
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= size; d++)
    if (size % d == 0) divisors.push_back(d);
  const int64_t outer = divisors[random() % divisors.size()];
  return v.split(axis, {static_cast<int>(outer), static_cast<int>(size / outer)});
}

// What the views are made of. Where reshapes only split and merge axes all pairs become one node; with
// others, whose axes lie across each other, nearly all.
struct Class {
  const char* name;
  bool regroups, reshapes, permutes, flips, pads;
};

class Chains {
 public:
  Chains(Random& random, const Class& allowed) : random_(random), allowed_(allowed) {}

  // A view that comes to nothing, of one to three steps there and back again.
  View nothing(const View& v, int depth) {
    const Sizes shape = sizes_of(v);
    auto within = [&](const View& inner) {
      return depth > 1 && !one_in(random_, 3) ? nothing(inner, depth - 1) : inner;
    };
    std::vector<int> choices;
    if (allowed_.regroups) choices.push_back(0);
    if (allowed_.reshapes) choices.push_back(1);
    if (allowed_.permutes) choices.push_back(2);
    if (allowed_.flips) choices.push_back(3);
    if (allowed_.pads) choices.push_back(4);
    switch (choices[random_() % choices.size()]) {
      case 0: return within(regroup(random_, v)).reshape(shape);
      case 1: return within(v.reshape(random_shape(random_, elements(v)))).reshape(shape);
      case 2: {
        const auto order = random_order(random_, v.rank());
        return within(v.permute(order)).permute(inverse(order));
      }
      case 3: {
        const auto axes = random_axes(random_, v);
        return within(v.flip(axes)).flip(axes);
      }
      default: {
        std::vector<std::pair<Size, Size>> amounts, kept;
        for (const UOp& size : v.shape()) {
          const int before = static_cast<int>(pick(random_, 0, 3)),
                    after = static_cast<int>(pick(random_, 0, 3));
          amounts.emplace_back(before, after);
          kept.emplace_back(before, (size + before).simplify());
        }
        return v.pad(amounts).shrink(kept);  // what is in between would see other sizes
      }
    }
  }

 private:
  Random& random_;
  const Class& allowed_;
};

constexpr Class kClasses[] = {
    {.name = "axes split and merged",
     .regroups = true,
     .reshapes = false,
     .permutes = false,
     .flips = false,
     .pads = false},
    {.name = "any reshape",
     .regroups = true,
     .reshapes = true,
     .permutes = false,
     .flips = false,
     .pads = false},
    {.name = "permutes, axes split and merged",
     .regroups = true,
     .reshapes = false,
     .permutes = true,
     .flips = false,
     .pads = false},
    {.name = "flips, axes split and merged",
     .regroups = true,
     .reshapes = false,
     .permutes = false,
     .flips = true,
     .pads = false},
    {.name = "permutes and any reshape",
     .regroups = true,
     .reshapes = true,
     .permutes = true,
     .flips = false,
     .pads = false},
    {.name = "all of them",
     .regroups = true,
     .reshapes = true,
     .permutes = true,
     .flips = true,
     .pads = false},
    {.name = "pads and all of them",
     .regroups = true,
     .reshapes = true,
     .permutes = true,
     .flips = true,
     .pads = true},
};

// The chain itself, and the same with views in it that come to nothing.
std::pair<View, View> random_pair(Random& random, const Class& allowed) {
  constexpr int64_t totals[] = {24, 16, 36, 60, 64, 105, 120, 30, 128, 144, 210};
  const View source(random_shape(random, totals[random() % std::size(totals)]));
  Chains chains(random, allowed);
  View plain = source, longer = source;
  for (int64_t steps = pick(random, 0, 2);; steps--) {
    if (one_in(random, 2) || steps == 0) longer = chains.nothing(longer, 3);
    if (steps == 0) return {plain, longer};
    std::function<View(const View&)> step;
    switch (pick(random, 0, 2)) {
      case 0: {
        const Sizes shape =
            allowed.reshapes ? random_shape(random, elements(plain)) : sizes_of(regroup(random, plain));
        step = [=](const View& v) { return v.reshape(shape); };
        break;
      }
      case 1: {
        const auto order = random_order(random, plain.rank());
        step = [=](const View& v) { return v.permute(order); };
        break;
      }
      default: {
        const auto axes = random_axes(random, plain);
        step = [=](const View& v) { return v.flip(axes); };
      }
    }
    plain = step(plain), longer = step(longer);
  }
}

TEST(ViewsProperty, ViewsThatComeToNothingLeaveNoTrace) {
  const FuzzPlan plan = fuzz_plan(7'000, 140'000);
  std::map<std::string, std::pair<uint64_t, uint64_t>> tally;  // by class: cases, and those with one node
  int shown = 0;
  for (uint64_t number = plan.first; number < plan.first + plan.cases; number++) {
    Random random = plan.generator(number);
    const Class& allowed = kClasses[number % std::size(kClasses)];
    const auto [plain, longer] = random_pair(random, allowed);
    const UOp a = plain.offset().simplify(), b = longer.offset().simplify();
    auto& [cases, equal] = tally[allowed.name];
    cases++;
    if (same(a, b)) {
      equal++;
    } else if (!allowed.reshapes && shown++ < 5) {
      ADD_FAILURE() << "case " << number << ", " << allowed.name << ", " << plan.rerun(number) << "\n"
                    << a << "\nis not\n"
                    << b;
    }
  }
  for (const auto& [name, counts] : tally)
    fmt::print("views, {}: {} of {} pairs are one node\n", name, counts.second, counts.first);
  fmt::print("views: seed {}, {} pairs\n", plan.seed, plan.cases);
  for (const Class& c : kClasses) {
    const auto& [cases, equal] = tally[c.name];
    const uint64_t needed = c.reshapes ? cases - cases / 200 : cases;
    EXPECT_GE(equal, needed) << c.name;
  }
}

}  // namespace
}  // namespace quern
