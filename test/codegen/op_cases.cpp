#include "test/codegen/op_cases.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "quern/ir/node/eval.h"
#include "test/fuzz.h"

namespace quern {
namespace {

constexpr OpSet kBitwise = {Op::AND, Op::OR, Op::XOR};
constexpr OpSet kOfIntegers = {Op::FLOORDIV, Op::FLOORMOD, Op::TRUNCDIV, Op::TRUNCMOD, Op::SHL, Op::SHR};
constexpr OpSet kOfFloats = {Op::RECIP, Op::SQRT, Op::EXP2, Op::LOG2, Op::SIN, Op::COS, Op::TRUNC, Op::FDIV};
constexpr OpSet kTranscendental = {Op::EXP2, Op::LOG2, Op::SIN, Op::COS};

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
  return differences_from_eval({&what, 1}, random, values, 0, run);
}

std::string differences_from_eval(std::span<const OpCase> cases, std::mt19937_64& random, size_t values,
                                  int64_t steps, const RunKernel& run) {
  // One PARAM for the results of each dtype, and one for the operands; each column of values has a number in
  // it.
  struct Column {
    size_t param, number;
  };
  struct Param {
    DType dtype;
    bool is_result;
    size_t columns = 0;
    std::vector<std::byte> memory = {};
  };
  std::vector<Param> params;
  const auto column = [&](DType dtype, bool is_result) -> Column {
    size_t i = 0;
    while (i < params.size() && (params[i].dtype != dtype || params[i].is_result != is_result)) i++;
    if (i == params.size()) params.push_back({dtype, is_result});
    return {i, params[i].columns++};
  };
  struct Columns {
    Column result;
    std::vector<Column> operands;
    std::vector<std::vector<Const>> given;
  };
  const auto dtype_of = [](const OpCase& what, size_t operand) {
    return what.op == Op::WHERE && operand == 0 ? dtypes::bool_ : what.in;
  };
  std::vector<Columns> all;
  for (const OpCase& what : cases) {
    Columns now{column(what.out, true), {}, {}};
    for (size_t i = 0; i < static_cast<size_t>(info(what.op).least_sources); i++) {
      now.operands.push_back(column(dtype_of(what, i), false));
      std::vector<Const>& given = now.given.emplace_back();
      for (size_t k = 0; k < values; k++) given.push_back(random_value(random, dtype_of(what, i)));
    }
    all.push_back(std::move(now));
  }
  for (Param& p : params) p.memory.resize(p.columns * values * static_cast<size_t>(p.dtype.bytes()));
  const auto place = [&](const Column& c, size_t k) {
    Param& p = params[c.param];
    return p.memory.data() + (c.number * values + k) * static_cast<size_t>(p.dtype.bytes());
  };

  const UOp r = UOp::range(static_cast<int64_t>(values), 0);
  const auto address = [&](const Column& c, DType result) {
    const Param& p = params[c.param];
    const UOp memory = UOp::make(Op::PARAM, p.dtype.ptr(static_cast<int64_t>(p.columns * values)), {},
                                 static_cast<int64_t>(c.param));
    return UOp::make(Op::INDEX, result.is_void() ? memory.dtype() : result,
                     {memory, r + static_cast<int64_t>(c.number * values)});
  };
  UOps stores;
  for (size_t i = 0; i < cases.size(); i++) {
    UOps sources;
    for (size_t o = 0; o < all[i].operands.size(); o++) {
      const DType dtype = dtype_of(cases[i], o);
      sources.push_back(address(all[i].operands[o], dtype));
      for (size_t k = 0; k < values; k++) {
        const uint64_t bits = to_bits(all[i].given[o][k], dtype);
        std::memcpy(place(all[i].operands[o], k), &bits, static_cast<size_t>(dtype.bytes()));
      }
    }
    stores.push_back(
        UOp::make(Op::STORE, dtypes::void_,
                  {address(all[i].result, dtypes::void_), UOp::make(cases[i].op, cases[i].out, sources)}));
  }
  const UOp effect = stores.size() == 1 ? stores[0] : UOp::make(Op::GROUP, dtypes::void_, stores);
  std::vector<Argument> arguments;
  for (Param& p : params) arguments.push_back({p.memory.data(), static_cast<int64_t>(p.memory.size())});
  run(UOp::sink(UOps{UOp::make(Op::END, dtypes::void_, {effect, r})}), arguments);

  std::string differences;
  for (size_t i = 0; i < cases.size(); i++) {
    const OpCase& what = cases[i];
    const bool is_wide = what.in == dtypes::float64;
    int64_t allowed = 0;
    if (kTranscendental.contains(what.op)) allowed = is_wide ? steps : 1;
    if (what.op == Op::POW) allowed = is_wide ? steps : what.in == dtypes::float32 ? 1 : 0;
    for (size_t k = 0; k < values; k++) {
      std::vector<Const> args;
      std::string given;
      for (size_t o = 0; o < all[i].operands.size(); o++) {
        args.push_back(all[i].given[o][k]);
        given += (given.empty() ? "" : ", ") + to_string(args.back(), dtype_of(what, o));
      }
      uint64_t bits = 0;
      std::memcpy(&bits, place(all[i].result, k), static_cast<size_t>(what.out.bytes()));
      const Const found = from_bits(bits, what.out), expected = eval(what.op, what.out, what.in, args);
      // A NaN that was made an integer again has any bits.
      if (what.op == Op::BITCAST && what.in.is_float() && std::isnan(args[0].as_float())) continue;
      if (found == expected || (allowed > 0 && steps_between(found, expected, what.out) <= allowed)) continue;
      differences += fmt::format("{}{}({}) is {}, not {}", differences.empty() ? "" : "\n", what.name(),
                                 given, to_string(found, what.out), to_string(expected, what.out));
      break;
    }
  }
  return differences;
}

}  // namespace quern
