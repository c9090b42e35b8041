// The table of contents of code generation: one line a pass.
#include "quern/codegen/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "quern/codegen/accumulate.h"
#include "quern/codegen/actions.h"
#include "quern/codegen/addresses.h"
#include "quern/codegen/decompose.h"
#include "quern/codegen/expand.h"
#include "quern/codegen/fetch_ahead.h"
#include "quern/codegen/given_kinds.h"
#include "quern/codegen/heuristic.h"
#include "quern/codegen/index_dtype.h"
#include "quern/codegen/keep.h"
#include "quern/codegen/linearize.h"
#include "quern/codegen/loops.h"
#include "quern/codegen/narrow_floats.h"
#include "quern/codegen/not_positive.h"
#include "quern/codegen/opt.h"
#include "quern/codegen/stream.h"
#include "quern/codegen/sum_parts.h"
#include "quern/codegen/sum_rows.h"
#include "quern/codegen/transcendental.h"
#include "quern/codegen/transpose_loads.h"
#include "quern/codegen/workgroups.h"
#include "quern/ir/env.h"
#include "quern/ir/node_map.h"
#include "quern/ir/spec.h"
#include "quern/ir/symbolic.h"

namespace quern {

namespace {

void refuse_what_the_device_lacks(const UOp& kernel, const DeviceSpec& spec) {
  OpSet lacking = {Op::WMMA, Op::UNROLL, Op::CONTRACT};
  if (spec.workgroup_threads <= 1) lacking.insert(Op::SPECIAL);
  const OpSet found = kernel.ops_below() & lacking;
  if (!found.empty()) throw Error(fmt::format("kernel: {} cannot run {}", spec.name, name(found.first())));
  if (spec.has_float64) return;
  walk(kernel, [&](const UOp& u) {
    if (u.dtype().kind() == Scalar::Float64) throw DTypeError(fmt::format("{} has no float64", spec.name));
  });
}

// Of OPTS=random:7, the 7.
std::optional<uint64_t> random_seed() {
  constexpr std::string_view prefix = "random:";
  const std::string& text = env::OPTS();
  if (!text.starts_with(prefix)) return {};
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + prefix.size(), end, seed);
  if (error != std::errc() || at != end)
    throw Error(fmt::format("OPTS is \"{}\"; random: is followed by a number", text));
  return seed;
}

Opts given_opts(const UOp& kernel, OptChoice choice) {
  if (!kernel.arg().none() && !kernel.arg().kernel().opts.empty())
    return parse_opts(fmt::format("{}", fmt::join(kernel.arg().kernel().opts, " ")));
  if (choice != OptChoice::best || env::NOOPT() || random_seed() || env::OPTS().starts_with('@')) return {};
  return parse_opts(env::OPTS());
}

// Of opts that were chosen, those that do not apply after all are left out, with all behind them.
UOp applied(const UOp& program, Opts& opts, const DeviceSpec& spec, bool chosen) {
  for (;;) {
    try {
      return apply_opts(program, opts, spec);
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      if (!chosen || opts.empty()) throw;
      opts.pop_back();
    }
  }
}

UOp with_opts_told(const UOp& program, const Opts& opts) {
  return opts.empty() ? program : with_opts(program, opts);
}

// Memory is read by LOADs and written through addresses, each of which has one index; index arithmetic and
// loops are as simple as they get; gates are outermost in their index.
UOp simplified(const UOp& kernel) {
  const UOp program = graph_rewrite(to_addresses(kernel), symbolic, {.name = "simplify kernel"});
  return simplify_loops(without_double_gates(program));
}

// What is done before loops are split. `any_loops`: opts are not given yet, so loops may become others.
UOp before_splits(UOp program, const DeviceSpec& spec, bool any_loops) {
  // EXP2 knows where its argument is not above 0
  program = mark_not_positive(program);
  if (spec.workgroup_threads > 1) return program;
  // what costs much and several loops need is computed once
  program = keep_rows(program, spec);
  // rows of memory are gone along, also where sums go across
  return any_loops ? sum_rows(program, spec) : program;
}

}  // namespace

UOp with_opts(const UOp& kernel, const Opts& opts) {
  KernelArg arg = kernel.arg().none() ? KernelArg() : kernel.arg().kernel();
  arg.opts.clear();
  for (const Opt& opt : opts) arg.opts.push_back(opt.text());
  return kernel.replace({.arg = arg});
}

std::optional<Optimisable> before_opts(const UOp& kernel, const DeviceSpec& device) {
  refuse_what_the_device_lacks(kernel, device);
  UOp program = simplified(kernel);
  const bool one_thread = device.workgroup_threads > 1 && !must_be_in_order(program).empty();
  if (one_thread || !not_optimisable(program).empty()) return {};
  program = before_splits(program, device, true);
  Opts chosen = choose_opts(program, device);
  (void)applied(program, chosen, device, true);
  return Optimisable{program, device, chosen};
}

UOp lower_to_program(const UOp& kernel, const DeviceSpec& device, OptChoice choice) {
  if (kernel.op() != Op::SINK)
    throw Error(fmt::format("code is generated from kernels, SINKs; given {}", name(kernel.op())));
  check_boundary(kernel, Level::kernel, "schedule");
  refuse_what_the_device_lacks(kernel, device);
  // loads, stores and addresses with one index; index arithmetic, gates and loops are simple
  UOp program = simplified(kernel);
  // kinds that the kernel's ranges were given are what loops are
  check_given_kinds(program);
  // one thread does all of it if it has to be done in order
  DeviceSpec spec = device;
  if (spec.workgroup_threads > 1 && !must_be_in_order(program).empty()) spec.workgroup_threads = 1;
  const std::string untouchable = not_optimisable(program);
  const bool optimised = choice != OptChoice::given && !env::NOOPT() && untouchable.empty();
  Opts opts = given_opts(kernel, choice);
  if (!opts.empty() && !untouchable.empty())
    throw Error(fmt::format("{} does not apply: {}", opts[0].text(), untouchable));
  // rows that several loops need are computed once, and gone along
  if (optimised) {
    const bool searched = choice == OptChoice::searched;  // by someone who saw these loops
    program = before_splits(program, device, searched || opts.empty());
  }
  // loops are split and have their kinds
  const bool chosen = optimised && choice == OptChoice::best && opts.empty() &&
                      spec.workgroup_threads == device.workgroup_threads;
  if (chosen) {
    const std::optional<uint64_t> seed = random_seed();
    opts = seed ? random_opts(program, spec, *seed) : choose_opts(program, spec);
  }
  if (!opts.empty()) {
    program = graph_rewrite(applied(program, opts, spec, chosen), symbolic, {.name = "simplify split loops"});
    program = simplify_loops(program, {Op::REDUCE});  // what is packed is read in order
  }
  // no UPCAST and UNROLL: lanes and copies
  program = expand(with_opts_told(program, opts));
  // vectors that are read across memory are read along it, and turned
  if (spec.workgroup_threads <= 1) program = transpose_loads(program);
  // stores go past the caches, if these are too small; rows are fetched before they are needed
  if (optimised && spec.workgroup_threads <= 1) program = fetch_ahead(mark_streams(program, spec), spec);
  // no ranges of workgroups and threads: hardware indices, and LOCAL memory for what threads reduce together
  if (spec.workgroup_threads > 1)
    program = graph_rewrite(ranges_to_workgroups(program, spec), symbolic, {.name = "simplify workgroups"});
  program = kinds_to_loops(program, spec);
  // long sums of floats are sums of sums
  const bool in_order = choice == OptChoice::given || env::NOOPT();
  if (!in_order) program = sums_in_parts(program);
  // no REDUCE: registers that are accumulated into
  const bool fused = spec.has_fma && !in_order;
  program = reduces_to_accumulators(program, fused ? Rounding::fused : Rounding::each);
  // a LOAD behind a gate has a value for where it is closed; what is never stored is gone
  program = gates_to_alternatives(program);
  // every RANGE is closed by one END, every END closes one RANGE
  program = inner_threads_to_loops(separate_loops(program));
  // no dtype index: int32 where it is enough, int64 elsewhere
  if (spec.adds_addresses_in_64_bits) program = addresses_in_64_bits(program);
  program = index_to_integers(program);
  // no floats that the device does not compute with
  program = narrow_floats_to_wide(program, spec);
  // no function that the device does not have
  const Rules& functions = !fused          ? transcendental
                           : spec.has_exp2 ? transcendental_but_exp2
                                           : transcendental_fused;
  program = graph_rewrite(program, functions, {.name = "transcendental"});
  // no op that means something else, or nothing, in hardware
  program = graph_rewrite(program, decompositions, {.name = "decompose"});
  check_boundary(program, Level::program, "lower");
  return program;
}

void check_given(const UOp& kernel, const DeviceSpec& device) {
  const UOp program = simplified(kernel);
  check_given_kinds(program);
  const Opts opts = given_opts(kernel, OptChoice::given);
  if (opts.empty()) return;
  if (const std::string untouchable = not_optimisable(program); !untouchable.empty())
    throw Error(fmt::format("{} does not apply: {}", opts[0].text(), untouchable));
  const bool of_groups = std::ranges::any_of(opts, [](const Opt& o) {
    return o.kind == OptKind::LOCAL || o.kind == OptKind::GROUP || o.kind == OptKind::GROUPTOP ||
           o.kind == OptKind::NOLOCALS;
  });
  DeviceSpec spec = device;
  if (!of_groups) spec.workgroup_threads = 1;
  (void)apply_opts(program, opts, spec);
}

LinearProgram lower(const UOp& kernel, const DeviceSpec& spec, OptChoice choice) {
  const UOp graph = lower_to_program(kernel, spec, choice);
  if (env::DEBUG() >= 5)
    std::fputs(fmt::format("scheduled\n{}\noptimised\n{}\n", kernel.text(), graph.text()).c_str(), stderr);
  LinearProgram program = linearize(graph);
  if (spec.workgroup_threads > 1) add_barriers_to_loops(program);
  if (env::SPEC() > 0) check(program);
  const bool has_groups = spec.workgroup_threads > 1 && !kernel.ops_below().contains(Op::SPECIAL);
  if (!program.opts.empty() || has_groups)
    program.in_order = [kernel, spec] {
      DeviceSpec one_thread = spec;
      one_thread.workgroup_threads = 1;
      return lower(with_opts(kernel, {}), one_thread);
    };
  return program;
}

}  // namespace quern
