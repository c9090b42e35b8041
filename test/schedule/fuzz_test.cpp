// Random programs of tensors: what the schedule computes is what the graph means, to the bit.
#include <gmock/gmock.h>

#include <algorithm>

#include "quern/base/env.h"
#include "quern/ir/node/saturate.h"
#include "quern/ir/shape/movement.h"
#include "quern/runtime/device.h"
#include "test/fuzz.h"
#include "test/schedule/run.h"

namespace quern {
namespace {

// Values are small integers, in int32 or float32, so that sums and products of a few are exact.
class Program {
 public:
  Program(std::mt19937_64& random, int ops) : random_(random) {
    for (int i = 0; i < 3; i++) add_input();
    for (int i = 0; i < ops; i++) step();
    const size_t outputs = 1 + static_cast<size_t>(pick(random_, 0, 3));
    for (size_t i = 0; i < outputs; i++)
      output(values_[values_.size() - 1 - static_cast<size_t>(pick(random_, 0, 3)) % values_.size()]);
    for (auto& [buffer, state] : states_)
      if (state.op() == Op::AFTER) effects.push_back(state);
  }

  UOps effects;   // AFTERs: the outputs, and memory that was assigned
  Memory memory;  // what the inputs hold

 private:
  int64_t small() { return pick(random_, -2, 2); }
  const UOp& any() { return values_[static_cast<size_t>(pick(random_, 0, std::ssize(values_) - 1))]; }
  UOp number(DType dtype, Sources shape, int64_t v) { return full(shape, UOp::constant(dtype, wide{v})); }

  void add_input() {
    Ints shape;
    for (int64_t n = pick(random_, 0, 3); n > 0; n--) shape.push_back(pick(random_, 1, 4));
    const DType dtype = one_in(random_, 2) ? dtypes::int32 : dtypes::float32;
    const UOp b = new_buffer(dtype, elements(shape), device_);
    auto& values = memory[b];
    for (int64_t i = 0; i < elements(shape); i++) values.push_back(make_const(dtype, wide{small()}));
    states_.emplace_back(b, b);
    values_.push_back(reshape(b, sizes_of(shape)));
  }
  static int64_t elements(const Ints& shape) {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }

  // Values stay small: what grows is cut off.
  UOp tame(const UOp& x) {
    const UOp least = number(x.dtype(), x.shape(), -3), most = number(x.dtype(), x.shape(), 3);
    return UOp::alu(Op::MAX, {UOp::alu(Op::MIN, {x, most}), least});
  }

  void step() {
    UOp x = any();
    if (elements(x.int_shape()) > 300) x = shrunk(x);
    UOp made;
    switch (pick(random_, 0, 13)) {
      case 0:
      case 1:
      case 2: made = binary(x); break;
      case 3: made = reduced(x); break;
      case 4: made = permuted(x); break;
      case 5: made = reshaped(x); break;
      case 6: made = expanded(x); break;
      case 7: made = padded(x); break;
      case 8: made = shrunk(x); break;
      case 9: made = flipped(x); break;
      case 10: made = x.cast(x.dtype() == dtypes::int32 ? dtypes::float32 : dtypes::int32); break;
      case 11:
        made = where(UOp::alu(Op::CMPLT, {x, number(x.dtype(), x.shape(), small())}), x, like(x));
        break;
      case 12: made = one_in(random_, 3) ? contiguous(x) : x * number(x.dtype(), x.shape(), small()); break;
      default: return assign();
    }
    values_.push_back(made);
  }

  // Another value of the same dtype and shape, if there is one.
  UOp like(const UOp& x) {
    UOps found;
    for (const UOp& v : values_)
      if (v.dtype() == x.dtype() && same_sizes(v.shape(), x.shape())) found.push_back(v);
    if (!found.empty() && !one_in(random_, 4))
      return found[static_cast<size_t>(pick(random_, 0, std::ssize(found) - 1))];
    for (int i = 0; i < 8; i++) {  // broadcast something
      UOp v = any();
      if (v.shape().size() != x.shape().size()) continue;
      bool fits = true;
      for (size_t k = 0; k < v.shape().size(); k++)
        fits &= v.shape()[k].equals(1) || same(v.shape()[k], x.shape()[k]);
      if (fits) return expand(v.cast(x.dtype()), x.shape());
    }
    return number(x.dtype(), x.shape(), small());
  }
  UOp binary(const UOp& x) {
    const UOp y = like(x);
    switch (pick(random_, 0, 4)) {
      case 0: return tame(UOp::alu(Op::ADD, {x, y}));
      case 1: return tame(UOp::alu(Op::MUL, {x, y}));
      case 2: return UOp::alu(Op::MAX, {x, y});
      case 3: return tame(UOp::alu(Op::SUB, {x, y}));
      default: return where(UOp::alu(Op::CMPNE, {x, y}), x, number(x.dtype(), x.shape(), small()));
    }
  }
  UOp reduced(const UOp& x) {
    Ints axes;
    for (int64_t i = 0; i < std::ssize(x.shape()); i++)
      if (one_in(random_, 2)) axes.push_back(i);
    const Op op = one_in(random_, 3) ? Op::MAX : Op::ADD;
    UOp r = tame(reduce(x, op, axes));
    return one_in(random_, 2) ? expand(r, x.shape()) : r;
  }
  UOp permuted(const UOp& x) {
    Ints order(x.shape().size());
    for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int64_t>(i);
    std::shuffle(order.begin(), order.end(), random_);
    return permute(x, order);
  }
  UOp reshaped(const UOp& x) {
    int64_t left = elements(x.int_shape());
    Ints shape;
    while (left > 1 && shape.size() < 3) {
      Ints divisors;
      for (int64_t d = 1; d <= left; d++)
        if (left % d == 0) divisors.push_back(d);
      shape.push_back(divisors[static_cast<size_t>(pick(random_, 0, std::ssize(divisors) - 1))]);
      left /= shape.back();
    }
    if (left > 1 || one_in(random_, 3)) shape.push_back(left);
    return reshape(x, sizes_of(shape));
  }
  UOp expanded(const UOp& x) {
    Ints shape = x.int_shape();
    if (shape.size() < 3 && one_in(random_, 2))
      shape.insert(shape.begin() + pick(random_, 0, std::ssize(shape)), 1);
    const UOp y = reshape(x, sizes_of(shape));
    for (int64_t& s : shape)
      if (s == 1) s = pick(random_, 1, 4);
    return expand(y, sizes_of(shape));
  }
  UOp padded(const UOp& x) {
    Ints offsets, shape = x.int_shape();
    for (int64_t& s : shape) {
      offsets.push_back(pick(random_, 0, 2));
      s += offsets.back() + pick(random_, 0, 2);
    }
    return pad(x, sizes_of(offsets), sizes_of(shape));
  }
  UOp shrunk(const UOp& x) {
    Ints offsets, shape = x.int_shape();
    for (int64_t& s : shape) {
      offsets.push_back(pick(random_, 0, s - 1));
      s = pick(random_, 1, s - offsets.back());
    }
    return shrink(x, sizes_of(offsets), sizes_of(shape));
  }
  UOp flipped(const UOp& x) {
    Ints axes;
    for (int64_t i = 0; i < std::ssize(x.shape()); i++)
      if (one_in(random_, 2)) axes.push_back(i);
    return flip(x, axes);
  }

  // A value is stored into a view of memory; what was computed before keeps the old contents.
  void assign() {
    auto& [buffer, state] = states_[static_cast<size_t>(pick(random_, 0, std::ssize(states_) - 1))];
    UOp view = state;
    if (one_in(random_, 2)) view = shrunk(view);
    if (one_in(random_, 3)) view = flipped(view);
    const UOp value = like(view);
    state = after(state, UOps{store(view, value)});
    values_.push_back(state);
  }

  void output(const UOp& x) {
    const UOp b = new_buffer(x.dtype(), std::max<int64_t>(1, elements(x.int_shape())), device_);
    memory[b] = std::vector<Const>(static_cast<size_t>(b.arg().integer()), make_const(x.dtype(), wide{99}));
    effects.push_back(after(b, UOps{store(reshape(b, x.shape()), x)}));
  }

  std::mt19937_64& random_;
  const UOp device_ = device_node("INTERP");
  UOps values_;
  std::vector<std::pair<UOp, UOp>> states_;  // a BUFFER, and what it holds now
};

void compare(const FuzzPlan& plan, uint64_t number, const DeviceSpec& spec, int ops,
             const std::string& device = "INTERP") {
  auto random = plan.generator(number);
  Program program(random, ops);
  Memory memory = program.memory;
  const auto expected = reference::evaluate_tensors(program.effects, program.memory.contents());
  const UOp sink = UOp::sink(program.effects);
  Schedule schedule;
  ASSERT_NO_THROW(schedule =
                      make_schedule(sink, [&](const std::string&) -> const DeviceSpec& { return spec; }))
      << plan.rerun(number) << "\n"
      << sink.text();
  std::string kernels;
  for (const Step& step : schedule.steps) {
    kernels += step.program.text() + "\n\n";
    EXPECT_LE(local_bytes(step.program), spec.memory.group_bytes) << plan.rerun(number) << "\n"
                                                                  << step.program.text();
  }
  ASSERT_NO_THROW(run(schedule, memory, {}, device)) << plan.rerun(number) << "\n" << kernels;
  for (size_t i = 0; i < program.effects.size(); i++) {
    const UOp* buffer = &program.effects[i];
    while (buffer->op() == Op::AFTER) buffer = &buffer->src(0);
    ASSERT_EQ(memory[*buffer], expected[i].elements) << plan.rerun(number) << "\noutput " << i << "\n"
                                                     << sink.text() << "\n\n"
                                                     << kernels;
  }
}

TEST(ScheduleFuzz, ComputesWhatTheGraphMeans) {
  const FuzzPlan plan = fuzz_plan(1000, 40'000);
  for (uint64_t i = plan.first; i < plan.first + plan.cases && !HasFatalFailure(); i++)
    compare(plan, i, i % 2 == 0 ? gpu_like() : cpu_like(), static_cast<int>(3 + i % 40));
}

TEST(ScheduleFuzz, WithLocalMemoryWhereverItFits) {
  const env::Override local("PCONTIG", 2);
  const FuzzPlan plan = fuzz_plan(500, 20'000);
  DeviceSpec small = gpu_like();
  for (uint64_t i = plan.first; i < plan.first + plan.cases && !HasFatalFailure(); i++) {
    small.memory.group_bytes = 16 << i % 6;
    small.parallel.cores = 1;
    compare(plan, i, small, static_cast<int>(3 + i % 40));
  }
}

// Kernels made for a GPU, too: LOCAL memory is scratch memory there, and threads are loops.
TEST(ScheduleFuzz, OnTheCpu) {
  const env::Override local("PCONTIG", 2);
  const FuzzPlan plan = fuzz_plan(200, 10'000);
  for (uint64_t i = plan.first; i < plan.first + plan.cases && !HasFatalFailure(); i++)
    compare(plan, i, i % 2 == 0 ? gpu_like() : cpu_like(), static_cast<int>(3 + i % 40), "CPU");
}

TEST(ScheduleFuzz, InWorkgroups) {
  const FuzzPlan plan = fuzz_plan(500, 20'000);
  for (uint64_t i = plan.first; i < plan.first + plan.cases && !HasFatalFailure(); i++) {
    const env::Override local("PCONTIG", i % 2 == 0 ? 2 : 1);
    compare(plan, i, gpu_like(), static_cast<int>(3 + i % 40), "WORKGROUPS");
  }
}

TEST(ScheduleFuzz, OnCl) {
  try {
    (void)Device::get("CL");
  } catch (const DeviceError& e) {
    GTEST_SKIP() << e.what();
  }
  const env::Override local("PCONTIG", 2);
  const FuzzPlan plan = fuzz_plan(3, 200);  // its compiler takes 0.3 s for a kernel
  for (uint64_t i = plan.first; i < plan.first + plan.cases && !HasFatalFailure(); i++)
    compare(plan, i, gpu_like(), static_cast<int>(3 + i % 20), "CL");
}

}  // namespace
}  // namespace quern
