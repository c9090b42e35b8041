#include "quern/codegen/choose/heuristic_workgroups.h"

#include <algorithm>

#include "quern/codegen/analysis/strides.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"

namespace quern {
namespace {

constexpr int64_t kThreads = 256;        // of a workgroup, if there is enough to do
constexpr int64_t kThreadsOfATile = 16;  // along each side of it
constexpr int64_t kTile = 4;             // outputs of a thread along each side
constexpr int64_t kShare = 8;            // steps of a reduce that a thread of a group has at least
constexpr int64_t kMostUnrolled = 9;     // a reduce of so few steps has no loop
constexpr int64_t kMostNodesOfLanes = 200, kTooManyNodes = 4000;

class Chooser {
 public:
  Chooser(const UOp& program, const DeviceSpec& spec)
      : program_(program), spec_(spec), loops_(loops_of(program)), order_(program.toposort()) {
    for (const UOp& u : order_) {
      if (u.op() == Op::LOAD || u.op() == Op::STORE) {
        accesses_.push_back(u);
        bytes_ = std::max(bytes_, (u.op() == Op::LOAD ? u.dtype() : u.src(1).dtype()).bytes());
      }
      if (u.op() == Op::REDUCE) reduces_.push_back(u);
    }
  }

  Opts run() {
    if (std::ssize(order_) > kTooManyNodes) return {};
    if (reduces_.empty()) {
      elementwise(loops_.outputs);
      return opts_;
    }
    find_main();
    const UOp column = along_neighbours(around_, main_);
    if (column)
      tile(column);
    else
      group();
    UOps beside;
    for (const UOp& r : loops_.outputs)
      if (!is_open(main_, r)) beside.push_back(r);
    // as many threads as the reduce has: the same ones
    if (const UOp best = along_neighbours(beside, program_))
      add(OptKind::LOCAL, best, group_ > 1 ? divisor(size(best), group_) : divisor(size(best), kThreads));
    return opts_;
  }

 private:
  static int64_t size(const UOp& range) {
    return range.src(0).is_int_const() ? static_cast<int64_t>(range.src(0).int_value()) : 0;
  }
  // The greatest that is no more than `most`; powers of 2 first, if one is half as great.
  static int64_t divisor(int64_t of, int64_t most) {
    if (of == 0) return 1;
    int64_t power = 1, any = std::min(of, most);
    while (power * 2 <= most && of % (power * 2) == 0) power *= 2;
    while (of % any != 0) any--;
    return power * 2 >= any ? power : any;
  }

  // Adds it if it applies.
  bool add(OptKind kind, const UOp& range, int64_t amount) {
    if (amount <= 1) return false;
    size_t number = 0;
    while (!same(loops_.at(number), range)) number++;
    opts_.push_back({kind, static_cast<int64_t>(number), amount});
    try {
      (void)apply_opts(program_, opts_, spec_);
      return true;
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      opts_.pop_back();
      return false;
    }
  }

  static bool is_neighbours(const UOp& access, const UOp& range) {
    const UOp& index = index_of_address(access.src(0));
    return is_open(index, range) && stride_of(position_of(index), range) == 1;
  }
  static bool uses(const UOp& access, const UOp& range) {
    return is_open(index_of_address(access.src(0)), range);
  }

  // The range along which most accesses in `root` go to neighbours; none if most go elsewhere.
  UOp along_neighbours(const UOps& ranges, const UOp& root) const {
    UOp best;
    int64_t most = 0;
    NodeSet below;
    walk(root, [&](const UOp& u) { below.insert(u); });
    for (const UOp& r : ranges) {
      if (size(r) < 2) continue;
      int64_t points = 0;
      for (const UOp& a : accesses_)
        if (below.contains(a) && uses(a, r))
          points += (is_neighbours(a, r) ? 1 : -1) * (a.op() == Op::STORE ? 3 : 1);
      if (points > most) best = r, most = points;
    }
    return best;
  }

  void elementwise(const UOps& candidates) {
    UOp best = along_neighbours(candidates, program_);
    if (!best)
      for (const UOp& r : candidates)
        if (!best || size(r) > size(best)) best = r;
    if (!best) return;
    int64_t left = size(best);
    const int64_t lanes = std::max<int64_t>(1, std::min<int64_t>(16, spec_.parallel.vector_bytes) / bytes_);
    const auto gate_varies = [&](const UOp& a) {
      const UOp& index = index_of_address(a.src(0));
      return has_gate(index) && is_open(gate_of(index), best);
    };
    const bool plain = std::ranges::all_of(accesses_, [&](const UOp& a) {
      return !uses(a, best) || (is_neighbours(a, best) && !gate_varies(a));
    });
    if (plain && std::ssize(order_) <= kMostNodesOfLanes && left % lanes == 0 && enough(lanes) &&
        add(OptKind::UPCAST, best, lanes))
      left /= lanes;
    int64_t threads = divisor(left, kThreads);
    add(OptKind::LOCAL, best, threads);
    for (const UOp& r : candidates) {
      if (same(r, best) || threads >= kThreads / 4) continue;
      const int64_t more = divisor(size(r), kThreads / std::max<int64_t>(1, threads));
      if (add(OptKind::LOCAL, r, more)) threads *= more;
    }
  }

  // The device is still busy with that many outputs in one thread.
  bool enough(int64_t in_one) const {
    double outputs = 1;
    for (const UOp& r : loops_.outputs) outputs *= static_cast<double>(r.src(0).vmax());
    return outputs / static_cast<double>(in_one) >=
           static_cast<double>(spec_.parallel.cores * spec_.parallel.threads_per_core);
  }

  // The reduce that most is done in.
  void find_main() {
    double most = -1;
    for (const UOp& u : reduces_) {
      double steps = 1;
      for (const UOp& r : Reduction(u).value().ranges())
        steps *= std::max(1.0, static_cast<double>(r.src(0).vmax()));
      if (steps > most) most = steps, main_ = u;
    }
    for (const UOp& s : Reduction(main_).ranges)
      if (s.op() == Op::RANGE) over_.push_back(s);
    for (const UOp& r : main_.ranges())
      if (r.arg().range().kind == AxisKind::LOOP) around_.push_back(r);
    for (const UOp& r : around_) outputs_ *= std::max(1.0, static_cast<double>(r.src(0).vmax()));
  }

  // Something is read that does not change along one of them, and something along the other.
  bool is_reused(const UOp& a, const UOp& b) const {
    const auto read_once = [&](const UOp& x, const UOp& y) {
      return std::ranges::any_of(accesses_, [&](const UOp& l) {
        return l.op() == Op::LOAD && !uses(l, x) && uses(l, y) &&
               std::ranges::any_of(over_, [&](const UOp& r) { return uses(l, r); });
      });
    };
    return read_once(a, b) && read_once(b, a);
  }

  void unroll_small() {
    int64_t at_once = 1;
    for (const UOp& r : over_)
      if (size(r) > 1 && size(r) <= kMostUnrolled && at_once * size(r) <= kMostUnrolled * kTile &&
          add(OptKind::UNROLL, r, size(r)))
        at_once *= size(r);
  }

  // Neighbours along an output: a tile of threads, and of outputs in each if there are enough.
  void tile(const UOp& column) {
    UOp row;
    for (const UOp& r : around_)
      if (!same(r, column) && size(r) > 1 && is_reused(r, column) && (!row || size(r) > size(row))) row = r;
    if (!row) {
      if (few_outputs()) group();
      add(OptKind::LOCAL, column, divisor(size(column), group_ > 1 ? kThreadsOfATile : kThreads));
      return unroll_small();
    }
    int64_t columns = size(column), rows = size(row);
    if (outputs_ >=
        static_cast<double>(kTile * kTile * spec_.parallel.cores * spec_.parallel.threads_per_core)) {
      if (const int64_t n = divisor(columns, kTile); add(OptKind::UPCAST, column, n)) columns /= n;
      if (const int64_t n = divisor(rows, kTile); add(OptKind::UPCAST, row, n)) rows /= n;
    }
    add(OptKind::LOCAL, column, divisor(columns, kThreadsOfATile));
    add(OptKind::LOCAL, row, divisor(rows, kThreadsOfATile));
    unroll_small();
  }

  bool few_outputs() const { return outputs_ < static_cast<double>(kThreads * spec_.parallel.cores); }

  // The threads of a workgroup share the reduce.
  void group() {
    UOp along = along_neighbours(over_, main_);
    for (const UOp& r : over_)
      if (!along || (size(along) < 2 * kShare && size(r) > size(along))) along = r;
    if (!along || size(along) < 2 * kShare) {
      unroll_small();
      if (!around_.empty()) add(OptKind::LOCAL, around_.back(), divisor(size(around_.back()), kThreads));
      return;
    }
    int64_t threads = divisor(size(along), std::min(kThreads, std::max<int64_t>(2, size(along) / kShare)));
    // fewer of them need less LOCAL memory
    while (threads > 1 && !add(OptKind::GROUP, along, threads)) threads = divisor(size(along), threads / 2);
    if (threads > 1) group_ = threads;
    add(OptKind::UNROLL, along, divisor(size(along) / std::max<int64_t>(1, group_), kTile));
  }

  const UOp program_;
  const DeviceSpec& spec_;
  const Loops loops_;
  const NodeList order_;
  UOps accesses_, reduces_;
  int64_t bytes_ = 1;
  UOp main_;            // the reduce
  UOps over_, around_;  // its loops, and those around it
  double outputs_ = 1;
  int64_t group_ = 1;  // threads that share it
  Opts opts_;
};

}  // namespace

Opts choose_workgroup_opts(const UOp& program, const DeviceSpec& spec) {
  return Chooser(program, spec).run();
}

}  // namespace quern
