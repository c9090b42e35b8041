#include "quern/engine/search/search.h"

#include <algorithm>
#include <unordered_set>

#include "quern/codegen/choose/actions.h"

namespace quern {
namespace {

constexpr double kWorthARound = 0.98;   // of the time before it: less of a gain ends the search
constexpr double kWorthAChange = 0.99;  // of the time of what the heuristic chose
constexpr int kLast = 4;                // that are measured again
constexpr double kTooLong = 0.1;        // seconds of what was chosen: without opts it could take minutes

class Search {
 public:
  Search(const Optimisable& kernel, int64_t width, Measurer& measurer)
      : kernel_(kernel), width_(static_cast<size_t>(std::max<int64_t>(1, width))), measurer_(measurer) {}

  Found run() {
    std::vector<Candidate> start;
    add(kernel_.chosen, start);
    measure(start);
    Candidate chosen =
        all_.empty() ? Candidate{kernel_.chosen, Candidate::kNever, "does not apply"} : all_[0];
    start.clear();
    if (chosen.seconds < kTooLong || !chosen.dropped.empty()) add({}, start);
    measure(start);
    while (!measurer_.is_over()) {
      const double before = fastest();
      std::vector<Candidate> next;
      for (const Candidate& from : followed())
        for (const Opts& opts : steps_from(from.opts, kernel_.program, kernel_.spec)) add(opts, next);
      if (next.empty()) break;
      measure(next);
      if (!(fastest() < before * kWorthARound)) break;
    }
    std::ranges::stable_sort(all_, {}, &Candidate::seconds);
    return {decided(chosen), chosen, std::move(all_)};
  }

 private:
  // To the list, unless it does not apply or makes a kernel that there was.
  void add(const Opts& opts, std::vector<Candidate>& list) {
    try {
      if (made_.insert(apply_opts(kernel_.program, opts, kernel_.spec)).second)
        list.push_back({opts, Candidate::kNever, ""});
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      return;
    }
  }

  void measure(std::vector<Candidate>& list) {
    if (!list.empty()) measurer_.measure(list, fastest());
    all_.insert(all_.end(), list.begin(), list.end());
  }

  double fastest() const {
    double least = Candidate::kNever;
    for (const Candidate& c : all_)
      if (c.dropped.empty()) least = std::min(least, c.seconds);
    return least;
  }
  std::vector<Candidate> followed() const {
    std::vector<Candidate> best;
    std::ranges::copy_if(all_, std::back_inserter(best),
                         [](const Candidate& c) { return c.dropped.empty(); });
    std::ranges::stable_sort(best, {}, &Candidate::seconds);
    if (best.size() > width_) best.resize(width_);
    return best;
  }

  // The fastest of the first few when they are measured again: what was first may have had luck.
  Candidate decided(Candidate& chosen) {
    std::vector<Candidate> last = {chosen};
    for (const Candidate& c : all_)
      if (c.dropped.empty() && c.opts != chosen.opts && std::ssize(last) <= kLast) last.push_back(c);
    const bool is_best = all_.empty() || all_[0].opts == chosen.opts;
    if (last.size() == 1 || (is_best && chosen.dropped.empty())) return chosen;
    if (!chosen.dropped.empty()) last.erase(last.begin());
    measurer_.measure_again(last);
    const Candidate& best = *std::ranges::min_element(last, {}, &Candidate::seconds);
    if (!chosen.dropped.empty()) return best;
    chosen = last[0];
    return best.seconds < chosen.seconds * kWorthAChange ? best : chosen;
  }

  const Optimisable& kernel_;
  const size_t width_;
  Measurer& measurer_;
  std::unordered_set<UOp> made_;
  std::vector<Candidate> all_;
};

}  // namespace

Found search(const Optimisable& kernel, int64_t width, Measurer& measurer) {
  return Search(kernel, width, measurer).run();
}

}  // namespace quern
