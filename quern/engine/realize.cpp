#include "quern/engine/realize.h"

#include <algorithm>
#include <new>

#include "quern/engine/describe.h"
#include "quern/engine/host.h"
#include "quern/engine/outputs.h"
#include "quern/engine/own_memory.h"
#include "quern/engine/recording.h"
#include "quern/engine/run.h"
#include "quern/ir/node_map.h"
#include "quern/ir/sharding.h"
#include "quern/tensor/live.h"
#include "quern/tensor/tensor.h"

namespace quern {

namespace {

void run(const Outputs& outputs) try {
  if (outputs.sink.src().empty()) return;
  const Stripped stripped = strip(outputs.sink);
  std::shared_ptr<const Prepared> prepared;
  without_host([&] {
    prepared = prepare(stripped.sink);
    run_schedule(*prepared, stripped.memory, stripped.variables);
  });
  if (Recording* recording = Recording::current()) recording->add(outputs.sink, stripped, prepared);
  with_host([&] { replace_live(outputs.replaced); });
} catch (const std::bad_alloc&) {
  throw Error("out of memory while a graph was compiled or run");
}

// Of memory, on one of its devices.
int64_t bytes_of(const UOp& memory) {
  int64_t count = 1;
  for (const UOp& size : memory.shape()) count *= static_cast<int64_t>(size.vmax());
  return count * memory.dtype().bytes();
}

Outputs outputs_of(UOps& roots, bool copied) {
  UOps live = live_uops();
  roots = with_own_memory_for_kernels(roots, live);
  return outputs_for(roots, copied, live);
}

UOps substituted(const UOps& roots, const std::unordered_map<UOp, UOp>& map) {
  if (map.empty()) return roots;
  const UOp now = UOp::sink(roots).substitute(map);
  return {now.src().begin(), now.src().end()};
}

// In a recording, writes from before it are run first, and by themselves.
UOps after_older_writes(const UOps& roots) {
  const Recording* recording = Recording::current();
  UOps older = recording != nullptr ? recording->older_writes(roots) : UOps();
  if (older.empty()) return roots;
  const Recording::Pause pause;
  const Outputs outputs = outputs_of(older, false);
  run(outputs);
  return substituted(roots, outputs.replaced);
}

// What was read before is not computed again. Tensors that are asked for now, and those that depend on memory
// that is written now, become what was read: their graphs end here.
UOps with_reads(const UOps& roots) {
  if (Recording::current() != nullptr) return roots;
  const std::unordered_map<UOp, UOp> reads = live_reads();
  std::unordered_map<UOp, UOp> ended;
  if (reads.empty()) return roots;
  NodeSet written;
  std::unordered_map<UOp, UOp> used;
  UOps run_now = roots;  // and what is written for them
  walk(UOp::sink(roots), [&](const UOp& u) {
    if (u.op() == Op::AFTER) written.insert(memory_base(u.src(0))), run_now.push_back(u);
    if (const auto read = reads.find(u); read != reads.end()) used.insert(*read);
  });
  const auto reads_written = [&](const UOp& value) {
    bool found = false;
    walk(value, [&](const UOp& u) { found = found || written.contains(u); });
    return found;
  };
  UOps all;
  for (const auto& [value, memory] : reads) all.push_back(value);
  const bool some_are_written = reads_written(UOp::sink(all));
  for (const auto& [value, memory] : reads)
    if (std::ranges::find(roots, value) != roots.end() || (some_are_written && reads_written(value)))
      ended.emplace(value, memory);
  UOps now = substituted(run_now, used);
  for (size_t i = 0; i < run_now.size(); i++)
    if (!same(run_now[i], now[i])) ended.emplace(run_now[i], now[i]);
  with_host([&] { replace_live(ended); });
  now.resize(roots.size());
  return now;
}

}  // namespace

void realize(const UOps& roots) {
  const auto lock = lock_engine();
  UOps now = after_older_writes(with_reads(roots));
  run(outputs_of(now, false));
}

UOp realize_copy(const UOp& root) {
  const auto lock = lock_engine();
  UOps now = after_older_writes(with_reads({root}));
  const Outputs outputs = outputs_of(now, true);
  run(outputs);
  return outputs.replaced.at(now.front());
}

std::string schedule_text(const UOps& roots) {
  const auto lock = lock_engine();
  UOps now = roots;
  const Outputs outputs = outputs_of(now, false);
  return outputs.sink.src().empty() ? "" : describe(prepare(strip(outputs.sink).sink)->schedule);
}

Estimate estimate(const UOps& roots) {
  const auto lock = lock_engine();
  const Outputs outputs = outputs_for(roots, false, live_uops());
  Estimate all;
  if (outputs.sink.src().empty()) return all;
  const Stripped stripped = strip(outputs.sink);
  const std::shared_ptr<const Prepared> prepared = prepare(stripped.sink);
  for (const Step& step : prepared->schedule.steps) {
    const int64_t devices = std::ssize(step.buffers.at(0).device());
    for (const UOp& buffer : step.buffers) all.bytes += devices * bytes_of(buffer);
    if (step.program.op() == Op::COPY) continue;
    all.kernels += devices;
    all.operations += devices * estimated_operations(step.program, stripped.variables);
  }
  for (const auto& [device, bytes] : prepared->plan.arenas) all.memory += bytes;
  NodeSet results;
  for (const auto& [value, memory] : outputs.replaced)
    if (const UOp& base = memory_base(memory); results.insert(base))
      all.memory += std::ssize(base.device()) * bytes_of(base);
  return all;
}

// A graph that another thread realises must not be read before that is done: it would be run again.
const Tensor& Tensor::realize() const {
  const auto lock = lock_engine();
  quern::realize({uop()});
  return *this;
}

void Tensor::realize_all(const std::vector<Tensor>& tensors) {
  const auto lock = lock_engine();
  UOps roots;
  for (const Tensor& t : tensors) roots.push_back(t.uop());
  quern::realize(roots);
}

std::string Tensor::schedule() const {
  const auto lock = lock_engine();
  return schedule_text({uop()});
}

}  // namespace quern
