#include "quern/tensor/gradient/gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <unordered_map>

#include "quern/ir/node/node_map.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/shape/places.h"
#include "quern/tensor/core/custom_gradient.h"
#include "quern/tensor/gradient/gradient_rules.h"
#include "quern/tensor/indexing/places.h"
#include "quern/tensor/layers/conv_gradient.h"

namespace quern {
namespace {

// ---- functions are inlined, the inner ones first, so that a body has no PARAMs but its own

UOp inlined(const UOp& function) {
  const Sources arguments = function.src().subspan(1);
  std::unordered_map<UOp, UOp> values;
  for (const UOp& u : function.src(0).toposort()) {
    if (u.op() != Op::PARAM || u.dtype().is_ptr()) continue;
    const int64_t slot = u.arg().integer();
    if (slot < 0 || slot >= std::ssize(arguments))
      throw Error(
          fmt::format("gradient: a function uses argument {} and is called with {}", slot, arguments.size()));
    values.emplace(u, arguments[static_cast<size_t>(slot)]);
  }
  return function.src(0).substitute(values);
}

UOp picked(const UOp& get, const UOp& tuple) {
  if (is_convolution(tuple) || is_picked(tuple) || is_put(tuple) || has_function_gradient(tuple)) return {};
  const int64_t i = get.arg().integer();
  return i >= 0 && i < std::ssize(tuple.src()) ? tuple.src(static_cast<size_t>(i)) : UOp();
}

const Rules inline_functions = [] {
  return RuleList{
      {op(Op::FUNCTION).as("function"), inlined},
      {op(Op::GETTUPLE, {op(Op::TUPLE).as("tuple")}).as("get"), picked},
  };
};

UOp without_functions(const UOp& x) {
  if (!x.ops_below().contains(Op::FUNCTION)) return x;
  return graph_rewrite(x, inline_functions, {.name = "inline functions"});
}

// ---- the walk

// Calls f(source) for every node that a gradient of u flows to.
template <class F>
void for_each_flow(const UOp& u, const F& f) {
  auto to_floats = [&](Sources sources) {
    for (const UOp& s : sources)
      if (s.dtype().is_float()) f(s);
  };
  if (u.op() == Op::AFTER) {
    const UOps writes = writes_to_memory(u);
    for (const UOp& write : std::ranges::reverse_view(writes)) {
      f(write.op() == Op::STORE ? write.src(1) : write);
      if (write.op() == Op::CALL || overwrites_all(u, write)) return;
    }
    f(u.src(0));
  } else if (u.op() == Op::MULTI && unsharded(u)) {
    f(unsharded(u));
  } else if (u.op() == Op::GETTUPLE) {
    f(u.src(0));
  } else if (u.op() == Op::CALL || is_convolution(u) || is_picked(u) || is_put(u)) {
    to_floats(u.src().subspan(1));
  } else if (has_function_gradient(u)) {
    to_floats(function_inputs(u));
  } else if (const GradientRule* rule = gradient_rule(u.op())) {
    for (size_t i = 0; i < u.src().size(); i++)
      if (flows(*rule, u, i)) f(u.src(i));
  } else if (!kGradientStops.contains(u.op())) {
    to_floats(u.src());  // a TUPLE, or an op without a rule: an error if a gradient gets there
  }
}

class Backward {
 public:
  Backward(const UOp& loss, Sources targets)
      : nodes_(loss.toposort([](const UOp& u) {
          return (u.dtype().is_float() || u.dtype().is_void()) && u.op() != Op::DETACH && u.op() != Op::SINK;
        })) {
    NodeSet is_target;
    for (const UOp& t : targets) is_target.insert(t);
    for (const UOp& u : nodes_) {
      bool reaches = is_target.contains(u);
      if (!reaches) for_each_flow(u, [&](const UOp& s) { reaches = reaches || reaches_target_.contains(s); });
      if (reaches) reaches_target_.insert(u);
    }
  }

  void run(const UOp& seed) {
    if (!reaches_target_.contains(nodes_.back())) return;
    sums_.emplace(nodes_.back(), seed);
    for (size_t i = nodes_.size(); i-- > 0;)
      if (reaches_target_.contains(nodes_[i])) step(nodes_[i]);
  }

  UOp result(const UOp& target) const {
    const UOp* sum = sums_.find(target);
    return sum ? *sum : UOp();
  }

 private:
  void step(const UOp& u) {
    if (const UOps* parts = parts_.find(u)) return divide(u, UOps(*parts));
    if (!sums_.contains(u)) return;
    const UOp gradient = *sums_.find(u);
    if (u.op() == Op::AFTER) return through_writes(u, gradient);
    if (u.op() == Op::MULTI && unsharded(u)) return add(unsharded(u), gradient);
    if (u.op() == Op::GETTUPLE) return add_part(u.src(0), static_cast<size_t>(u.arg().integer()), gradient);
    const GradientRule* rule = gradient_rule(u.op());
    for (size_t i = 0; i < u.src().size(); i++)
      if (const UOp& s = u.src(i); reaches_target_.contains(s)) {
        if (rule && flows(*rule, u, i))
          add(s, rule->to[i](u, gradient));
        else if (!rule && s.dtype().is_float() && !kGradientStops.contains(u.op()))
          throw Error(fmt::format("gradient: {} has no gradient", name(u.op())));
      }
  }

  // An assignment: the last write comes first.
  void through_writes(const UOp& u, UOp gradient) {
    const UOps writes = writes_to_memory(u);
    for (const UOp& write : std::ranges::reverse_view(writes)) {
      if (write.op() == Op::CALL) return add_part(write, argument_of_call(u, write), gradient);
      if (reaches_target_.contains(write.src(1))) add(write.src(1), gradient_of_stored(u, write, gradient));
      if (overwrites_all(u, write)) return;
      gradient = gradient_of_kept(u, write, gradient);
    }
    if (reaches_target_.contains(u.src(0))) add(u.src(0), gradient);
  }

  // A node of several values, when the gradients of all of them are known.
  void divide(const UOp& u, UOps parts) {
    if (is_convolution(u)) return through_convolution(u, parts[0]);
    if (is_picked(u)) return add(u.src(1), picked_to_source(u, parts[0]));
    if (is_put(u)) return through_put(u, parts[0]);
    if (has_function_gradient(u)) return through_function(u, parts);
    if (u.op() == Op::TUPLE) return add_all(u.src(), parts);
    if (u.op() != Op::CALL)
      throw Error(fmt::format("gradient: {} of several values has no gradient", name(u.op())));
    const CustomGradient custom = custom_gradient(u);
    if (!custom) throw Error("gradient: a custom kernel was made without a gradient");
    const Sources arguments = u.src().subspan(1);
    const UOps gradients = custom(u, parts);
    if (gradients.size() != arguments.size())
      throw Error(fmt::format("gradient: the gradient of a custom kernel of {} arguments gave {} gradients",
                              arguments.size(), gradients.size()));
    for (size_t i = 0; i < arguments.size(); i++)
      if (gradients[i] && (gradients[i].dtype() != arguments[i].dtype() ||
                           !same_sizes(gradients[i].shape(), arguments[i].shape())))
        throw Error(fmt::format(
            "gradient: argument {} of a custom kernel is {} of shape {}, its gradient {} of shape {}", i,
            arguments[i].dtype().name(), shape_text(arguments[i].shape()), gradients[i].dtype().name(),
            shape_text(gradients[i].shape())));
    add_all(arguments, gradients);
  }

  void through_convolution(const UOp& u, const UOp& gradient) {
    const UOp &x = u.src(1), &weight = u.src(2);
    if (x.dtype().is_float() && reaches_target_.contains(x)) add(x, convolution_to_input(u, gradient));
    if (weight.dtype().is_float() && reaches_target_.contains(weight))
      add(weight, convolution_to_weight(u, gradient));
  }

  void through_function(const UOp& u, const UOps& parts) {
    const Sources inputs = function_inputs(u);
    const UOps gradients = function_gradients(u, parts);
    if (gradients.size() != inputs.size())
      throw Error(fmt::format("gradient: the gradient of a function of {} arguments gave {} gradients",
                              inputs.size(), gradients.size()));
    for (size_t i = 0; i < inputs.size(); i++)
      if (gradients[i] &&
          (gradients[i].dtype() != inputs[i].dtype() || !same_sizes(gradients[i].shape(), inputs[i].shape())))
        throw Error(
            fmt::format("gradient: argument {} of a function is {} of shape {}, its gradient {} of shape {}",
                        i, inputs[i].dtype().name(), shape_text(inputs[i].shape()),
                        gradients[i].dtype().name(), shape_text(gradients[i].shape())));
    add_all(inputs, gradients);
  }

  void through_put(const UOp& u, const UOp& gradient) {
    const UOp &target = u.src(1), &source = u.src(3);
    if (reaches_target_.contains(target)) add(target, put_to_target(u, gradient));
    if (reaches_target_.contains(source)) add(source, put_to_source(u, gradient));
  }

  void add_all(Sources nodes, Sources gradients) {
    for (size_t i = 0; i < nodes.size(); i++)
      if (gradients[i] && reaches_target_.contains(nodes[i])) add(nodes[i], gradients[i]);
  }

  void add_part(const UOp& u, size_t i, const UOp& gradient) {
    UOps& parts = *parts_.emplace(u).first;
    const size_t count = u.op() == Op::CALL ? u.src().size() - 1 : u.src().size();
    parts.resize(std::max(count, i + 1));
    parts[i] = parts[i] ? parts[i] + gradient : gradient;
  }

  void add(const UOp& u, const UOp& gradient) {
    QUERN_CHECK(gradient.dtype() == u.dtype() && same_sizes(gradient.shape(), u.shape()),
                fmt::format("a gradient of {} {} for {} {}", gradient.dtype().name(),
                            shape_text(gradient.shape()), u.dtype().name(), shape_text(u.shape())));
    const auto [sum, first] = sums_.emplace(u, gradient);
    if (!first) *sum = *sum + gradient;
  }

  NodeList nodes_;  // of the loss, sources first
  NodeSet reaches_target_;
  NodeMap<UOp> sums_;    // gradients of nodes of one value
  NodeMap<UOps> parts_;  // and of several: TUPLE, CALL
};

void check_floats(const char* what, const UOp& x) {
  if (!x) throw Error(fmt::format("gradient: {} is no node at all", what));
  if (!x.dtype().is_float())
    throw DTypeError(
        fmt::format("gradient: {} has dtype {}; only floats have gradients", what, x.dtype().name()));
}

}  // namespace

UOp gradient_seed(const UOp& loss) { return filled_like(loss, 1); }

UOps gradient(const UOp& loss, std::span<const UOp> targets, const UOp& seed) {
  check_floats("the loss", loss);
  check_floats("the gradient given for the loss", seed);
  if (seed.dtype() != loss.dtype())
    throw DTypeError(fmt::format("gradient: the loss has dtype {}, the gradient given for it {}",
                                 loss.dtype().name(), seed.dtype().name()));
  if (!same_sizes(seed.shape(), loss.shape()))
    throw ShapeError(fmt::format("gradient: the loss has shape {}, the gradient given for it {}",
                                 shape_text(loss.shape()), shape_text(seed.shape())));
  UOps origins;
  for (const UOp& t : targets) {
    check_floats("a target", t);
    origins.push_back(under_reshapes(without_functions(t)));
  }
  Backward backward(without_functions(loss), origins);
  backward.run(seed);
  UOps results;
  for (size_t i = 0; i < targets.size(); i++) {
    const UOp result = backward.result(origins[i]);
    results.push_back(result ? reshape(result, targets[i].shape()) : UOp());
  }
  return results;
}

}  // namespace quern
