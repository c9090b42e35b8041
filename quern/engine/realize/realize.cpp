// From tensors to memory: what has to be stored is gathered (outputs.h), memory and the values of variables
// are taken out of the graph (strip), it is scheduled, or its schedule is known (prepare), its kernels are
// run (run_schedule), and all live tensors that held a value then hold its memory (replace_live).
#include "quern/engine/realize/realize.h"

#include <algorithm>
#include <new>

#include "quern/engine/host.h"
#include "quern/engine/realize/data.h"
#include "quern/engine/realize/describe.h"
#include "quern/engine/realize/outputs.h"
#include "quern/engine/realize/own_memory.h"
#include "quern/engine/realize/recording.h"
#include "quern/engine/realize/run.h"
#include "quern/engine/realize/schedule_cache.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/runtime/buffer.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/live.h"
#include "quern/tensor/core/tensor.h"
#include "quern/tensor/gradient/ended_graphs.h"

namespace quern {

namespace {

void run_kernels(const Outputs& outputs) try {
  if (outputs.sink.src().empty()) return;
  const Stripped stripped = strip(outputs.sink);
  std::shared_ptr<const Prepared> prepared;
  release_gil([&] {
    prepared = prepare(stripped.sink);
    run_schedule(*prepared, stripped.memory, stripped.variables);
  });
  if (Recording* recording = Recording::current()) recording->add(outputs.sink, stripped, prepared);
} catch (const std::bad_alloc&) {
  throw MemoryError("out of memory while a graph was compiled or run");
}

// Of memory, on one of its devices.
int64_t bytes_of(const UOp& memory) {
  int64_t count = 1;
  for (const UOp& size : memory.shape()) count *= static_cast<int64_t>(size.vmax());
  return count * memory.dtype().bytes();
}

Outputs outputs_of(UOps& roots, Roots as) {
  UOps live = live_uops();
  roots = with_own_memory_for_kernels(roots, live);
  return outputs_for(roots, as, live);
}

// A write to what was memory before, of which the user said whether it wants gradients: parameters are
// changed so, and nobody asks for gradients through the step that changed them.
bool is_update(const UOp& value, const std::unordered_set<UOp>& parameters) {
  return is_state(value) && parameters.contains(buffer_under(value));
}

// Bookkeeping for gradients: values whose graph ends because they are memory from now on. A backward() that
// would go through them is an Error (tensor/gradient/ended_graphs.h).
struct Ending {
  UOps values, buffers, written = {};
  std::vector<bool> is_new;  // memory that had no contents before

  void add(const UOp& value, const UOp& seen) {
    const UOp& buffer = memory_base(seen);
    if (buffer.op() == Op::BUFFER && is_state(value)) written.push_back(buffer);
    if (!value.dtype().is_float() || buffer.op() != Op::BUFFER) return;
    values.push_back(value), buffers.push_back(buffer);
    is_new.push_back(!has_buffer(buffer));
  }
  void note() {
    note_graphs();
    end_contents(written);  // what was there is gone, also for what was computed of it in the same run
  }

 private:
  void note_graphs() {
    if (values.empty()) return;
    if (!leads_to_live_tensor(values) && std::ranges::none_of(values, has_lost_graphs)) return;
    const std::unordered_set<UOp> parameters = memory_of_parameters();
    size_t kept = 0;
    for (size_t i = 0; i < values.size(); i++) {
      if (!is_new[i] && is_update(values[i], parameters)) continue;
      values[kept] = values[i], buffers[kept] = buffers[i], kept++;
    }
    values.resize(kept), buffers.resize(kept);
    if (kept > 0) end_graphs(values, buffers);
  }
};

void run(const Outputs& outputs) {
  Ending ending;
  for (const auto& [value, seen] : outputs.replaced) ending.add(value, seen);
  run_kernels(outputs);
  with_gil([&] {
    ending.note();
    replace_live(outputs.replaced);
  });
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
  const Outputs outputs = outputs_of(older, Roots::realized);
  run(outputs);
  return substituted(roots, outputs.replaced);
}

// What was read before is not computed again. Tensors that are asked for now, and those that depend on memory
// that is written now, become what was read: their graphs end here.
UOps with_reads(const UOps& roots) {
  if (Recording::current() != nullptr) return roots;
  std::unordered_map<UOp, UOp> reads = live_reads(), ended;
  std::erase_if(reads, [](const auto& read) { return is_state(read.first); });  // its memory is to be written
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
    if (std::ranges::find(roots, value) != roots.end() ||
        (some_are_written && same(seen_together(value), value) && reads_written(value)))
      ended.emplace(value, memory);
  Ending ending;
  for (const auto& [value, memory] : used) ending.add(value, memory);
  for (const auto& [value, memory] : ended) ending.add(value, memory);
  UOps now = substituted(run_now, used);
  for (size_t i = 0; i < run_now.size(); i++)
    if (!same(run_now[i], now[i])) ended.emplace(run_now[i], now[i]);
  with_gil([&] {
    ending.note();
    replace_live(ended);
  });
  now.resize(roots.size());
  return now;
}

// ---- reading

// What ends when this is run: the writes, and the values that become memory on the way.
UOps ends_when_run(const UOp& root) {
  UOps ends;
  walk(root, [&](const UOp& u) {
    if (!u.dtype().is_float()) return;
    if ((u.op() == Op::CONTIGUOUS && has_live_views(u)) || (u.op() == Op::AFTER && is_state(u)))
      ends.push_back(u);
  });
  return ends;
}

bool ends_graphs(const UOp& write) {
  UOps ends = ends_when_run(write);
  if (write.device()[0].starts_with("DISK") || !leads_to_live_tensor(ends)) return false;
  const std::unordered_set<UOp> parameters = memory_of_parameters();
  std::erase_if(ends, [&](const UOp& u) { return is_update(u, parameters) && has_buffer(buffer_under(u)); });
  return leads_to_live_tensor(ends);
}

// Writes below the value that end no graph are run. The others are done in copies of their memory, by each
// read anew, so they are run, too, when they have become many, or large.
void run_writes(const UOp& value) {
  if (!value.ops_below().contains(Op::AFTER)) return;
  UOps run_now, others;
  walk(
      value, [](const UOp& u) { return !is_state(u); },
      [&](const UOp& u) {
        if (is_state(u)) (ends_graphs(u) ? others : run_now).push_back(u);
      });
  constexpr int64_t kMostNodes = 4096, kMostBytes = 64 << 20;
  int64_t nodes = 0, bytes = 0;
  walk(UOp::sink(others), [&](const UOp& u) {
    nodes++;
    if (u.op() == Op::BUFFER) bytes += u.arg().integer() * u.dtype().bytes();
  });
  if (nodes > kMostNodes || bytes > kMostBytes) run_now.insert(run_now.end(), others.begin(), others.end());
  if (!run_now.empty()) realize(run_now);
}

// Copies of the memory that is written below these values take its place.
UOps with_writes_beside(const UOps& values) {
  std::unordered_map<UOp, UOp> copies;
  walk(UOp::sink(values), [&](const UOp& u) {
    if (u.op() != Op::AFTER || !is_state(u)) return;
    const UOp memory = buffer_under(u);
    const auto [at, added] = copies.try_emplace(memory);
    if (!added) return;
    at->second = new_buffer(memory.dtype(), memory.arg().integer(), memory.src(1));
    if (has_buffer(memory)) at->second = after(at->second, UOps{store(at->second, memory)});
  });
  return substituted(values, copies);
}

}  // namespace

// Nothing that is alive is changed: what is to be written is written in a copy.
UOp read_beside(const UOp& value) {
  const auto lock = lock_engine();
  std::unordered_map<UOp, UOp> reads = live_reads();
  reads.erase(value);
  UOps values{value};  // and what is computed on the way and should not be computed again
  walk(value, [&](const UOp& u) {
    const bool stays = u.op() == Op::CONTIGUOUS || (u.op() == Op::AFTER && is_state(u));
    if (stays && !same(u, value) && !reads.contains(u) && has_live_views(u)) values.push_back(u);
  });
  UOps now = values;
  now[0] = without_detach(value);
  now = with_writes_beside(substituted(now, reads));
  const Outputs outputs = outputs_for({now[0]}, Roots::read, now);
  run_kernels(outputs);
  for (size_t i = 1; i < values.size(); i++)
    if (const auto found = outputs.replaced.find(now[i]); found != outputs.replaced.end())
      keep_read(values[i], found->second);
  const UOp result = substituted({now[0]}, outputs.replaced)[0];
  if (is_state(value) || !is_state(memory_base(value))) keep_read(value, result);
  return result;
}

// Reading a tensor does not cut it off from what it was computed of: backward() may follow.
UOp values_in_memory(const Tensor& x) {
  const auto lock = lock_engine();
  const auto in_memory = [](const UOp& u) {
    return memory_base(u).op() == Op::BUFFER || base_of(u).is_const();
  };
  UOp value = x.uop();
  if (in_memory(value)) return without_detach(value);
  if (UOp before = x.state()->read_before(value)) return before;
  if (Recording::current() == nullptr) {
    UOps live = live_uops();
    (void)with_own_memory_for_kernels({value}, live);
    value = x.uop();
    run_writes(value);
    value = x.uop();
    if (in_memory(value)) return without_detach(value);
    const bool is_state_now = is_state(memory_base(value)), writes = value.ops_below().contains(Op::AFTER),
               is_part = !is_state_now && !same(detail::whole_of(value), value);
    UOps ends;
    if (!writes && !is_part && value.ops_below().contains(Op::CONTIGUOUS)) ends = ends_when_run(value);
    if (value.dtype().is_float()) ends.push_back(value);
    if (writes || is_part || leads_to_live_tensor(ends)) return read_beside(value);
  }
  return without_detach(x.realize().uop());
}

void realize(const UOps& roots) {
  const auto lock = lock_engine();
  UOps wanted;
  for (const UOp& root : roots) wanted.push_back(buffer_under(viewed_by(root)) ? root : seen_together(root));
  UOps now = after_older_writes(with_reads(wanted));
  run(outputs_of(now, Roots::realized));
}

UOp realize_copy(const UOp& root) {
  const auto lock = lock_engine();
  UOps now = after_older_writes(with_reads({root}));
  const Outputs outputs = outputs_of(now, Roots::copied);
  run(outputs);
  return outputs.replaced.at(now.front());
}

std::string schedule_text(const UOps& roots) {
  const auto lock = lock_engine();
  UOps now = roots;
  const Outputs outputs = outputs_of(now, Roots::realized);
  return outputs.sink.src().empty() ? "" : describe(prepare(strip(outputs.sink).sink)->schedule);
}

Estimate estimate(const UOps& roots) {
  const auto lock = lock_engine();
  UOps now = roots;
  const Outputs outputs = outputs_of(now, Roots::realized);
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
