#include "test/codegen/op_cases.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "quern/ir/eval.h"
#include "test/fuzz.h"

namespace quern {
namespace {

constexpr OpSet kBitwise = {Op::AND, Op::OR, Op::XOR};
constexpr OpSet kOfIntegers = {Op::FLOORDIV, Op::FLOORMOD, Op::TRUNCDIV, Op::TRUNCMOD, Op::SHL, Op::SHR};
constexpr OpSet kOfFloats = {Op::RECIP, Op::SQRT, Op::EXP2, Op::LOG2, Op::SIN, Op::TRUNC, Op::FDIV};
constexpr OpSet kTranscendental = {Op::EXP2, Op::LOG2, Op::SIN};

bool is_defined(Op op, DType in) {
  if (op == Op::THREEFRY) return in == dtypes::uint64;
  if (kBitwise.contains(op)) return !in.is_float();
  if (kOfIntegers.contains(op)) return in.is_int();
  return !kOfFloats.contains(op) || in.is_float();
}

Const random_value(std::mt19937_64& random, DType dtype) {
  if (one_in(random, 10)) return one_in(random, 2) ? max_value(dtype) : min_value(dtype);
  if (one_in(random, 3)) return from_bits(random() % 5, dtype);
  if (one_in(random, 3) && dtype.is_int())  // small numbers of either sign
    return wrap(dtype, static_cast<wide>(pick(random, -9, 70)));
  if (one_in(random, 2) && dtype.is_float())
    return make_const(dtype, std::ldexp(static_cast<double>(pick(random, -4096, 4096)),
                                        static_cast<int>(pick(random, -12, 4))));
  return from_bits(random(), dtype);
}

// Steps between two floats, through all values of the type.
int64_t steps_between(Const a, Const b, DType dtype) {
  auto place = [&](Const c) {
    const uint64_t sign = uint64_t{1} << (dtype.bits() - 1), bits = to_bits(c, dtype);
    return (bits & sign) != 0 ? -static_cast<int64_t>(bits & ~sign) : static_cast<int64_t>(bits);
  };
  if (std::isnan(a.as_float()) || std::isnan(b.as_float())) return a == b ? 0 : INT64_MAX;
  return std::abs(place(a) - place(b));
}

}  // namespace

std::string OpCase::name() const {
  return fmt::format("{} of {} to {}", quern::name(op), in.name(), out.name());
}

std::vector<OpCase> all_op_cases() {
  std::vector<OpCase> cases;
  for (int i = static_cast<int>(Op::CAST); i < kOpCount; i++)
    for (const DType in : dtypes::all) {
      const Op op = static_cast<Op>(i);
      if (!is_defined(op, in)) continue;
      if (op == Op::CAST || op == Op::BITCAST) {
        for (const DType out : dtypes::all)
          if (out != in && (op == Op::CAST || (out.bits() == in.bits() && !in.is_bool())))
            cases.push_back({op, out, in});
      } else {
        cases.push_back({op, is_comparison(op) ? dtypes::bool_ : in, in});
      }
    }
  return cases;
}

std::string difference_from_eval(const OpCase& what, std::mt19937_64& random, size_t values,
                                 const RunKernel& run) {
  const auto count = static_cast<size_t>(info(what.op).least_sources);
  const auto n = static_cast<int64_t>(values);
  const UOp r = UOp::range(n, 0);
  std::vector<std::vector<Const>> operands(count);
  std::vector<std::vector<std::byte>> memory{
      std::vector<std::byte>(values * static_cast<size_t>(what.out.bytes()))};
  UOps sources;
  for (size_t i = 0; i < count; i++) {
    const DType dtype = what.op == Op::WHERE && i == 0 ? dtypes::bool_ : what.in;
    const auto width = static_cast<size_t>(dtype.bytes());
    auto& bytes = memory.emplace_back(values * width);
    for (size_t k = 0; k < values; k++) {
      operands[i].push_back(random_value(random, dtype));
      const uint64_t bits = to_bits(operands[i].back(), dtype);
      std::memcpy(bytes.data() + k * width, &bits, width);
    }
    const UOp p = UOp::make(Op::PARAM, dtype.ptr(n), {}, static_cast<int64_t>(i) + 1);
    sources.push_back(UOp::make(Op::INDEX, dtype, {p, r}));
  }
  const UOp at = UOp::make(Op::INDEX, what.out.ptr(n), {UOp::make(Op::PARAM, what.out.ptr(n), {}, 0), r});
  const UOp store = UOp::make(Op::STORE, dtypes::void_, {at, UOp::make(what.op, what.out, sources)});
  std::vector<Argument> arguments;
  for (auto& m : memory) arguments.push_back({m.data(), static_cast<int64_t>(m.size())});
  run(UOp::sink(UOps{UOp::make(Op::END, dtypes::void_, {store, r})}), arguments);

  const bool close = kTranscendental.contains(what.op) && what.in != dtypes::float64;
  for (size_t k = 0; k < values; k++) {
    std::vector<Const> args;
    std::string given;
    for (size_t i = 0; i < count; i++) {
      args.push_back(operands[i][k]);
      given += (given.empty() ? "" : ", ") + to_string(args.back(), sources[i].dtype());
    }
    uint64_t bits = 0;
    std::memcpy(&bits, memory[0].data() + k * static_cast<size_t>(what.out.bytes()),
                static_cast<size_t>(what.out.bytes()));
    const Const found = from_bits(bits, what.out), expected = eval(what.op, what.out, what.in, args);
    // A NaN that was made an integer again has any bits.
    if (what.op == Op::BITCAST && what.in.is_float() && std::isnan(args[0].as_float())) continue;
    if (found == expected || (close && steps_between(found, expected, what.out) <= 1)) continue;
    return fmt::format("{}({}) is {}, not {}", what.name(), given, to_string(found, what.out),
                       to_string(expected, what.out));
  }
  return "";
}

}  // namespace quern
