#include "quern/codegen/opt/opt.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/codegen/analysis/given_kinds.h"
#include "quern/codegen/analysis/strides.h"
#include "quern/codegen/loops/loops.h"
#include "quern/codegen/memory/near_memory.h"
#include "quern/codegen/memory/near_rows.h"
#include "quern/codegen/opt/pack.h"
#include "quern/codegen/opt/pad.h"
#include "quern/codegen/opt/reduce_blocks.h"
#include "quern/codegen/workgroup/group_reduce.h"
#include "quern/codegen/workgroup/thread_slots.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

// Copies of a kernel's body: more of them is a mistake, and compiles for seconds.
constexpr int64_t kMostCopies = 1024;
constexpr int64_t kMostPacked = 1 << 24;         // elements of a copy
constexpr int64_t kMostSums = int64_t{1} << 30;  // that wait between blocks
constexpr int64_t kMostPadded = 1 << 12;

bool is_loop_node(const UOp& u) { return u.op() == Op::END || u.op() == Op::REDUCE; }

void add_once(UOps& list, const UOp& u) {
  if (std::ranges::find(list, u) == list.end()) list.push_back(u);
}

struct Replacement {
  UOp range, value;
  UOps closed;  // in the place of the range
};

UOp value_of_range(const Replacement& r, const UOp& u, Sources) { return same(u, r.range) ? r.value : UOp(); }

UOp end_of_parts(const Replacement& r, const UOp& u, Sources sources) {
  UOps now;
  for (size_t k = 0; k < sources.size(); k++) {
    if (k >= sources_before_ranges(u) && same(u.src(k), r.range))
      now.insert(now.end(), r.closed.begin(), r.closed.end());
    else
      now.push_back(sources[k]);
  }
  return u.with_src(now);
}

const Rules replaced_loop = [] {
  return RuleList{
      {op(Op::RANGE), value_of_range, "a loop -> its parts"},
      {op({Op::END, Op::REDUCE}), end_of_parts, "the end of a loop -> of its parts"},
  };
};

// The kernel while opts are applied to it, one after the other.
class Application {
 public:
  Application(const UOp& program, const DeviceSpec& spec)
      : program_(program), spec_(spec), met_(needs_met(spec)), loops_(loops_of(program)) {
    walk(program, [&](const UOp& u) {
      if (u.op() == Op::RANGE) next_ = std::max(next_, u.arg().range().id + 1);
    });
    for (size_t i = 0; i < loops_.size(); i++) left_.push_back(loops_.at(i));
    outer_.resize(left_.size());
    padded_.resize(left_.size());
  }

  void apply(const Opt& opt) {
    opt_ = opt;
    if (const std::optional<Need> need = need_of(opt.kind); need && !met_.contains(*need))
      refuse(why_missing(opt.kind));
    switch (opt.kind) {
      case OptKind::UPCAST: upcast(); return;
      case OptKind::UNROLL: unroll(); return;
      case OptKind::SWAP: swap(); return;
      case OptKind::THREAD: thread(); return;
      case OptKind::BLOCK: block(); return;
      case OptKind::PACK: packs_.push_back(opt); return;  // when all loops have their kinds
      case OptKind::LOCAL:
      case OptKind::GROUP:
      case OptKind::GROUPTOP:
      case OptKind::NOLOCALS: workgroup(); return;
      case OptKind::PADTO: pad(); return;
    }
  }

  UOp finished() {
    if (spec_.has_workgroups()) check_local_bytes();
    program_ = rows_for_each_copy(program_);
    for (const Opt& opt : packs_) {
      opt_ = opt;
      pack();
    }
    for (size_t i = 0; i < left_.size(); i++)
      if (is_reduce(i) && outer_[i]) return reduce_in_blocks(program_, outer_[i]);
    if (packs_.empty() && !program_.ops_below().contains(Op::REDUCE))
      for (size_t i = 0; i < left_.size(); i++)
        if (padded_[i] > 0 && left_[i] && !outer_[i]) return with_last_step_apart(i);
    return program_;
  }

 private:
  // What the whole kernel needs: memory that it has, and what the threads that share a reduce combine their
  // parts in.
  void check_local_bytes() {
    const int64_t threads = threads_of(thread_slots(program_));
    int64_t bytes = 0;
    walk(program_, [&](const UOp& u) {
      if (u.op() == Op::DEFINE_LOCAL) bytes += u.dtype().size() * u.dtype().base().bytes();
      if (u.op() != Op::REDUCE) return;
      int64_t copies = 1;
      for (const UOp& r : u.ranges())
        if (is_at_once(r)) copies *= static_cast<int64_t>(r.src(0).int_value());
      for (const UOp& r : Reduction(u).ranges)
        if (r.op() == Op::RANGE && r.arg().range().kind == AxisKind::GROUP_REDUCE)
          bytes +=
              copies * local_bytes_to_combine(u.dtype(), static_cast<int64_t>(r.src(0).int_value()), threads);
    });
    if (bytes > spec_.memory.group_bytes)
      refuse(fmt::format("the kernel would need {} bytes of LOCAL memory, the device has {}", bytes,
                         spec_.memory.group_bytes));
  }

  static const char* why_missing(OptKind kind) {
    switch (kind) {
      case OptKind::THREAD: return "the threads of this device are those of workgroups: use LOCAL";
      case OptKind::BLOCK: return "what workgroups do is not in blocks: use LOCAL";
      case OptKind::PADTO: return "loops are not padded in workgroups yet";
      case OptKind::PACK: return "operands are not packed in workgroups yet";
      default: return "the device has no workgroups";
    }
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(fmt::format("{} does not apply: {}", opt_.text(), why));
  }

  size_t loop(int64_t axis) const {
    if (axis >= std::ssize(left_))
      refuse(fmt::format("the kernel has {} loops over outputs and {} of reduces", loops_.outputs.size(),
                         loops_.reduces.size()));
    const auto i = static_cast<size_t>(axis);
    if (!left_[i]) refuse(fmt::format("nothing is left of loop {}", axis));
    return i;
  }
  bool is_reduce(size_t i) const {
    return i >= loops_.outputs.size() && i < loops_.outputs.size() + loops_.reduces.size();
  }

  // How many steps the new part has.
  int64_t amount(size_t i) const {
    const UOp& steps = left_[i].src(0);
    if (!steps.is_int_const()) refuse(fmt::format("loop {} has a symbolic number of steps", opt_.axis));
    const auto size = static_cast<int64_t>(steps.int_value());
    const int64_t wanted = opt_.amount == 0 ? size : opt_.amount;
    if (size % wanted != 0)
      refuse(fmt::format("{} does not divide the {} steps of loop {}", wanted, size, opt_.axis));
    return wanted;
  }

  // `more` steps of the loop at once, in each place where that is.
  void count_copies(const UOp& range, int64_t more) const {
    walk(program_, [&](const UOp& u) {
      if (!is_open(u, range)) return;
      int64_t copies = more;
      for (const UOp& r : u.ranges())
        if (r.arg().range().kind == AxisKind::UPCAST || r.arg().range().kind == AxisKind::UNROLL)
          copies *= static_cast<int64_t>(r.src(0).int_value());
      if (copies > kMostCopies) refuse(fmt::format("more than {} steps would be done at once", kMostCopies));
    });
  }

  void upcast() {
    const size_t i = loop(opt_.axis);
    if (is_reduce(i)) refuse(fmt::format("loop {} is that of a reduce: use UNROLL", opt_.axis));
    const int64_t n = amount(i);
    refuse_one_place(i, true);
    count_copies(left_[i], n);
    split(i, n, AxisKind::UPCAST);
  }

  void unroll() {
    const size_t i = loop(opt_.axis);
    if (!is_reduce(i)) refuse(fmt::format("loop {} is that of an output: use UPCAST", opt_.axis));
    const int64_t n = amount(i);
    count_copies(left_[i], n);
    const LoopPosition place = position_of_loop(left_[i]);
    const UOp steps = left_[i].src(0);
    for (size_t k = 0; k < left_.size(); k++)
      if (is_reduce(k) && left_[k] && same(left_[k].src(0), steps) &&
          (k == i || position_of_loop(left_[k]) == place))
        split(k, n, AxisKind::UNROLL);
  }

  void workgroup() {
    if (opt_.kind == OptKind::NOLOCALS) {
      if (threads_of(thread_slots(program_)) > 1) refuse("the kernel has threads already");
      no_locals_ = true;
      return;
    }
    if (no_locals_) refuse("NOLOCALS came before it");
    if (opt_.kind == OptKind::LOCAL)
      local();
    else
      group();
    if (const int64_t threads = threads_of(thread_slots(program_)); threads > spec_.parallel.workgroup)
      refuse(fmt::format("the workgroup would have {} threads, the device has at most {}", threads,
                         spec_.parallel.workgroup));
  }

  // What a step adds to, the next one goes on from. Memory that is near is one for all steps, too, unless
  // each copy has its own.
  void refuse_one_place(size_t i, bool has_own_memory) const {
    const auto gate = [&](const UOp& u) {
      return !has_own_memory || u.op() == Op::GROUP || u.op() == Op::END;
    };
    walk(program_, [&](const UOp& u) {
      if (u.op() != Op::END || std::ranges::find(u.src(), left_[i]) == u.src().end()) return;
      walk(u.src(0), gate, [&](const UOp& s) {
        if (s.op() == Op::STORE && !is_open(index_of_address(s.src(0)).src(1), left_[i]))
          refuse(fmt::format("all steps of loop {} write the same place", opt_.axis));
      });
    });
  }

  void local() {
    const size_t i = loop(opt_.axis);
    if (is_reduce(i)) refuse(fmt::format("loop {} is that of a reduce: use GROUP", opt_.axis));
    const int64_t n = amount(i);
    refuse_one_place(i, false);
    split(i, n, AxisKind::LOCAL);
  }

  void group() {
    const size_t i = loop(opt_.axis);
    if (!is_reduce(i)) refuse(fmt::format("loop {} is that of an output: use LOCAL", opt_.axis));
    const int64_t n = amount(i);
    const LoopPosition place = position_of_loop(left_[i]);
    const UOp steps = left_[i].src(0);
    for (size_t k = loops_.outputs.size(); k < left_.size(); k++)
      if (left_[k] && same(left_[k].src(0), steps) && (k == i || position_of_loop(left_[k]) == place))
        split(k, n, AxisKind::GROUP_REDUCE, opt_.kind == OptKind::GROUPTOP);
  }

  void swap() {
    const size_t i = loop(opt_.axis), k = loop(opt_.amount);
    if (is_reduce(i) != is_reduce(k)) refuse("one loop is over outputs, the other that of a reduce");
    if (i == k) refuse("both loops are the same");
    const UOp a = left_[i], b = left_[k];
    left_[i] = UOp::range(a.src(0), b.arg().range().id, a.arg().range().kind);
    left_[k] = UOp::range(b.src(0), a.arg().range().id, b.arg().range().kind);
    program_ = program_.substitute({{a, left_[i]}, {b, left_[k]}});
  }

  // The outer part is that of the threads; it is outermost.
  void thread() {
    if (threads_) refuse("the kernel has threads already");
    if (blocks_ > 0) refuse("the kernel has blocks already: threads are outside of these");
    const size_t i = loop_of_outputs();
    const int64_t n = amount(i);
    threads_ = true;
    split_outermost(i, static_cast<int64_t>(left_[i].src(0).int_value()) / n, AxisKind::THREAD);
  }

  // So many steps of the loop are a block, and the loop over blocks is around all loops but those over other
  // blocks.
  void block() {
    const size_t i = opt_.axis < std::ssize(left_) && is_reduce(static_cast<size_t>(opt_.axis))
                         ? loop_of_the_reduce()
                         : loop_of_outputs();
    if (outer_[i]) refuse(fmt::format("loop {} has blocks already", opt_.axis));
    split_outermost(i, amount(i), AxisKind::LOOP);
    blocks_++;
  }

  // A loop of a reduce that has no other around it, and the only one that has blocks.
  size_t loop_of_the_reduce() const {
    const size_t i = loop(opt_.axis);
    for (size_t k = 0; k < left_.size(); k++)
      if (k != i && is_reduce(k) && outer_[k]) refuse("another loop of a reduce has blocks already");
    if (program_.ops_below().contains(Op::DEFINE_LOCAL)) refuse("the kernel has memory of its own");
    if (left_[i].src(0).equals(amount(i)))
      refuse(fmt::format("all of loop {} would be one block", opt_.axis));
    int64_t elements = 1;
    UOp reduce;
    walk(program_, [&](const UOp& u) {
      if (u.op() != Op::REDUCE || !closes(u, left_[i])) return;
      if (reduce) refuse(fmt::format("loop {} is that of several reduces", opt_.axis));
      reduce = u;
    });
    for (const UOp& r : reduce.ranges()) {
      if (r.arg().range().kind == AxisKind::REDUCE)
        refuse(fmt::format("loop {} is inside of another reduce", opt_.axis));
      if (!r.src(0).is_int_const()) refuse("a loop over outputs has a symbolic number of steps");
      if (!is_around_all(r)) refuse("not everything that is stored is in the loops over outputs");
      elements *= static_cast<int64_t>(r.src(0).int_value());
      if (elements > kMostSums)
        refuse(fmt::format("more than {} sums would be kept between blocks", kMostSums));
    }
    return i;
  }

  bool is_around_all(const UOp& range) const {
    return std::ranges::all_of(program_.src(), [&](const UOp& effect) {
      return effect.op() == Op::END && std::ranges::find(effect.src(), range) != effect.src().end();
    });
  }

  size_t loop_of_outputs() const {
    const size_t i = loop(opt_.axis);
    if (is_reduce(i)) refuse(fmt::format("loop {} is that of a reduce", opt_.axis));
    if (!is_around_all(left_[i]))
      refuse(fmt::format("loop {} is not around everything that is stored", opt_.axis));
    return i;
  }

  // Loop i becomes a loop of `inner` steps and, behind the threads and blocks that there are, one around it.
  void split_outermost(size_t i, int64_t inner, AxisKind kind) {
    const int64_t number = blocks_ + (threads_ && kind != AxisKind::THREAD ? 1 : 0);
    std::unordered_map<UOp, UOp> moved;  // the numbers of the loops inside
    walk(program_, [&](const UOp& u) {
      if (u.op() == Op::RANGE && u.arg().range().id >= number)
        moved.emplace(u, u.replace({.arg = RangeArg{u.arg().range().id + 1, u.arg().range().kind}}));
    });
    program_ = program_.substitute(moved);
    for (UOps* ranges : {&left_, &outer_})
      for (UOp& r : *ranges)
        if (const auto now = moved.find(r); r && now != moved.end()) r = now->second;
    next_++;
    const UOp old = left_[i];
    const auto outer = static_cast<int64_t>(old.src(0).int_value()) / inner;
    const UOp around = UOp::range(outer, number, kind);
    left_[i] = inner == 1 ? UOp() : UOp::range(inner, old.arg().range().id, old.arg().range().kind);
    if (kind != AxisKind::THREAD) outer_[i] = around;
    replace(old, left_[i] ? around * inner + left_[i] : around,
            left_[i] ? UOps{around, left_[i]} : UOps{around});
  }

  // The loop gets more steps, which do nothing. So do the loops of reduces beside it that have as many.
  void pad() {
    const size_t i = loop(opt_.axis);
    const LoopPosition place = position_of_loop(left_[i]);
    const UOp steps = left_[i].src(0);
    for (size_t k = 0; k < left_.size(); k++)
      if (k == i || (is_reduce(i) && is_reduce(k) && left_[k] && same(left_[k].src(0), steps) &&
                     position_of_loop(left_[k]) == place))
        pad(k);
  }
  void pad(size_t i) {
    const UOp old = left_[i];
    if (!old.src(0).is_int_const()) refuse(fmt::format("loop {} has a symbolic number of steps", opt_.axis));
    if (opt_.amount < 1) refuse("a loop is padded to a multiple of 1 or more");
    const auto size = static_cast<int64_t>(old.src(0).int_value());
    if (opt_.amount > kMostPadded || size > kMostPacked * opt_.amount) refuse("that is too much");
    const int64_t padded = (size + opt_.amount - 1) / opt_.amount * opt_.amount;
    if (padded == size) return;
    walk(program_, [&](const UOp& u) {
      if (u.op() == Op::STORE && is_open(u, old) && !is_open(u.src(0), old))
        refuse(fmt::format("each step of loop {} stores to the same place", opt_.axis));
    });
    padded_[i] = opt_.amount;
    left_[i] = UOp::range(padded, old.arg().range().id, old.arg().range().kind);
    program_ = quern::pad(program_, old, left_[i]);
  }

  // The last step of a padded loop, which does less than the others, behind the loop: the others have no
  // gates.
  UOp with_last_step_apart(size_t i) const {
    const UOp& range = left_[i];
    const auto steps = static_cast<int64_t>(range.src(0).int_value());
    if (steps < 2 || threads_) return program_;
    const UOp most = UOp::range(steps - 1, range.arg().range().id, range.arg().range().kind);
    const UOp loop = program_.substitute({{range, most}});
    const UOp last = program_.substitute({{range, UOp::index(steps - 1)}});
    UOps effects(loop.src().begin(), loop.src().end());
    effects.insert(effects.end(), last.src().begin(), last.src().end());
    return program_.with_src(effects);
  }

  void pack() {
    if (opt_.axis >= std::ssize(left_)) refuse(fmt::format("there is no loop {}", opt_.axis));
    UOp read;
    walk(program_, [&](const UOp& u) {
      if (u.op() != Op::LOAD) return;
      const UOp& memory = storage_of(u.src(0));
      if (memory.op() != Op::PARAM || memory.arg().integer() != opt_.amount) return;
      if (read) refuse(fmt::format("argument {} is read in several ways", opt_.amount));
      read = u;
    });
    if (!read) refuse(fmt::format("argument {} is not read", opt_.amount));
    const UOp& block = outer_[static_cast<size_t>(opt_.axis)];
    const int64_t inside = block ? block.arg().range().id + 1 : blocks_ + (threads_ ? 1 : 0);
    UOps tile;
    for (const UOp& r : read.ranges())
      if (r.arg().range().id >= inside) tile.push_back(r);
    int64_t elements = 1;
    for (const UOp& r : tile) {
      if (!r.src(0).is_int_const()) refuse("what is read has a symbolic size");
      elements *= static_cast<int64_t>(r.src(0).int_value());
      if (elements > kMostPacked)
        refuse(fmt::format("the copy would have more than {} elements", kMostPacked));
    }
    if (tile.empty()) refuse(fmt::format("argument {} does not change in these loops", opt_.amount));
    program_ = quern::pack(program_, read, tile);
  }

  // Where a loop of a reduce stands: the loops around it, which of the loops of its REDUCE it is, and of how
  // many. Siblings stand at the same place.
  struct LoopPosition {
    UOps around;
    size_t position = 0, count = 0;
    bool operator==(const LoopPosition&) const = default;
  };
  LoopPosition position_of_loop(const UOp& range) const {
    LoopPosition place;
    walk(program_, [&](const UOp& u) {
      if (u.op() != Op::REDUCE || !closes(u, range)) return;
      const Sources ranges = Reduction(u).ranges;
      for (const UOp& r : u.ranges()) add_once(place.around, r);
      place.position = static_cast<size_t>(std::ranges::find(ranges, range) - ranges.begin());
      place.count = ranges.size();
    });
    std::ranges::sort(place.around, before);
    return place;
  }

  // The new part has neighbouring steps, or with `on_top` the old one has.
  void split(size_t i, int64_t n, AxisKind kind, bool on_top = false) {
    const UOp old = left_[i];
    const auto outer = static_cast<int64_t>(old.src(0).int_value()) / n;
    const UOp part = UOp::range(n, next_++, kind);
    left_[i] = outer == 1 ? UOp() : UOp::range(outer, old.arg().range().id, old.arg().range().kind);
    const UOp whole = !left_[i] ? part : on_top ? part * outer + left_[i] : left_[i] * n + part;
    replace(old, whole, left_[i] ? UOps{left_[i], part} : UOps{part});
  }

  void replace(const UOp& range, const UOp& value, const UOps& closed) {
    Replacement replacement{range, value, closed};
    program_ =
        graph_rewrite(program_, replaced_loop, replacement, {.order = Order::once, .name = "split a loop"});
  }

  UOp program_;
  const DeviceSpec& spec_;
  const Needs met_;
  const Loops loops_;
  UOps left_;    // of each loop; none: nothing
  UOps outer_;   // of each loop, the loop over its blocks; none: it has none
  Ints padded_;  // of each loop, the multiple that it was padded to; 0: it was not
  Opts packs_;
  Opt opt_;
  bool threads_ = false, no_locals_ = false;
  int64_t next_ = 0, blocks_ = 0;
};

}  // namespace

Loops loops_of(const UOp& program) {
  Loops loops;
  walk(program, [&](const UOp& u) {
    if (!is_loop_node(u)) return;
    const bool keeps = u.op() == Op::END && u.src(0).op() == Op::STORE &&
                       storage_of(u.src(0).src(0)).op() == Op::DEFINE_LOCAL;
    for (const UOp& r : closed_ranges(u))
      if (r.op() == Op::RANGE)
        add_once(keeps ? loops.fills : u.op() == Op::END ? loops.outputs : loops.reduces, r);
  });
  std::erase_if(loops.reduces,
                [&](const UOp& r) { return std::ranges::find(loops.outputs, r) != loops.outputs.end(); });
  std::erase_if(loops.fills,
                [&](const UOp& r) { return std::ranges::find(loops.reduces, r) != loops.reduces.end(); });
  std::ranges::sort(loops.outputs, before);
  std::ranges::sort(loops.reduces, before);
  std::ranges::sort(loops.fills, before);
  return loops;
}

namespace {

// A place that does not change with a loop, or one inside it.
bool writes_one_place(const UOp& end) {
  bool found = false;
  walk(
      end.src(0), [](const UOp& u) { return u.op() == Op::GROUP || u.op() == Op::END; },
      [&](const UOp& u) {
        if (u.op() != Op::STORE) return;
        for (const UOp& r : end.src().subspan(1))
          found |= r.op() == Op::RANGE && !is_open(index_of_address(u.src(0)), r);
      });
  return found;
}

}  // namespace

std::string not_optimisable(const UOp& program) {
  constexpr OpSet kOwnMemory = {Op::DEFINE_REG, Op::DEFINE_LOCAL, Op::AFTER,     Op::BARRIER, Op::SPECIAL,
                                Op::IF,         Op::STAGE,        Op::VECTORIZE, Op::GEP,     Op::NOOP};
  OpSet found = program.ops_below() & kOwnMemory;
  // what it is about, before what comes with it
  if (found.contains(Op::DEFINE_REG)) found = {Op::DEFINE_REG};
  if (found.contains(Op::DEFINE_LOCAL)) found = {Op::DEFINE_LOCAL};
  if (!found.empty()) return fmt::format("its kernel has {}", name(found.first()));
  std::string why;
  NodeMap<UOp> stored;  // memory that is written, and where
  const auto is_access = [](const UOp& u) { return u.op() == Op::LOAD || u.op() == Op::STORE; };
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::REDUCE && u.arg().reduce().op == Op::NOOP)
      why = "its kernel reduces several values at once";
    if (u.op() == Op::RANGE && u.arg().range().kind != AxisKind::LOOP &&
        u.arg().range().kind != AxisKind::REDUCE)
      why = fmt::format("its kernel has loops of kind {}", name(u.arg().range().kind));
    if (u.op() == Op::END || u.op() == Op::REDUCE)
      for (const UOp& r : closed_ranges(u))
        if (r.op() != Op::RANGE && !r.is_const()) why = "its kernel has loops over expressions";
    if (!u.dtype().is_ptr() && u.dtype().lanes() != 1) why = "its kernel has vectors";
    if (u.op() == Op::INDEX && u.src(0).op() != Op::PARAM) why = "its kernel has casts of memory";
    if (u.op() == Op::STORE) stored.emplace(storage_of(u.src(0)), u.src(0));
    if (u.op() == Op::STORE && index_of_address(u.src(0)).ops_below().contains(Op::LOAD))
      why = "its kernel writes where memory says";
    if (u.op() == Op::END && writes_one_place(u)) why = "its kernel writes one place in several steps";
  });
  if (why.empty() && may_store_twice(program)) why = "its kernel may write one place in several steps";
  if (!why.empty()) return why;
  // What is done at once must not depend on each other.
  walk(program, [&](const UOp& u) {
    if (!is_access(u)) return;
    const UOp* written = stored.find(storage_of(u.src(0)));
    if (written != nullptr && !same(*written, u.src(0)))
      why = "its kernel uses memory that it writes in several ways";
  });
  return why;
}

UOp apply_opts(const UOp& program, const Opts& opts, const DeviceSpec& spec) {
  Application application(program, spec);
  for (const Opt& opt : opts) application.apply(opt);
  return application.finished();
}

}  // namespace quern
