#include "test/tensor/graph_values.h"

#include <algorithm>
#include <numeric>

#include "quern/ir/eval.h"
#include "quern/ir/movement.h"

namespace quern::testing {
namespace {

int64_t count(const Ints& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Ints position(int64_t flat, const Ints& shape) {
  Ints at(shape.size());
  for (size_t i = shape.size(); i-- > 0; flat /= shape[i]) at[i] = flat % shape[i];
  return at;
}

// Where element `at` of a movement op comes from in its source, or -1: from nowhere.
int64_t came_from(const UOp& u, const Ints& at) {
  const Ints shape = u.int_shape(), from = u.src(0).int_shape();
  int64_t flat = 0;
  if (u.op() == Op::RESHAPE) {
    for (size_t i = 0; i < at.size(); i++) flat = flat * shape[i] + at[i];
    return flat;
  }
  Ints source(from.size());
  for (size_t i = 0; i < at.size(); i++) {
    auto number = [&](size_t j) { return static_cast<int64_t>(u.src(1 + j).int_value()); };
    switch (u.op()) {
      case Op::EXPAND: source[i] = from[i] == 1 ? 0 : at[i]; break;
      case Op::PERMUTE: source[static_cast<size_t>(u.arg().ints()[i])] = at[i]; break;
      case Op::FLIP:
        source[i] =
            std::ranges::count(u.arg().ints(), static_cast<int64_t>(i)) != 0 ? shape[i] - 1 - at[i] : at[i];
        break;
      case Op::PAD: source[i] = at[i] - number(i); break;
      default: source[i] = at[i] + number(i); break;
    }
  }
  for (size_t i = 0; i < from.size(); i++) {
    if (source[i] < 0 || source[i] >= from[i]) return -1;
    flat = flat * from[i] + source[i];
  }
  return flat;
}

class Evaluation {
 public:
  explicit Evaluation(const Memory& memory) : memory_(memory) {}
  const Values& of(const UOp& root) {
    for (const UOp& u : root.toposort())
      if (!done_.contains(u) && u.has_shape() && u.op() != Op::BIND) done_.emplace(u, compute(u));
    return done_.at(root);
  }

 private:
  Values compute(const UOp& u) {
    const Ints shape = u.int_shape();
    const auto size = static_cast<size_t>(count(shape));
    if (const auto given = memory_.find(u); given != memory_.end()) return given->second;
    if (u.is_const()) return {u.value()};
    if (is_movement(u.op())) return moved(u, shape, size);
    if (u.op() == Op::REDUCE) return reduced(u, shape, size);
    if (is_elementwise(u.op())) {
      Values result(size);
      for (size_t i = 0; i < size; i++) {
        Values operands;
        for (const UOp& s : u.src()) operands.push_back(done_.at(s)[i]);
        result[i] = eval(u.op(), u.dtype(), u.src().back().dtype(), operands);
      }
      return result;
    }
    if (u.op() == Op::AFTER) return stored(u);
    QUERN_CHECK(!u.src().empty(), std::string(name(u.op())));
    return done_.at(u.src(0));  // CONTIGUOUS, DETACH, COPY, ...
  }

  Values moved(const UOp& u, const Ints& shape, size_t size) {
    const Values& from = done_.at(u.src(0));
    Values result(size);
    for (size_t i = 0; i < size; i++) {
      const int64_t at = came_from(u, position(static_cast<int64_t>(i), shape));
      result[i] = at < 0 ? (u.dtype().is_float() ? Const::of_float(0) : make_const(u.dtype(), 0))
                         : from[static_cast<size_t>(at)];
    }
    return result;
  }

  Values reduced(const UOp& u, const Ints& shape, size_t size) {
    const Op op = u.arg().reduce().op;
    Values result(size, identity_element(op, u.dtype()));
    const Ints from = u.src(0).int_shape();
    const Values& x = done_.at(u.src(0));
    for (size_t i = 0; i < x.size(); i++) {
      const Ints at = position(static_cast<int64_t>(i), from);
      size_t flat = 0;
      for (size_t a = 0; a < at.size(); a++)
        flat = flat * static_cast<size_t>(shape[a]) + static_cast<size_t>(shape[a] == 1 ? 0 : at[a]);
      result[flat] = eval(op, u.dtype(), u.dtype(), Values{result[flat], x[i]});
    }
    return result;
  }

  Values stored(const UOp& u) {
    Values result = done_.at(u.src(0));
    for (const UOp& store : u.src().subspan(1)) {
      const UOp& view = store.src(0);
      const Ints shape = view.int_shape();
      const Values& value = done_.at(store.src(1));
      for (size_t i = 0; i < value.size(); i++) {
        auto flat = static_cast<int64_t>(i);
        for (const UOp* at = &view; is_movement(at->op()); at = &at->src(0))
          flat = came_from(*at, position(flat, at->int_shape()));
        result[static_cast<size_t>(flat)] = value[i];
      }
    }
    return result;
  }

  const Memory& memory_;
  std::unordered_map<UOp, Values> done_;
};

}  // namespace

Values values_of(const UOp& root, const Memory& memory) { return Evaluation(memory).of(root); }

std::vector<double> floats_of(const UOp& root, const Memory& memory) {
  std::vector<double> numbers;
  for (const Const& c : values_of(root, memory)) numbers.push_back(c.as_float());
  return numbers;
}

Values float_values(DType dtype, const std::vector<double>& numbers) {
  Values values;
  for (const double n : numbers) values.push_back(make_const(dtype, n));
  return values;
}

}  // namespace quern::testing
