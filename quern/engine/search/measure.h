// How long a kernel takes with which opts, on a device: compiled several at once, run alone on memory of its
// own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "quern/engine/search/search.h"
#include "quern/runtime/device.h"

namespace quern {

// Called now and then: how many of how many candidates are through, and the least time so far.
using Progress = std::function<void(size_t done, size_t all, double best)>;

// What is not waited for. A run cannot be interrupted, nor can a compiler.
struct MeasureLimits {
  double seconds = 60;          // for all candidates; the first is measured in any case
  double compile_seconds = 10;  // for one
  size_t instructions = 3000;   // of a program, or those of the first: compilers take long for more
};

class DeviceMeasurer : public Measurer {
 public:
  // An Error if there is not enough memory.
  DeviceMeasurer(Device& device, const UOp& kernel, const MeasureLimits& limits, Progress progress = {});
  DeviceMeasurer(const DeviceMeasurer&) = delete;
  DeviceMeasurer& operator=(const DeviceMeasurer&) = delete;
  ~DeviceMeasurer() override = default;

  void measure(std::vector<Candidate>& candidates, double best) override;
  void measure_again(std::vector<Candidate>& candidates) override;
  bool is_over() override { return Clock::now() >= end_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Programs = std::vector<std::shared_ptr<const Program>>;
  struct Free {
    Device* device;
    int64_t bytes;
    void operator()(void* memory) const { device->free(memory, bytes); }
  };
  struct Memory {  // of a PARAM
    DType dtype = dtypes::uint8;
    int64_t bytes = 0;
    bool read = false, written = false;
    std::string pattern = {};  // what it is filled with, again and again
    std::unique_ptr<void, Free> memory = {};
  };
  struct ByNodes {
    bool operator()(const UOps& a, const UOps& b) const;
  };

  void allocate();
  void fill(const Memory& memory);
  std::shared_ptr<const Program> compile(Candidate& candidate, bool again);
  Programs compile_all(std::vector<Candidate>& candidates, double best, bool again);
  void report(size_t done, size_t all, double best) const;
  double run(const Program& program);
  double least_time(const Program& program, double best);

  Device& device_;
  const UOp kernel_;
  MeasureLimits limits_;
  const Progress progress_;
  const Clock::time_point end_;
  VariableValues variables_;
  std::vector<Memory> memory_;  // by PARAM
  std::vector<Argument> arguments_;
  std::mutex mutex_;
  std::set<UOps, ByNodes> made_;  // programs that there were
  bool is_first_ = true;
};

}  // namespace quern
