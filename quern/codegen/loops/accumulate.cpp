#include "quern/codegen/loops/accumulate.h"

#include <algorithm>
#include <unordered_map>

#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

// Slots that no register of the kernel's own has.
class Registers {
 public:
  explicit Registers(const UOp& program) {
    walk(program, [&](const UOp& u) {
      if (u.op() == Op::DEFINE_REG) next_ = std::max(next_, u.arg().integer() + 1);
    });
  }
  UOp make(DType dtype) { return UOp::make(Op::DEFINE_REG, dtype.ptr(1, AddrSpace::REG), {}, next_++); }

 private:
  int64_t next_ = 0;
};

UOp at_start(const UOp& pointer) { return UOp::make(Op::INDEX, pointer.dtype(), {pointer, UOp::index(0)}); }
UOp after(const UOp& pointer, Sources what) {
  if (what.empty()) return pointer;
  UOps sources{pointer};
  sources.insert(sources.end(), what.begin(), what.end());
  return UOp::make(Op::AFTER, pointer.dtype(), sources);
}
UOp load(const UOp& address) { return UOp::make(Op::LOAD, address.dtype().base(), {address}); }
UOp store(const UOp& address, const UOp& value) {
  return UOp::make(Op::STORE, dtypes::void_, {address, value});
}
UOp together(const UOps& effects) {
  return effects.size() == 1 ? effects[0] : UOp::make(Op::GROUP, dtypes::void_, effects);
}

// The ranges among what a REDUCE goes over, outermost first; constants are ranges of one step.
UOps ranges_in(Sources over) {
  UOps ranges;
  for (const UOp& s : over)
    for (const UOp& r : s.op() == Op::RANGE ? UOps{s} : s.ranges())
      if (std::ranges::find(ranges, r) == ranges.end()) ranges.push_back(r);
  std::ranges::sort(ranges, before);
  return ranges;
}

// The value, or its parts if it has more lanes than the result: as many values, one after the other.
UOps parts_of(const UOp& value, DType dtype) {
  const int lanes = dtype.lanes(), count = value.dtype().lanes() / lanes;
  if (count == 1) return {value};
  if (value.op() == Op::VECTORIZE &&
      std::ranges::all_of(value.src(), [&](const UOp& s) { return s.dtype() == dtype; }))
    return {value.src().begin(), value.src().end()};
  UOps parts;
  for (int k = 0; k < count; k++) {
    Ints picked;
    for (int lane = 0; lane < lanes; lane++) picked.push_back(k * lanes + lane);
    parts.push_back(UOp::make(Op::GEP, dtype, {value}, picked));
  }
  return parts;
}

// The neutral element and another one are the other one; but 0.0 + -0.0 is 0.0.
bool is_neutral(Op op, const UOp& start) {
  return start.is_const() && !(op == Op::ADD && start.dtype().is_float()) &&
         start.value() == identity_element(op, start.dtype().scalar());
}

UOp combined(Op op, UOp so_far, const UOp& value, Rounding rounding) {
  const Scalar kind = so_far.dtype().kind();
  const bool fuses =
      rounding == Rounding::fused && op == Op::ADD && (kind == Scalar::Float32 || kind == Scalar::Float64);
  for (const UOp& part : parts_of(value, so_far.dtype())) {
    if (is_neutral(op, so_far))
      so_far = part;
    else if (fuses && part.op() == Op::MUL)
      so_far = UOp::alu(Op::MULACC, {part.src(0), part.src(1), so_far});
    else
      so_far = UOp::alu(op, {so_far, part});
  }
  return so_far;
}

// What is reduced: values with what they start from, and how what comes in is combined with what was before.
struct Accumulation {
  UOps values, initial;
  std::function<UOps(const UOps& before)> combine;
};

Accumulation accumulation_of(const Reduction& reduction, Rounding rounding) {
  const UOps values(reduction.values.begin(), reduction.values.end());
  if (!reduction.has_several_values())
    return {values, reduction.identity(),
            [op = reduction.op, value = values[0], rounding](const UOps& before) {
              return UOps{combined(op, before[0], value, rounding)};
            }};
  return {values, reduction.identity(), [body = *reduction.combine, values](const UOps& before) {
            std::unordered_map<UOp, UOp> states;
            const size_t k = values.size();
            for (size_t i = 0; i < k; i++) {
              states.emplace(UOp::make(Op::STATE, before[i].dtype(), {}, static_cast<int64_t>(i)), before[i]);
              states.emplace(UOp::make(Op::STATE, values[i].dtype(), {}, static_cast<int64_t>(k + i)),
                             values[i]);
            }
            const UOp tuple = body.substitute(states);
            return UOps(tuple.src().begin(), tuple.src().end());
          }};
}

UOps accumulated(const UOp& reduce, Registers& registers, Rounding rounding) {
  const Reduction reduction(reduce);
  const Accumulation what = accumulation_of(reduction, rounding);
  const UOps ranges = ranges_in(reduction.ranges);
  if (ranges.empty()) return what.combine(what.initial);
  UOps memory, inside, before;
  for (const UOp& initial : what.initial) {
    const UOp acc = registers.make(initial.dtype());
    UOps waits{store(at_start(after(acc, reduce.ranges())), initial)};
    waits.insert(waits.end(), ranges.begin(), ranges.end());
    memory.push_back(acc);
    inside.push_back(at_start(after(acc, waits)));
    before.push_back(load(inside.back()));
  }
  const UOps next = what.combine(before);
  UOps stores;
  for (size_t i = 0; i < next.size(); i++) stores.push_back(store(inside[i], next[i]));
  UOps closed{together(stores)};
  closed.insert(closed.end(), ranges.begin(), ranges.end());
  const UOp end = UOp::make(Op::END, dtypes::void_, closed);
  UOps results;
  for (const UOp& acc : memory) results.push_back(load(at_start(after(acc, UOps{end}))));
  return results;
}

struct Accumulating {
  Registers registers;
  Rounding rounding;
};

UOp accumulator(Accumulating& c, const UOp& u, Sources now) {
  const UOps results = accumulated(u.with_src(now), c.registers, c.rounding);
  return u.dtype().is_void() ? UOp::make(Op::TUPLE, dtypes::void_, results) : results[0];
}

UOp one_of_tuple(Accumulating&, const UOp& u, Sources now) {
  return now[0].op() == Op::TUPLE ? now[0].src(static_cast<size_t>(u.arg().integer())) : UOp();
}

}  // namespace

const Rules accumulators = [] {
  return RuleList{
      {op(Op::REDUCE), accumulator, "a REDUCE -> a register that a loop accumulates into"},
      {op(Op::GETTUPLE), one_of_tuple, "one of several values of a REDUCE -> its register"},
  };
};

UOp reduces_to_accumulators(const UOp& program, Rounding rounding) {
  if (!program.ops_below().contains(Op::REDUCE)) return program;
  Accumulating accumulating{Registers(program), rounding};
  return graph_rewrite(program, accumulators, accumulating, {.order = Order::once, .name = "accumulators"});
}

}  // namespace quern
