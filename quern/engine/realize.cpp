#include "quern/engine/realize.h"

#include <new>

#include "quern/engine/describe.h"
#include "quern/engine/outputs.h"
#include "quern/engine/recording.h"
#include "quern/engine/run.h"
#include "quern/tensor/tensor.h"

namespace quern {

std::recursive_mutex& engine_lock() {
  static std::recursive_mutex lock;
  return lock;
}

namespace {

void run(const Outputs& outputs) try {
  if (outputs.sink.src().empty()) return;
  const Stripped stripped = strip(outputs.sink);
  const std::shared_ptr<const Prepared> prepared = prepare(stripped.sink);
  run_schedule(*prepared, stripped.memory, stripped.variables);
  if (Recording* recording = Recording::current()) recording->add(outputs.sink, stripped, prepared);
  replace_live(outputs.replaced);
} catch (const std::bad_alloc&) {
  throw Error("out of memory while a graph was compiled or run");
}

// In a recording, writes from before it are run first, and by themselves.
UOps after_older_writes(const UOps& roots) {
  const Recording* recording = Recording::current();
  const UOps older = recording != nullptr ? recording->older_writes(roots) : UOps();
  if (older.empty()) return roots;
  const Recording::Pause pause;
  const Outputs outputs = outputs_for(older, false, live_uops());
  run(outputs);
  const UOp now = UOp::sink(roots).substitute(outputs.replaced);
  return {now.src().begin(), now.src().end()};
}

}  // namespace

void realize(const UOps& roots) {
  const std::lock_guard lock(engine_lock());
  run(outputs_for(after_older_writes(roots), false, live_uops()));
}

UOp realize_copy(const UOp& root) {
  const std::lock_guard lock(engine_lock());
  const UOp now = after_older_writes({root}).front();
  const Outputs outputs = outputs_for({now}, true, live_uops());
  run(outputs);
  return outputs.replaced.at(now);
}

std::string schedule_text(const UOps& roots) {
  const std::lock_guard lock(engine_lock());
  const Outputs outputs = outputs_for(roots, false, live_uops());
  return outputs.sink.src().empty() ? "" : describe(prepare(strip(outputs.sink).sink)->schedule);
}

const Tensor& Tensor::realize() const {
  quern::realize({uop()});
  return *this;
}

void Tensor::realize_all(const std::vector<Tensor>& tensors) {
  UOps roots;
  for (const Tensor& t : tensors) roots.push_back(t.uop());
  quern::realize(roots);
}

std::string Tensor::schedule() const { return schedule_text({uop()}); }

}  // namespace quern
