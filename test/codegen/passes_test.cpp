// The examples in the headers of passes: a pass makes of the first graph the second one. An example is
//
//   // Pass "name":                       or  // Pass "name", with workgroups:
//   //   SINK(...)
//   //   ->
//   //   SINK(...)
//
// in a header of quern/, in IR text. Each pass of the tables has one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "quern/base/error.h"
#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"
#include "quern/schedule/schedule.h"

namespace quern {
namespace {

struct PassExample {
  std::string pass, where, before, after;
  bool workgroups = false, is_split = false;  // into before and after
};

void add_line(PassExample& example, const std::string& text) {
  if (text == "->")
    example.is_split = true;
  else
    (example.is_split ? example.after : example.before) += text + "\n";
}

std::vector<PassExample> examples_in(const std::filesystem::path& header) {
  static const std::regex title(R"re(// Pass "([^"]+)"(, with workgroups)?:)re");
  std::vector<PassExample> found;
  std::ifstream file(header);
  bool inside = false;
  int number = 1;
  for (std::string line; std::getline(file, line); number++) {
    std::smatch match;
    if (std::regex_match(line, match, title)) {
      found.push_back({.pass = match[1],
                       .where = fmt::format("{}:{}", header.string(), number),
                       .before = {},
                       .after = {},
                       .workgroups = match[2].matched});
      inside = true;
    } else if (inside && line.starts_with("//   ")) {
      add_line(found.back(), line.substr(5));
    } else {
      inside = false;
    }
  }
  return found;
}

std::vector<PassExample> all_examples() {
  std::vector<PassExample> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("quern"))
    if (entry.path().extension() == ".h")
      for (PassExample& example : examples_in(entry.path())) all.push_back(std::move(example));
  std::ranges::sort(all, {}, &PassExample::where);
  return all;
}

std::vector<std::string> names(const std::vector<PassInfo>& passes) {
  std::vector<std::string> all;
  for (const PassInfo& p : passes) all.emplace_back(p.name);
  return all;
}

DeviceSpec spec_for(const PassExample& example) {
  DeviceSpec spec{.name = "example"};
  spec.has_float16 = spec.has_bfloat16 = spec.has_fp8 = false;
  spec.max_buffers = 6;
  if (example.workgroups) {
    spec.parallel = {.cores = 4, .threads_per_core = 256, .workgroup = 256, .warp = 32};
    spec.memory = {.registers = 128, .thread_bytes = 0, .group_bytes = 32768};
  } else {
    spec.parallel = {.cores = 4, .vector_bytes = 64};
  }
  return spec;
}

UOp after_pass(const PassExample& example) {
  const DeviceSpec spec = spec_for(example);
  const UOp before = parse(example.before);
  const std::vector<std::string> scheduling = names(scheduling_passes());
  if (std::ranges::find(scheduling, example.pass) == scheduling.end())
    return lower_by(example.pass, before, spec);
  return schedule_by(example.pass, before, [&](const std::string&) -> const DeviceSpec& { return spec; });
}

// As it has to stand in the header.
std::string as_comment(const std::string& text) {
  return "//   " + std::regex_replace(text, std::regex("\n"), "\n//   ");
}

TEST(PassExamples, AreWhatThePassesDo) {
  for (const PassExample& example : all_examples()) {
    try {
      const UOp after = after_pass(example);
      EXPECT_TRUE(same(after, parse(example.after)))
          << example.where << ": the pass \"" << example.pass << "\" makes of its example\n"
          << as_comment(after.text());
    } catch (const Error& e) {
      ADD_FAILURE() << example.where << ": " << e.what();
    }
  }
}

TEST(PassExamples, EachPassHasOne) {
  std::vector<std::string> passes = names(scheduling_passes()), shown;
  for (const std::string& name : names(lowering_passes())) passes.push_back(name);
  for (const PassExample& example : all_examples()) shown.push_back(example.pass);
  for (const std::string& pass : passes)
    EXPECT_THAT(shown, testing::Contains(pass)) << "no header has an example of it";
  for (const std::string& pass : shown)
    EXPECT_THAT(passes, testing::Contains(pass)) << "there is no such pass";
}

}  // namespace
}  // namespace quern
