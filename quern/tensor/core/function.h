// Functions of tensors as nodes of the graph: what was computed from some arguments becomes a call of a body
// in which they are PARAMs. Calls with equal bodies, the layers of a network say, are scheduled once if they
// are precompiled; otherwise the body is put in place of the call before anything is scheduled.
//
//   y = tanh(x @ w)  ->  y = FUNCTION(tanh(PARAM(0) @ PARAM(1)), x, w; {name: "layer", precompile: true})
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "quern/tensor/core/tensor.h"

namespace quern {

struct FunctionSettings {
  std::string name = "function";
  bool precompile = false;
  bool allow_implicit = true;  // memory that is no argument may be used; else an Error says what it is
  int64_t begun = INT64_MAX;   // memory_mark() before the function ran: what was made since is its own
};
int64_t memory_mark();

// The results, as those of a call. Arguments that are on no device (constants) stay in the body; where a size
// is symbolic, not all is on one device, or memory is written (by assignments, or kernels of the user's), the
// results are what they were.
std::vector<Tensor> called(const std::vector<Tensor>& arguments, const std::vector<Tensor>& results,
                           const FunctionSettings& settings);

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
std::vector<Tensor> call_function(const TensorFunction& function, const std::vector<Tensor>& arguments,
                                  const FunctionSettings& settings = {});

namespace detail {

// What a function of Tensor's own computes is the same graph for all inputs of these dtypes and shapes: it is
// made once, as a body, and each call is a node. `name` is the function's, one literal; `settings` are all
// other arguments on which the graph depends. Where sizes are symbolic, or inputs are not on one device, the
// body is made for the inputs themselves.
using FunctionBody = std::function<Tensor(const std::vector<Tensor>& inputs)>;
Tensor call_of_body(const char* name, const Ints& settings, const std::vector<Tensor>& inputs,
                    const FunctionBody& body);

}  // namespace detail
}  // namespace quern
