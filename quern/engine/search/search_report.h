// What is told of a search: a bar while it runs, on a terminal, and what came of it.
#pragma once

#include <chrono>
#include <string>

#include "quern/engine/search/beam.h"
#include "quern/engine/search/search.h"

namespace quern {

class SearchProgress {
 public:
  SearchProgress(std::string kernel, Turn turn);
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;
  ~SearchProgress() { clear(); }

  void show(size_t done, size_t all, double best);
  void clear();

 private:
  const std::string kernel_;
  const Turn turn_;
  const bool shows_;
  bool shown_ = false;
  double first_ = 0;  // the time at the start
  std::chrono::steady_clock::time_point next_;
};

// The bar as text: "BEAM 2/5 r_512_512 [######      ] 41/87  1.234 ms, was 2.345 ms".
std::string progress_text(const std::string& kernel, Turn turn, size_t done, size_t all, double best,
                          double first);

// A line, or with it the table of candidates, fastest first.
std::string describe_search(const std::string& kernel, const Found& found, double seconds, bool table);

}  // namespace quern
