// Random graphs of every op with arguments, dtypes and tags of every kind: well formed or not, as long as the
// node can be made and has as many sources as its op allows.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "quern/ir/node/uop.h"
#include "quern/ir/text/notation.h"

namespace quern {

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed) {}

  UOp graph(int nodes) {
    UOps pool = {constant(dtype()), variable(), range(UOp::index(16))};
    for (int i = 0; i < nodes; i++) pool.push_back(node(pool));
    return pool.back();
  }

  Arg arg(ArgKind kind) {
    switch (kind) {
      case ArgKind::None: return {};
      case ArgKind::Const: return any_const();
      case ArgKind::Int: return integer();
      case ArgKind::Ints: return ints();
      case ArgKind::Text: return text();
      case ArgKind::Texts: return texts();
      case ArgKind::Variable: return VariableArg{text(), integer(), integer()};
      case ArgKind::Range: return RangeArg{integer(), axis_kind()};
      case ArgKind::Reduce: return ReduceArg{op(), ints(), one_in(2) ? 1 : integer()};
      case ArgKind::Stage: return StageArg{space(), texts(), one_in(2), text()};
      case ArgKind::Kernel: return KernelArg{text(), texts()};
      case ArgKind::Function: return FunctionArg{text(), one_in(2)};
      case ArgKind::Hints:
        return Hints{.stream = one_in(2), .prefetch = integer(), .reason = text(), .put = ints()};
    }
    return {};
  }
  Arg any_arg() { return arg(static_cast<ArgKind>(below(13))); }

  DType dtype() {
    const DType scalar(static_cast<Scalar>(below(17)));
    if (scalar.is_void()) return scalar;
    const DType base = one_in(4) ? scalar.vec(static_cast<int>(1 + below(16))) : scalar;
    if (!one_in(6)) return base;
    return base.ptr(one_in(3) ? DType::kUnsized : static_cast<int64_t>(below(5000)), space());
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  Op op() { return static_cast<Op>(below(kOpCount)); }
  AddrSpace space() { return static_cast<AddrSpace>(below(3)); }
  AxisKind axis_kind() { return static_cast<AxisKind>(below(kAxisKinds)); }
  const UOp& any(const UOps& pool) {
    return pool[one_in(3) ? below(pool.size()) : pool.size() - 1 - below(3)];
  }

  int64_t integer() {
    switch (below(6)) {
      case 0: return static_cast<int64_t>(random_());
      case 1: return one_in(2) ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
      case 2: return -static_cast<int64_t>(below(100));
      default: return static_cast<int64_t>(below(5));
    }
  }

  Const any_const() {
    static constexpr double kNumbers[] = {0.0,  -0.0,   0.5,   1.0,   -1.0, 1e-7,
                                          3e38, 5e-324, 1e300, 65504, 448,  1.0 / 3};
    switch (below(6)) {
      case 0: return Const::of_bool(one_in(2));
      case 1: return Const::invalid();
      case 2: return Const::of_float(kNumbers[below(std::size(kNumbers))]);
      case 3: return Const::of_float(std::bit_cast<double>(random_()));
      default: return Const::of_int(integer());
    }
  }

  Const const_of(DType dtype) { return from_bits(random_(), dtype); }

  std::string text() {
    static const std::string kTexts[] = {"",    "n",    "x_1",  "odd name", "LOCAL", "reduce",
                                         "int", "\"\\", "a\nb", "\x01\xff", "true",  "r0",
                                         "%0",  "# no", "1",    "a;b"};
    if (!one_in(8)) return kTexts[below(std::size(kTexts))];
    std::string random;
    for (uint64_t i = below(20); i > 0; i--) random += static_cast<char>(below(256));
    return random;
  }
  Texts texts() {
    Texts list;
    for (uint64_t i = below(4); i > 0; i--) list.push_back(text());
    return list;
  }
  Ints ints() {
    Ints list;
    for (uint64_t i = below(5); i > 0; i--) list.push_back(integer());
    return list;
  }
  Arg tag() { return one_in(8) ? any_arg() : Arg(); }

  UOp constant(DType dtype) {
    if (dtype.is_void() || dtype.is_ptr()) dtype = dtypes::index;
    return UOp::make(Op::CONST, dtype, {}, const_of(dtype), tag());
  }
  UOp variable() {
    static constexpr DType kDTypes[] = {dtypes::index, dtypes::index, dtypes::uint8, dtypes::int64};
    const auto least = static_cast<int64_t>(below(2));
    return UOp::make(Op::DEFINE_VAR, kDTypes[below(4)], {},
                     VariableArg{text(), least, least + static_cast<int64_t>(below(2))}, tag());
  }
  UOp range(const UOp& end) {
    return UOp::make(Op::RANGE, end.dtype(), {end}, RangeArg{static_cast<int64_t>(below(12)), axis_kind()},
                     tag());
  }

  // Arithmetic as it should be, on operands of one dtype.
  UOp arithmetic(const UOps& pool) {
    const UOp& a = any(pool);
    UOp b = any(pool);
    if (a.dtype() != b.dtype() || one_in(3)) b = one_in(10) ? a : constant(a.dtype());
    if (a.dtype().is_bool() && one_in(3)) b = a.const_like(1);
    const UOp operands[] = {one_in(4) ? b : a, b};
    const auto op = static_cast<Op>(static_cast<int>(Op::ADD) +
                                    below(static_cast<int>(Op::SHR) - static_cast<int>(Op::ADD) + 1));
    return UOp::make(op, notation::default_dtype(op, operands, {}), operands, {}, tag());
  }

  UOp node(const UOps& pool) {
    switch (below(8)) {
      case 0: return constant(dtype());
      case 1: return one_in(2) ? variable() : range(any(pool));
      case 2:
      case 3:
      case 4: return arithmetic(pool);
      default: break;
    }
    const Op made = op();
    const OpInfo& rules = info(made);
    const int most = rules.most_sources < 0 ? rules.least_sources + 4 : rules.most_sources;
    UOps sources;
    for (uint64_t n = rules.least_sources + below(most - rules.least_sources + 1); n > 0; n--)
      sources.push_back(any(pool));
    Arg argument = one_in(5) ? any_arg() : one_in(8) ? Arg() : arg(rules.arg);
    const DType type = one_in(2) ? dtype() : notation::default_dtype(made, sources, argument);
    return UOp::make(made, type, sources, std::move(argument), tag());
  }

  std::mt19937_64 random_;
};

}  // namespace quern
