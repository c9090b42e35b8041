#include "quern/codegen/choose/actions.h"

#include <algorithm>
#include <random>
#include <span>

#include "quern/ir/node/node_map.h"
#include "quern/ir/pass/linear_program.h"

namespace quern {
namespace {

constexpr int kMostOpts = 5, kTries = 20;
constexpr int64_t kMostAtOnce = 128;  // random opts are to compile quickly

// Amounts that are tried; 0 is all of a loop.
constexpr int64_t kUpcasts[] = {0, 2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 32};
constexpr int64_t kUnrolls[] = {0, 2, 4, 8, 16, 32};
constexpr int64_t kPaddings[] = {4, 8, 16, 32};
constexpr int64_t kBlocks[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
constexpr int64_t kThreadsOfGroups[] = {2, 4, 8, 16, 32, 64, 128, 256};

std::span<const int64_t> amounts(OptKind kind) {
  switch (kind) {
    case OptKind::UPCAST: return kUpcasts;
    case OptKind::UNROLL: return kUnrolls;
    case OptKind::PADTO: return kPaddings;
    case OptKind::BLOCK: return kBlocks;
    case OptKind::LOCAL:
    case OptKind::GROUP:
    case OptKind::GROUPTOP: return kThreadsOfGroups;
    default: return {};
  }
}

int64_t steps_at_once(const UOp& program) {
  int64_t most = 1;
  walk(program, [&](const UOp& u) {
    int64_t steps = 1;
    for (const UOp& r : u.ranges())
      if (r.arg().range().kind == AxisKind::UPCAST || r.arg().range().kind == AxisKind::UNROLL)
        steps *= static_cast<int64_t>(r.src(0).int_value());
    most = std::max(most, steps);
  });
  return most;
}

// And does not do too much at once.
bool applies(const UOp& program, const Opts& opts, const DeviceSpec& spec) {
  try {
    return steps_at_once(apply_opts(program, opts, spec)) <= kMostAtOnce;
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

// The arguments that are read.
Ints arguments_read(const UOp& program) {
  Ints read;
  walk(program, [&](const UOp& u) {
    if (u.op() != Op::LOAD) return;
    const UOp& memory = storage_of(u.src(0));
    if (memory.op() == Op::PARAM && std::ranges::find(read, memory.arg().integer()) == read.end())
      read.push_back(memory.arg().integer());
  });
  return read;
}

// Steps of a loop that has a number of them; else 0.
int64_t size(const UOp& range) {
  return range.src(0).is_int_const() ? static_cast<int64_t>(range.src(0).int_value()) : 0;
}

bool packs(const Opts& opts, int64_t argument) {
  return std::ranges::any_of(opts,
                             [&](const Opt& o) { return o.kind == OptKind::PACK && o.amount == argument; });
}

// A loop of so many steps is padded to little more.
bool is_padded(int64_t steps, int64_t amount) {
  const int64_t more = (amount - steps % amount) % amount;
  return steps > amount && more > 0 && more * 4 <= steps;
}

bool is_split(OptKind kind) { return kind == OptKind::UPCAST || kind == OptKind::UNROLL; }

}  // namespace

Opts actions(const UOp& program, const DeviceSpec& spec) {
  const Loops loops = loops_of(program);
  const Needs met = needs_met(spec);
  const auto is_missing = [&](OptKind kind) { return need_of(kind) && !met.contains(*need_of(kind)); };
  const Ints read = arguments_read(program);
  Opts list;
  const auto add = [&](OptKind kind, size_t axis, std::span<const int64_t> amounts) {
    if (is_missing(kind)) return;
    for (const int64_t n : amounts) list.push_back({kind, static_cast<int64_t>(axis), n});
  };
  const auto add_all = [&](OptKind kind, size_t axis) { add(kind, axis, amounts(kind)); };
  const auto add_one = [&](OptKind kind, size_t axis, int64_t amount) { add(kind, axis, {&amount, 1}); };
  const size_t outputs = loops.outputs.size(), before_rows = outputs + loops.reduces.size();
  for (size_t i = 0; i < loops.size(); i++) {
    const bool is_output = i < outputs, is_reduce = !is_output && i < before_rows;
    add_all(is_reduce ? OptKind::UNROLL : OptKind::UPCAST, i);
    add_all(OptKind::PADTO, i);
    for (size_t k = i + 1; k < (is_output ? outputs : is_reduce ? before_rows : 0); k++)
      add_one(OptKind::SWAP, i, static_cast<int64_t>(k));
    if (is_output) add_all(OptKind::LOCAL, i);
    if (is_reduce) add_all(OptKind::GROUP, i);
    if (is_reduce) add_all(OptKind::GROUPTOP, i);
    if (!is_output && !is_reduce) continue;
    for (int64_t threads = is_output ? spec.parallel.cores : 1; threads > 1; threads /= 2)
      add_one(OptKind::THREAD, i, threads);
    add_all(OptKind::BLOCK, i);
    for (const int64_t argument : read) add_one(OptKind::PACK, i, argument);
  }
  if (!is_missing(OptKind::NOLOCALS)) list.push_back({OptKind::NOLOCALS, 0, 0});
  return list;
}

std::vector<Opts> steps_from(const Opts& opts, const UOp& program, const DeviceSpec& spec) {
  const Loops loops = loops_of(program);
  const Ints read = arguments_read(program);
  std::vector<Opts> steps;
  const auto add = [&](Opts list, std::initializer_list<Opt> more) {
    list.insert(list.end(), more);
    steps.push_back(std::move(list));
  };
  for (const Opt& opt : actions(program, spec)) {
    if (opt.kind == OptKind::PADTO) continue;  // by itself it helps nothing
    if (opt.kind == OptKind::THREAD) {         // outside of all, and there is one
      Opts list = opts;
      std::erase_if(list, [](const Opt& o) { return o.kind == OptKind::THREAD; });
      list.insert(list.begin(), opt);
      steps.push_back(std::move(list));
      continue;
    }
    if (opt.kind == OptKind::PACK && packs(opts, opt.amount)) continue;
    add(opts, {opt});
    if (opt.kind == OptKind::BLOCK)
      for (const int64_t argument : read)
        if (!packs(opts, argument)) add(opts, {opt, {OptKind::PACK, opt.axis, argument}});
    const bool is_whole = std::ranges::none_of(opts, [&](const Opt& o) { return o.axis == opt.axis; });
    if (is_split(opt.kind) && opt.amount > 0 && is_whole &&
        is_padded(size(loops.at(static_cast<size_t>(opt.axis))), opt.amount))
      add(opts, {{OptKind::PADTO, opt.axis, opt.amount}, opt});
  }
  for (size_t i = 0; i < opts.size(); i++) {
    Opts without = opts;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    steps.push_back(std::move(without));
    if (opts[i].kind == OptKind::PADTO) continue;  // goes with what it is for
    for (const int64_t amount : amounts(opts[i].kind)) {
      Opts changed = opts;
      changed[i].amount = amount;
      for (Opt& padding : changed)
        if (padding == Opt{OptKind::PADTO, opts[i].axis, opts[i].amount} && amount > 0)
          padding.amount = amount;
      if (amount != opts[i].amount) steps.push_back(std::move(changed));
    }
  }
  return steps;
}

Opts random_opts(const UOp& program, const DeviceSpec& spec, uint64_t number) {
  std::mt19937_64 random(number);
  const Opts all = actions(program, spec);
  Opts chosen;
  const auto wanted = static_cast<size_t>(random() % (kMostOpts + 1));
  for (int i = 0; i < kTries && chosen.size() < wanted && !all.empty(); i++) {
    chosen.push_back(all[random() % all.size()]);
    if (!applies(program, chosen, spec)) chosen.pop_back();
  }
  return chosen;
}

}  // namespace quern
