// The extension quern._core: a function a topic, each of which adds its part to the module or to the class
// Tensor.
#pragma once

#include "python/src/casters.h"
#include "python/src/lock.h"

namespace quern::python {

using TensorClass = nb::class_<Tensor>;

void bind_host();
void bind_errors(nb::module_& m);
void bind_dtype(nb::module_& m);
void bind_device(nb::module_& m);
void bind_settings(nb::module_& m);  // environment variables, counters, defaults
void bind_buffer(nb::module_& m);
void bind_uop(nb::module_& m);
void bind_making(TensorClass& tensor);
void bind_movement(TensorClass& tensor);
void bind_indexing(TensorClass& tensor);
void bind_elementwise(TensorClass& tensor);
void bind_operators(TensorClass& tensor);
void bind_reduce(TensorClass& tensor);
void bind_layers(TensorClass& tensor);
void bind_running(TensorClass& tensor);
void bind_gradients(nb::module_& m);
void bind_signatures(nb::module_& m);
void bind_values(TensorClass& tensor);  // to and from NumPy, lists, bytes
void bind_jit(nb::module_& m);
void bind_optim(nb::module_& m);
void bind_io(nb::module_& m);
void bind_llm(nb::module_& m);

// Results that have names: a tuple of quern.results.
nb::object named_pair(const char* kind, const Tensor& first, const Tensor& second);
inline nb::object values_and_indices(const std::pair<Tensor, Tensor>& both) {
  return named_pair("ValuesIndices", both.first, both.second);
}

// A number for a dtype that was asked for: what a cast makes of it.
Operand cast_to(const Operand& number, DType dtype);
// What Tensor(data) makes: of a number, nested lists of numbers (or of tensors), bytes, an array, a UOp, a
// path.
Tensor tensor_of(nb::handle data, std::optional<DType> dtype, const std::string& device);

// A value of Python from a constant: bool, int or float.
nb::object number_of(const Const& value, DType dtype);

// Runs without Python's lock: other threads go on meanwhile. For files and copies: what reads and changes
// tensors holds the lock, and the engine lets go of it while kernels are compiled and run.
template <class F>
auto without_lock(F&& f) {
  const Unlocked unlocked;
  return f();
}

// Keeps an object of Python alive from C++, wherever the last copy goes: also in a thread without Python's
// lock. Python is asked to let go of it then, which it does in its main thread only: so does let_go(), where
// tensors are made and computed, in any thread that has the lock.
std::shared_ptr<void> keep_alive(nb::object object);
void let_go();

}  // namespace quern::python
