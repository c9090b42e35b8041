// Functions of each element.
#include "python/src/bind.h"

namespace quern::python {
namespace {

using namespace nb::literals;

struct Unary {
  const char* name;
  Tensor (Tensor::*function)() const;
  const char* doc;
};
constexpr Unary kUnary[] = {
    {"neg", &Tensor::neg, "The negative of each element."},
    {"reciprocal", &Tensor::reciprocal, "1 / x."},
    {"abs", &Tensor::abs, "The absolute value of each element."},
    {"sign", &Tensor::sign, "-1, 0 or 1 by the sign of each element."},
    {"square", &Tensor::square, "x * x."},
    {"sqrt", &Tensor::sqrt, "The square root; NaN of negative numbers."},
    {"rsqrt", &Tensor::rsqrt, "1 / sqrt(x)."},
    {"trunc", &Tensor::trunc, "Rounds towards zero."},
    {"floor", &Tensor::floor, "Rounds down."},
    {"ceil", &Tensor::ceil, "Rounds up."},
    {"round", &Tensor::round, "Rounds to the nearest integer, halves to the even one."},
    {"exp", &Tensor::exp, "e to the power of each element."},
    {"exp2", &Tensor::exp2, "2 to the power of each element."},
    {"expm1", &Tensor::expm1, "exp(x) - 1, precise near 0."},
    {"log", &Tensor::log, "The natural logarithm."},
    {"log2", &Tensor::log2, "The logarithm to base 2."},
    {"log10", &Tensor::log10, "The logarithm to base 10."},
    {"log1p", &Tensor::log1p, "log(1 + x), precise near 0."},
    {"sin", &Tensor::sin, "The sine, of radians."},
    {"cos", &Tensor::cos, "The cosine, of radians."},
    {"tan", &Tensor::tan, "The tangent, of radians."},
    {"asin", &Tensor::asin, "The inverse of sin."},
    {"acos", &Tensor::acos, "The inverse of cos."},
    {"atan", &Tensor::atan, "The inverse of tan."},
    {"sinh", &Tensor::sinh, "The hyperbolic sine."},
    {"cosh", &Tensor::cosh, "The hyperbolic cosine."},
    {"tanh", &Tensor::tanh, "The hyperbolic tangent."},
    {"asinh", &Tensor::asinh, "The inverse of sinh."},
    {"acosh", &Tensor::acosh, "The inverse of cosh."},
    {"atanh", &Tensor::atanh, "The inverse of tanh."},
    {"erf", &Tensor::erf, "The error function."},
    {"isnan", &Tensor::isnan, "Whether each element is NaN."},
    {"isfinite", &Tensor::isfinite, "Whether each element is neither infinite nor NaN."},
    {"bitwise_not", &Tensor::bitwise_not, "All bits inverted; of bools: not."},
    {"logical_not", &Tensor::logical_not, "Whether each element is zero."},
    {"sigmoid", &Tensor::sigmoid, "1 / (1 + exp(-x))."},
    {"logsigmoid", &Tensor::logsigmoid, "log(sigmoid(x)), without overflow."},
    {"relu", &Tensor::relu, "max(x, 0)."},
    {"relu6", &Tensor::relu6, "x within 0 and 6."},
    {"quick_gelu", &Tensor::quick_gelu, "x * sigmoid(1.702 x)."},
    {"silu", &Tensor::silu, "x * sigmoid(x)."},
    {"swish", &Tensor::swish, "x * sigmoid(x)."},
    {"mish", &Tensor::mish, "x * tanh(softplus(x))."},
    {"softsign", &Tensor::softsign, "x / (1 + |x|)."},
    {"hardswish", &Tensor::hardswish, "x * relu6(x + 3) / 6."},
    {"absolute", &Tensor::abs, "The absolute value of each element."},
    {"deg2rad", &Tensor::deg2rad, "Degrees as radians."},
    {"rad2deg", &Tensor::rad2deg, "Radians as degrees."},
    {"frac", &Tensor::frac, "What trunc() takes away."},
    {"signbit", &Tensor::signbit, "Whether each element is negative, -0 included."},
    {"tanhshrink", &Tensor::tanhshrink, "x - tanh(x)."},
};

struct Cast {
  const char* name;
  DType dtype;
};
constexpr Cast kCasts[] = {
    {"half", dtypes::float16},  {"float", dtypes::float32},     {"double", dtypes::float64},
    {"int", dtypes::int32},     {"long", dtypes::int64},        {"short", dtypes::int16},
    {"bool", dtypes::bool_},    {"bfloat16", dtypes::bfloat16}, {"f16", dtypes::float16},
    {"bf16", dtypes::bfloat16}, {"f32", dtypes::float32},       {"f64", dtypes::float64},
    {"i32", dtypes::int32},     {"i64", dtypes::int64}};

struct Binary {
  const char* name;
  Tensor (Tensor::*function)(const Operand&) const;
  const char* doc;
  bool reversible = false;
  const char* argument = "x";
};
constexpr Binary kBinary[] = {
    {"add", &Tensor::add, "x + y; shapes are broadcast and dtypes promoted.", true},
    {"sub", &Tensor::sub, "x - y.", true},
    {"mul", &Tensor::mul, "x * y.", true},
    {"mod", &Tensor::mod, "The rest of a division that rounds down: it has the sign of the divisor.", true},
    {"pow", &Tensor::pow, "x to the power of y.", true},
    {"bitwise_and", &Tensor::bitwise_and, "The bits that both have.", true},
    {"bitwise_or", &Tensor::bitwise_or, "The bits that one of them has.", true},
    {"bitwise_xor", &Tensor::bitwise_xor, "The bits in which they differ.", true},
    {"lshift", &Tensor::lshift, "The bits moved up by as many places.", true},
    {"rshift", &Tensor::rshift, "The bits moved down by as many places.", true},
    {"floordiv", &Tensor::floordiv, "x / y, rounded down.", true},
    {"fmod", &Tensor::fmod,
     "The rest of a division that rounds towards zero: it has the sign of the dividend."},
    {"maximum", &Tensor::maximum, "The greater of both; NaN if one of them is."},
    {"minimum", &Tensor::minimum, "The lesser of both; NaN if one of them is."},
    {"eq", &Tensor::eq, "Whether they are equal."},
    {"ne", &Tensor::ne, "Whether they differ."},
    {"lt", &Tensor::lt, "Whether x < y."},
    {"le", &Tensor::le, "Whether x <= y."},
    {"gt", &Tensor::gt, "Whether x > y."},
    {"ge", &Tensor::ge, "Whether x >= y."},
    {"copysign", &Tensor::copysign, "x with the sign of y.", false, "other"},
    {"logaddexp", &Tensor::logaddexp, "log(exp(x) + exp(y)), without overflow.", false, "other"},
    {"atan2", &Tensor::atan2, "The angle of the point (other, this), from -pi to pi.", false, "other"},
    {"arctan2", &Tensor::atan2, "The angle of the point (other, this), from -pi to pi.", false, "other"},
    {"hypot", &Tensor::hypot, "sqrt(x^2 + y^2), without overflow.", false, "other"},
    {"remainder", &Tensor::mod, "mod(): the rest of a division that rounds down.", false, "other"},
    {"floor_divide", &Tensor::floordiv, "x / y, rounded down.", false, "other"},
    {"subtract", &Tensor::sub, "x - y.", false, "other"},
    {"multiply", &Tensor::mul, "x * y.", false, "other"},
    {"logical_and", &Tensor::logical_and, "Whether neither is zero.", false, "other"},
    {"logical_or", &Tensor::logical_or, "Whether one of them is not zero.", false, "other"},
    {"logical_xor", &Tensor::logical_xor, "Whether one of them is zero, and the other is not.", false,
     "other"},
    {"xlogy", &Tensor::xlogy, "x * log(y), 0 where x is 0.", false, "other"},
    {"clamp_min", &Tensor::clamp_min, "Not less than a bound.", false, "min"},
    {"clamp_max", &Tensor::clamp_max, "Not more than a bound.", false, "max"},
};

// A tensor of the operand, to stand on the left. A number takes the dtype that it has beside `other`.
Tensor left_of(const Operand& x, const Tensor& other) {
  if (x.is_tensor()) return x.tensor();
  return Tensor::full({}, x, {.dtype = x.dtype_beside(other.dtype())});  // a constant is everywhere
}

Tensor divided(const Tensor& x, const Operand& y, bool reverse, const std::optional<std::string>& mode) {
  return reverse ? left_of(y, x).div(x, mode.value_or("")) : x.div(y, mode.value_or(""));
}

Tensor clamped(const Tensor& x, nb::handle least, nb::handle most) {
  if (least.is_none() && most.is_none())
    throw ValueError("clamp: neither a least nor a greatest value is given");
  if (least.is_none()) return x.clamp_max(operand(most));
  if (most.is_none()) return x.clamp_min(operand(least));
  return x.clamp(operand(least), operand(most));
}

Tensor is_infinite(const Tensor& x, bool positive, bool negative) {
  if (positive && negative) return x.isinf();
  if (!positive && !negative) return x.isinf().bitwise_and(false);
  return x.isinf().bitwise_and(positive ? x.gt(0) : x.lt(0));
}

}  // namespace

void bind_elementwise(TensorClass& tensor) {
  for (const Unary& u : kUnary)
    tensor.def(u.name, [f = u.function](const Tensor& x) { return (x.*f)(); }, u.doc);
  for (const Cast& c : kCasts)
    tensor.def(
        c.name, [to = c.dtype](const Tensor& x) { return x.cast(to); },
        ("Converted to " + c.dtype.name() + ".").c_str());
  for (const Binary& b : kBinary) {
    if (b.reversible)
      tensor.def(
          b.name,
          [f = b.function](const Tensor& x, const Operand& y, bool reverse) {
            return reverse ? (left_of(y, x).*f)(x) : (x.*f)(y);
          },
          "x"_a, "reverse"_a = false, b.doc);
    else
      tensor.def(
          b.name, [f = b.function](const Tensor& x, const Operand& y) { return (x.*f)(y); },
          nb::arg(b.argument), b.doc);
  }
  tensor.def("div", &divided, "x"_a, "reverse"_a = false, "rounding_mode"_a = nb::none(),
             "x / y; rounding_mode 'floor' or 'trunc' rounds the result.");
  for (const char* name : {"divide", "true_divide"})
    tensor.def(
        name,
        [](const Tensor& x, const Operand& y, const std::optional<std::string>& mode) {
          return divided(x, y, false, mode);
        },
        "other"_a, nb::kw_only(), "rounding_mode"_a = nb::none(),
        "x / y; rounding_mode 'floor' or 'trunc' rounds the result.");
  tensor.def("addcmul", &Tensor::addcmul, "tensor1"_a, "tensor2"_a, nb::kw_only(), "value"_a = 1.0,
             "This + value * tensor1 * tensor2.");
  tensor.def("addcdiv", &Tensor::addcdiv, "tensor1"_a, "tensor2"_a, nb::kw_only(), "value"_a = 1.0,
             "This + value * tensor1 / tensor2.");
  tensor.def("nan_to_num", &Tensor::nan_to_num, "nan"_a = 0.0, "posinf"_a = nb::none(),
             "neginf"_a = nb::none(),
             "With numbers for what is none: infinite ones become the greatest and the least, unless given.");
  tensor.def("logit", &Tensor::logit, "eps"_a = nb::none(),
             "log(x / (1 - x)), of x kept within [eps, 1 - eps].");
  tensor.def("hardshrink", &Tensor::hardshrink, "lambd"_a = 0.5, "0 within [-lambd, lambd].");
  tensor.def("softshrink", &Tensor::softshrink, "lambd"_a = 0.5, "Nearer to 0 by lambd, or 0.");
  tensor.def("threshold", &Tensor::threshold, "threshold"_a, "value"_a,
             "x where it is above the threshold, else the value.");
  tensor.def("prelu", &Tensor::prelu, "weight"_a,
             "x where it is positive, else weight * x; the weight is one, or one for each of axis 1.");
  tensor.def("glu", &Tensor::glu, "dim"_a = -1, "One half along an axis by the sigmoid of the other.");
  tensor.def("where", &Tensor::where, "x"_a, "y"_a, "x where this is true, y elsewhere.");
  tensor.def("lerp", &Tensor::lerp, "end"_a, "weight"_a, "From here to `end`, `weight` of the way.");
  for (const char* name : {"clamp", "clip"})
    tensor.def(name, &clamped, "min_"_a = nb::none(), "max_"_a = nb::none(), "Kept within bounds.");
  tensor.def("isinf", &is_infinite, "detect_positive"_a = true, "detect_negative"_a = true,
             "Whether each element is infinite.");
  tensor.def(
      "isclose",
      [](const Tensor& x, const Operand& other, double rtol, double atol, bool equal_nan) {
        return x.isclose(left_of(other, x), rtol, atol, equal_nan);
      },
      "other"_a, "rtol"_a = 1e-5, "atol"_a = 1e-8, "equal_nan"_a = false,
      "Whether they differ by no more than atol + rtol * |other|.");
  tensor.def(
      "allclose",
      [](const Tensor& x, const Operand& other, double rtol, double atol, bool equal_nan) {
        return x.isclose(left_of(other, x), rtol, atol, equal_nan).all();
      },
      "other"_a, "rtol"_a = 1e-5, "atol"_a = 1e-8, "equal_nan"_a = false,
      "Whether isclose() holds for all elements: one bool.");
  tensor.def("threefry", &Tensor::threefry, "seed"_a,
             "A block cipher: random bits from counters (self) and keys.");
  tensor.def(
      "cast", [](const Tensor& x, nb::handle to) { return x.cast(dtype(to)); }, "dtype"_a,
      "Converted to another dtype.");
  tensor.def(
      "bitcast", [](const Tensor& x, nb::handle to) { return x.bitcast(dtype(to)); }, "dtype"_a,
      "The same bits as another dtype.");
  tensor.def("leaky_relu", &Tensor::leaky_relu, "neg_slope"_a = 0.01,
             "x where it is positive, else neg_slope * x.");
  tensor.def("elu", &Tensor::elu, "alpha"_a = 1.0, "x where it is positive, else alpha * (exp(x) - 1).");
  tensor.def("celu", &Tensor::celu, "alpha"_a = 1.0, "max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0).");
  tensor.def("selu", &Tensor::selu, "alpha"_a = 1.67326324235437728481, "gamma"_a = 1.05070098735548049342,
             "gamma * elu(x, alpha).");
  tensor.def("gelu", &Tensor::gelu, "approximate"_a = "tanh",
             "x * P(normal <= x); 'none' for the exact form.");
  tensor.def("softplus", &Tensor::softplus, "beta"_a = 1.0, "log(1 + exp(beta * x)) / beta.");
  tensor.def(
      "hardsigmoid",
      [](const Tensor& x, double alpha, double beta) {
        return alpha == 1.0 / 6 && beta == 0.5 ? x.hardsigmoid() : x.mul(alpha).add(beta).relu().clamp_max(1);
      },
      "alpha"_a = 1.0 / 6, "beta"_a = 0.5, "alpha * x + beta within 0 and 1.");
  tensor.def("hardtanh", &Tensor::hardtanh, "min_val"_a = -1.0, "max_val"_a = 1.0, "x within bounds.");
}

// ---- x + y and the others

namespace {

struct Operator {
  const char* name;
  Tensor (Tensor::*function)(const Operand&) const;
};
constexpr Operator kOperators[] = {
    {"add", &Tensor::add},       {"sub", &Tensor::sub},          {"mul", &Tensor::mul},
    {"mod", &Tensor::mod},       {"pow", &Tensor::pow},          {"and", &Tensor::bitwise_and},
    {"or", &Tensor::bitwise_or}, {"xor", &Tensor::bitwise_xor},  {"lshift", &Tensor::lshift},
    {"rshift", &Tensor::rshift}, {"floordiv", &Tensor::floordiv}};
constexpr Operator kComparisons[] = {{"__eq__", &Tensor::eq}, {"__ne__", &Tensor::ne},
                                     {"__lt__", &Tensor::lt}, {"__le__", &Tensor::le},
                                     {"__gt__", &Tensor::gt}, {"__ge__", &Tensor::ge}};

// Python tries the other side, or says that the types do not go together.
nb::object not_implemented() { return nb::borrow(Py_NotImplemented); }

// `commutes`: what stands on the left may as well stand on the right, where a number may be one that the
// dtype of the tensor does not have.
template <class F>
void define(TensorClass& tensor, const std::string& name, F compute, bool commutes = false) {
  tensor.def(("__" + name + "__").c_str(),
             [compute](const Tensor& x, nb::handle other) {
               const std::optional<Operand> y = try_operand(other);
               return y ? nb::cast(compute(x, *y)) : not_implemented();
             },
             "other"_a.none());
  tensor.def(("__r" + name + "__").c_str(),
             [compute, commutes](const Tensor& x, nb::handle other) {
               const std::optional<Operand> y = try_operand(other);
               if (!y) return not_implemented();
               return nb::cast(commutes ? compute(x, *y) : compute(left_of(*y, x), Operand(x)));
             },
             "other"_a.none());
  tensor.def(("__i" + name + "__").c_str(),
             [compute](nb::handle self, nb::handle other) {
               const std::optional<Operand> y = try_operand(other);
               if (!y) return not_implemented();
               const Tensor& x = python::tensor(self);
               x.assign(compute(x, *y));
               return nb::borrow(self);
             },
             "other"_a.none());
}

}  // namespace

void bind_operators(TensorClass& tensor) {
  for (const Operator& o : kOperators) {
    const std::string name = o.name;
    define(
        tensor, name, [f = o.function](const Tensor& x, const Operand& y) { return (x.*f)(y); },
        name == "and" || name == "or" || name == "xor");
  }
  define(tensor, "truediv", [](const Tensor& x, const Operand& y) { return x.div(y); });
  define(tensor, "matmul", [](const Tensor& x, const Operand& y) {
    if (!y.is_tensor()) throw nb::type_error("@: expected two tensors, got a number");
    return x.matmul(y.tensor());
  });
  for (const Operator& o : kComparisons)
    tensor.def(
        o.name,
        [f = o.function](const Tensor& x, nb::handle other) {
          const std::optional<Operand> y = try_operand(other);
          return y ? nb::cast((x.*f)(*y)) : not_implemented();
        },
        "other"_a.none());
  tensor.def("__neg__", &Tensor::neg);
  tensor.def("__pos__", [](const Tensor& x) { return x; });
  tensor.def("__abs__", &Tensor::abs);
  tensor.def("__invert__", &Tensor::bitwise_not);
  tensor.def("__round__", [](const Tensor& x) { return x.round(); });
  tensor.def("__hash__", [](const Tensor& x) {
    return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(x.state().get()) >> 4);
  });
}

}  // namespace quern::python
