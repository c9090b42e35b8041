#include "quern/tensor/core/custom_gradient.h"

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "quern/base/fork.h"

namespace quern {
namespace {

struct Registry {
  ProcessMutex mutex{LockOrder::gradients};
  std::unordered_map<UOp, std::map<GradientIdentity, int64_t>> numbers;  // of each kernel
  std::vector<CustomGradient> gradients;
  std::map<GradientIdentity, int64_t> function_numbers;
  std::vector<FunctionGradient> functions;
};

Registry& registry() {
  static Registry& kept = *std::make_unique<Registry>().release();  // nodes outlive static objects
  return kept;
}

}  // namespace

UOp with_custom_gradient(const UOp& call, CustomGradient gradient, const GradientIdentity& identity) {
  if (!call || call.op() != Op::CALL || call.src(0).op() != Op::SINK)
    throw Error("with_custom_gradient: a custom kernel is a CALL of a SINK");
  const std::lock_guard lock(registry().mutex);
  std::vector<CustomGradient>& all = registry().gradients;
  const auto [found, is_new] =
      registry().numbers[call.src(0)].try_emplace(identity, static_cast<int64_t>(all.size()));
  if (is_new)
    all.push_back(std::move(gradient));
  else
    all[static_cast<size_t>(found->second)] = std::move(gradient);
  return call.with_hint(&Hints::custom_gradient, {found->second});
}

// The hint of a function's TUPLE: the number of the gradient, how many results there are.

std::vector<Tensor> with_function_gradient(const std::vector<Tensor>& results,
                                           const std::vector<Tensor>& inputs,
                                           const FunctionGradient& gradient,
                                           const GradientIdentity& identity) {
  int64_t number = 0;
  {
    const std::lock_guard lock(registry().mutex);
    std::vector<FunctionGradient>& all = registry().functions;
    const auto [found, is_new] =
        registry().function_numbers.try_emplace(identity, static_cast<int64_t>(all.size()));
    if (is_new) all.push_back(gradient);
    number = found->second;
  }
  UOps sources;
  for (const Tensor& y : results) sources.push_back(y.uop());
  for (const Tensor& x : inputs) sources.push_back(x.uop());
  const UOp tuple = UOp::make(Op::TUPLE, dtypes::void_, sources)
                        .with_hint(&Hints::custom_gradient, {number, std::ssize(results)});
  std::vector<Tensor> marked;
  for (size_t i = 0; i < results.size(); i++)
    marked.emplace_back(UOp::make(Op::GETTUPLE, sources[i].dtype(), {tuple}, static_cast<int64_t>(i)));
  return marked;
}

bool has_function_gradient(const UOp& tuple) {
  return tuple.op() == Op::TUPLE && !tuple.hints().custom_gradient.empty();
}

Sources function_inputs(const UOp& tuple) {
  return tuple.src().subspan(static_cast<size_t>(tuple.hints().custom_gradient[1]));
}

UOps function_gradients(const UOp& tuple, std::span<const UOp> gradients) {
  const auto results = static_cast<size_t>(tuple.hints().custom_gradient[1]);
  FunctionGradient gradient;
  {
    const std::lock_guard lock(registry().mutex);
    gradient = registry().functions.at(static_cast<size_t>(tuple.hints().custom_gradient[0]));
  }
  FunctionValues values;
  for (size_t i = 0; i < results; i++) {
    const UOp result = UOp::make(Op::GETTUPLE, tuple.src(i).dtype(), {tuple}, static_cast<int64_t>(i));
    values.results.emplace_back(result);
    values.given.push_back(gradients[i] ? Tensor(gradients[i]) : values.results.back().zeros_like());
  }
  for (const UOp& x : function_inputs(tuple)) values.inputs.emplace_back(x);
  UOps found;
  for (const std::optional<Tensor>& g : gradient(values)) found.push_back(g ? g->uop() : UOp());
  return found;
}

CustomGradient custom_gradient(const UOp& call) {
  if (call.hints().custom_gradient.empty()) return {};
  const std::lock_guard lock(registry().mutex);
  return registry().gradients.at(static_cast<size_t>(call.hints().custom_gradient[0]));
}

}  // namespace quern
