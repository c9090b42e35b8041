#include "quern/llm/tokenizer/utf8.h"

#include <gtest/gtest.h>

#include "quern/llm/tokenizer/folding.h"
#include "quern/llm/tokenizer/regex.h"

namespace quern::llm {
namespace {

TEST(Utf8, CharactersAreNeverCut) {
  const std::string text = "a\u00fc\u4e2d\U0001F999z";
  for (size_t step = 1; step <= text.size(); step++) {
    CharacterStream stream;
    std::string all;
    for (size_t at = 0; at < text.size(); at += step) {
      const std::string part = stream.add(std::string_view(text).substr(at, step));
      EXPECT_EQ(valid_utf8(part), part);
      all += part;
    }
    EXPECT_EQ(all + stream.finish(), text);
  }
}

TEST(Utf8, WhatIsNoCharacterIsReplaced) {
  EXPECT_EQ(valid_utf8("\xc3"), "\uFFFD");
  EXPECT_EQ(valid_utf8("\xc0\xaf"), "\uFFFD\uFFFD");            // no shortest form
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80z"), "\uFFFD\uFFFD\uFFFD\uFFFDz");
  EXPECT_EQ(valid_utf8("\xe4\xb8"
                       "a"),
            "\uFFFD\uFFFD"
            "a");
}

TEST(Utf8, Folded) {
  EXPECT_EQ(folded("\u00c4PFEL \u0130 \u01c5 \u1e9e"), "apfel i \u01c6 \u00df");
  EXPECT_EQ(folded("\ud55c"), "\u1112\u1161\u11ab");
  EXPECT_EQ(folded("\u0391\u0301"), "\u03b1\u0301");
  EXPECT_EQ(folded("\u09cb"), "\u09c7\u09be");
  EXPECT_EQ(folded("\uf900 \u0100\u0101\u0102"), "\u8c48 aaa");
}

TEST(Utf8, RegularExpressionsCut) {
  const std::vector<Regex> both = {Regex("\\d"), Regex(" ?\\p{L}+")};
  EXPECT_EQ(split_by(both, "ab 1cd!"), (std::vector<std::string_view>{"ab", " ", "1", "cd", "!"}));
  EXPECT_EQ(split_by(both,
                     "\u00e9\xff"
                     "e"),
            (std::vector<std::string_view>{"\u00e9", "\xff", "e"}));
  EXPECT_TRUE(split_by(both, "").empty());
  const std::vector<Regex> empty = {Regex("x*")};
  EXPECT_EQ(split_by(empty, "a\u00fcxx"), (std::vector<std::string_view>{"a\u00fc", "xx"}));
  EXPECT_ANY_THROW(Regex("(a"));
}

}  // namespace
}  // namespace quern::llm
