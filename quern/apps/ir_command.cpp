// quern ir FILE: a way to play with IR text and rules.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include "quern/apps/commands.h"
#include "quern/apps/steps.h"
#include "quern/base/file.h"
#include "quern/codegen/lower.h"
#include "quern/ir/rewrite/trace.h"
#include "quern/ir/spec/spec.h"
#include "quern/ir/symbolic/symbolic.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/device.h"
#include "quern/schedule/schedule.h"

namespace quern::apps {
namespace {

struct Options {
  std::optional<std::string> file;
  bool simplify = false, relax = false, steps = false, facts = false;
  bool passes = false;
  std::optional<std::string> level, trace, until, pass;
  std::string device = "CPU";
};

std::vector<PassInfo> all_passes() {
  std::vector<PassInfo> all = scheduling_passes();
  for (const PassInfo& p : lowering_passes()) all.push_back(p);
  return all;
}

// `name` is a pass of the scheduler or of code generation, which take graphs of tensors and kernels.
bool is_of(const std::vector<PassInfo>& passes, const std::string& name) {
  return std::ranges::any_of(passes, [&](const PassInfo& p) { return p.name == name; });
}

UOp after_passes(const UOp& u, const Options& options) {
  const DeviceSpec& spec = Device::get(options.device).spec();
  const std::string& name = options.pass ? *options.pass : *options.until;
  if (!is_of(all_passes(), name))
    throw Error(fmt::format("there is no pass \"{}\"; `quern ir --passes` lists them", name));
  if (u.op() != Op::SINK) throw Error(fmt::format("passes take a SINK, given {}", quern::name(u.op())));
  const bool schedules = is_of(scheduling_passes(), name);
  const SpecOf spec_of = [&](const std::string&) -> const DeviceSpec& { return spec; };
  if (options.pass) return schedules ? schedule_by(name, u, spec_of) : lower_by(name, u, spec);
  check(u, schedules ? Level::tensor : Level::kernel);
  return schedules ? schedule_until(u, spec_of, name) : lower_until(u, spec, name);
}

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
  if (options.passes) {
    std::cout << pass_table(all_passes());
    return;
  }
  if (!options.file) throw CLI::RequiredError("FILE");
  UOp u = parse_file(*options.file);
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
  if (options.pass || options.until) u = after_passes(u, options);
  if (options.facts) print_facts(u);
  std::cout << u.text() << "\n";
}

}  // namespace

void add_ir(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* ir = app.add_subcommand("ir", "Print, simplify or check a file of IR text.");
  ir->add_option("FILE", options->file, "the file, or - for standard input");
  ir->add_flag("-s,--simplify", options->simplify, "apply the exact symbolic rules");
  ir->add_flag("-r,--relaxed", options->relax, "apply the rules on floats that are not exact, too");
  ir->add_flag("--steps", options->steps, "simplify, and show every rewrite with its rule");
  ir->add_flag("--facts", options->facts, "show dtype, bounds, number of nodes and key");
  ir->add_option("--check", options->level, "check against the spec of a level: tensor, kernel or program")
      ->check(CLI::IsMember({"tensor", "kernel", "program"}));
  ir->add_flag("--passes", options->passes, "list the passes of the scheduler and of code generation");
  auto* until = ir->add_option("--until", options->until, "run the passes of its stage up to this one");
  ir->add_option("--pass", options->pass, "run this pass alone")->excludes(until);
  ir->add_option("--device", options->device, "for --until and --pass: the device that is compiled for");
  ir->add_option("--trace", options->trace,
                 "simplify, and record the rewrites in this file (docs/trace-format.md)");
  ir->callback([options] { run(*options); });
}

}  // namespace quern::apps
