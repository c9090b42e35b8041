#include "quern/codegen/choose/heuristic.h"

#include "quern/codegen/choose/heuristic_chooser.h"
#include "quern/codegen/choose/heuristic_workgroups.h"
#include "quern/ir/node/reduce.h"

namespace quern {
namespace heuristic {

namespace {
constexpr int64_t kTooManyNodes = 4000;   // and of so many is left as it is
constexpr double kStepsOfThread = 32768;  // nodes that run in the time in which threads are woken
}  // namespace

Chooser::Chooser(const UOp& program, const DeviceSpec& spec)
    : order_(program.toposort()), spec_(spec), loops_(loops_of(program)) {
  int64_t bytes = 1;
  for (const UOp& u : order_) {
    if (u.op() == Op::LOAD) loads_.push_back({u, index_of_address(u.src(0))});
    if (u.op() == Op::STORE) stores_.push_back({u, index_of_address(u.src(0))});
    if (u.op() == Op::REDUCE) reduces_.push_back(u);
    if (u.op() != Op::LOAD && u.op() != Op::STORE && u.op() != Op::REDUCE) continue;
    const DType d = u.op() == Op::STORE ? u.src(1).dtype() : u.dtype();
    bytes = std::max(bytes, d.is_float() ? std::max<int64_t>(4, d.bytes()) : d.bytes());
  }
  width_ = spec.parallel.vector_bytes / bytes;
}

Opts Chooser::run() {
  if (stores_.empty() || std::ssize(order_) > kTooManyNodes) return {};
  if (!reduces_.empty()) find_main();
  choose_threads();
  if (width_ < 2) return opts_;
  if (reduces_.empty()) {
    lanes_of_outputs(loops_.outputs);
    return opts_;
  }
  if (!lanes_along_output()) lanes_along_reduce();
  // loops beside the reduce: what is computed from its result, or for it
  for (const UOp& u : order_) {
    if (u.op() != Op::END) continue;
    UOps beside;
    for (const UOp& r : u.src().subspan(1))
      if (r.op() == Op::RANGE && !is_open(main_, r) && !is_reduced(r)) beside.push_back(r);
    lanes_of_outputs(beside);
  }
  return opts_;
}

// The outermost loop that can be cut, and is around everything.
void Chooser::choose_threads() {
  double steps = 0;
  for (const UOp& u : order_) {
    double times = 1;
    for (const UOp& r : u.ranges()) times *= std::max(1.0, static_cast<double>(r.src(0).vmax()));
    if (is_elementwise(u.op()) || u.op() == Op::LOAD || u.op() == Op::STORE) steps += times;
  }
  const int64_t threads = std::min(spec_.parallel.cores, static_cast<int64_t>(steps / kStepsOfThread));
  if (threads < 2) return;
  UOps candidates = loops_.outputs;
  const UOp packed = width_ > 1 && main_ ? find_columns().packed : UOp();
  if (packed) std::ranges::stable_sort(candidates, {}, [&](const UOp& r) { return read_by_all(r, packed); });
  for (int64_t n = threads; n > 1; n--)
    for (const UOp& r : candidates) {
      if (!is_around_all(r) || size(r) == 0 || size(r) % n != 0) continue;
      if (packed && is_open(packed, r) && size(r) / n % 2 != 0) continue;  // blocks would be of one step
      // lanes want all of theirs
      if (size(r) / n % width_ != 0 &&
          std::ranges::any_of(stores_, [&](const Access& a) { return a.is_neighbours(r); }))
        continue;
      threaded_ = r, threads_ = n;
      opts_.push_back({OptKind::THREAD, number_of(r), n});
      return;
    }
}

// Elements that each thread reads, if threads share this loop; what is packed is also copied by each.
double Chooser::read_by_all(const UOp& range, const UOp& packed) const {
  double elements = 0;
  for (const Access& a : reads_)
    if (!a.uses(range)) elements += copied_elements(a.node) * (same(a.node, packed) ? 2 : 1);
  return elements;
}

bool Chooser::is_around_all(const UOp& range) const {
  return std::ranges::all_of(order_.back().src(), [&](const UOp& effect) {
    return effect.op() == Op::END && std::ranges::find(effect.src(), range) != effect.src().end();
  });
}

// The reduce that most is done in, and what it reads.
void Chooser::find_main() {
  double most = -1;
  for (const UOp& u : reduces_) {
    double steps = 1;
    for (const UOp& r : Reduction(u).value().ranges())
      steps *= std::max(1.0, static_cast<double>(r.src(0).vmax()));
    if (steps > most) most = steps, main_ = u;
  }
  for (const UOp& s : Reduction(main_).ranges)
    if (s.op() == Op::RANGE) main_ranges_.push_back(s);
  for (const Access& a : loads_)
    if (std::ranges::any_of(main_ranges_, [&](const UOp& r) { return a.uses(r); })) reads_.push_back(a);
  for (const UOp& r : main_.ranges())
    if (r.arg().range().kind == AxisKind::LOOP) around_.push_back(r);
}

bool Chooser::all_simple(const UOp& range) const {
  return std::ranges::all_of(reads_, [&](const Access& a) { return a.is_simple(range); }) &&
         std::ranges::any_of(reads_, [&](const Access& a) { return a.is_neighbours(range); });
}

// Something that is read does not change with the one but with the other: doing several steps of the first
// at once reads it once.
bool Chooser::is_reused(const UOp& along, const UOp& other) const {
  return std::ranges::any_of(reads_, [&](const Access& a) { return !a.uses(along) && a.uses(other); });
}

}  // namespace heuristic

Opts heuristic_opts(const UOp& program, const DeviceSpec& spec) {
  if (spec.has_workgroups()) return choose_workgroup_opts(program, spec);
  return heuristic::Chooser(program, spec).run();
}

}  // namespace quern
