// The file of a trace: what is written is read back, and what is not a trace is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "quern/base/file.h"
#include "quern/ir/rewrite/trace.h"
#include "test/ir/rounds.h"
#include "test/ir/variables.h"

namespace quern {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string temporary(std::string_view name) {
  return (std::filesystem::temp_directory_path() / fmt::format("quern_{}_{}", ::getpid(), name)).string();
}

void expect_equal(const RewriteTrace& a, const RewriteTrace& b) {
  ASSERT_EQ(a.rules.size(), b.rules.size());
  for (size_t i = 0; i < a.rules.size(); i++) {
    EXPECT_EQ(a.rules[i].text, b.rules[i].text);
    EXPECT_EQ(a.rules[i].location, b.rules[i].location);
  }
  ASSERT_EQ(a.passes.size(), b.passes.size());
  for (size_t i = 0; i < a.passes.size(); i++) {
    const RewritePass &p = a.passes[i], &q = b.passes[i];
    EXPECT_EQ(p.name, q.name);
    EXPECT_EQ(p.depth, q.depth);
    EXPECT_EQ(p.thread, q.thread);
    EXPECT_TRUE(same(p.root, q.root) && same(p.result, q.result));
    ASSERT_EQ(p.steps.size(), q.steps.size());
    for (size_t k = 0; k < p.steps.size(); k++) {
      EXPECT_EQ(p.steps[k].rule, q.steps[k].rule);
      EXPECT_TRUE(same(p.steps[k].before, q.steps[k].before) && same(p.steps[k].after, q.steps[k].after));
    }
  }
}

// A trace with every op, every kind of argument, tags, and several passes and threads.
RewriteTrace rich_trace() {
  UOps nodes;
  const Const constants[] = {Const::of_int(-7), Const::invalid()};
  for (Const c : constants) nodes.push_back(UOp::constant(dtypes::index, c));
  nodes.push_back(UOp::boolean(true));
  nodes.push_back(UOp::constant(dtypes::uint64, Const::of_int(-1)));
  for (double v : {0.0, -0.0, 1.5, -1e-40, std::numeric_limits<double>::infinity(), std::nan("")})
    nodes.push_back(UOp::constant(dtypes::float32, v));
  nodes.push_back(UOp::constant(dtypes::float64, 0.1));
  nodes.push_back(UOp::constant(dtypes::fp8e4m3.vec(4), 0.5));
  auto argument = [](ArgKind kind) -> Arg {
    switch (kind) {
      case ArgKind::None: return {};
      case ArgKind::Const: return Const::of_int(3);
      case ArgKind::Int: return std::numeric_limits<int64_t>::min();
      case ArgKind::Ints: return Ints{0, -1, std::numeric_limits<int64_t>::max()};
      case ArgKind::Text: return "text with \"quotes\", \n and \xc3\xa9";
      case ArgKind::Texts: return Texts{"CPU", "", "GPU:1"};
      case ArgKind::Variable: return VariableArg{"size", -3, 70000};
      case ArgKind::Range: return RangeArg{12, AxisKind::GROUP_REDUCE};
      case ArgKind::Reduce: return ReduceArg{Op::MAX, {0, 2}, 2};
      case ArgKind::Stage: return StageArg{AddrSpace::LOCAL, {"CPU"}, false, "asked for"};
      case ArgKind::Kernel: return KernelArg{"k", {"UPCAST:0:4", "UPCAST:1:2"}};
      case ArgKind::Function: return FunctionArg{"f", true};
      case ArgKind::Hints:
        return Hints{.stream = true, .prefetch = -64, .reason = "asked for", .put = {1, -2}};
    }
    return {};
  };
  const DType dtypes_used[] = {dtypes::index, dtypes::int8.vec(4), dtypes::float32.ptr(16, AddrSpace::LOCAL),
                               dtypes::bfloat16.ptr(), dtypes::void_};
  for (int i = 0; i < kOpCount; i++) {
    const auto op = static_cast<Op>(i);
    UOps sources;
    for (int s = 0; s < info(op).least_sources; s++)
      sources.push_back(nodes[static_cast<size_t>(i + s) % nodes.size()]);
    const DType dtype = op == Op::CONST ? dtypes::int32 : dtypes_used[i % 5];
    nodes.push_back(UOp::make(op, dtype, sources, argument(info(op).arg),
                              i % 3 == 0 ? argument(static_cast<ArgKind>(i % 13)) : Arg()));
  }
  RewriteTrace trace;
  trace.rules = {
      {"x + 0 -> x", "quern/ir/a.cpp:1"}, {"note", "quern/ir/b.cpp:22"}, {"x + 0 -> x", "quern/ir/a.cpp:1"}};
  trace.passes.push_back(
      {"first", UOp::sink(nodes), nodes[3], {{0, nodes[1], nodes[2]}, {2, nodes[40], nodes[5]}}, 0, 0});
  trace.passes.push_back({"nested", nodes[20], {}, {{1, nodes[50], nodes[50]}}, 1, 0});
  trace.passes.push_back({"first", nodes[7], nodes[8], {}, 0, 1});
  trace.passes.push_back({"", nodes[9], nodes[9], {}, 0, 0});
  return trace;
}

TEST(TraceFile, EverythingIsReadBack) {
  const RewriteTrace trace = rich_trace();
  const std::string bytes = encode_trace(trace);
  expect_equal(decode_trace(bytes), trace);
  EXPECT_EQ(encode_trace(decode_trace(bytes)), bytes) << "and written the same again";
  const std::string path = temporary("rich");
  write_trace(trace, path);
  expect_equal(read_trace(path), trace);
  EXPECT_EQ(read_file(path), bytes);
  std::filesystem::remove(path);
}

TEST(TraceFile, AnEmptyTrace) {
  EXPECT_EQ(encode_trace({}), std::string("\x89QTRACE\n\2\0\0\0\0\0\0\0\0", 17));
  expect_equal(decode_trace(encode_trace({})), {});
}

TEST(TraceFile, TheExampleOfTheDocumentation) {
  RewriteTrace trace;
  trace.rules = {{"x + 0 -> x", "a.cpp:1"}};
  trace.passes.push_back({"p", kN + 0, kN, {{0, kN + 0, kN}}, 0, 0});
  std::string hex;
  for (unsigned char c : encode_trace(trace).substr(9)) hex += fmt::format("{:02x} ", c);
  const std::string page = read_file("docs/trace-format.md");
  std::string documented;  // of the first block of bytes: what stands before the two spaces
  size_t at = page.find("```hex\n") + 7;
  const size_t end = page.find("```", at);
  while (at < end) {
    const size_t line_end = page.find('\n', at);
    const std::string line = page.substr(at, line_end - at);
    documented += line.substr(0, line.find("  ")) + " ";
    at = line_end + 1;
  }
  EXPECT_EQ("89 51 54 52 41 43 45 0a 02 " + hex, documented);
}

TEST(TraceFile, ALongChain) {
  UOp chain = kN;
  for (int i = 0; i < 100'000; i++)
    chain = UOp::make(i % 2 == 0 ? Op::ADD : Op::MUL, dtypes::index, {chain, kM});
  RewriteTrace trace;
  trace.passes.push_back({"chain", chain, chain, {}, 0, 0});
  const std::string bytes = encode_trace(trace);
  EXPECT_LT(bytes.size(), 1'100'000u) << "about ten bytes a node: two of its sources, three of m's distance";
  expect_equal(decode_trace(bytes), trace);
}

TEST(TraceFile, NodesAreWrittenOnce) {
  UOp u = kN;
  for (int i = 0; i < 60; i++) u = u + u;  // 2^60 paths
  RewriteTrace trace;
  for (int i = 0; i < 100; i++) trace.passes.push_back({"again", u, u, {}, 0, 0});
  EXPECT_LT(encode_trace(trace).size(), 1500u);
}

std::string decode_error(std::string_view bytes) {
  try {
    decode_trace(bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TraceFile, EveryTruncationIsAnError) {
  const std::string bytes = encode_trace(rich_trace());
  for (size_t size = 0; size < bytes.size(); size++)
    EXPECT_THAT(decode_error(std::string_view(bytes).substr(0, size)), HasSubstr("byte ")) << size;
}

TEST(TraceFile, WhatIsWrongIsSaidWithItsPlace) {
  const std::string magic("\x89QTRACE\n", 8);
  EXPECT_EQ(decode_error(""), "trace: byte 0: not a trace of quern");
  EXPECT_EQ(decode_error("something else"), "trace: byte 0: not a trace of quern");
  EXPECT_EQ(decode_error(magic + "\x01"), "trace: byte 8: a trace of version 1, only 2 can be read");
  EXPECT_EQ(decode_error(magic + "\x02"), "trace: byte 9: the file ends too early");
  EXPECT_EQ(decode_error(magic + "\x02\x05"), "trace: byte 9: 5 strings do not fit into the 0 bytes left");
  const std::string endless(12, '\xff');
  EXPECT_EQ(decode_error(magic + "\x02" + endless), "trace: byte 9: a number of more than 64 bits");
  const std::string huge = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
  EXPECT_THAT(decode_error(magic + "\x02" + huge + "abc"),
              HasSubstr("strings do not fit into the 3 bytes left"));
  const std::string whole = encode_trace({});
  EXPECT_EQ(decode_error(whole + "x"), "trace: byte 17: 1 bytes follow the end");
  // One string, "ADDS", as an op, and as a dtype.
  const std::string adds = magic + "\x02\x01\x04" + "ADDS";
  EXPECT_EQ(decode_error(adds + "\x01" + std::string(1, '\0') + "abcdef"),
            "trace: byte 16: there is no op \"ADDS\"");
  EXPECT_EQ(decode_error(adds + "\x01\x01" + "abcdef"), "trace: byte 16: string 1, of 1");
  EXPECT_EQ(decode_error(adds + std::string("\0\1\0", 3)), "trace: byte 17: there is no dtype \"ADDS\"");
  EXPECT_EQ(decode_error(adds + std::string("\0\0\1\0\0", 5)),
            "trace: byte 18: there is no kind of argument \"ADDS\"");
}

TEST(TraceFile, NodesThatCannotBeAreRefused) {
  auto refused = [](const UOp& u) {
    RewriteTrace trace;
    trace.passes.push_back({"", u, {}, {}, 0, 0});
    return decode_error(encode_trace(trace));
  };
  EXPECT_THAT(refused(UOp::make(Op::ADD, dtypes::index, {kN})), HasSubstr("ADD with 1 sources"));
  EXPECT_THAT(refused(UOp::make(Op::NEG, dtypes::index, {kN, kN})), HasSubstr("NEG with 2 sources"));
  EXPECT_THAT(refused(UOp::make(Op::NEG, dtypes::index, {kN}, 3)), HasSubstr("NEG with a integer argument"));
  EXPECT_THAT(refused(UOp::make(Op::CONST, dtypes::index)),
              HasSubstr("a CONST of index without a value of it"));
  EXPECT_THAT(refused(UOp::make(Op::CONST, dtypes::int8, {}, Const::of_int(1000))),
              HasSubstr("a CONST of int8"));
  EXPECT_THAT(refused(UOp::make(Op::CONST, dtypes::float32, {}, Const::of_float(0.1))),
              HasSubstr("a CONST of float32"));
  EXPECT_THAT(refused(UOp::make(Op::CONST, dtypes::float32, {}, Const::of_int(1))),
              HasSubstr("a CONST of float32"));
}

TEST(TraceFile, PassesMustNest) {
  auto refused = [](uint32_t depth, uint32_t thread) {
    RewriteTrace trace;
    trace.passes.push_back({"a", kN, kN, {}, 0, 0});
    trace.passes.push_back({"b", kN, kN, {}, depth, thread});
    return decode_error(encode_trace(trace));
  };
  EXPECT_EQ(refused(0, 0), "");
  EXPECT_EQ(refused(1, 0), "");
  EXPECT_EQ(refused(0, 1), "");
  EXPECT_THAT(refused(2, 0), HasSubstr("depth 2, at most 1"));
  EXPECT_THAT(refused(1, 1), HasSubstr("depth 1, at most 0"));
  EXPECT_THAT(refused(0, 2), HasSubstr("thread 2, at most 1"));
}

TEST(TraceFile, PathsThatCannotBe) {
  EXPECT_THROW(read_trace("/no/such/file"), Error);
  EXPECT_THROW(read_trace(std::filesystem::temp_directory_path().string()), Error);
  EXPECT_THROW(write_trace({}, "/no/such/folder/file"), Error);
  EXPECT_THROW(write_trace({}, std::filesystem::temp_directory_path().string()), Error);
}

// ---- fuzzing

TEST(TraceFuzz, ChangedBytesAreReadOrRefused) {
  const int count = rounds(50'000);
  const uint64_t seed = first_seed();
  std::mt19937_64 random(seed);
  auto below = [&](size_t end) { return static_cast<size_t>(random() % end); };
  RewriteTrace small;
  small.rules = {{"x + 0 -> x", "a.cpp:1"}};
  small.passes.push_back({"p", (kN + 0) * 2, kN * 2, {{0, kN + 0, kN}}, 0, 0});
  const std::string originals[] = {encode_trace(rich_trace()), encode_trace(small)};
  int read = 0;
  for (int i = 0; i < count; i++) {
    std::string bytes = originals[i % 2];
    for (size_t changes = 1 + below(4); changes > 0; changes--) {
      const size_t at = below(bytes.size());
      switch (below(6)) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
        case 2: bytes[at] = static_cast<char>(bytes[at] + (below(2) == 0 ? 1 : -1)); break;
        case 3: bytes.insert(at, 1, static_cast<char>(random())); break;
        case 4: bytes.erase(at, 1 + below(3)); break;
        default: bytes.insert(at, bytes.substr(below(bytes.size()), below(16))); break;
      }
      if (bytes.empty()) bytes = "x";
    }
    try {
      const RewriteTrace trace = decode_trace(bytes);
      read++;
      if (i % 16 == 0) expect_equal(decode_trace(encode_trace(trace)), trace);
      for (const RewritePass& pass : trace.passes) ASSERT_FALSE(pass.root.text().empty());
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), StartsWith("trace: byte ")) << "seed " << seed << ", mutation " << i;
    }
  }
  std::cout << fmt::format("TraceFuzz: seed {}, {} mutations, {} of them read\n", seed, count, read);
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace quern
