#include "test/codegen/kernels.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "quern/codegen/lower.h"
#include "quern/engine/realize/programs.h"
#include "quern/ir/node/node_map.h"
#include "quern/runtime/interp/program.h"

namespace quern {

const std::vector<KernelCase>& kernel_cases() {
  static const std::vector<KernelCase> cases = {
      {"elementwise", R"(
        %x = INDEX(PARAM(; 1):float32*[768], r0[16] * 48 + r1[48]):float32
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[768], r0 * 48 + r1), %x * 3.0 - INDEX(PARAM(; 2):float32*[48], r1):float32), r0, r1)))"},
      {"transpose", R"(
        SINK(END(STORE(INDEX(PARAM(; 0):int32*[512], r0[32] * 16 + r1[16]), INDEX(PARAM(; 1):int32*[512], r1 * 32 + r0):int32), r0, r1)))"},
      {"four_loops", R"(
        %x = INDEX(PARAM(; 1):float32*[360], r3[5] * 72 + r2[4] * 18 + r1[3] * 6 + r0[6]):float32
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[360], r0 * 60 + r1 * 20 + r2 * 5 + r3), %x + 1.0), r0, r1, r2, r3)))"},
      {"matmul", R"(
        %a = INDEX(PARAM(; 1):float32*[384], r0[16] * 24 + r2[24, REDUCE]):float32
        %b = INDEX(PARAM(; 2):float32*[768], r2 * 32 + r1[32]):float32
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[512], r0 * 32 + r1), REDUCE(%a * %b, r2; {op: ADD})), r0, r1)))"},
      {"softmax_like", R"(
        %p = PARAM(; 1):float32*[512]
        %m = REDUCE(INDEX(%p, r0[4] * 128 + r1[128, REDUCE]):float32, r1; {op: MAX})
        %s = REDUCE(INDEX(%p, r0 * 128 + r2[128, REDUCE]):float32 - %m, r2; {op: ADD})
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[512], r0 * 128 + r3[128]), INDEX(%p, r0 * 128 + r3):float32 - %m + %s), r0, r3)))"},
      {"sum_of_all", R"(
        SINK(STORE(INDEX(PARAM(; 0):float32*[1], 0), REDUCE(INDEX(PARAM(; 1):float32*[960], r0[960, REDUCE]):float32, r0; {op: ADD}) + 1.0)))"},
      {"columns", R"(
        %x = INDEX(PARAM(; 1):int32*[960], r1[30, REDUCE] * 32 + r0[32]):int32
        SINK(END(STORE(INDEX(PARAM(; 0):int32*[32], r0), REDUCE(%x, r1; {op: MAX}) + REDUCE(%x, r1; {op: ADD})), r0)))"},
      {"times_its_sum", R"(
        %p = PARAM(; 1):float32*[256]
        %s = REDUCE(INDEX(%p, r0[256, REDUCE]):float32, r0; {op: ADD})
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[256], r1[256]), INDEX(%p, r1):float32 * %s), r1)))"},
      {"two_outputs", R"(
        %x = INDEX(PARAM(; 2):float32*[384], r0[24] * 16 + r1[16, REDUCE]):float32
        %a = STORE(INDEX(PARAM(; 0):float32*[24], r0), REDUCE(%x, r1; {op: ADD}))
        %b = STORE(INDEX(PARAM(; 1):float32*[24], r0), REDUCE(%x * %x, r1; {op: MAX}))
        SINK(END(GROUP(%a, %b), r0)))"},
      {"outputs_in_other_loops", R"(
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[24], r0[24]), INDEX(PARAM(; 2):float32*[24], r0):float32 * 2.0), r0), END(STORE(INDEX(PARAM(; 1):float32*[48], r1[48]), 5.0:float32), r1)))"},
      {"padding", R"(
        %x = LOAD(INDEX(PARAM(; 1):float32*[420], where((0 < r0[16]) & (r0 < 15) & (0 < r1[32]) & (r1 < 31), r0 * 30 + r1 - 31, invalid:index)))
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[512], r0 * 32 + r1), %x + 1.0), r0, r1)))"},
      {"gated_store", R"(
        %x = INDEX(PARAM(; 1):float32*[512], r0[16] * 32 + r1[32]):float32
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[80], where((r0 < 8) & (r1 < 10), r0 * 10 + r1, invalid:index)), %x), r0, r1)))"},
      {"gather", R"(
        %at = CAST(INDEX(PARAM(; 1):int32*[96], r0[96]):int32 & 15):index
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[96], r0), INDEX(PARAM(; 2):float32*[16], %at):float32), r0)))"},
      {"scatter", R"(
        %at = CAST(INDEX(PARAM(; 1):int32*[96], r0[96]):int32 & 15):index
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[16], %at), INDEX(PARAM(; 2):float32*[96], r0):float32), r0)))"},
      {"in_place", R"(
        %p = INDEX(PARAM(; 0):float32*[96], r0[96])
        SINK(END(STORE(%p, LOAD(%p) * 2.0 + 1.0), r0)))"},
      {"a_sum_in_place", R"(
        %p = INDEX(PARAM(; 0):float32*[8], r0[8])
        %x = INDEX(PARAM(; 1):float32*[512], r0 * 64 + r1[64, REDUCE]):float32
        SINK(END(STORE(%p, LOAD(%p) * 2.0 + REDUCE(%x, r1; {op: ADD})), r0)))"},
      {"each_from_the_one_before", R"(
        %p = PARAM(; 0):float32*[96]
        SINK(END(STORE(INDEX(%p, r0[95] + 1), INDEX(%p, r0):float32 + 1.0), r0)))"},
      {"into_one_place", R"(
        %p = INDEX(PARAM(; 0):float32*[4], 0)
        SINK(END(STORE(%p, LOAD(%p) + INDEX(PARAM(; 1):float32*[64], r0[64]):float32), r0)))"},
      {"reduces_in_each_other", R"(
        %x = INDEX(PARAM(; 1):float32*[768], r0[2] * 384 + r1[24, REDUCE] * 16 + r2[16, REDUCE]):float32
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[2], r0), REDUCE(REDUCE(%x, r2; {op: MAX}), r1; {op: ADD})), r0)))"},
      {"half", R"(
        %x = INDEX(PARAM(; 1):bfloat16*[384], r0[8] * 48 + r1[48, REDUCE]):bfloat16
        SINK(END(STORE(INDEX(PARAM(; 0):bfloat16*[8], r0), CAST(REDUCE(CAST(%x):float32, r1; {op: MAX})):bfloat16), r0)))"},
      {"bools", R"(
        %x = INDEX(PARAM(; 1):int8*[256], r0[8] * 32 + r1[32, REDUCE]):int8
        SINK(END(STORE(INDEX(PARAM(; 0):bool*[8], r0), REDUCE(%x < 3:int8, r1; {op: AND})), r0)))"},
      {"staged", R"(
        %l = DEFINE_LOCAL(; 0):float32*[40]@LOCAL
        %p = PARAM(; 1):float32*[640]
        %f = BARRIER(END(STORE(INDEX(%l, r1[40]), INDEX(%p, r0[16] * 40 + r1):float32 * 2.0), r1))
        %s = REDUCE(INDEX(AFTER(%l, %f), (r2[40] + r3[3, REDUCE]) % 40):float32, r3; {op: ADD})
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[640], r0 * 40 + r2), %s), r0, r2)))"},
      {"staged_in_a_reduce", R"(
        %l = DEFINE_LOCAL(; 0):float32*[64]@LOCAL
        %p = PARAM(; 1):float32*[512]
        %f = BARRIER(END(STORE(INDEX(%l, r1[64]), INDEX(%p, r3[8, REDUCE] * 64 + r1):float32), r1))
        %s = REDUCE(INDEX(AFTER(%l, %f), 63 - r2[64]):float32 * CAST(CAST(r3):int32):float32, r3; {op: ADD})
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[256], r0[4] * 64 + r2), %s + CAST(CAST(r0):int32):float32), r0, r2)))"},
      {"staged_twice", R"(
        %l = DEFINE_LOCAL(; 0):int32*[24]@LOCAL
        %m = DEFINE_LOCAL(; 1):int32*[5]@LOCAL
        %p = PARAM(; 1):int32*[96]
        %f = BARRIER(END(STORE(INDEX(%l, r1[24]), INDEX(%p, r0[4] * 24 + r1):int32 + 1), r1))
        %g = BARRIER(END(STORE(INDEX(%m, r2[5]), REDUCE(INDEX(AFTER(%l, %f), (r3[7, REDUCE] * r2) % 24):int32, r3; {op: ADD})), r2))
        SINK(END(STORE(INDEX(PARAM(; 0):int32*[40], r0 * 10 + r4[10]), INDEX(AFTER(%m, %g), r4 % 5):int32), r0, r4)))"},
      {"threads_as_written", R"(
        %l = DEFINE_LOCAL(; 0):float32*[300]@LOCAL
        %f = BARRIER(END(STORE(INDEX(%l, r1[300, LOCAL]), LOAD(INDEX(PARAM(; 1):float32*[600], r0[2, GLOBAL] * 300 + r1))), r1))
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[600], r0 * 300 + r1), LOAD(INDEX(AFTER(%l, %f), 299 - r1))), r0, r1)))"},
      {"vectors_as_written", R"(
        %v = LOAD(CAST(INDEX(PARAM(; 1):float32*[96], r0[32] * 3)):float32x3*[96]):float32x3
        %w = GEP(%v; [2, 1, 0]):float32x3
        SINK(END(STORE(CAST(INDEX(PARAM(; 0):float32*[96], r0 * 3)):float32x3*[96], %v + %w * 10.0:float32x3), r0)))"},
      {"registers_as_written", R"(
        %a = DEFINE_REG(; 0):float32*[2]@REG
        %z = STORE(INDEX(AFTER(%a, r0[12]), 1), 2.0:float32)
        %i = INDEX(AFTER(%a, %z, r1[8, REDUCE]), 1)
        %e = END(STORE(%i, LOAD(%i) + LOAD(INDEX(PARAM(; 1):float32*[96], r0 * 8 + r1))), r1)
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[12], r0), LOAD(INDEX(AFTER(%a, %e), 1))), r0)))"},
  };
  return cases;
}

Memory memory_for(const UOp& kernel) {
  Memory memory(3, Bytes(4096));
  std::mt19937 random(7);
  walk(kernel, [&](const UOp& u) {
    if (u.op() != Op::PARAM) return;
    const DType d = u.dtype().base();
    Bytes& to = memory[static_cast<size_t>(u.arg().integer())];
    to.resize(std::max(to.size(), static_cast<size_t>(u.dtype().size() * d.bytes())));
    if (d.is_bool()) return;
    for (int64_t i = 0; i < u.dtype().size(); i++) {
      const int64_t value = static_cast<int64_t>(random() % 9) - 4;
      const uint64_t bits = to_bits(make_const(d, static_cast<double>(value)), d);
      std::memcpy(to.data() + i * d.bytes(), &bits, static_cast<size_t>(d.bytes()));
    }
  });
  return memory;
}

std::vector<Argument> arguments_of(Memory& memory) {
  std::vector<Argument> list;
  for (Bytes& b : memory) list.push_back({b.data(), static_cast<int64_t>(b.size())});
  return list;
}

Memory by_interp(const UOp& kernel) {
  Memory memory = memory_for(kernel);
  interp::InterpProgram(kernel).run(arguments_of(memory), {});
  return memory;
}

Memory in_line(const UOp& kernel, const LinearProgram& program) {
  Memory memory = memory_for(kernel);
  interp::InterpProgram(program).run(arguments_of(memory), {});
  return memory;
}

void run_on(Device& device, const UOp& kernel, std::span<const Argument> host,
            const VariableValues& variables) {
  std::vector<Argument> there;
  for (const Argument& a : host) {
    there.push_back({device.allocate(a.bytes), a.bytes});
    device.copy_in(there.back().memory, a.memory, a.bytes);
  }
  program_for(device, kernel)->run(there, variables);
  for (size_t i = 0; i < host.size(); i++) {
    device.copy_out(host[i].memory, there[i].memory, host[i].bytes);
    device.free(there[i].memory, there[i].bytes);
  }
}

Memory on_device(Device& device, const UOp& kernel) {
  Memory memory = memory_for(kernel);
  run_on(device, kernel, arguments_of(memory));
  return memory;
}

Opts random_opts_for(const UOp& kernel, std::span<const OptKind> kinds, const DeviceSpec& spec,
                     std::mt19937& random) {
  constexpr int64_t amounts[] = {0, 2, 3, 4, 8, 16, 2, 4};
  Opts opts;
  const size_t wanted = 1 + random() % 4;
  for (int i = 0; i < 30 && opts.size() < wanted; i++) {
    const OptKind kind = kinds[random() % kinds.size()];
    const auto axis = static_cast<int64_t>(random() % 4);
    if (kind == OptKind::SWAP)
      opts.push_back({kind, axis % 2, static_cast<int64_t>(random() % 2)});
    else
      opts.push_back({kind, axis, amounts[random() % std::size(amounts)]});
    try {
      (void)lower_to_program(with_opts(kernel, opts), spec);
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      opts.pop_back();
    }
  }
  return opts;
}

int count(const LinearProgram& program, Op op) {
  return static_cast<int>(std::ranges::count_if(program.list, [&](const UOp& u) { return u.op() == op; }));
}

std::vector<float> counting(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

}  // namespace quern
