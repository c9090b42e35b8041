// Building, walking and simplifying graphs: bench_ir graph.txt expressions.txt. See ir_input.py for their
// form.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>
#include <unordered_map>

#include "quern/ir/node/node_map.h"
#include "quern/ir/symbolic/symbolic.h"

namespace {

using namespace quern;

constexpr int kRuns = 5;
constexpr int kWalks = 100;  // a second in all, as for the peer: other programs disturb what is so short

struct Instruction {
  char word;
  int64_t a = 0, b = 0;
};
using Program = std::vector<Instruction>;

Program read(const std::string& line, char separator) {
  Program program;
  std::istringstream in(line);
  for (std::string node; std::getline(in, node, separator);) {
    std::istringstream fields(node);
    Instruction i{};
    fields >> i.word >> i.a >> i.b;
    program.push_back(i);
  }
  return program;
}

std::ifstream open(const char* path) {
  std::ifstream in(path);
  if (!in) throw Error(fmt::format("cannot read {}", path));
  return in;
}

struct Built {
  UOps nodes;
  std::vector<std::pair<UOp, int64_t>> leaves;  // loops and their sizes
};

Built build(const Program& program) {
  Built r;
  r.nodes.reserve(program.size());
  auto at = [&](int64_t i) -> const UOp& { return r.nodes[static_cast<size_t>(i)]; };
  for (const auto& [word, a, b] : program) {
    switch (word) {
      case '+': r.nodes.push_back(at(a) + at(b)); break;
      case '*': r.nodes.push_back(at(a) * at(b)); break;
      case '/': r.nodes.push_back(at(a) / at(b)); break;
      case '%': r.nodes.push_back(at(a) % at(b)); break;
      case 'c': r.nodes.push_back(UOp::index(a)); break;
      case 'v': r.nodes.push_back(UOp::variable(fmt::format("v{}", r.nodes.size()), a, b)); break;
      case 'r':
        r.nodes.push_back(UOp::range(a, b));
        r.leaves.emplace_back(r.nodes.back(), a);
        break;
      default: throw Error(fmt::format("no such word: {}", word));
    }
  }
  return r;
}

using Clock = std::chrono::steady_clock;
double milliseconds(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void measured(const char* name, double value, const char* unit = "ms") {
  fmt::print("{{\"name\": \"{}\", \"value\": {}, \"unit\": \"{}\"}}\n", name, value, unit);
  std::cout.flush();
}

void run(const char* graph_file, const char* expressions_file) {
  std::ostringstream text;
  text << open(graph_file).rdbuf();
  const Program graph = read(text.str(), '\n');
  std::vector<Program> expressions;
  std::ifstream in = open(expressions_file);
  for (std::string line; std::getline(in, line);) expressions.push_back(read(line, ';'));

  double best_build = 1e9, best_walk = 1e9;
  for (int i = 0; i < kRuns; i++) {
    const auto start = Clock::now();
    const Built built = build(graph);
    best_build = std::min(best_build, milliseconds(start));
    for (int j = 0; j < kWalks; j++) {
      const auto walked = Clock::now();
      const size_t count = built.nodes.back().toposort().size();
      best_walk = std::min(best_walk, milliseconds(walked));
      if (count < graph.size()) throw Error("the walk missed nodes");
    }
  }
  measured("build 100,000 nodes", best_build);
  measured("walk 100,000 nodes in topological order", best_walk);

  double total = 0;
  int64_t checksum = 0;
  for (const Program& program : expressions) {
    const Built built = build(program);
    const auto start = Clock::now();
    const UOp simple = built.nodes.back().simplify();
    total += milliseconds(start);
    std::unordered_map<UOp, UOp> values;
    for (const auto& [leaf, size] : built.leaves) values.emplace(leaf, UOp::index(size / 2));
    checksum += static_cast<int64_t>(simple.substitute(values).simplify().int_value());
  }
  measured("simplify 2,000 index expressions", total);
  measured("checksum", static_cast<double>(checksum), "sum");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: bench_ir GRAPH EXPRESSIONS\n";
    return 2;
  }
  try {
    run(argv[1], argv[2]);
  } catch (const std::exception& e) {
    std::cerr << "bench_ir: " << e.what() << "\n";
    return 1;
  }
  return 0;
}
