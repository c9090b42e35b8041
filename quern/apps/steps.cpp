#include "quern/apps/steps.h"

#include <fmt/format.h>
#include <unistd.h>

#include <ostream>

#include "quern/base/env.h"

namespace quern::apps {
namespace {

// Text of several lines, the later ones under the first.
std::string indented(const std::string& text, size_t columns) {
  std::string result;
  for (char c : text) {
    result += c;
    if (c == '\n') result.append(columns, ' ');
  }
  return result;
}

}  // namespace

bool use_colour() { return isatty(STDOUT_FILENO) != 0 && !env::NO_COLOR(); }

void print_steps(std::ostream& out, const RewriteTrace& trace) {
  const bool colour = use_colour();
  const char* faint = colour ? "\033[2m" : "";
  const char* bold = colour ? "\033[1m" : "";
  const char* plain = colour ? "\033[0m" : "";
  size_t number = 0;
  for (const RewritePass& pass : trace.passes) {
    if (pass.depth != 0) continue;
    for (const RewriteStep& step : pass.steps) {
      const RuleName& rule = trace.rules[step.rule];
      out << fmt::format("{:>4}  {}\n", ++number, indented(step.before.text(), 6))
          << fmt::format("   -> {}{}{}\n", bold, indented(step.after.text(), 6), plain)
          << fmt::format("      {}{}   {}{}\n", faint, rule.text, rule.location, plain);
    }
  }
}

}  // namespace quern::apps
