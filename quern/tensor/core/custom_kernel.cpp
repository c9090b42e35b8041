// Kernels written by hand as nodes of a graph.
#include <fmt/format.h>

#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/custom_gradient.h"
#include "quern/tensor/core/kernel_bounds.h"
#include "quern/tensor/core/support.h"

namespace quern {
namespace {

// The BUFFER (or AFTER of one) that holds the tensor, all of it and in order; none if there is none.
UOp whole_memory(const UOp& u) {
  const UOp& below = u.op() == Op::RESHAPE ? u.src(0) : u;
  return below.op() == Op::BUFFER || below.op() == Op::AFTER ? below : UOp();
}

// Is it memory of another argument as well? What is written there must not be seen through that one.
bool is_elsewhere(const UOps& memory, size_t i) {
  for (size_t k = 0; k < memory.size(); k++)
    if (k != i && same(memory_under(memory[k]), memory_under(memory[i]))) return true;
  return false;
}

std::string texts_of(const std::vector<Shape>& shapes) {
  std::string all;
  for (const Shape& s : shapes) all += shape_text(s);
  return all;
}

// The user's function on tensors, as one on nodes.
CustomGradient on_nodes(const KernelGradient& gradient, const std::vector<Shape>& shapes) {
  return [gradient, shapes](const UOp& call, std::span<const UOp> gradients) {
    std::vector<Tensor> given, arguments;
    for (size_t i = 0; i < shapes.size(); i++) {
      const UOp& memory = call.src(i + 1);
      const UOps sizes = sizes_of(shapes[i]);
      arguments.emplace_back(quern::reshape(memory, sizes));
      given.push_back(gradients[i] ? Tensor(quern::reshape(gradients[i], sizes))
                                   : Tensor::zeros(shapes[i], {.dtype = memory.dtype()}));
    }
    const std::vector<std::optional<Tensor>> found = gradient(given, arguments);
    if (found.size() != shapes.size())
      throw Error(fmt::format("custom_kernel: its gradient gave {} tensors for {} arguments", found.size(),
                              shapes.size()));
    UOps result;
    for (size_t i = 0; i < found.size(); i++) {
      if (found[i] && !same_sizes(found[i]->uop().shape(), sizes_of(shapes[i])))
        throw ShapeError(fmt::format("custom_kernel: argument {} has shape {}, its gradient {}", i,
                                     shape_text(shapes[i]), shape_text(found[i]->shape())));
      result.push_back(found[i] ? quern::reshape(found[i]->uop(), call.src(i + 1).shape()) : UOp());
    }
    return result;
  };
}

}  // namespace

std::vector<Tensor> custom_kernel(const std::vector<Tensor>& arguments, const KernelBody& body,
                                  const KernelGradient& gradient, const void* identity) {
  if (arguments.empty()) throw Error("custom_kernel: no arguments are given");
  if (!body) throw Error("custom_kernel: the body is an empty function");
  detail::check_same_device("custom_kernel", arguments);
  UOps memory, params;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < arguments.size(); i++) {
    const UOp given = arguments[i].uop();
    if (const Sharding sharding = Shardings(given)[given]; sharding.cut())
      throw DeviceError(
          fmt::format("custom_kernel: argument {} of shape {} is sharded on axis {} over {}; gather it first "
                      "with to()",
                      i, shape_text(given.shape()), sharding.axis, fmt::join(given.device(), "+")));
    UOp held = whole_memory(arguments[i].uop());
    if (!held) held = whole_memory(detail::in_new_memory("custom_kernel", arguments[i]).uop());
    memory.push_back(held);
    shapes.push_back(arguments[i].shape());
    const auto elements = static_cast<int64_t>(held.shape()[0].int_value());
    params.push_back(UOp::make(Op::PARAM, held.dtype().ptr(elements), {}, static_cast<int64_t>(i)));
  }
  const UOp given = body(params);
  if (!given || given.op() != Op::SINK)
    throw Error(
        fmt::format("custom_kernel: the body gave {}, not a SINK", given ? name(given.op()) : "nothing"));
  const UOp sink = within_bounds(given, params);
  const std::vector<bool> written = written_params(sink, params.size());
  for (size_t i = 0; i < memory.size(); i++)
    if (written[i] && is_elsewhere(memory, i))
      memory[i] = whole_memory(detail::in_new_memory("custom_kernel", arguments[i]).uop());
  UOps sources{sink};
  sources.insert(sources.end(), memory.begin(), memory.end());
  UOp call = UOp::make(Op::CALL, dtypes::void_, sources);
  if (gradient) call = with_custom_gradient(call, on_nodes(gradient, shapes), {identity, texts_of(shapes)});
  std::vector<Tensor> results;
  results.reserve(memory.size());
  for (size_t i = 0; i < memory.size(); i++) {
    // What is only read stays what it is, but is no view of the argument: later assignments are not seen.
    const UOp now = written[i] ? quern::after(memory[i], UOps{call}) : with_new_identity(memory[i]);
    results.emplace_back(quern::reshape(now, sizes_of(shapes[i])));
  }
  return results;
}

std::vector<Tensor> custom_kernel(const std::vector<Tensor>& arguments, const KernelBody& body,
                                  const KernelGradient& gradient) {
  return custom_kernel(arguments, body, gradient, &gradient.target_type());
}

}  // namespace quern
