// Random programs: their gradients against central differences.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <unordered_map>

#include "quern/ir/shape/movement.h"
#include "quern/ir/spec/spec.h"
#include "quern/tensor/gradient/gradient.h"
#include "test/ir/rounds.h"
#include "test/tensor/reference.h"

namespace quern {
namespace {

using Memory = std::unordered_map<UOp, std::vector<Const>>;

const Ints kShape{2, 3};

UOp number(double value) { return full(sizes_of(kShape), UOp::constant(dtypes::float64, value)); }
UOp sine(const UOp& x) { return UOp::alu(Op::SIN, {x}); }

// Programs on values of one shape that stay small: what grows goes through a sine.
class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 3; i++) {
      const UOp buffer = new_buffer(dtypes::float64, 6, device_node("CPU"));
      auto& held = memory[buffer];
      for (int j = 0; j < 6; j++)
        held.push_back(Const::of_float(std::uniform_real_distribution(-1.5, 1.5)(random_)));
      leaves.push_back(reshape(buffer, sizes_of(kShape)));
      pool_.push_back(leaves.back());
    }
    for (int i = 0; i < 12; i++) pool_.push_back(next());
  }
  const UOp& result() const { return pool_.back(); }

  UOps leaves;
  Memory memory;

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  const UOp& any() { return pool_[below(2) == 0 ? pool_.size() - 1 : below(pool_.size())]; }
  Ints axes() { return below(3) == 0 ? Ints{0, 1} : Ints{static_cast<int64_t>(below(2))}; }

  UOp next() {
    const UOp &x = any(), &y = any();
    switch (below(14)) {
      case 0: return x + y;
      case 1: return UOp::alu(Op::SUB, {x, y});
      case 2: return sine(x * y);
      case 3: return UOp::alu(Op::EXP2, {sine(x)});
      case 4: return y / (number(2) + sine(x));
      case 5: return UOp::alu(Op::SQRT, {x * x + number(0.1)});
      case 6: return UOp::alu(Op::POW, {number(1.5) + sine(x), sine(y)});
      case 7: return below(2) == 0 ? max(x, y) : min(x, y);
      case 8: return where(x < y, sine(x), UOp::alu(Op::LOG2, {number(0.5) + y * y}));
      case 9: {
        constexpr Op by[] = {Op::ADD, Op::MAX, Op::MIN, Op::MUL};
        return sine(expand(reduce(x, by[below(4)], axes()), sizes_of(kShape)));
      }
      case 10: return flip(reshape(permute(x, {1, 0}), sizes_of(kShape)), axes());
      case 11: {  // a window of the padded value
        const Ints at{static_cast<int64_t>(below(3)), static_cast<int64_t>(below(3))};
        return shrink(pad(x, sizes_of({1, 1}), sizes_of({4, 5})), sizes_of(at), sizes_of(kShape));
      }
      case 12: return below(4) == 0 ? detach(x) : contiguous(x);
      default: {  // assigned to a part of new memory, and then to a part of that
        const UOp memory_of_x = new_buffer(dtypes::float64, 6, device_node("CPU"));
        memory[memory_of_x] = std::vector<Const>(6, Const::of_float(0.25));
        const UOp whole = after(memory_of_x, UOps{store(reshape(memory_of_x, sizes_of(kShape)), x)});
        const UOp column = shrink(reshape(whole, sizes_of(kShape)),
                                  sizes_of({0, static_cast<int64_t>(below(3))}), sizes_of({2, 1}));
        const UOp then = after(whole, UOps{store(column, shrink(y, sizes_of({0, 1}), sizes_of({2, 1})))});
        return reshape(then, sizes_of(kShape));
      }
    }
  }

  std::mt19937_64 random_;
  UOps pool_;
};

double value(const UOp& x, const Memory& memory) {
  return reference::evaluate(x, [&](const UOp& b) { return memory.at(b); })[0].as_float();
}

TEST(GradientFuzz, RandomPrograms) {
  int compared = 0;
  for (int round = 0; round < rounds(300); round++) {
    const uint64_t from = first_seed() + static_cast<uint64_t>(round);
    SCOPED_TRACE("QUERN_SEED=" + std::to_string(from));
    Program program(from);
    const UOp loss = reshape(reduce(program.result(), Op::ADD, {0, 1}), UOps{});
    if (loss.ops_below().contains(Op::DETACH)) {  // differences would see through it: only that it works
      (void)gradient(loss, program.leaves, gradient_seed(loss));
      continue;
    }
    const UOps found = gradient(loss, program.leaves, gradient_seed(loss));
    for (size_t i = 0; i < found.size(); i++) {
      if (found[i]) check(UOp::sink({&found[i], 1}), Level::tensor);
      const std::vector<Const> got =
          found[i] ? reference::evaluate(found[i], [&](const UOp& b) { return program.memory.at(b); })
                   : std::vector<Const>(6, Const::of_float(0));
      auto& held = program.memory[base_of(program.leaves[i])];
      for (size_t j = 0; j < held.size(); j++) {
        const Const before = held[j];
        auto slope = [&](double h) {
          held[j] = Const::of_float(before.as_float() + h);
          const double right = value(loss, program.memory);
          held[j] = Const::of_float(before.as_float() - h);
          const double left = value(loss, program.memory);
          held[j] = before;
          return (right - left) / (2 * h);
        };
        const double narrow = slope(1e-6), wide_slope = slope(1e-5), size = std::max(1.0, std::abs(narrow));
        if (std::abs(narrow - wide_slope) > 1e-4 * size) continue;  // a kink is near, or a cliff
        compared++;
        ASSERT_NEAR(got[j].as_float(), narrow, 1e-4 * size) << "leaf " << i << ", element " << j;
      }
    }
  }
  EXPECT_GT(compared, rounds(1000)) << "of 18 slopes a round";
}

}  // namespace
}  // namespace quern
