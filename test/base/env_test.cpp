#include "quern/base/env.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/base/error.h"
#include "test/error_of.h"

namespace quern {
namespace {

using testing::HasSubstr;

// What a variable is when the environment is read anew with this value.
struct Environment {
  Environment(env::Variable& v, const char* value) : variable(v) {
    if (const char* before = std::getenv(v.name)) saved = before, was_set = true;
    if (value)
      setenv(v.name, value, 1);
    else
      unsetenv(v.name);
    v.number = env::Variable::kUnread, v.text = nullptr;
  }
  ~Environment() {
    if (was_set)
      setenv(variable.name, saved.c_str(), 1);
    else
      unsetenv(variable.name);
    variable.number = env::Variable::kUnread, variable.text = nullptr;
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  env::Variable& variable;
  std::string saved;
  bool was_set = false;
};

env::Variable& row(env::detail::Row r) { return env::detail::rows[r]; }

TEST(Env, DefaultsHoldWhenNothingIsSet) {
  const Environment spec(row(env::detail::SPEC), nullptr), empty(row(env::detail::DEBUG), "");
  const Environment trace(row(env::detail::REWRITE_TRACE), nullptr),
      color(row(env::detail::NO_COLOR), nullptr);
  EXPECT_EQ(env::SPEC(), 0);
  EXPECT_EQ(env::DEBUG(), 0) << "set to nothing is not set";
  EXPECT_EQ(env::REWRITE_TRACE(), "");
  EXPECT_FALSE(env::NO_COLOR());
}

TEST(Env, ValuesAreReadOnce) {
  const Environment spec(row(env::detail::SPEC), "1"), trace(row(env::detail::REWRITE_TRACE), "a file");
  const Environment color(row(env::detail::NO_COLOR), "0");
  EXPECT_EQ(env::SPEC(), 1);
  setenv("SPEC", "2", 1);
  EXPECT_EQ(env::SPEC(), 1);
  EXPECT_EQ(env::get("SPEC"), 1);
  EXPECT_EQ(env::REWRITE_TRACE(), "a file");
  EXPECT_EQ(env::get_text("REWRITE_TRACE"), "a file");
  EXPECT_TRUE(env::NO_COLOR()) << "by its convention, whatever the value";
}

TEST(Env, WhatIsOnOrOffIsOffAtZero) {
  for (const auto& [given, expected] : {std::pair("0", 0), std::pair("1", 1), std::pair("", 0)}) {
    const Environment off(row(env::detail::NOOPT), given);
    EXPECT_EQ(env::NOOPT(), expected) << '"' << given << '"';
  }
  for (const env::Variable& v : env::detail::rows)
    if (v.kind == env::Kind::flag) EXPECT_STREQ(v.name, "NO_COLOR") << "its convention, and no other's";
}

TEST(Env, BadValuesNameVariableValueAndWhatIsAllowed) {
  for (const char* bad : {"abc", "3", "-1", "1x", " 1", "1.0", "99999999999999999999"}) {
    const Environment spec(row(env::detail::SPEC), bad);
    EXPECT_THAT(error_of([] { env::SPEC(); }),
                HasSubstr(std::string("SPEC=") + bad + ": SPEC is a number from 0 to 2"));
    EXPECT_NE(error_of([] { env::SPEC(); }), "") << "and again, each time it is asked for";
  }
}

TEST(Env, Overrides) {
  const Environment spec(row(env::detail::SPEC), "1"), trace(row(env::detail::REWRITE_TRACE), nullptr);
  {
    const env::Override outer("SPEC", 2), text("REWRITE_TRACE", "there");
    EXPECT_EQ(env::SPEC(), 2);
    EXPECT_EQ(env::REWRITE_TRACE(), "there");
    {
      const env::Override inner("SPEC", 0);
      EXPECT_EQ(env::SPEC(), 0);
    }
    EXPECT_EQ(env::SPEC(), 2);
  }
  EXPECT_EQ(env::SPEC(), 1);
  EXPECT_EQ(env::REWRITE_TRACE(), "");
  EXPECT_THAT(error_of([] { const env::Override o("SPEC", 3); }), HasSubstr("SPEC=3"));
  EXPECT_EQ(env::SPEC(), 1);
}

TEST(Env, WhatIsSetStays) {
  const Environment spec(row(env::detail::SPEC), "1"), trace(row(env::detail::REWRITE_TRACE), nullptr);
  env::set("SPEC", 2);
  env::set("REWRITE_TRACE", "there");
  EXPECT_EQ(env::SPEC(), 2);
  EXPECT_EQ(env::REWRITE_TRACE(), "there");
  EXPECT_THAT(error_of([] { env::set("SPEC", 3); }), HasSubstr("SPEC=3"));
  EXPECT_EQ(error_of([] { env::set("REWRITE_TRACE", 1); }), "REWRITE_TRACE is text, not a number");
  EXPECT_EQ(env::SPEC(), 2);
}

TEST(Env, UnknownNamesAndKinds) {
  EXPECT_THAT(error_of([] { env::get("SPECK"); }),
              HasSubstr("there is no variable SPECK; there are DEBUG, SPEC"));
  EXPECT_EQ(error_of([] { env::get("REWRITE_TRACE"); }), "REWRITE_TRACE is text, not a number");
  EXPECT_EQ(error_of([] { env::get_text("SPEC"); }), "SPEC is a number, not text");
  EXPECT_NE(error_of([] { const env::Override o("SPEC", "text"); }), "");
}

TEST(Env, TheTableHasALineForEachVariable) {
  const std::string table = env::table();
  for (const std::string_view name : env::names()) EXPECT_THAT(table, HasSubstr(std::string(name) + " "));
  EXPECT_THAT(table, HasSubstr("0 to 7"));
  EXPECT_EQ(std::ranges::count(table, '\n'), std::ssize(env::names()));
}

}  // namespace
}  // namespace quern
