// Byte pair encoding, whatever the pairs are ranked by: a text of symbols, of which the best pair of
// neighbours becomes one symbol, again and again.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <string_view>
#include <vector>

namespace quern::llm {

struct Symbol {
  std::string_view text;
  int32_t id;              // of whoever ranks the pairs
  int32_t previous, next;  // numbers of neighbours, or -1
};

struct RankedPair {
  double rank;     // the least is merged first, of equals the leftmost
  int32_t merged;  // the id of both together
};

// `pair(left, right)` gives a RankedPair for two symbols, if there is one. What is left are the symbols from
// the first on, along `next`. It takes time n log n.
template <class Pair>
void merge_pairs(std::vector<Symbol>& symbols, const Pair& pair) {
  struct Candidate {
    double rank;
    int32_t left, right, merged;
    size_t size;  // of both, when they were ranked: one of them may have grown since
    bool operator<(const Candidate& other) const {  // the top of a queue is the greatest
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  std::priority_queue<Candidate> queue;
  const auto consider = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const Symbol &l = symbols[static_cast<size_t>(left)], &r = symbols[static_cast<size_t>(right)];
    if (const auto found = pair(l, r))
      queue.push({found->rank, left, right, found->merged, l.text.size() + r.text.size()});
  };
  for (size_t i = 0; i < symbols.size(); i++) {
    symbols[i].previous = static_cast<int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<int32_t>(i) + 1 : -1;
  }
  for (size_t i = 1; i < symbols.size(); i++) consider(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol &l = symbols[static_cast<size_t>(best.left)], &r = symbols[static_cast<size_t>(best.right)];
    // An empty text marks a symbol that became part of its left neighbour.
    if (l.text.empty() || r.text.empty() || l.text.size() + r.text.size() != best.size) continue;
    l.text = {l.text.data(), best.size};
    l.id = best.merged;
    r.text = {};
    l.next = r.next;
    if (l.next >= 0) symbols[static_cast<size_t>(l.next)].previous = best.left;
    consider(l.previous, best.left);
    consider(best.left, l.next);
  }
}

}  // namespace quern::llm
