// Graphs of tensors as all that is made of them: corpus_tool FOLDER, with a file of GRAPHS on standard input,
// writes FOLDER/CPU.txt, FOLDER/CL.txt and FOLDER/LINEAR.txt: of each graph the steps of its
// schedule, and the source of each kernel. Nothing is compiled or run, and devices are always the
// same, so that the text is the same on every machine. corpus.py calls it.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <unordered_map>

#include "quern/base/error.h"
#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"
#include "quern/render/c_style/c.h"
#include "quern/render/c_style/opencl.h"
#include "quern/runtime/device.h"
#include "quern/schedule/schedule.h"

namespace {

using namespace quern;  // NOLINT: a program

struct Target {
  std::string name;
  DeviceSpec spec;
  std::function<std::string(const LinearProgram&)> text;
  std::unordered_map<UOp, std::string> known = {};  // kernels that were met before
};

DeviceSpec cpu_spec() {
  DeviceSpec spec{.name = "CPU"};
  spec.parallel = {.cores = 4, .vector_bytes = 32};
  spec.memory.l2_bytes = 1 << 20;
  spec.has_float16 = spec.has_bfloat16 = spec.has_fp8 = false;
  spec.converts_float16 = spec.has_fma = spec.adds_addresses_in_64_bits = true;
  return spec;
}

DeviceSpec gpu_spec() {
  DeviceSpec spec{.name = "CL"};
  spec.parallel = {.cores = 32, .threads_per_core = 1024, .workgroup = 256, .warp = 32, .vector_bytes = 16};
  spec.memory = {.registers = 128, .thread_bytes = 0, .group_bytes = 48 << 10};
  spec.max_buffers = 64;
  spec.has_float16 = spec.has_bfloat16 = spec.has_fp8 = false;
  spec.has_fma = true;
  return spec;
}

std::vector<Target> targets() {
  return {{"CPU", cpu_spec(), [](const LinearProgram& p) { return render_c(p).source; }},
          {"CL", gpu_spec(), [](const LinearProgram& p) { return render_opencl(p).source; }},
          {"LINEAR", Device::get("LINEAR").spec(), [](const LinearProgram& p) { return p.text(); }}};
}

// An Error is part of what is made of a kernel.
std::string text_of(const UOp& kernel, Target& target) {
  const auto [known, added] = target.known.try_emplace(kernel);
  if (!added) return known->second;
  try {
    const LinearProgram program = lower(kernel, target.spec, OptChoice::best);
    known->second = fmt::format("opts {}\n{}", fmt::join(program.opts, " "), target.text(program));
  } catch (const Error& e) {
    known->second = fmt::format("error {}\n", e.what());
  }
  return known->second;
}

std::string text_of_steps(const UOp& graph, Target& target) {
  std::string text;
  const SpecOf spec = [&](const std::string&) -> const DeviceSpec& { return target.spec; };
  for (const Step& step : make_schedule(graph, spec).steps) {
    text += step.is_call ? "call" : step.program.op() == Op::COPY ? "copy" : "kernel";
    for (const UOp& b : step.buffers)
      text += fmt::format(" {}[{}]", b.dtype().name(), static_cast<int64_t>(b.shape()[0].vmax()));
    text += "\n";
    if (step.is_call)
      text += text_of_steps(step.program, target);
    else if (step.program.op() == Op::SINK)
      text += text_of(step.program, target);
  }
  return text;
}

// The next text on standard input, and its key.
std::optional<std::pair<std::string, std::string>> next_graph() {
  static constexpr std::string_view kTitle = "# graph ";
  static std::string title;
  if (title.empty() && !std::getline(std::cin, title)) return {};
  if (!title.starts_with(kTitle)) throw Error("expected \"# graph\" and a key, found " + title);
  std::pair<std::string, std::string> found(title.substr(kTitle.size()), "");
  title.clear();
  for (std::string line; std::getline(std::cin, line);) {
    if (line.starts_with(kTitle)) {
      title = line;
      break;
    }
    found.second += line + "\n";
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw Error("usage: corpus_tool FOLDER, and graphs on standard input");
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  std::vector<Target> all = targets();
  std::vector<std::ofstream> files;
  for (const Target& target : all) files.emplace_back(folder / (target.name + ".txt"));
  while (const auto given = next_graph()) {
    const UOp graph = parse(given->second);
    for (size_t i = 0; i < all.size(); i++) {
      std::string text;
      try {
        text = text_of_steps(graph, all[i]);
      } catch (const Error& e) {
        text = fmt::format("error {}\n", e.what());
      }
      files[i] << "graph " << given->first << "\n" << text;
    }
  }
  for (std::ofstream& file : files)
    if (!file.flush()) throw Error(fmt::format("{}: it cannot be written", folder.string()));
} catch (const std::exception& e) {
  std::cerr << "corpus_tool: " << e.what() << "\n";
  return 1;
}
