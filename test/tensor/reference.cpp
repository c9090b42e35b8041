#include "test/tensor/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <unordered_map>

#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/runtime/device.h"

namespace quern::reference {
namespace {

[[noreturn]] void refuse(const UOp& u, const std::string& why) {
  throw Error(fmt::format("reference: {}: {}", name(u.op()), why));
}

int64_t count(const Ints& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Goes over the positions of a tensor in row-major order.
class Odometer {
 public:
  explicit Odometer(const Ints& shape) : shape_(shape), at_(shape.size(), 0) {}
  const Ints& at() const { return at_; }
  void next() {
    for (size_t i = at_.size(); i-- > 0;) {
      if (++at_[i] < shape_[i]) return;
      at_[i] = 0;
    }
  }

 private:
  const Ints& shape_;
  Ints at_;
};

int64_t flat(const Ints& at, const Ints& shape) {
  int64_t position = 0;
  for (size_t i = 0; i < at.size(); i++) position = position * shape[i] + at[i];
  return position;
}

template <class T>
struct Array {
  Ints shape;
  std::vector<T> elements;
};

// The array that a movement op makes of x. `given` are the numbers that the op has as sources.
template <class T>
Array<T> moved(const UOp& u, const Array<T>& x, const Ints& given, const T& padding) {
  const size_t axes = x.shape.size();
  const Ints& arg = u.op() == Op::PERMUTE || u.op() == Op::FLIP ? u.arg().ints() : given;
  Array<T> result;
  switch (u.op()) {
    case Op::PERMUTE:
      for (const int64_t axis : arg) result.shape.push_back(x.shape[static_cast<size_t>(axis)]);
      break;
    case Op::FLIP: result.shape = x.shape; break;
    case Op::PAD:
    case Op::SHRINK: result.shape.assign(given.begin() + std::ssize(x.shape), given.end()); break;
    default: result.shape = given;
  }
  for (const int64_t size : result.shape)
    if (size < 0) refuse(u, fmt::format("a size is {}", size));
  const int64_t elements = count(result.shape);
  if (u.op() == Op::RESHAPE) {
    if (elements != count(x.shape)) refuse(u, fmt::format("{} elements become {}", count(x.shape), elements));
    result.elements = x.elements;
    return result;
  }
  result.elements.reserve(static_cast<size_t>(elements));
  Odometer to(result.shape);
  Ints from(axes);
  for (int64_t n = 0; n < elements; n++, to.next()) {
    bool inside = true;
    for (size_t i = 0; i < axes; i++) {
      switch (u.op()) {
        case Op::PERMUTE: from[static_cast<size_t>(arg[i])] = to.at()[i]; break;
        case Op::FLIP:
          from[i] = std::ranges::count(arg, static_cast<int64_t>(i)) != 0 ? x.shape[i] - 1 - to.at()[i]
                                                                          : to.at()[i];
          break;
        case Op::EXPAND: from[i] = x.shape[i] == 1 ? 0 : to.at()[i]; break;
        case Op::PAD: from[i] = to.at()[i] - given[i]; break;
        default: from[i] = to.at()[i] + given[i];
      }
    }
    for (size_t i = 0; i < axes; i++) inside &= from[i] >= 0 && from[i] < x.shape[i];
    if (!inside && u.op() != Op::PAD) refuse(u, "it reaches beyond its source");
    result.elements.push_back(inside ? x.elements[static_cast<size_t>(flat(from, x.shape))] : padding);
  }
  return result;
}

using Tensor = Array<Const>;
using Shared = std::shared_ptr<const Tensor>;

bool is_memory(const UOp& u) { return u.op() == Op::BUFFER || u.op() == Op::PARAM; }

// The memory that is seen through views and AFTERs; none if there is something that computes.
UOp written_memory(const UOp& x) {
  const UOp* u = &x;
  while (is_movement(u->op()) || u->op() == Op::AFTER || u->op() == Op::SLICE) u = &u->src(0);
  return is_memory(*u) ? *u : UOp();
}

class Evaluator {
 public:
  Evaluator(const Contents& contents, const Variables& variables)
      : contents_(contents), variables_(variables) {}

  Value value_of(const UOp& root) {
    // The walk keeps no handles: the caller holds the root.
    walk(
        root, [](const UOp& u) { return u.op() != Op::SINK; },  // kernels are run, not computed node by node
        [&](const UOp& u) {
          if (!values_.contains(u.node())) values_[u.node()] = compute(u);
        });
    const Shared& result = values_[root.node()];
    if (!result) refuse(root, "it has no value");
    return {result->shape, result->elements};
  }

 private:
  const Tensor& of(const UOp& u) {
    const Shared& value = values_[u.node()];
    if (!value) refuse(u, "it has no value");
    return *value;
  }
  static Shared scalar(Const value) { return std::make_shared<Tensor>(Tensor{{}, {value}}); }

  Ints numbers(Sources sources) {
    Ints result;
    for (const UOp& s : sources) result.push_back(of(s).elements.at(0).as_int());
    return result;
  }

  Shared compute(const UOp& u) {
    if (is_elementwise(u.op())) return elementwise(u);
    if (is_movement(u.op())) {
      const Const zero = u.op() == Op::PAD ? from_bits(0, u.dtype()) : Const();
      return std::make_shared<Tensor>(moved(u, of(u.src(0)), numbers(u.src().subspan(1)), zero));
    }
    switch (u.op()) {
      case Op::CONST: return scalar(u.value());
      case Op::IOTA: return counted(u);
      case Op::DEFINE_VAR: return variable(u);
      case Op::BIND: return bound(u);
      case Op::BUFFER:
      case Op::PARAM: return memory(u);
      case Op::SLICE: {
        const Tensor& whole = of(u.src(0));
        const int64_t offset = numbers(u.src().subspan(1))[0], size = u.arg().integer();
        if (offset < 0 || offset + size > std::ssize(whole.elements))
          refuse(u, "it reaches beyond its memory");
        const auto first = whole.elements.begin() + offset;
        return std::make_shared<Tensor>(Tensor{{size}, {first, first + size}});
      }
      case Op::CONTIGUOUS:
      case Op::CONTIGUOUS_BACKWARD:
      case Op::DETACH:
      case Op::COPY: return values_[u.src(0).node()];
      case Op::NOOP: return u.src().empty() ? nullptr : values_[u.src(0).node()];
      case Op::AFTER: return after_stores(u);
      case Op::CALL: run_kernel(u); return nullptr;
      case Op::REDUCE: return u.arg().reduce().op == Op::NOOP ? nullptr : reduced(u, 0);
      case Op::GETTUPLE: {
        const auto i = static_cast<size_t>(u.arg().integer());
        if (u.src(0).op() == Op::REDUCE) return reduced(u.src(0), i);
        if (u.src(0).op() == Op::TUPLE) return values_[u.src(0).src(i).node()];
        refuse(u, "of something that is neither a REDUCE nor a TUPLE");
      }
      case Op::INDEX: return indexed(u);
      case Op::STATE:
      case Op::TUPLE:
      case Op::UNIQUE:
      case Op::LUNIQUE:
      case Op::DEVICE:
      case Op::STORE:
      case Op::GROUP:
      case Op::SINK: return nullptr;
      default: refuse(u, "the reference does not know this op");
    }
  }

  Shared elementwise(const UOp& u) {
    for (const UOp& s : u.src())
      if (!values_[s.node()]) return nullptr;  // the body of a REDUCE, in STATEs
    const DType in = u.src().back().dtype();
    auto result = std::make_shared<Tensor>(Tensor{of(u.src(0)).shape, {}});
    std::vector<const Tensor*> sources;
    for (const UOp& s : u.src()) {
      sources.push_back(&of(s));
      if (sources.back()->shape != result->shape) refuse(u, "its sources have different shapes");
    }
    const size_t elements = sources[0]->elements.size();
    result->elements.reserve(elements);
    std::vector<Const> args(sources.size());
    for (size_t n = 0; n < elements; n++) {
      for (size_t i = 0; i < args.size(); i++) args[i] = sources[i]->elements[n];
      result->elements.push_back(eval(u.op(), u.dtype(), in, args));
    }
    return result;
  }

  Shared counted(const UOp& u) {
    auto result = std::make_shared<Tensor>(Tensor{numbers(u.src()), {}});
    for (int64_t i = 0; i < result->shape[0]; i++) result->elements.push_back(wrap(u.dtype(), i));
    return result;
  }

  Shared variable(const UOp& u) {
    const std::string& name = u.arg().variable().name;
    const auto given = variables_.find(name);
    // A BIND has its value for itself; whoever reads the bare variable is refused.
    return given == variables_.end() ? nullptr : scalar(Const::of_int(given->second));
  }

  Shared bound(const UOp& u) {
    const std::string& name = u.src(0).arg().variable().name;
    if (u.src().size() < 2) refuse(u, "it has no value");
    const int64_t value = u.src(1).value().as_int();
    const auto [known, added] = variables_.emplace(name, value);
    if (known->second != value)
      refuse(u, fmt::format("{} is bound to {} and to {}", name, known->second, value));
    return scalar(Const::of_int(value));
  }

  Shared memory(const UOp& u) {
    if (!contents_) refuse(u, "no contents are given");
    auto result = std::make_shared<Tensor>();
    if (u.op() == Op::PARAM && !u.dtype().is_ptr()) {
      Sources sizes = u.src();
      if (!sizes.empty() && sizes.back().op() == Op::DEVICE) sizes = sizes.first(sizes.size() - 1);
      result->shape = numbers(sizes);
    } else {
      result->shape = {u.op() == Op::BUFFER ? u.arg().integer() : u.dtype().size()};
    }
    result->elements = contents_(u);
    if (std::ssize(result->elements) != count(result->shape))
      refuse(u, fmt::format("{} elements are given for {}", result->elements.size(), count(result->shape)));
    return result;
  }

  // ---- kernels

  // By INTERP, on copies of its arguments.
  void run_kernel(const UOp& call) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<Argument> arguments;
    for (const UOp& argument : call.src().subspan(1)) {
      const Tensor& value = of(argument);
      const auto width = static_cast<size_t>(argument.dtype().bytes());
      memory.emplace_back(value.elements.size() * width);
      for (size_t i = 0; i < value.elements.size(); i++) {
        const uint64_t bits = to_bits(value.elements[i], argument.dtype());
        std::memcpy(memory.back().data() + i * width, &bits, width);
      }
    }
    for (std::vector<std::byte>& m : memory) arguments.push_back({m.data(), std::ssize(m)});
    Device::get("INTERP").compile(call.src(0))->run(arguments, variables_);
    std::vector<std::vector<Const>>& results = kernels_[call.node()];
    for (size_t k = 0; k < memory.size(); k++) {
      const DType dtype = call.src(k + 1).dtype();
      const auto width = static_cast<size_t>(dtype.bytes());
      results.emplace_back();
      for (size_t i = 0; i * width < memory[k].size(); i++) {
        uint64_t bits = 0;
        std::memcpy(&bits, memory[k].data() + i * width, width);
        results.back().push_back(from_bits(bits, dtype));
      }
    }
  }
  // Which of the arguments of a CALL is this memory, all of it; -1: none.
  static std::ptrdiff_t argument_of(const UOp& call, const UOp& memory) {
    for (size_t i = 1; i < call.src().size(); i++)
      if (written_memory(call.src(i)) == memory) return static_cast<std::ptrdiff_t>(i) - 1;
    return -1;
  }

  // ---- stores

  using Stores = std::vector<const UOp*>;

  // Adds the STOREs into `memory` that have happened when x is there: those of the AFTERs between x and the
  // memory.
  void add_history(const UOp& x, const UOp& memory, Stores& stores, std::set<const detail::Node*>& seen) {
    struct Task {
      const UOp* node;
      bool done;
    };
    std::vector<Task> tasks{{&x, false}};
    while (!tasks.empty()) {
      const auto [u, done] = tasks.back();
      tasks.pop_back();
      if (done) {
        if (seen.insert(u->node()).second) stores.push_back(u);
      } else if (is_movement(u->op()) || u->op() == Op::SLICE) {
        tasks.push_back({&u->src(0), false});
      } else if (u->op() == Op::AFTER || u->op() == Op::GROUP) {
        for (size_t i = u->src().size(); i-- > 0;) tasks.push_back({&u->src(i), false});
      } else if (u->op() == Op::STORE && written_memory(u->src(0)) == memory && !seen.contains(u->node())) {
        tasks.push_back({u, true});
        tasks.push_back({&u->src(0), false});
      } else if (u->op() == Op::CALL && argument_of(*u, memory) >= 0 && !seen.contains(u->node())) {
        tasks.push_back({u, true});
        tasks.push_back({&u->src(static_cast<size_t>(argument_of(*u, memory)) + 1), false});
      }
    }
  }

  // Flat positions in memory of the elements of a view; -1: none.
  Array<int64_t> positions(const UOp& view, int64_t elements) {
    std::vector<const UOp*> chain;
    const UOp* u = &view;
    for (; !is_memory(*u); u = &u->src(0))
      if (u->op() != Op::AFTER) chain.push_back(u);
    Array<int64_t> at{{elements}, std::vector<int64_t>(static_cast<size_t>(elements))};
    if (u->op() == Op::PARAM) at.shape = of(*u).shape;
    std::iota(at.elements.begin(), at.elements.end(), 0);
    for (size_t i = chain.size(); i-- > 0;) {
      const UOp& step = *chain[i];
      const Ints given = numbers(step.src().subspan(1));
      if (step.op() == Op::SLICE)
        at = {{step.arg().integer()},
              {at.elements.begin() + given[0], at.elements.begin() + given[0] + step.arg().integer()}};
      else
        at = moved(step, at, given, int64_t{-1});
    }
    return at;
  }

  Shared after_stores(const UOp& u) {
    const UOp memory = written_memory(u);
    if (!memory) return values_[u.src(0).node()];
    Stores before, stores;
    std::set<const detail::Node*> seen;
    add_history(u.src(0), memory, before, seen);
    for (const UOp& effect : u.src().subspan(1)) add_history(effect, memory, stores, seen);

    // The whole memory, with what was stored before; then what this AFTER adds; then the view that it is seen
    // as.
    std::vector<Const> contents = of(memory).elements;
    const auto elements = std::ssize(contents);
    before.insert(before.end(), stores.begin(), stores.end());
    for (const UOp* store : before) {
      if (store->op() == Op::CALL) {
        contents = kernels_.at(store->node()).at(static_cast<size_t>(argument_of(*store, memory)));
        continue;
      }
      const Array<int64_t> at = positions(store->src(0), elements);
      const Tensor& value = of(store->src(1));
      if (at.shape != value.shape) refuse(*store, "its shapes differ");
      for (size_t i = 0; i < at.elements.size(); i++)
        if (at.elements[i] >= 0) contents[static_cast<size_t>(at.elements[i])] = value.elements[i];
    }
    const Array<int64_t> seen_at = positions(u.src(0), elements);
    auto result = std::make_shared<Tensor>(Tensor{seen_at.shape, {}});
    for (const int64_t at : seen_at.elements)
      result->elements.push_back(at < 0 ? from_bits(0, u.dtype()) : contents[static_cast<size_t>(at)]);
    return result;
  }

  // ---- reduces

  // The body's value i, given the states.
  static Const body_value(const UOp& body, size_t i, const std::vector<Const>& states) {
    std::unordered_map<const detail::Node*, Const> known;
    walk(body.src(i), [&](const UOp& n) {
      if (n.op() == Op::CONST) {
        known[n.node()] = n.value();
      } else if (n.op() == Op::STATE) {
        known[n.node()] = states[static_cast<size_t>(n.arg().integer())];
      } else if (is_elementwise(n.op())) {
        std::vector<Const> args;
        for (const UOp& s : n.src()) args.push_back(known[s.node()]);
        known[n.node()] = eval(n.op(), n.dtype(), n.src().back().dtype(), args);
      } else {
        refuse(n, "in the body of a REDUCE");
      }
    });
    return known[body.src(i).node()];
  }

  Shared reduced(const UOp& u, size_t pick) {
    const ReduceArg& arg = u.arg().reduce();
    const bool several = arg.op == Op::NOOP;
    const size_t states = several ? static_cast<size_t>(arg.states) : 1;
    if (u.src().size() != (several ? 2 * states + 1 : 1)) refuse(u, "over ranges");
    const Ints& shape = of(u.src(0)).shape;
    auto result = std::make_shared<Tensor>(Tensor{shape, {}});
    for (const int64_t axis : arg.axes) result->shape[static_cast<size_t>(axis)] = 1;

    std::vector<std::vector<Const>> accumulated(states);
    for (size_t s = 0; s < states; s++)
      accumulated[s].assign(static_cast<size_t>(count(result->shape)),
                            several ? u.src(states + s).value() : identity_element(arg.op, u.dtype()));
    Odometer at(shape);
    Ints to(shape.size());
    std::vector<Const> both(2 * states);
    for (int64_t n = 0; n < count(shape); n++, at.next()) {
      for (size_t i = 0; i < shape.size(); i++) to[i] = result->shape[i] == 1 ? 0 : at.at()[i];
      const auto position = static_cast<size_t>(flat(to, result->shape));
      for (size_t s = 0; s < states; s++) {
        both[s] = accumulated[s][position];
        both[states + s] = of(u.src(s)).elements[static_cast<size_t>(n)];
      }
      for (size_t s = 0; s < states; s++)
        accumulated[s][position] =
            several ? body_value(u.src(2 * states), s, both) : eval(arg.op, u.dtype(), u.dtype(), both);
    }
    result->elements = std::move(accumulated[pick]);
    return result;
  }

  Shared indexed(const UOp& u) {
    const Tensor& x = of(u.src(0));
    const Ints at = numbers(u.src().subspan(1));
    auto result = std::make_shared<Tensor>();
    result->shape.assign(x.shape.begin() + std::ssize(at), x.shape.end());
    int64_t position = 0;
    for (size_t i = 0; i < at.size(); i++) {
      if (at[i] < 0 || at[i] >= x.shape[i]) refuse(u, fmt::format("index {} of size {}", at[i], x.shape[i]));
      position = position * x.shape[i] + at[i];
    }
    const auto first = x.elements.begin() + position * count(result->shape);
    result->elements.assign(first, first + count(result->shape));
    return result;
  }

  const Contents& contents_;
  Variables variables_;
  std::unordered_map<const detail::Node*, Shared> values_;
  std::unordered_map<const detail::Node*, std::vector<std::vector<Const>>> kernels_;  // what CALLs left
};

// FUNCTIONs give way to their bodies, with the arguments in place of the PARAMs, the innermost first.
UOp inlined(const UOp& root) {
  UOp result = root;
  while (result.ops_below().contains(Op::FUNCTION)) {
    UOp function;
    walk(result, [&](const UOp& u) {
      if (u.op() == Op::FUNCTION && !function) function = u;
    });
    std::unordered_map<UOp, UOp> arguments;
    walk(function.src(0), [&](const UOp& u) {
      if (u.op() != Op::PARAM) return;
      const auto slot = static_cast<size_t>(u.arg().integer());
      if (slot + 1 >= function.src().size()) refuse(u, fmt::format("slot {} has no argument", slot));
      arguments[u] = function.src(slot + 1);
    });
    result = result.substitute({{function, function.src(0).substitute(arguments)}});
  }
  return result;
}

}  // namespace

std::vector<Value> evaluate_tensors(const UOps& xs, const Contents& contents, const Variables& variables) {
  const UOp all = inlined(UOp::sink(xs));
  Evaluator evaluator(contents, variables);
  std::vector<Value> results;
  for (const UOp& x : all.src()) results.push_back(evaluator.value_of(x));
  return results;
}

Value evaluate_tensor(const UOp& x, const Contents& contents, const Variables& variables) {
  return evaluate_tensors({x}, contents, variables)[0];
}

std::vector<Const> evaluate(const UOp& x, const Contents& contents, const Variables& variables) {
  return evaluate_tensor(x, contents, variables).elements;
}

}  // namespace quern::reference
