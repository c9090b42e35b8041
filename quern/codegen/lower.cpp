// The table of contents of code generation: one line a pass.
#include "quern/codegen/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "quern/base/env.h"
#include "quern/codegen/analysis/given_kinds.h"
#include "quern/codegen/analysis/not_positive.h"
#include "quern/codegen/arithmetic/decompose.h"
#include "quern/codegen/arithmetic/index_dtype.h"
#include "quern/codegen/arithmetic/narrow_floats.h"
#include "quern/codegen/arithmetic/transcendental.h"
#include "quern/codegen/choose/actions.h"
#include "quern/codegen/choose/choose.h"
#include "quern/codegen/linearize/linearize.h"
#include "quern/codegen/loops/accumulate.h"
#include "quern/codegen/loops/loops.h"
#include "quern/codegen/loops/sum_parts.h"
#include "quern/codegen/loops/sum_rows.h"
#include "quern/codegen/memory/addresses.h"
#include "quern/codegen/memory/fetch_ahead.h"
#include "quern/codegen/memory/near_rows.h"
#include "quern/codegen/memory/stream.h"
#include "quern/codegen/opt/opt.h"
#include "quern/codegen/vector/expand.h"
#include "quern/codegen/vector/transpose_loads.h"
#include "quern/codegen/workgroup/workgroups.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/pass/pass.h"
#include "quern/ir/spec/spec.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {

namespace {

// What the passes may ask for, while a kernel becomes loops, and behind that.
struct AddressContext {
  Needs met;
};
struct LoweringContext {
  DeviceSpec device;  // as the kernel sees it: without workgroups if its steps have to stay in order
  Rounding rounding = Rounding::each;
  Needs met = {};
};

void refuse_what_the_device_lacks(const UOp& kernel, const DeviceSpec& spec) {
  OpSet lacking = {Op::WMMA, Op::UNROLL, Op::CONTRACT};
  if (!spec.has_workgroups()) lacking.insert(Op::SPECIAL);
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

Opts opts_of(const UOp& program) {
  if (program.arg().none() || program.arg().kernel().opts.empty()) return {};
  return parse_opts(fmt::format("{}", fmt::join(program.arg().kernel().opts, " ")));
}

// ---- the kernel as loops

const Pass<AddressContext> kAddressPasses[] = {
    {"addresses",
     "codegen/memory/addresses",
     {},
     &elements_to_addresses,
     nullptr,
     "memory is read by LOAD and written by STORE, through addresses with one index"},
    {"simplify",
     "ir/symbolic/symbolic",
     {},
     &symbolic,
     nullptr,
     "index arithmetic is simple, gates are outermost"},
    {"double gates",
     "codegen/memory/addresses",
     {},
     &double_gates,
     nullptr,
     "a LOAD that is 0 where its gate is closed has no WHERE that says so again"},
    {"cut at divisions",
     "codegen/loops/cut_loops",
     {},
     nullptr,
     [](const UOp& u, const AddressContext&) { return cut_at_divisions(u); },
     "indices are affine in loops where they can be"},
    {"merge loops",
     "codegen/loops/loops",
     {},
     &merged_loops,
     [](const UOp& u, const AddressContext&) { return simplify_loops(u); },
     "loops that are used as one are one"},
    {"cut at gates",
     "codegen/loops/cut_loops",
     {},
     nullptr,
     [](const UOp& u, const AddressContext&) { return cut_at_gates(u); },
     "gates that tell a few equal parts of a loop apart are open or closed in each"},
    {"check kinds",
     "codegen/analysis/given_kinds",
     {},
     nullptr,
     [](const UOp& u, const AddressContext&) {
       check_given_kinds(u);
       return u;
     },
     "ranges to which the user gave a kind compute what loops compute; others are refused"},
};
const PassTable<AddressContext> kAddresses{"addresses", Level::kernel, kAddressPasses};

// ---- from loops to a program

// Opts that were chosen here and do not apply after all are left out, with all behind them.
UOp split_loops(const UOp& program, const LoweringContext& context) {
  Opts opts = opts_of(program);
  for (;;) {
    try {
      return opts.empty() ? with_opts(program, {})
                          : with_opts(apply_opts(program, opts, context.device), opts);
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      if (!context.met.contains(Need::free_choice) || opts.empty()) throw;
      opts.pop_back();
    }
  }
}

UOp with_chosen_opts(const UOp& program, const LoweringContext& context) {
  const std::optional<uint64_t> seed = random_seed();
  return with_opts(program,
                   seed ? random_opts(program, context.device, *seed) : choose_opts(program, context.device));
}

UOp without_missing_functions(const UOp& program, const LoweringContext& context) {
  const Rules& functions = context.rounding == Rounding::each ? transcendental
                           : context.device.has_exp2          ? transcendental_but_exp2
                                                              : transcendental_fused;
  return graph_rewrite(program, functions, {.name = "transcendental"});
}

// Only where loops were split is there something to tidy up.
template <UOp (*kRun)(const UOp&)>
UOp if_split(const UOp& program, const LoweringContext&) {
  return opts_of(program).empty() ? program : kRun(program);
}

// clang-format off
const Pass<LoweringContext> kOptPasses[] = {
    {"signs", "codegen/analysis/not_positive", {Need::splittable_loops}, &signs,
     [](const UOp& u, const LoweringContext&) { return mark_not_positive(u); },
     "EXP2 of x less the greatest x is marked: it takes fewer steps"},
    {"near rows", "codegen/memory/near_rows", {Need::splittable_loops, Need::near_memory}, nullptr,
     [](const UOp& u, const LoweringContext& c) { return rows_to_near_memory(u, c.device); },
     "what costs much (EXP2, LOG2, SIN, COS, POW) and two loops of as many steps need goes through near memory"},
    {"row sums", "codegen/loops/sum_rows", {Need::splittable_loops, Need::near_memory, Need::free_loops}, nullptr,
     [](const UOp& u, const LoweringContext& c) { return sum_rows(u, c.device); },
     "sums across rows that are far apart go along them, and stand in near memory"},
    {"choose opts", "codegen/choose/choose", {Need::splittable_loops, Need::free_choice}, nullptr, with_chosen_opts,
     "the kernel's argument has its opts"},
    {"split loops", "codegen/opt/opt", {}, nullptr, split_loops,
     "loops are split and have their kinds, as the opts say"},
    {"simplify split loops", "ir/symbolic/symbolic", {}, &symbolic,
     if_split<[](const UOp& u) { return graph_rewrite(u, symbolic, {.name = "simplify split loops"}); }>,
     "index arithmetic is simple again"},
    {"merge split loops", "codegen/loops/loops", {}, &merged_loops,
     if_split<[](const UOp& u) { return simplify_loops(u, {Op::REDUCE}, "merge split loops"); }>,
     "what is packed is read in order"},
};
const PassTable<LoweringContext> kOpts{"opts", Level::kernel, kOptPasses};

const Pass<LoweringContext> kProgramPasses[] = {
    {"expand", "codegen/vector/expand", {}, nullptr, [](const UOp& u, const LoweringContext&) { return expand(u); },
     "UPCAST and UNROLL are lanes or copies"},
    {"transpose loads", "codegen/vector/transpose_loads", {Need::cores}, &transposed_loads,
     [](const UOp& u, const LoweringContext&) { return transpose_loads(u); },
     "squares that are read across lanes are read along memory, and transposed in registers"},
    {"streams", "codegen/memory/stream", {Need::splittable_loops, Need::cached_stores}, &streamed_stores,
     [](const UOp& u, const LoweringContext& c) { return mark_streams(u, c.device); },
     "stores of whole lines are marked to go past the caches, if the kernel's memory is larger than the last of them"},
    {"fetch ahead", "codegen/memory/fetch_ahead", {Need::splittable_loops, Need::cached_stores}, &fetching_loads,
     [](const UOp& u, const LoweringContext& c) { return fetch_ahead(u, c.device); },
     "where rows are gone over twice, loads of the second time are marked to fetch the next row"},
    {"workgroups", "codegen/workgroup/workgroups", {Need::workgroups}, &workgroup_indices,
     [](const UOp& u, const LoweringContext& c) { return ranges_to_workgroups(u, c.device); },
     "GLOBAL, LOCAL and GROUP_REDUCE ranges are SPECIALs, reduces of threads go through LOCAL memory"},
    {"simplify workgroups", "ir/symbolic/symbolic", {Need::workgroups}, &symbolic, nullptr, "index arithmetic is simple again"},
    {"barriers to loops", "codegen/loops/loops", {Need::cores}, &barriers_to_loops, nullptr,
     "what threads do before a BARRIER is a loop, and what follows is another"},
    {"threads", "codegen/loops/loops", {Need::cores}, &thread_loops,
     [](const UOp& u, const LoweringContext& c) { return spread_over_threads(u, c.device); },
     "a GLOBAL loop around all of a kernel is shared by the cores' threads"},
    {"kinds", "codegen/loops/loops", {}, &plain_kinds,
     [](const UOp& u, const LoweringContext& c) { return kinds_to_loops(u, c.device); },
     "what was not expanded, or the device lacks, is a plain loop"},
    {"sums in parts", "codegen/loops/sum_parts", {Need::float_order}, &parted_sums,
     [](const UOp& u, const LoweringContext&) { return sums_in_parts(u); },
     "long sums of floats are sums of as many parts as parts have steps, so that errors grow with the root of the length"},
    {"accumulators", "codegen/loops/accumulate", {}, &accumulators,
     [](const UOp& u, const LoweringContext& c) { return reduces_to_accumulators(u, c.rounding); },
     "no REDUCE: registers, set before a loop, combined in it, read behind it"},
    {"alternatives", "codegen/memory/addresses", {}, &gates_to_alternatives, nullptr,
     "a gated LOAD has a value for where the gate is closed; what is never stored is gone"},
    {"separate loops", "codegen/loops/separate_loops", {}, nullptr,
     [](const UOp& u, const LoweringContext&) { return separate_loops(u); },
     "every RANGE has one END and every END one RANGE; accumulations over one range are one loop"},
    {"inner threads", "codegen/loops/separate_loops", {}, &loops_of_threads,
     [](const UOp& u, const LoweringContext&) { return inner_threads_to_loops(u); },
     "a THREAD range is around all of the kernel"},
    {"wide addresses", "codegen/arithmetic/index_dtype", {Need::address_integers}, &addresses_in_64_bits, nullptr,
     "sums that are addresses are int64"},
    {"indices", "codegen/arithmetic/index_dtype", {}, &index_to_integers, nullptr,
     "no dtype index: int32 where bounds allow it, else int64"},
    {"narrow floats", "codegen/arithmetic/narrow_floats", {}, &wide_floats,
     [](const UOp& u, const LoweringContext& c) { return narrow_floats_to_wide(u, c.device); },
     "floats that the device does not compute with are bits in memory and float32 in registers"},
    {"transcendental", "codegen/arithmetic/transcendental", {}, &transcendental, without_missing_functions,
     "EXP2, LOG2, SIN, COS and POW of float32 are arithmetic; so are the first four of float64, with fused multiply-adds; "
     "EXP2 of vectors stays where the device has it"},
    {"decompose", "codegen/arithmetic/decompose", {}, &decompositions, nullptr,
     "no op that means something else, or nothing, in hardware"},
};
// clang-format on
const PassTable<LoweringContext> kProgram{"program", std::nullopt, kProgramPasses};

// A kernel as loops, and what the passes that follow may do with it.
struct Loop {
  UOp program;
  LoweringContext context;
};

// These questions are about the loops as they were scheduled. Near memory that passes of `opts` add
// later does not count: those passes keep it right.
Loop to_loops(const UOp& kernel, const DeviceSpec& device, OptChoice choice) {
  if (kernel.op() != Op::SINK)
    throw Error(fmt::format("code is generated from kernels, SINKs; given {}", name(kernel.op())));
  check_boundary(kernel, Level::kernel, "schedule");
  refuse_what_the_device_lacks(kernel, device);
  UOp program = run_passes(kAddresses, kernel, AddressContext{});
  const bool in_order = device.has_workgroups() && !must_be_in_order(program).empty();
  const std::string untouchable = not_optimisable(program);
  const Opts opts = given_opts(kernel, choice);
  if (!opts.empty() && !untouchable.empty())
    throw Error(fmt::format("{} does not apply: {}", opts[0].text(), untouchable));
  const bool optimised = choice != OptChoice::given && !env::NOOPT();
  LoweringContext context{.device = in_order ? device.one_thread() : device};
  context.met = needs_met(context.device);
  context.met.set(Need::splittable_loops, optimised && untouchable.empty());
  context.met.set(Need::free_loops, choice == OptChoice::searched || opts.empty());
  context.met.set(Need::free_choice, choice == OptChoice::best && opts.empty() && !in_order);
  context.met.set(Need::float_order, optimised);
  context.rounding = optimised && device.has_fma ? Rounding::fused : Rounding::each;
  return {with_opts(program, opts), context};
}

}  // namespace

UOp with_opts(const UOp& kernel, const Opts& opts) {
  KernelArg arg = kernel.arg().none() ? KernelArg() : kernel.arg().kernel();
  Texts texts;
  for (const Opt& opt : opts) texts.push_back(opt.text());
  if (!kernel.arg().none() && texts == arg.opts) return kernel;
  arg.opts = std::move(texts);
  return kernel.replace({.arg = arg});
}

std::vector<PassInfo> lowering_passes() {
  std::vector<PassInfo> all = passes_of(kAddresses);
  for (const PassTable<LoweringContext>& table : {kOpts, kProgram})
    for (const PassInfo& p : passes_of(table)) all.push_back(p);
  return all;
}

UOp lower_until(const UOp& kernel, const DeviceSpec& device, std::string_view last, OptChoice choice) {
  if (pass_named(kAddresses, last)) return run_passes(kAddresses, kernel, AddressContext{}, last);
  const auto [loops, context] = to_loops(kernel, device, choice);
  const UOp split = run_passes(kOpts, loops, context, last);
  return pass_named(kOpts, last) ? split : run_passes(kProgram, split, context, last);
}

UOp lower_by(std::string_view name, const UOp& graph, const DeviceSpec& device) {
  if (const auto* pass = pass_named(kAddresses, name))
    return run_pass(kAddresses, *pass, graph, AddressContext{});
  const LoweringContext context{.device = device,
                                .rounding = device.has_fma ? Rounding::fused : Rounding::each};
  for (const PassTable<LoweringContext>& table : {kOpts, kProgram})
    if (const auto* pass = pass_named(table, name)) return run_pass(table, *pass, graph, context);
  throw Error(fmt::format("there is no pass \"{}\"", name));
}

std::optional<Optimisable> before_opts(const UOp& kernel, const DeviceSpec& device) {
  const auto [loops, context] = to_loops(with_opts(kernel, {}), device, OptChoice::best);
  if (!context.met.contains_all({Need::splittable_loops, Need::free_choice})) return {};
  const UOp chosen = run_passes(kOpts, loops, context, "choose opts");
  return Optimisable{with_opts(chosen, {}), device, opts_of(split_loops(chosen, context))};
}

UOp lower_to_program(const UOp& kernel, const DeviceSpec& device, OptChoice choice) {
  const auto [loops, context] = to_loops(kernel, device, choice);
  const UOp program = run_passes(kProgram, run_passes(kOpts, loops, context), context);
  check_boundary(program, Level::program, "lower");
  return program;
}

void check_given(const UOp& kernel, const DeviceSpec& device) {
  const UOp program = run_passes(kAddresses, kernel, AddressContext{});
  const Opts opts = given_opts(kernel, OptChoice::given);
  if (opts.empty()) return;
  if (const std::string untouchable = not_optimisable(program); !untouchable.empty())
    throw Error(fmt::format("{} does not apply: {}", opts[0].text(), untouchable));
  const bool of_groups =
      std::ranges::any_of(opts, [](const Opt& o) { return need_of(o.kind) == Need::workgroups; });
  (void)apply_opts(program, opts, of_groups ? device : device.one_thread());
}

LinearProgram lower(const UOp& kernel, const DeviceSpec& spec, OptChoice choice) {
  const UOp graph = lower_to_program(kernel, spec, choice);
  if (env::DEBUG() >= 5)
    std::fputs(fmt::format("scheduled\n{}\noptimised\n{}\n", kernel.text(), graph.text()).c_str(), stderr);
  LinearProgram program = linearize(graph);
  if (spec.has_workgroups()) add_barriers_to_loops(program);
  if (env::SPEC() > 0) check(program);
  const bool has_groups = spec.has_workgroups() && !kernel.ops_below().contains(Op::SPECIAL);
  if (!program.opts.empty() || has_groups)
    program.in_order = [kernel, spec] { return lower(with_opts(kernel, {}), spec.one_thread()); };
  return program;
}

}  // namespace quern
