#include "quern/engine/search/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "quern/base/env.h"
#include "quern/ir/node/node_map.h"
#include "quern/runtime/host/host_memory.h"

namespace quern {
namespace {

// Times the best: that slow after one run, or after a few, it is not run again.
constexpr double kHopelessAtOnce = 10, kHopeless = 2;
constexpr double kShort = 1e-4;  // seconds: first runs of this length say nothing
constexpr double kAgree = 1.02;  // runs that differ by no more
constexpr int kMostRuns = 100;
// Seconds of runs that agree, and of those that do not: of one candidate, and of the last few.
constexpr double kEnough = 0.005, kMost = 0.2, kEnoughAgain = 0.1, kMostAgain = 2;
constexpr int64_t kPattern = 1 << 20;  // bytes

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The least of several times, and whether it is more than luck: other runs take about as long.
struct Least {
  double seconds = Candidate::kNever, second = Candidate::kNever;
  int runs = 0;

  void add(double time) {
    runs++;
    second = std::min(second, std::max(seconds, time));
    seconds = std::min(seconds, time);
  }
  bool is_sure() const { return runs >= 3 && second <= seconds * kAgree; }
};

std::string first_line(const std::exception& e) {
  const std::string text = e.what();
  return text.substr(0, text.find('\n'));
}

// Small numbers of all kinds that are none of the slow ones: not 0, not subnormal.
std::string pattern_of(DType dtype, int64_t most) {
  const auto bytes = static_cast<size_t>(dtype.bytes());
  std::string pattern;
  for (int64_t i = 0; std::ssize(pattern) + dtype.bytes() <= most; i++) {
    const Const value = dtype.is_bool()    ? Const::of_bool(i % 2 == 0)
                        : dtype.is_float() ? make_const(dtype, 0.5 + static_cast<double>(i % 61) / 64)
                                           : make_const(dtype, i * 7 % 61 + 1);
    const uint64_t bits = to_bits(value, dtype);
    char element[sizeof bits];
    std::memcpy(element, &bits, sizeof bits);
    pattern.append(element, bytes);
  }
  return pattern;
}

}  // namespace

bool DeviceMeasurer::ByNodes::operator()(const UOps& a, const UOps& b) const {
  return std::ranges::lexicographical_compare(a, b, std::less<>(), &UOp::node, &UOp::node);
}

DeviceMeasurer::DeviceMeasurer(Device& device, const UOp& kernel, const MeasureLimits& limits,
                               Progress progress)
    : device_(device),
      kernel_(kernel),
      limits_(limits),
      progress_(std::move(progress)),
      end_(Clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.seconds))) {
  const auto used = [&](const UOp& pointer) -> Memory& {
    return memory_.at(static_cast<size_t>(storage_of(pointer).arg().integer()));
  };
  walk(kernel, [&](const UOp& u) {
    if (u.op() == Op::DEFINE_VAR) {
      const VariableArg& v = u.arg().variable();
      variables_[v.name] = v.min + (v.max - v.min) / 4 * 3;
    }
    if (u.op() == Op::PARAM) {
      const auto slot = static_cast<size_t>(u.arg().integer());
      if (slot >= memory_.size()) memory_.resize(slot + 1);
      memory_[slot].dtype = u.dtype().base();
      memory_[slot].bytes = u.dtype().size() * u.dtype().base().bytes();
    }
  });
  NodeSet stored;  // an address that is stored to is not read by that
  walk(kernel, [&](const UOp& u) {
    if (u.op() == Op::STORE) stored.insert(u.src(0));
    if (u.op() == Op::STORE && storage_of(u.src(0)).op() == Op::PARAM) used(u.src(0)).written = true;
  });
  walk(kernel, [&](const UOp& u) {
    if (u.op() == Op::INDEX && !stored.contains(u) && storage_of(u).op() == Op::PARAM) used(u).read = true;
  });
  allocate();
}

void DeviceMeasurer::allocate() {
  int64_t all = 0;
  for (const Memory& m : memory_) all += m.bytes;
  if (device_.is_host_memory() && all > available_host_bytes() / 2)
    throw MemoryError(fmt::format("{} bytes for measuring, {} are available", all, available_host_bytes()));
  for (Memory& m : memory_) {
    m.memory = {device_.allocate(m.bytes), Free{&device_, m.bytes}};
    arguments_.push_back({m.memory.get(), m.bytes});
    m.pattern = pattern_of(m.dtype, std::min(kPattern, m.bytes));
    fill(m);
  }
}

void DeviceMeasurer::fill(const Memory& memory) {
  const std::string& pattern = memory.pattern;
  for (int64_t at = 0; at < memory.bytes; at += std::ssize(pattern))
    device_.copy_in(static_cast<char*>(memory.memory.get()) + at, pattern.data(),
                    std::min<int64_t>(std::ssize(pattern), memory.bytes - at));
}

// None, with a reason, if it is not worth running. `again`: also if there was such a program.
std::shared_ptr<const Program> DeviceMeasurer::compile(Candidate& candidate, bool again) {
  const auto start = Clock::now();
  try {
    const LinearProgram program =
        lower(with_opts(kernel_, candidate.opts), device_.spec(), OptChoice::searched);
    {
      const std::lock_guard lock(mutex_);
      if (is_first_) limits_.instructions = std::max(limits_.instructions, program.list.size());
      is_first_ = false;
      if (program.list.size() > limits_.instructions)
        candidate.dropped = fmt::format("more than {} instructions", limits_.instructions);
      else if (!made_.insert(program.list).second && !again)
        candidate.dropped = "the same program as another";
    }
    if (!candidate.dropped.empty()) return nullptr;
    auto compiled = device_.compile(program);
    if (!device_.is_host_memory()) (void)run(*compiled);  // drivers finish compiling when it first runs
    if (const double seconds = seconds_since(start); seconds > limits_.compile_seconds && !again)
      candidate.dropped = fmt::format("more than {} s to compile", limits_.compile_seconds);
    return candidate.dropped.empty() ? compiled : nullptr;
  } catch (const std::exception& e) {
    candidate.dropped = first_line(e);
    return nullptr;
  }
}

DeviceMeasurer::Programs DeviceMeasurer::compile_all(std::vector<Candidate>& candidates, double best,
                                                     bool again) {
  const bool tells = env::DEBUG() >= 4 || !env::REWRITE_TRACE().empty();  // in order
  const size_t cores = tells ? 1 : std::max(1U, std::thread::hardware_concurrency());
  Programs programs(candidates.size());
  std::atomic<size_t> next = 0;
  const auto work = [&](bool reports) {
    for (size_t i = next++; i < candidates.size(); i = next++) {
      if (is_over() && best < Candidate::kNever && !again)
        candidates[i].dropped = "no time was left";
      else
        programs[i] = compile(candidates[i], again);
      if (reports) report(i / 2, candidates.size(), best);  // running them is the other half
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < std::min(cores, candidates.size()); i++) threads.emplace_back(work, false);
  work(true);
  return programs;
}

void DeviceMeasurer::measure(std::vector<Candidate>& candidates, double best) {
  const bool first = best == Candidate::kNever;  // is measured in any case
  Programs programs = compile_all(candidates, best, false);
  for (size_t i = 0; i < candidates.size(); i++) {
    Candidate& c = candidates[i];
    report((candidates.size() + i) / 2, candidates.size(), best);
    if (c.dropped.empty() && is_over() && !first) c.dropped = "no time was left";
    if (!c.dropped.empty()) continue;
    try {
      c.seconds = least_time(*programs[i], best);
      best = std::min(best, c.seconds);
    } catch (const std::exception& e) {
      c.dropped = first_line(e);
    }
    programs[i] = nullptr;
  }
}

void DeviceMeasurer::measure_again(std::vector<Candidate>& candidates) {
  double best = Candidate::kNever;
  for (const Candidate& c : candidates) best = std::min(best, c.seconds);
  const Programs programs = compile_all(candidates, best, true);
  std::vector<Least> times(candidates.size());
  const auto start = Clock::now();
  for (int round = 0; round < kMostRuns; round++) {
    const bool are_sure = std::ranges::all_of(times, &Least::is_sure);
    if (round >= 2 && seconds_since(start) > (are_sure ? kEnoughAgain : kMostAgain)) break;
    for (size_t i = 0; i < programs.size(); i++)
      if (programs[i]) times[i].add(run(*programs[i]));
  }
  for (size_t i = 0; i < programs.size(); i++) candidates[i].seconds = times[i].seconds;
}

void DeviceMeasurer::report(size_t done, size_t all, double best) const {
  if (progress_) progress_(done, all, best);
}

double DeviceMeasurer::run(const Program& program) {
  for (const Memory& m : memory_)
    if (m.read && m.written) fill(m);  // else its numbers become something else with every run
  const auto start = Clock::now();
  program.run(arguments_, variables_);
  if (!device_.is_host_memory() && !arguments_.empty()) {
    char byte = 0;  // a copy waits for what was started
    device_.copy_out(&byte, arguments_[0].memory, std::min<int64_t>(1, arguments_[0].bytes));
  }
  return seconds_since(start);
}

double DeviceMeasurer::least_time(const Program& program, double best) {
  const auto start = Clock::now();
  Least time;
  for (;;) {
    time.add(run(program));
    const double spent = seconds_since(start);
    if (time.runs == kMostRuns || spent > kMost || (spent > kEnough && time.is_sure())) break;
    // one run may have been interrupted
    const double hopeless = (time.runs < 3 ? kHopelessAtOnce : kHopeless) * best;
    if (time.seconds > hopeless && time.seconds > kShort) break;
  }
  return time.seconds;
}

}  // namespace quern
