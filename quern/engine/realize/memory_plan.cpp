#include "quern/engine/realize/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "quern/schedule/facts/memory_view.h"

namespace quern {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

struct Taken {
  int64_t begin, end;
};

// The start of the tightest gap of this size between what is taken, or the end of all of it.
int64_t tightest_gap(std::vector<Taken>& taken, int64_t bytes) {
  std::ranges::sort(taken, {}, &Taken::begin);
  int64_t free_from = 0, best = -1, best_size = 0;
  for (const Taken& t : taken) {
    const int64_t size = t.begin - free_from;
    if (size >= bytes && (best < 0 || size < best_size)) best = free_from, best_size = size;
    free_from = std::max(free_from, t.end);
  }
  return best < 0 ? free_from : best;
}

}  // namespace

Placement place(std::span<const Lifetime> lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  Placement result;
  result.offsets.resize(lifetimes.size());
  std::vector<size_t> placed;
  for (const size_t i : order) {
    std::vector<Taken> taken;
    for (const size_t other : placed)
      if (lifetimes[other].first <= lifetimes[i].last && lifetimes[i].first <= lifetimes[other].last)
        taken.push_back({result.offsets[other], result.offsets[other] + aligned(lifetimes[other].bytes)});
    const int64_t bytes = aligned(lifetimes[i].bytes);
    result.offsets[i] = tightest_gap(taken, bytes);
    result.bytes = std::max(result.bytes, result.offsets[i] + bytes);
    placed.push_back(i);
  }
  return result;
}

MemoryPlan plan_memory(const Schedule& schedule) {
  struct OfDevice {
    UOps buffers;
    std::vector<Lifetime> lifetimes;
  };
  std::map<std::string, OfDevice> devices;
  std::unordered_map<UOp, std::vector<size_t>> known;  // where it is, on each of its devices
  for (size_t step = 0; step < schedule.steps.size(); step++) {
    for (const UOp& memory : schedule.steps[step].buffers) {
      for (const UOp& buffer : states_under(memory)) {
        if (buffer.op() != Op::BUFFER || buffer.src(0).op() != Op::LUNIQUE) continue;
        const Texts& names = buffer.src(1).arg().texts();
        const auto [at, added] = known.emplace(buffer, std::vector<size_t>());
        for (size_t i = 0; i < names.size(); i++) {
          OfDevice& device = devices[names[i]];
          if (added) {
            at->second.push_back(device.buffers.size());
            device.buffers.push_back(buffer);
            device.lifetimes.push_back(
                {buffer.arg().integer() * buffer.dtype().bytes(), static_cast<int64_t>(step), 0});
          }
          device.lifetimes[at->second[i]].last = static_cast<int64_t>(step);
        }
      }
    }
  }
  MemoryPlan plan;
  for (const auto& [buffer, at] : known) plan.places[buffer].resize(at.size());
  for (const auto& [name, device] : devices) {
    const Placement placement = place(device.lifetimes);
    plan.arenas[name] = placement.bytes;
    plan.bytes_saved -= placement.bytes;
    for (size_t i = 0; i < device.buffers.size(); i++) {
      const Texts& names = device.buffers[i].src(1).arg().texts();
      const auto number = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
      plan.places[device.buffers[i]][number] = {name, placement.offsets[i]};
      plan.bytes_saved += aligned(device.lifetimes[i].bytes);
    }
  }
  return plan;
}

}  // namespace quern
