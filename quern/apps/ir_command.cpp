// quern ir FILE: a way to play with IR text and rules.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include "quern/apps/commands.h"
#include "quern/apps/steps.h"
#include "quern/ir/file.h"
#include "quern/ir/parse.h"
#include "quern/ir/spec.h"
#include "quern/ir/symbolic.h"
#include "quern/ir/trace.h"

namespace quern::apps {
namespace {

struct Options {
  std::string file;
  bool simplify = false, relax = false, steps = false, facts = false;
  std::optional<std::string> level, trace;
};

std::string read(const std::string& path) {
  if (path != "-") return read_file(path);
  std::ostringstream text;
  text << std::cin.rdbuf();
  if (std::ferror(stdin) != 0) throw Error("cannot read standard input");
  return text.str();
}

UOp parse_file(const std::string& path) {
  try {
    return parse(read(path));
  } catch (const ParseError& e) {
    throw Error(fmt::format("{}:{}", path == "-" ? "standard input" : path, e.what()));
  }
}

Level level_named(const std::string& text) {
  for (Level level : {Level::tensor, Level::kernel, Level::program})
    if (name(level) == text) return level;
  throw Error(fmt::format("there is no level \"{}\"", text));
}

void print_facts(const UOp& u) {
  std::cout << "# dtype " << u.dtype().name() << ", " << u.toposort().size() << " nodes, key " << u.key()
            << "\n";
  if (u.dtype().is_int() || u.dtype().is_bool())
    std::cout << "# from " << to_string(u.vmin()) << " to " << to_string(u.vmax()) << "\n";
}

void run(const Options& options) {
  UOp u = parse_file(options.file);
  if (options.level) {
    check(u, level_named(*options.level));
    std::cout << "# legal at " << *options.level << " level\n";
  }
  if (options.simplify || options.relax || options.steps || options.trace) {
    static const Rules with_relaxed = [] { return symbolic + relaxed; };
    const Recorder recorder;
    u = graph_rewrite(u, options.relax ? with_relaxed : symbolic, {.name = "symbolic"});
    if (options.steps) print_steps(std::cout, recorder.trace());
    if (options.trace) write_trace(recorder.trace(), *options.trace);
  }
  if (options.facts) print_facts(u);
  std::cout << u.text() << "\n";
}

}  // namespace

void add_ir(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* ir = app.add_subcommand("ir", "Print, simplify or check a file of IR text.");
  ir->add_option("FILE", options->file, "the file, or - for standard input")->required();
  ir->add_flag("-s,--simplify", options->simplify, "apply the exact symbolic rules");
  ir->add_flag("-r,--relaxed", options->relax, "apply the rules on floats that are not exact, too");
  ir->add_flag("--steps", options->steps, "simplify, and show every rewrite with its rule");
  ir->add_flag("--facts", options->facts, "show dtype, bounds, number of nodes and key");
  ir->add_option("--check", options->level, "check against the spec of a level: tensor, kernel or program")
      ->check(CLI::IsMember({"tensor", "kernel", "program"}));
  ir->add_option("--trace", options->trace,
                 "simplify, and record the rewrites in this file (docs/trace-format.md)");
  ir->callback([options] { run(*options); });
}

}  // namespace quern::apps
