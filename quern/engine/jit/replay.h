// A recorded function as launches: memory between its kernels is planned over all of it, and what changes
// from run to run is a row of addresses and a row of numbers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quern/engine/realize/recording.h"
#include "quern/runtime/batch.h"
#include "quern/runtime/buffer.h"

namespace quern {

class Replay {
 public:
  // `given`: BUFFERs that each run replaces by memory that it is given. The first `inputs` of them hold
  // values, the others are for results. `variables`: those that may have other values in each run, with the
  // values that they had; an Error if the recording says otherwise.
  Replay(const Recording& recording, const UOps& given, size_t inputs, VariableValues variables);

  // Addresses of the memory of a BUFFER that is given: one for each of its devices.
  std::span<void*> memory_of(size_t given) { return {memory_.data() + first_[given], devices_[given]}; }
  // A ShapeError, and nothing changes, if a condition that held when it was recorded does not hold for them.
  void bind(const VariableValues& variables);
  void run(bool apart);  // `apart`: what is given overlaps nothing

  const UOps& bound() const { return bound_; }  // memory that it uses and is not given
  int64_t kernels() const { return kernels_; }
  int64_t arena_bytes() const;

 private:
  // A kernel or copy on one device.
  struct Part {
    Device* device;
    Launch launch;
    Device* from = nullptr;  // of a copy
  };
  struct Work {
    Step step;
    std::vector<Part> parts;
    int64_t operations = 0, bytes = 0;
    Texts opts = {};
  };
  // Launches of one device, or a copy. `overwrites`: memory that had values. From the first such segment on,
  // a run goes on to its end; before, it may be stopped.
  struct Segment {
    std::unique_ptr<Batch> batch;
    const Part* copy = nullptr;
    bool overwrites = false;
  };
  std::vector<Step> joined(const Recording& recording, const UOps& given);
  void place_memory(const UOps& given);
  MemoryPart find(const UOp& node, size_t device) const;
  bool overwrites(const Step& step) const;
  size_t value(const std::string& name, int64_t recorded, const Recording& recording);
  void check_sizes(const VariableValues& variables) const;
  void add_work(const Recording::Ran& ran, Step step, const Recording& recording);
  std::vector<Segment> prepared(std::span<const Work> work) const;
  void run_segments(std::span<const Segment> segments, bool apart);
  void run_segment(const Segment& segment, bool apart);
  void run_and_tell(bool apart);

  UOps bound_;
  std::vector<BufferPtr> kept_;  // that of bound_, and arenas
  MemoryPlan plan_;
  std::vector<void*> memory_;
  std::vector<size_t> first_, devices_;  // in memory_: of each PARAM
  size_t inputs_, given_;  // of the PARAMs, how many are inputs, and are given; those that are not are bound
  std::map<std::string, size_t> arenas_;
  std::vector<BufferPtr> foreign_;  // of what is bound: memory of someone else, which may overlap any

  std::vector<int64_t> values_;
  VariableValues variables_;               // as recorded
  std::map<std::string, size_t> rebound_;  // which of the values
  std::vector<detail::SizeCondition> conditions_;
  struct Drawn {
    size_t value;
    int64_t offset;
  };
  std::vector<Drawn> drawn_;
  std::vector<size_t> keys_;
  std::map<int64_t, size_t> constants_;
  uint64_t words_ = 0;  // random words that a run draws

  std::vector<Work> work_;
  std::vector<Segment> segments_;
  int64_t kernels_ = 0, operations_ = 0, bytes_ = 0;
};

}  // namespace quern
