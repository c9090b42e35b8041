#include "quern/codegen/choose/by_cost.h"

#include <algorithm>
#include <bit>
#include <set>
#include <tuple>

namespace quern {
namespace by_cost {
namespace {

using namespace cost;

constexpr size_t kWidth = 2;  // plans that a round goes on from
constexpr int kRounds = 7;
constexpr int64_t kMostAtOnce = 1024;  // steps of the loops together
constexpr int64_t kAmounts[] = {2, 3, 4, 5, 6, 7, 8, 12, 16};

struct Candidate {
  LoopPlan plan;
  int64_t picoseconds = 0;
};

class Search {
 public:
  Search(const Summary& kernel, const DeviceSpec& spec) : kernel_(kernel), spec_(spec) {}

  std::vector<Priced> run() {
    add(plan_of(kernel_));
    std::vector<Candidate> best = all_;
    for (int round = 0; round < kRounds && !best.empty(); round++) {
      const size_t before = all_.size();
      for (const Candidate& c : best) extend(c.plan);
      std::vector<Candidate> fresh(all_.begin() + static_cast<std::ptrdiff_t>(before), all_.end());
      std::ranges::stable_sort(fresh, {}, &Candidate::picoseconds);
      const int64_t worst = best.front().picoseconds;
      if (fresh.size() > kWidth) fresh.resize(kWidth);
      std::erase_if(fresh, [&](const Candidate& c) { return c.picoseconds >= worst; });
      best = std::move(fresh);
    }
    std::ranges::stable_sort(all_, {}, &Candidate::picoseconds);
    std::vector<Priced> priced;
    for (const Candidate& c : all_) priced.push_back({opts_of(kernel_, c.plan), c.picoseconds});
    return priced;
  }

 private:
  void add(LoopPlan plan) {
    int64_t at_once = 1;
    for (size_t i = 0; i < plan.splits.size(); i++)
      if (kernel_.loops[i].sibling == i) at_once *= plan.splits[i].copies;
    if (at_once > kMostAtOnce) return;
    if (!seen_.insert(key(plan)).second) return;
    int64_t price = picoseconds(work_of(kernel_, plan, spec_), spec_);
    // of lists that are about as good the plainest: more code is more to compile, and other orders seldom pay
    price += price / 100 * (2 * std::bit_width(static_cast<uint64_t>(at_once)) + 5 * std::ssize(plan.swaps));
    all_.push_back({std::move(plan), price});
  }
  static std::vector<int64_t> key(const LoopPlan& plan) {
    std::vector<int64_t> k;
    for (const Split& s : plan.splits) k.insert(k.end(), {s.pad, s.threads, s.block, s.first, s.copies});
    for (const size_t i : plan.order) k.push_back(static_cast<int64_t>(i));
    return k;
  }

  void extend(const LoopPlan& plan) {
    for (size_t i = 0; i < plan.splits.size(); i++) {
      if (kernel_.loops[i].sibling != i || kernel_.loops[i].is_symbolic) continue;
      threads(plan, i);
      at_once(plan, i);
      for (size_t k = i + 1; k < plan.splits.size(); k++) swap(plan, i, k);
    }
  }

  static int64_t left(const Split& s) { return s.steps / s.threads / s.copies; }

  void threads(const LoopPlan& plan, size_t i) {
    if (!has(kernel_.around_all, i) || kernel_.loops[i].is_reduce) return;
    if (std::ranges::any_of(plan.splits, [](const Split& s) { return s.threads > 1; })) return;
    for (int64_t n = spec_.parallel.cores; n > 1; n--) {
      if (left(plan.splits[i]) % n != 0) continue;
      LoopPlan more = plan;
      more.splits[i].threads = n;
      add(std::move(more));
      return;
    }
  }

  void at_once(const LoopPlan& plan, size_t i) {
    const Split& s = plan.splits[i];
    const int64_t n = left(s), width = spec_.parallel.vector_bytes / kernel_.widest;
    std::vector<int64_t> amounts(std::begin(kAmounts), std::end(kAmounts));
    for (int64_t w = 32; w <= width; w *= 2) amounts.push_back(w);
    if (n <= 32 && n > 1) amounts.push_back(n);
    const bool is_first = s.copies == 1 && is_along_memory(i);
    if (!is_first && !kernel_.loops[i].is_reduce && !brings_reuse(i)) return;
    for (const int64_t amount : amounts) {
      if (amount > n && n * 2 <= amount) continue;
      // what begins with neighbours begins with lanes
      if (is_first && !std::has_single_bit(static_cast<uint64_t>(amount))) continue;
      LoopPlan more = plan;
      if (n % amount != 0) {
        // a little more, which is not stored
        if (s.copies > 1 || s.threads > 1 || s.pad > 1) continue;
        if (kernel_.loops[i].is_reduce && !is_first) continue;
        const int64_t padded = (n + amount - 1) / amount * amount;
        if ((padded - n) * 4 > n) continue;
        pad_to(kernel_, more, i, amount);
      }
      do_at_once(kernel_, more, i, amount);
      add(std::move(more));
    }
  }
  // Something is read that is the same for all steps, or lies beside what is read in the last step.
  bool brings_reuse(size_t i) const {
    return std::ranges::any_of(kernel_.accesses, [&](const Access& a) {
      return !a.is_store && has(a.around, i) && (!has(a.loops, i) || a.strides[i] == 1);
    });
  }
  bool is_along_memory(size_t i) const {
    return std::ranges::any_of(kernel_.accesses, [&](const Access& a) { return a.strides[i] == 1; });
  }

  void swap(const LoopPlan& plan, size_t i, size_t k) {
    if (kernel_.loops[i].is_reduce != kernel_.loops[k].is_reduce || !plan.swaps.empty()) return;
    if (left(plan.splits[i]) < 2 || left(plan.splits[k]) < 2) return;
    const auto open_together = [&](const Access& a) { return has(a.around, i) && has(a.around, k); };
    if (std::ranges::none_of(kernel_.accesses, open_together)) return;
    LoopPlan more = plan;
    std::iter_swap(std::ranges::find(more.order, i), std::ranges::find(more.order, k));
    more.swaps.emplace_back(i, k);
    add(std::move(more));
  }

  const Summary& kernel_;
  const DeviceSpec& spec_;
  std::vector<Candidate> all_;
  std::set<std::vector<int64_t>> seen_;
};

}  // namespace
}  // namespace by_cost

std::vector<Priced> priced_opts(const cost::Summary& kernel, const DeviceSpec& spec) {
  return by_cost::Search(kernel, spec).run();
}

}  // namespace quern
