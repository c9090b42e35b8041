// Kernels of Tensor's own functions whose loops carry something from one step to the next: running sums,
// sorting, decompositions. They are written as nodes of kernel level and stand in the graph as a CALL, like
// custom_kernel()'s, but their authors vouch for their indices: nothing is checked or gated.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quern/tensor/core/tensor.h"

namespace quern::detail {

struct KernelOutput {
  DType dtype;
  Shape shape;
};

// What a gradient is made from. `given`: the gradient of each output, zeros where there is none.
struct KernelValues {
  std::vector<Tensor> given, outputs, inputs;
};
using LoopGradient = std::function<std::vector<std::optional<Tensor>>(const KernelValues& values)>;

// `body` gets the memory of the outputs, then that of the inputs, each with its elements in order, and
// returns the effect. Outputs begin with undefined contents. A gradient is known by `gradient_name` and the
// shapes: for the same kernel and the same name it must be the same function.
std::vector<Tensor> run_loops(const std::string& name, const std::vector<KernelOutput>& outputs,
                              const std::vector<Tensor>& inputs,
                              const std::function<UOp(const UOps& memory)>& body,
                              const LoopGradient& gradient = {}, const std::string& gradient_name = {});

// x, if it is memory with its elements in order, else a copy: for what several kernels read.
Tensor in_order(const char* who, const Tensor& x);

// Whether such a kernel can be made for x: all sizes are numbers, and no axis is cut over devices.
bool can_run_loops(const Tensor& x);
bool has_elements(const Tensor& x);  // it may have some

// Loops and memory of one kernel, numbered in the order in which they are made. A loop that stands in another
// is made after it.
class LoopBuilder {
 public:
  UOp loop(const UOp& steps, AxisKind kind = AxisKind::LOOP) { return UOp::range(steps, ranges_++, kind); }
  UOp loop(int64_t steps, AxisKind kind = AxisKind::LOOP) { return loop(UOp::index(steps), kind); }
  UOp registers(DType dtype, int64_t count = 1);

 private:
  int64_t ranges_ = 0, registers_ = 0;
};

UOp read(const UOp& memory, const UOp& index);
UOp write(const UOp& memory, const UOp& index, const UOp& value);
UOp seen_after(const UOp& memory, const UOps& what);  // effects, and loops in which it is used
UOp together(const UOps& effects);                    // all values are computed before any is stored
UOp ended(const UOp& effect, const UOps& loops);

}  // namespace quern::detail
