#include "quern/ir/text/spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "quern/ir/text/notation.h"

namespace quern {
namespace {

constexpr size_t kLongest = 24;  // of a word that is worth a guess

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// How many letters must be changed, added, left out or swapped with their neighbour; capitals do not matter.
int distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); i++) d[i][0] = static_cast<int>(i);
  std::iota(d[0].begin(), d[0].end(), 0);
  for (size_t i = 1; i <= a.size(); i++)
    for (size_t j = 1; j <= b.size(); j++) {
      const bool equal = upper(a[i - 1]) == upper(b[j - 1]);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (equal ? 0 : 1)});
      const bool swapped =
          i > 1 && j > 1 && upper(a[i - 1]) == upper(b[j - 2]) && upper(a[i - 2]) == upper(b[j - 1]);
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string unknown_op(std::string_view word) {
  if (word.size() > kLongest) return fmt::format("unknown op {}...", word.substr(0, kLongest));
  std::string_view best;
  int least = word.size() < 4 ? 2 : 3;  // no guess that far off
  auto consider = [&](std::string_view name) {
    if (const int d = distance(word, name); d < least) best = name, least = d;
  };
  for (const auto& function : notation::kFunctions) consider(function.name);
  for (const OpInfo& op : kOps) consider(op.name);
  if (best.empty()) return fmt::format("unknown op {}", word);
  return fmt::format("unknown op {} (did you mean {}?)", word, best);
}

}  // namespace quern
