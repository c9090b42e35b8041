#include "quern/engine/search/search_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace quern {
namespace {

constexpr size_t kBar = 24;                       // characters
constexpr size_t kMostLines = 20;                 // of the table
constexpr std::chrono::milliseconds kPause{100};  // between two pictures

std::string time_text(double seconds) {
  return std::isfinite(seconds) ? fmt::format("{:.3f} ms", seconds * 1e3) : "-";
}
std::string opts_text(const Opts& opts) { return opts.empty() ? "no opts" : to_text(opts); }

}  // namespace

SearchProgress::SearchProgress(std::string kernel, Turn turn)
    : kernel_(std::move(kernel)), turn_(turn), shows_(isatty(STDERR_FILENO) != 0) {}

void SearchProgress::show(size_t done, size_t all, double best) {
  if (first_ == 0 && std::isfinite(best)) first_ = best;
  const auto now = std::chrono::steady_clock::now();
  if (!shows_ || now < next_) return;
  next_ = now + kPause;
  shown_ = true;
  std::fputs(("\r\033[K" + progress_text(kernel_, turn_, done, all, best, first_)).c_str(), stderr);
}

void SearchProgress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

std::string progress_text(const std::string& kernel, Turn turn, size_t done, size_t all, double best,
                          double first) {
  const size_t full = all == 0 ? 0 : std::min(kBar, done * kBar / all);
  std::string text = fmt::format("BEAM {}/{} {} [{}{}] {}/{}", turn.number, turn.of, kernel,
                                 std::string(full, '#'), std::string(kBar - full, ' '), done, all);
  if (std::isfinite(best) && first > 0)
    text += fmt::format("  {}, was {}", time_text(best), time_text(first));
  return text;
}

std::string describe_search(const std::string& kernel, const Found& found, double seconds, bool table) {
  std::string text =
      fmt::format("beam   {:<28} {} candidates in {:.1f} s: {}, was {}\n", kernel, found.candidates.size(),
                  seconds, time_text(found.best.seconds), time_text(found.chosen.seconds));
  if (!table) return text;
  size_t lines = 0, slower = 0;
  std::map<std::string, std::vector<const Candidate*>> dropped;  // by reason
  for (const Candidate& c : found.candidates) {
    if (!c.dropped.empty())
      dropped[c.dropped].push_back(&c);
    else if (lines++ < kMostLines || c.opts == found.best.opts || c.opts == found.chosen.opts)
      text += fmt::format("  {:>14}  {}{}{}\n", time_text(c.seconds), opts_text(c.opts),
                          c.opts == found.best.opts ? "  <- taken" : "",
                          c.opts == found.chosen.opts ? "  <- the heuristic's" : "");
    else
      slower++;
  }
  if (slower > 0) text += fmt::format("  {:>14}  {} more\n", "slower", slower);
  lines = 0;
  for (const auto& [why, all] : dropped)
    if (lines++ < kMostLines)
      text += fmt::format("  {:>14}  {}: {}{}\n", "dropped", why, opts_text(all[0]->opts),
                          all.size() > 1 ? fmt::format(" and {} more", all.size() - 1) : "");
  return text;
}

}  // namespace quern
