"""Functions of one tensor, element by element."""

import math

import numpy as np

from reference import ALL, FLOATS, INTS, SIGNED, between, given, normal, nonzero, op, positive, checks_of, shape_checks_of

erf = np.vectorize(math.erf, otypes=[float])
SPECIAL = given([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.5, -1e30], "float32")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x, beta=1.0):
    return np.logaddexp(0, beta * x) / beta


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(x))


X, POSITIVE, NONZERO, UNIT = normal(3, 7), positive(3, 7), nonzero(3, 7), between(-0.9, 0.9, 3, 7)
ABOVE_ONE = between(1.1, 4, 3, 7)
MATH = {"dtypes": f"int8 int32 {FLOATS}", "out": "float"}  # what gives floats of integers
REAL = {"dtypes": FLOATS}
STEPS = {"dtypes": f"int32 {FLOATS}", "grad": False}  # their gradient is 0: test_ops_gradient.py

TABLE = [
    op("neg", None, np.negative, X, dtypes=f"{INTS} {FLOATS}"),
    op("reciprocal", None, np.reciprocal, NONZERO, **MATH),
    op("abs", None, np.abs, X, dtypes=f"{INTS} {FLOATS}"),
    op("sign", None, np.sign, X, dtypes=f"{INTS} {FLOATS}", grad=False),
    op("square", None, np.square, X, dtypes=f"{INTS} {FLOATS}"),
    op("sqrt", None, np.sqrt, POSITIVE, **MATH),
    op("rsqrt", None, lambda x: 1 / np.sqrt(x), POSITIVE, **MATH),
    op("trunc", None, np.trunc, X, **STEPS),
    op("floor", None, np.floor, X, **STEPS),
    op("ceil", None, np.ceil, X, **STEPS),
    op("round", None, np.rint, X, **STEPS),
    op("round", None, np.rint, between(-8, 8, 3, 7), dtypes="int8 uint64", grad=False),
    op("exp", None, np.exp, X, **MATH),
    op("exp2", None, np.exp2, X, **MATH),
    op("expm1", None, np.expm1, X, **MATH),
    op("log", None, np.log, POSITIVE, **MATH),
    op("log2", None, np.log2, POSITIVE, **MATH),
    op("log10", None, np.log10, POSITIVE, **MATH),
    op("log1p", None, np.log1p, POSITIVE, **MATH),
    op("sin", None, np.sin, X, **MATH),
    op("cos", None, np.cos, X, **MATH),
    op("tan", None, np.tan, UNIT, **REAL),
    op("asin", None, np.arcsin, UNIT, **REAL),
    op("acos", None, np.arccos, UNIT, **REAL),
    op("atan", None, np.arctan, X, **MATH),
    op("sinh", None, np.sinh, X, **MATH),
    op("cosh", None, np.cosh, X, **MATH),
    op("tanh", None, np.tanh, X, **MATH),
    op("asinh", None, np.arcsinh, X, **MATH),
    op("acosh", None, np.arccosh, ABOVE_ONE, **REAL),
    op("atanh", None, np.arctanh, UNIT, **REAL),
    op("erf", None, erf, X, **MATH, smoke=True),
    op("sigmoid", None, sigmoid, X, **MATH),
    op("logsigmoid", None, lambda x: -softplus(-x), X, **MATH),
    op("relu", None, lambda x: np.maximum(x, x.dtype.type(0)), X, dtypes=f"{INTS} {FLOATS}"),
    op("relu6", None, lambda x: np.clip(x, 0, 6), X, dtypes=FLOATS),
    op("leaky_relu", None, lambda x: np.where(x > 0, x, 0.01 * x), X, **REAL),
    op("leaky_relu", lambda x: x.leaky_relu(0.5), lambda x: np.where(x > 0, x, 0.5 * x), X),
    op("elu", None, elu, X, **REAL),
    op("elu", lambda x: x.elu(alpha=2.5), lambda x: elu(x, 2.5), X),
    op("celu", None, elu, X, **REAL),
    op("celu", lambda x: x.celu(2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), X),
    op("selu", None, lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772), X, **REAL),
    op("selu", lambda x: x.selu(alpha=2.0, gamma=3.0), lambda x: 3 * elu(x, 2), X),
    op("gelu", None, lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), X, **REAL, smoke=True),
    op("gelu", lambda x: x.gelu("none"), lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), X, **REAL),
    op("quick_gelu", None, lambda x: x * sigmoid(1.702 * x), X, **REAL),
    op("silu", None, lambda x: x * sigmoid(x), X, **REAL),
    op("swish", None, lambda x: x * sigmoid(x), X, **REAL),
    op("mish", None, lambda x: x * np.tanh(softplus(x)), X, **REAL),
    op("softplus", None, softplus, X, **REAL),
    op("softplus", lambda x: x.softplus(beta=3.0), lambda x: softplus(x, 3.0), X),
    op("softsign", None, lambda x: x / (1 + np.abs(x)), X, **REAL),
    op("hardsigmoid", None, lambda x: np.clip(x / 6 + 0.5, 0, 1), X, **REAL),
    op("hardsigmoid", lambda x: x.hardsigmoid(0.25, 0.4), lambda x: np.clip(0.25 * x + 0.4, 0, 1), X),
    op("hardswish", None, lambda x: x * np.clip(x + 3, 0, 6) / 6, X, **REAL),
    op("hardtanh", None, lambda x: np.clip(x, -1, 1), X, **REAL),
    op("hardtanh", lambda x: x.hardtanh(-0.5, 2.5), lambda x: np.clip(x, -0.5, 2.5), X),
    op("isnan", None, np.isnan, X, dtypes=f"int32 {FLOATS}", out="bool"),
    op("isinf", None, np.isinf, X, dtypes=f"int32 {FLOATS}", out="bool"),
    op("isfinite", None, np.isfinite, X, dtypes=f"int32 {FLOATS}", out="bool"),
    op("bitwise_not", None, np.bitwise_not, X, dtypes=f"bool {INTS}"),
    op("logical_not", None, np.logical_not, X, dtypes=ALL, out="bool"),
    op("absolute", None, np.abs, X, dtypes=f"{INTS} {FLOATS}"),
    op("deg2rad", None, np.deg2rad, X, **MATH),
    op("rad2deg", None, np.rad2deg, X, **MATH),
    op("frac", None, lambda x: np.modf(x)[0], X, **REAL),
    op("signbit", None, np.signbit, X, dtypes=FLOATS, out="bool"),
    op("signbit", None, lambda x: x < 0, X, dtypes=INTS, out="bool"),
    op("tanhshrink", None, lambda x: x - np.tanh(x), X, dtypes="float32 float64"),
    op("hardshrink", None, lambda x: np.where(np.abs(x) <= 0.5, 0, x), X, **REAL),
    op("hardshrink", lambda x: x.hardshrink(2), lambda x: np.where(np.abs(x) <= 2, 0, x), X),
    op("softshrink", None, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0), X, **REAL),
    op("softshrink", lambda x: x.softshrink(0.1), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.1, 0), X),
    op("threshold", lambda x: x.threshold(0.5, -3), lambda x: np.where(x > 0.5, x, x.dtype.type(-3)), X, dtypes=f"int8 int64 {FLOATS}"),
    op("nan_to_num", None, np.nan_to_num, X, dtypes=f"int32 {FLOATS}"),
    op("nan_to_num", lambda x: x.nan_to_num(1.5, 7, -8), lambda x: np.nan_to_num(x, nan=1.5, posinf=7, neginf=-8), X),
    op("logit", None, lambda x: np.log(x / (1 - x)), between(0.05, 0.95, 3, 7), dtypes="float32 float64"),
    op("logit", lambda x: x.logit(0.25), lambda x: np.log(np.clip(x, 0.25, 0.75) / (1 - np.clip(x, 0.25, 0.75))),
       between(0.05, 0.95, 3, 7), dtypes="float32 float64", loose=10),  # near 1/2 the logarithm is small
    # operators of Python
    op("neg", lambda x: -x, np.negative, X, dtypes=f"{SIGNED} float32"),
    op("abs", lambda x: abs(x), np.abs, X, dtypes=f"{SIGNED} float32"),
    op("round", lambda x: round(x), np.rint, X),
    op("bitwise_not", lambda x: ~x, np.bitwise_not, X, dtypes="bool int8 uint32"),
    op("__pos__", lambda x: +x, np.positive, X, dtypes="int8 float32"),
]

for name in "abs sign sqrt trunc floor ceil exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh isnan isinf isfinite".split():
    TABLE.append(op(name, None, getattr(np, name), SPECIAL, dtypes="float32", grad=False, views=False,
                    out="bool" if name.startswith("is") else "same"))
TABLE += [
    op("relu", None, lambda x: np.maximum(x, 0), SPECIAL, dtypes="float32", grad=False, views=False),
    op("sigmoid", None, sigmoid, SPECIAL, dtypes="float32", grad=False, views=False),
    op("softplus", None, softplus, SPECIAL, dtypes="float32", grad=False, views=False),
    op("reciprocal", None, lambda x: 1 / x, SPECIAL, dtypes="float32", grad=False, views=False),
    op("asin", None, np.arcsin, SPECIAL, dtypes="float32", grad=False, views=False),
    op("atan", None, np.arctan, SPECIAL, dtypes="float32", grad=False, views=False),
    op("asinh", None, np.arcsinh, SPECIAL, dtypes="float32", grad=False, views=False),
    op("erf", None, erf, SPECIAL, dtypes="float32", grad=False, views=False),
    op("nan_to_num", lambda x: x.nan_to_num(2.5), lambda x: np.nan_to_num(x.astype(np.float32), nan=2.5), SPECIAL, dtypes="float32",
       views=False),
    op("nan_to_num", lambda x: x.nan_to_num(posinf=9.0), lambda x: np.nan_to_num(x.astype(np.float32), posinf=9.0), SPECIAL, dtypes="float32",
       views=False),
    op("signbit", None, np.signbit, SPECIAL, dtypes="float32", out="bool", views=False),
    op("isinf", lambda x: x.isinf(detect_negative=False), np.isposinf, SPECIAL, dtypes="float32", out="bool", views=False),
    op("isinf", lambda x: x.isinf(detect_positive=False), np.isneginf, SPECIAL, dtypes="float32", out="bool", views=False),
]

test_values, test_gradient, test_views = checks_of(TABLE)
test_shapes = shape_checks_of([e for e in TABLE if e.views])
