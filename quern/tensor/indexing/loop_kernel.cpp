#include "quern/tensor/indexing/loop_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/places.h"
#include "quern/ir/shape/sharding.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/custom_gradient.h"
#include "quern/tensor/core/support.h"

namespace quern::detail {
namespace {

int64_t elements_of(const Shape& shape) {
  return static_cast<int64_t>(elements_in(sizes_of(shape)).int_value());
}

CustomGradient on_memory(const LoopGradient& gradient, const std::vector<KernelOutput>& outputs,
                         const std::vector<Shape>& inputs) {
  return [=](const UOp& call, std::span<const UOp> gradients) {
    KernelValues values;
    for (size_t i = 0; i < outputs.size(); i++) {
      const UOps sizes = sizes_of(outputs[i].shape);
      values.given.push_back(gradients[i] ? Tensor(quern::reshape(gradients[i], sizes))
                                          : Tensor::zeros(outputs[i].shape, {.dtype = outputs[i].dtype}));
      values.outputs.emplace_back(quern::reshape(quern::after(call.src(i + 1), UOps{call}), sizes));
    }
    for (size_t i = 0; i < inputs.size(); i++)
      values.inputs.emplace_back(quern::reshape(call.src(outputs.size() + i + 1), sizes_of(inputs[i])));
    const std::vector<std::optional<Tensor>> found = gradient(values);
    QUERN_CHECK(found.size() == inputs.size(), "a gradient for each input");
    UOps result(outputs.size());
    for (size_t i = 0; i < found.size(); i++)
      result.push_back(found[i] ? quern::reshape(found[i]->uop(), call.src(outputs.size() + i + 1).shape())
                                : UOp());
    return result;
  };
}

bool is_in_order(const UOp& value) {
  const UOp& below = value.op() == Op::RESHAPE ? value.src(0) : value;
  return below.op() == Op::BUFFER || below.op() == Op::AFTER;
}

// The elements in order, in memory: that of a tensor which has some, else memory of its own. What is computed
// may turn out to be a constant, which is on no device.
UOp memory_of(const Tensor& x, const UOp& device) {
  const UOp value = x.uop(), flat = quern::reshape(value, UOps{elements_in(value.shape())});
  if (is_in_order(value)) return flat;
  const UOp buffer = new_buffer(x.dtype(), static_cast<int64_t>(flat.shape()[0].int_value()), device);
  return quern::after(buffer, UOps{quern::store(buffer, flat)});
}

// The devices of all inputs, which are the same; the default device for constants.
UOp device_of(const char* who, const std::vector<Tensor>& inputs) {
  check_same_device(who, inputs);
  for (const Tensor& x : inputs)
    if (const Texts names = x.devices(); !names.empty())
      return UOp::make(Op::DEVICE, dtypes::void_, {}, names);
  return device_node(default_device());
}

}  // namespace

std::vector<Tensor> run_loops(const std::string& name, const std::vector<KernelOutput>& outputs,
                              const std::vector<Tensor>& inputs,
                              const std::function<UOp(const UOps& memory)>& body,
                              const LoopGradient& gradient, const std::string& gradient_name) {
  const UOp device = device_of(name.c_str(), inputs);
  UOps memory, params;
  const auto add = [&](const UOp& m) {
    const auto elements = static_cast<int64_t>(m.shape()[0].int_value());
    params.push_back(UOp::make(Op::PARAM, m.dtype().ptr(elements), {}, std::ssize(memory)));
    memory.push_back(m);
  };
  for (const KernelOutput& o : outputs) add(new_buffer(o.dtype, elements_of(o.shape), device));
  std::vector<Shape> shapes;
  std::string key = gradient_name;
  for (const Tensor& x : inputs) {
    add(memory_of(x, device));
    shapes.push_back(x.shape());
    key += shape_text(x.uop().shape());
  }
  UOps sources{UOp::make(Op::SINK, dtypes::void_, {body(params)}, KernelArg{.name = name, .opts = {}},
                         Hints{.steps_do_not_meet = true})};
  sources.insert(sources.end(), memory.begin(), memory.end());
  UOp call = UOp::make(Op::CALL, dtypes::void_, sources);
  if (gradient) {
    static const char identity = 0;  // of all gradients that are made here
    call = with_custom_gradient(call, on_memory(gradient, outputs, shapes), {&identity, key});
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < outputs.size(); i++)
    results.emplace_back(quern::reshape(quern::after(memory[i], UOps{call}), sizes_of(outputs[i].shape)));
  return results;
}

Tensor in_order(const char* who, const Tensor& x) { return is_in_order(x.uop()) ? x : in_new_memory(who, x); }

bool can_run_loops(const Tensor& x) {
  const UOp value = x.uop();
  return std::ranges::all_of(value.shape(), [](const UOp& s) { return s.is_int_const(); }) &&
         (value.device().size() < 2 || !Shardings(value)[value].cut());
}

bool has_elements(const Tensor& x) {
  return std::ranges::all_of(x.shape(), [](const Dim& d) { return d.uop().vmax() > 0; });
}

UOp LoopBuilder::registers(DType dtype, int64_t count) {
  return UOp::make(Op::DEFINE_REG, dtype.ptr(count, AddrSpace::REG), {}, registers_++);
}

UOp read(const UOp& memory, const UOp& index) {
  return UOp::make(Op::INDEX, memory.dtype().base(), {memory, index});
}
UOp write(const UOp& memory, const UOp& index, const UOp& value) {
  return UOp::make(Op::STORE, dtypes::void_, {UOp::make(Op::INDEX, memory.dtype(), {memory, index}), value});
}
UOp seen_after(const UOp& memory, const UOps& what) {
  if (what.empty()) return memory;
  UOps sources{memory};
  sources.insert(sources.end(), what.begin(), what.end());
  return UOp::make(Op::AFTER, memory.dtype(), sources);
}
UOp together(const UOps& effects) {
  return effects.size() == 1 ? effects[0] : UOp::make(Op::GROUP, dtypes::void_, effects);
}
UOp ended(const UOp& effect, const UOps& loops) {
  UOps sources{effect};
  sources.insert(sources.end(), loops.begin(), loops.end());
  return UOp::make(Op::END, dtypes::void_, sources);
}

}  // namespace quern::detail
