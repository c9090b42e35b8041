// Captured functions, and functions as nodes. Python takes arguments and results apart (quern/jit.py); here
// they are lists of tensors and sizes.
#include "quern/engine/jit/jit.h"

#include "python/src/bind.h"
#include "quern/tensor/core/function.h"
#include "quern/tensor/ops/keccak.h"

namespace quern::python {
namespace {

using namespace nb::literals;

detail::JitArguments places(std::vector<Tensor>& tensors, const std::vector<Dim>& dims) {
  detail::JitArguments all;
  for (Tensor& t : tensors) all.tensors.push_back({&t});
  for (const Dim& d : dims) all.dims.push_back({&d});
  all.lengths.push_back(tensors.size());
  return all;
}

class Calls {
 public:
  // The results, or None if the function is to be run.
  nb::object replay(std::vector<Tensor> tensors, const Shape& dims) {
    bool replayed = false;
    std::vector<Tensor> results;
    {
      const Unlocked unlocked;
      const detail::JitArguments given = places(tensors, dims);
      const detail::JitCalls::Replayed ran = calls_.replay(given);
      replayed = static_cast<bool>(ran);
      if (replayed) {
        const detail::JitResults from = ran.results();
        results.assign(from.tensor, from.tensor + *from.length);
      }
    }
    if (!replayed) return nb::none();
    return nb::cast(results);
  }

  // `function` gets the tensors, others perhaps than were given, and returns a list of tensors.
  void run(std::vector<Tensor> tensors, const Shape& dims, const nb::callable& function) {
    const Unlocked unlocked;
    const detail::JitArguments given = places(tensors, dims);
    std::vector<Tensor> results;
    calls_.run(given, [&] {
      const Locked lock;
      const nb::object given_to = nb::cast(tensors);
      const nb::object found = run_python([&] { return function(given_to); });
      if (!nb::try_cast(found, results)) wrong_type("tensors as results of the function", found);
      return places(results, {});
    });
  }

  void reset() { calls_.reset(); }
  bool is_captured() const { return calls_.is_captured(); }
  int64_t kernels() const { return calls_.kernels(); }
  int64_t memory_bytes() const { return calls_.memory_bytes(); }

 private:
  detail::JitCalls calls_;
};

}  // namespace

void bind_jit(nb::module_& m) {
  nb::class_<Calls>(m, "JitCalls")
      .def(nb::init<>())
      .def("replay", &Calls::replay, "tensors"_a, "dims"_a)
      .def("run", &Calls::run, "tensors"_a, "dims"_a, "function"_a)
      .def("reset", &Calls::reset)
      .def_prop_ro("is_captured", &Calls::is_captured)
      .def_prop_ro("kernels", &Calls::kernels)
      .def_prop_ro("memory_bytes", &Calls::memory_bytes);
  m.def(
      "called",
      [](const std::vector<Tensor>& arguments, const std::vector<Tensor>& results, const std::string& name,
         bool precompile, bool allow_implicit, int64_t begun) {
        return called(
            arguments, results,
            {.name = name, .precompile = precompile, .allow_implicit = allow_implicit, .begun = begun});
      },
      "arguments"_a, "results"_a, "name"_a, "precompile"_a, "allow_implicit"_a, "begun"_a);
  m.def("memory_mark", &memory_mark);
  m.def("keccak_states", &keccak_states, "blocks"_a);
}

}  // namespace quern::python
