// A row of a table of ops: the op, what it means, and on which inputs the two are compared.
#pragma once

#include <type_traits>

#include "test/ops/array.h"

namespace quern::optest {

// From tensors to tensors, from arrays to arrays. A function of one result may stand for one of many.
template <class Value>
class Function {
 public:
  using Values = std::vector<Value>;
  Function() = default;
  template <class F>
  Function(F f) {  // NOLINT(*-explicit-*)
    if constexpr (std::is_convertible_v<std::invoke_result_t<F, const Values&>, Values>)
      call_ = f;
    else
      call_ = [f](const Values& inputs) { return Values{f(inputs)}; };
  }
  Values operator()(const Values& inputs) const { return call_(inputs); }

 private:
  std::function<Values(const Values&)> call_;
};

struct Input {
  double low = -2, high = 2;        // numbers from low to high; integers from low to high, both included
  std::optional<DType> dtype = {};  // one that does not vary with the row
};

using Types = std::vector<DType>;
extern const Types kAll, kNumbers, kSigned, kInts, kFloats, kWide, kBits;

struct Row {
  std::string name;  // begins with the name of the method
  Function<Tensor> ours;
  Function<Array> reference;  // numbers need not be rounded
  std::vector<Input> inputs = {{}};
  std::vector<std::vector<Ints>> shapes = {};  // of the inputs, a case each
  Types types = kFloats;
  Closeness close = {};         // of float32 and float64
  double narrow = 1;            // ulps of narrower floats
  std::vector<size_t> by = {};  // inputs that it is differentiable by
  bool twice = false;           // and the gradient once more
  bool wrapping = false;        // integers of any size may come: the reference wraps
  bool specials = false;        // infinities, NaN and zeros may come
  double slope = 1e-9;          // how far gradients may be from differences, relative to the greatest
};

// Dtypes of results.
inline DType as_is(DType d) { return d; }
inline DType as_float(DType d) { return d.is_float() ? d : dtypes::float32; }
inline DType as_bool(DType) { return dtypes::bool_; }
inline DType as_place(DType) { return dtypes::int32; }
DType as_sum(DType d);  // 32 bits at least; floats stay

// A row of an elementwise op: its shapes are broadcast.
using Rule = DType (*)(DType);
using OfNumbers = std::function<Number(const Numbers&)>;
using OfWholes = std::function<Whole(const std::vector<Whole>&, DType)>;
Function<Array> pointwise(Rule result, OfNumbers f, OfWholes integers = {});
std::vector<std::vector<Ints>> broadcast_cases(size_t inputs);
Row unary(const std::string& name, Tensor (Tensor::*method)() const, Number (*f)(Number), double low,
          double high, double ulps);

// A row of an op that moves values: of every dtype, exact, differentiable by all inputs.
Row moving(const std::string& name, Function<Tensor> ours, Function<Array> reference,
           const std::vector<std::vector<Ints>>& shapes);

// Every dtype once, every shape in every layout.
void expect_values(const Row& row);
// Gradients against differences of the reference, in every layout; their dtypes.
void expect_gradients(const Row& row);

// The gradient of a function of one number at these points, where it has a slope.
void expect_gradients_at(const Row& row, const Numbers& points);

inline void expect_all(const std::vector<Row>& rows) {
  for (const Row& row : rows) expect_values(row);
}
inline void expect_all_gradients(const std::vector<Row>& rows) {
  for (const Row& row : rows) expect_gradients(row);
}

// Random numbers for a row: the same in every run.
std::mt19937_64 generator(const std::string& name);
Array random_array(std::mt19937_64& random, DType dtype, const Ints& shape, const Input& input,
                   bool any_size = false);

}  // namespace quern::optest
