// Damaged text: whatever is done to it, it is read, or refused with a ParseError; and what is read prints and
// reads back.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>

#include "quern/ir/text/parse.h"
#include "quern/ir/text/print.h"
#include "test/ir/random_graph.h"
#include "test/ir/rounds.h"

namespace quern {
namespace {

const char* const kCorpus[] = {
    "$n[1..4096] * 2 + 1",
    "where((r0[16] < 3) & (1 <= r0), r0 + -3, invalid)",
    "%0 = LOAD(INDEX(PARAM(; 0):float32*[256], r0[16, GLOBAL] * 16 + r1[16, REDUCE]))\n"
    "%1 = STORE(INDEX(PARAM(; 1):float32*[16], r0), REDUCE(%0 * %0, r1; {op: ADD}))\n"
    "SINK(END(%1, r0); {name: \"sum_of_squares\", opts: [\"UPCAST:0:4\"]})",
    "%x = $n[0..255]:uint8 // 3 % 2 << 1 >> 1 ^ 1 | 2\n%y = !(%x == 2) # a comment\nwhere(%y, %x, -%x - "
    "1)",
    "CONST(DEVICE([\"CPU\", \"CUDA:1\"]); 0.5):float16@const float 1e-07",
    "REDUCE(PARAM(4, 8; 0):bfloat16x4; {op: MAX, axes: [1, -2], states: 1})@[1, 2]",
    "STAGE(r0[4:int32], r0; {space: LOCAL, device: [\"a\\n\\x00\"], removable: false, reason: \"\"})@\"two "
    "words\"",
    "GROUP(NOOP()@variable {name: \"n\", min: -3}, NOOP(; const bool true), NOOP()@range {id: 3, kind: "
    "WARP})",
    "%0 = DEFINE_LOCAL(0):float32*[1024]@LOCAL@mark; INDEX(%0, 1)",
    "max(1.5:float64, -inf) / nan + min(2.0, 3:float64) * CAST(truncdiv(7, 2)):float64",
};

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string damage(std::string text) {
    for (uint64_t i = 1 + below(4); i > 0; i--) below(2) == 0 ? damage_bytes(text) : damage_tokens(text);
    return text;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  size_t place(const std::string& text) { return below(text.size() + 1); }

  void damage_bytes(std::string& text) {
    static constexpr std::string_view kUsual = "()[]{};:,.@$%#\"\\!=<>+-*/&|^ \n0123456789rexn_";
    const size_t at = place(text),
                 length = std::min<size_t>(1 + below(below(4) == 0 ? 40 : 3), text.size() - at);
    switch (below(5)) {
      case 0: text.erase(at, length); break;
      case 1:
        text.insert(at, 1, below(4) == 0 ? static_cast<char>(below(256)) : kUsual[below(kUsual.size())]);
        break;
      case 2: text.insert(at, text.substr(at, length)); break;
      case 3: text.insert(place(text), text.substr(at, length)); break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
    }
  }

  void damage_tokens(std::string& text) {
    static constexpr std::string_view kTokens[] = {"LOAD(",
                                                   "CONST(",
                                                   "RANGE(",
                                                   "DEFINE_VAR(",
                                                   "WHERE(",
                                                   "GEP(",
                                                   "VECTORIZE(",
                                                   "REDUCE(",
                                                   "where(",
                                                   "max(",
                                                   "true",
                                                   "invalid",
                                                   "nan",
                                                   "-inf",
                                                   "0",
                                                   "-1",
                                                   "9223372036854775808",
                                                   "1e999",
                                                   "0.5",
                                                   ":index",
                                                   ":float16",
                                                   ":boolx4",
                                                   ":int8*",
                                                   ":uint64",
                                                   ":void",
                                                   ":float32x99999999",
                                                   "@LOCAL",
                                                   "@int 3",
                                                   "@texts []",
                                                   "@const int 3",
                                                   "; text \"a\"",
                                                   "; [1, 2]",
                                                   "{op: ADD}",
                                                   "{}",
                                                   "%0",
                                                   "%1 = ",
                                                   "$n",
                                                   "$n[0..3]",
                                                   "$\"\"[0..0]",
                                                   "r0",
                                                   "r0[3]",
                                                   "r1[$n, WARP]",
                                                   " // 0",
                                                   " % ",
                                                   " - ",
                                                   " >= ",
                                                   " == ",
                                                   "!",
                                                   "((((",
                                                   "))))",
                                                   "\n",
                                                   "; ",
                                                   "# "};
    text.insert(place(text), kTokens[below(std::size(kTokens))]);
  }

  std::mt19937_64 random_;
};

TEST(TextFuzz, DamagedTextIsReadOrRefused) {
  const int count = rounds(100'000);
  const uint64_t seed = first_seed();
  std::vector<std::string> corpus(std::begin(kCorpus), std::end(kCorpus));
  for (int i = 0; i < 40; i++) corpus.push_back(print(RandomGraph(seed + i).graph(4 + i)));
  // Every text is damaged afresh: survivors of earlier damage are mostly long texts in quotes, where anything
  // goes.
  for (const std::string& text : corpus) ASSERT_NO_THROW(parse(text)) << text;
  Mutator mutate(seed);
  int read = 0;
  for (int i = 0; i < count; i++) {
    const std::string text = mutate.damage(corpus[i % corpus.size()]);
    UOp u;
    try {
      u = parse(text);
    } catch (const ParseError& error) {
      ASSERT_GE(error.line, 1);
      ASSERT_GE(error.column, 1);
      ASSERT_LE(error.line, std::ranges::count(text, '\n') + 1) << text;
      continue;
    }  // anything else ends the test
    read++;
    const std::string printed = print(u);
    ASSERT_TRUE(same(parse(printed), u)) << text << "\n--- printed as ---\n" << printed;
  }
  std::cout << "TextFuzz: seed " << seed << ", " << count << " mutations, " << read << " of them still IR\n";
}

TEST(TextFuzz, BytesAreReadOrRefused) {
  const int count = rounds(20'000);
  const uint64_t seed = first_seed();
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; i++) {
    std::string text(random() % 64, '\0');
    for (char& c : text) c = static_cast<char>(random() % (i % 2 == 0 ? 256 : 128));
    try {
      parse(text);
    } catch (const ParseError&) {  // NOLINT(bugprone-empty-catch): it is what should happen
    }
  }
  std::cout << "TextFuzz: seed " << seed << ", " << count << " random texts\n";
}

}  // namespace
}  // namespace quern
