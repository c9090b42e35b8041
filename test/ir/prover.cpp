#include "test/ir/prover.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>

#include "test/fuzz.h"
#include "test/ir/evaluate.h"
#include "test/ir/instance.h"

namespace quern {

Effort usual_effort() {
  Effort effort;
  const char* nightly = std::getenv("QUERN_NIGHTLY");
  if (nightly && std::string_view(nightly) == "1") effort.scale = 20;
#ifdef NDEBUG
  if (kSanitized) effort.scale *= 0.05;
#else
  effort.scale *= 0.05;
#endif
  return effort;
}

void Proof::add(const Proof& o) {
  rules += o.rules, instances += o.instances, points += o.points, overflows += o.overflows;
  if (rarest.empty() || o.least_instances < least_instances)
    least_instances = o.least_instances, rarest = o.rarest;
  proved += o.proved, foreign += o.foreign;
  unproved.insert(unproved.end(), o.unproved.begin(), o.unproved.end());
  failures.insert(failures.end(), o.failures.begin(), o.failures.end());
}

std::string Proof::summary() const {
  std::string s = fmt::format("{} rules", rules);
  if (instances)
    s += fmt::format(", {} instances (fewest, {}, of {}), {} points", instances, least_instances, rarest,
                     points);
  if (overflows) s += fmt::format(" ({} overflowed)", overflows);
  if (proved || foreign || !unproved.empty())
    s += fmt::format(", {} proved by z3, {} not proved, {} outside of it", proved, unproved.size(), foreign);
  return s;
}

namespace {

constexpr size_t kMostFailures = 3;  // of one rule

std::string title(const Rule& rule) { return fmt::format("{}: {}", rule.location(), rule.text()); }

// Values of a leaf worth trying: all of them, if there are few.
std::vector<Const> domain(const UOp& leaf, Random& random) {
  const DType dtype = leaf.dtype();
  if (!dtype.is_int()) return special_values(dtype);
  const Bounds b = leaf.bounds();
  std::vector<Const> values;
  if (b.max - b.min < 256) {
    for (wide v = b.min; v <= b.max; v++) values.push_back(wrap(dtype, v));
    return values;
  }
  for (Const c : special_values(dtype))
    if (const wide v = c.integer(dtype); v >= b.min && v <= b.max) values.push_back(c);
  for (wide near = 0; near < 2; near++)
    values.push_back(wrap(dtype, b.min + near)), values.push_back(wrap(dtype, b.max - near));
  if (fits(dtypes::int64, b.max))
    for (int i = 0; i < 8; i++)
      values.push_back(wrap(dtype, random.between(static_cast<int64_t>(b.min), static_cast<int64_t>(b.max))));
  return values;
}

// Goes over all combinations of one option each if they are at most `most`, else over that many at random.
// `visit` returns false to stop.
template <class Visit>
void combinations(const std::vector<size_t>& options, int64_t most, Random& random, Visit visit) {
  int64_t total = 1;
  for (size_t n : options) {
    if (n == 0) return;
    total = total > most ? total : total * static_cast<int64_t>(n);
  }
  std::vector<size_t> chosen(options.size(), 0);
  if (total > most) {
    for (int64_t i = 0; i < most; i++) {
      for (size_t k = 0; k < options.size(); k++)
        chosen[k] = static_cast<size_t>(random.between(0, static_cast<int64_t>(options[k]) - 1));
      if (!visit(chosen)) return;
    }
    return;
  }
  while (visit(chosen)) {
    size_t k = 0;
    while (k < options.size() && ++chosen[k] == options[k]) chosen[k++] = 0;
    if (k == options.size()) return;
  }
}

class RuleCheck {
 public:
  RuleCheck(const Rule& rule, const Effort& effort)
      : rule_(rule), single_(RuleList{rule}), scale_(effort.scale), random_(effort.seed) {
    proof_.rules = 1;
  }

  Proof run() {
    if (!rule_.has_function()) go_over_variables();
    meet_expressions();
    if (fired_ == 0 && !failed()) fail("no instance was found that it applies to");
    proof_.least_instances = fired_;
    proof_.rarest = rule_.text();
    return std::move(proof_);
  }

 private:
  bool failed() const { return proof_.failures.size() >= kMostFailures; }
  void fail(const std::string& why) { proof_.failures.push_back(fmt::format("{}\n{}", title(rule_), why)); }
  int64_t scaled(double count) const { return std::max<int64_t>(8, static_cast<int64_t>(count * scale_)); }

  // Applies the rule to the graph and compares values. False if it does not apply.
  bool check(const UOp& before, int64_t most_points) {
    UOp after;
    try {
      after = single_.apply(before).result;
      if (!after) return false;
      compare(before, after, most_points);
    } catch (const std::exception& e) {
      fail(fmt::format("{}\n{}thrown for\n{}", e.what(),
                       after ? "after it became\n" + after.text() + "\n" : "", before.text()));
    }
    fired_++, proof_.instances++;
    return true;
  }

  void compare(const UOp& before, const UOp& after, int64_t most_points) {
    auto both = [&] { return fmt::format("{}\nbecame\n{}\n", before.text(), after.text()); };
    if (before.dtype() != after.dtype()) return fail(both() + "with another dtype");
    const UOp sides[] = {before, after};
    Evaluator evaluator(sides);
    if (evaluator.leaves().size() != Evaluator(before).leaves().size())
      return fail(both() + "which has a leaf that was not there before");
    std::vector<std::vector<Const>> domains;
    std::vector<size_t> sizes;
    for (const UOp& leaf : evaluator.leaves()) {
      domains.push_back(domain(leaf, random_));
      sizes.push_back(domains.back().size());
    }
    std::vector<Const> values(sizes.size());
    combinations(sizes, most_points, random_, [&](const std::vector<size_t>& chosen) {
      for (size_t k = 0; k < chosen.size(); k++) values[k] = domains[k][chosen[k]];
      if (!evaluator.run(values)) return true;
      const Evaluated &was = evaluator.result(0), &is = evaluator.result(1);
      if (was.overflow) return true;
      if (std::string broken = evaluator.broken_bounds(); !broken.empty()) {
        fail(both() + "where this node " + broken);
        return false;
      }
      if (is.overflow) {
        proof_.overflows++;
        return true;
      }
      proof_.points++;
      if (agrees(was.value, is.value)) return true;
      fail(fmt::format("{}but at {} the first is {} and the second is {}", both(), evaluator.point(),
                       to_string(was.value, before.dtype()), to_string(is.value, after.dtype())));
      return false;
    });
  }

  // ---- the left side with plain variables
  // --------------------------------------------------------------------------

  // Variables of different bounds, where bounds may matter.
  UOps variables(const std::string& name, DType dtype) const {
    const auto slot = static_cast<int64_t>(name[0]) * 256 + (name.size() > 1 ? name[1] : 0);
    if (!dtype.is_int()) return {value_leaf(dtype, slot)};
    const wide min = int_min(dtype), max = int_max(dtype);
    UOps result;
    auto add = [&](wide low, wide high) {
      if (low > high || low < min || high > max || !fits(dtypes::int64, high)) return;
      result.push_back(UOp::variable(name, static_cast<int64_t>(low), static_cast<int64_t>(high), dtype));
    };
    if (dtype.kind() == Scalar::UInt64) result.push_back(value_leaf(dtype, slot));
    add(min, max);
    if (dtype.is_index()) add(-20, 20), add(-(wide{1} << 31), wide{1} << 31);
    if (!rule_.condition()) return result;
    for (auto [low, high] : {std::pair(0, 3), {1, 5}, {2, 9}, {-4, -1}, {-3, 4}, {0, 20}, {0, 1}, {-9, 0}})
      add(low, high);
    add(0, std::min(max, int_max(dtypes::int64))), add(1, std::min(max, int_max(dtypes::int64)));
    add(min, -1), add(min, 0), add(min + 1, max), add(min, min + 3), add(max - 3, max), add(0, 1000000);
    return result;
  }

  // Does the left side have operands whose dtype the result does not tell?
  static bool has_free_type(const Pat& p) {
    const Pat::Data& d = p.data();
    if (d.mode != Pat::SourceMode::any && d.ops.intersects(ops::comparison | Op::CAST | Op::BITCAST))
      return true;
    return std::any_of(d.parts.begin(), d.parts.end(), has_free_type);
  }

  void go_over_variables() {
    const bool free = has_free_type(rule_.left());
    for (DType dtype : kValueTypes)
      for (DType operand : kValueTypes)
        if (free || operand == dtype) go_over_variables(dtype, operand);
  }

  void go_over_variables(DType dtype, DType operand) {
    if (failed()) return;
    // Which variables there are, and of which dtypes.
    std::vector<std::string> names;
    std::vector<UOps> options;
    std::map<std::string, UOp> now;
    bool small = true;
    auto note = [&](const std::string& name, UOps some) {
      small &= some[0].dtype().bits() <= 8;
      now.emplace(name, some.back());
      names.push_back(name);
      options.push_back(std::move(some));
      return now.at(name);
    };
    Choices choices;
    choices.free_type = [&] { return operand; };
    choices.variable = [&](const std::string& name, DType d) { return note(name, variables(name, d)); };
    choices.constant = [&](const std::string& name, DType d) {
      UOps constants;
      for (Const c : special_values(d)) constants.push_back(UOp::constant(d, c));
      return note(name, std::move(constants));
    };
    choices.source = [](DType) { return UOp(); };
    if (!instantiate(rule_.left(), dtype, choices)) return;

    std::vector<size_t> sizes;
    int64_t count = 1;
    const int64_t most_instances = scaled(small ? 4000 : 600);
    for (const UOps& some : options) {
      sizes.push_back(some.size());
      count = std::min(count * static_cast<int64_t>(some.size()), most_instances);
    }
    const int64_t points = std::clamp<int64_t>(scaled(small ? 600000 : 80000) / count, 32, 65536);
    choices.variable = choices.constant = [&](const std::string& name, DType) { return now.at(name); };
    combinations(sizes, most_instances, random_, [&](const std::vector<size_t>& chosen) {
      for (size_t k = 0; k < chosen.size(); k++) now[names[k]] = options[k][chosen[k]];
      if (const UOp before = instantiate(rule_.left(), dtype, choices)) check(before, points);
      return !failed();
    });
  }

  // ---- the left side with expressions
  // ------------------------------------------------------------------------------

  void meet_expressions() {
    Generator generator(random_.bits());
    const int64_t wanted = fired_ + scaled(rule_.has_function() ? 4000 : 300);
    const int64_t most_tries = scaled(rule_.has_function() ? 60000 : 6000) + 20000;
    const int64_t points = scale_ < 1 ? 60 : 200;
    for (int64_t tries = 0; tries < most_tries && fired_ < wanted && !failed(); tries++) {
      // Once found to be rare, it is looked for only as long as needed.
      if (tries > scaled(60000) && fired_ > 0) break;
      UOp before = generator.instance(rule_.left());
      if (!before || before.toposort().size() > 60) continue;
      if (tries % 2 == 1) before = with_simple_sources(before);
      if (before) check(before, points);
    }
  }

  // As rewriting meets it, from the leaves up.
  UOp with_simple_sources(const UOp& u) {
    UOps sources;
    try {
      for (const UOp& s : u.src()) sources.push_back(s.simplify());
    } catch (const RewriteError&) {  // rules that do not come to rest: the fuzzer's to find
      return {};
    } catch (const std::exception& e) {
      fail(fmt::format("{}\nthrown by simplify() of the sources of\n{}", e.what(), u.text()));
      return {};
    }
    return u.with_src(sources);
  }

  const Rule& rule_;
  const Rules single_;
  const double scale_;
  Random random_;
  Proof proof_;
  int64_t fired_ = 0;
};

}  // namespace

Proof check_instances(const Rules& rules, const Effort& effort) {
  Proof all;
  for (const Rule& rule : rules.list()) all.add(RuleCheck(rule, effort).run());
  return all;
}

}  // namespace quern
