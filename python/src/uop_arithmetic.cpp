// Arithmetic of UOps and numbers, and the number that a UOp is if its variables do not matter.
#include "python/src/uop.h"

namespace quern::python {
namespace {

using namespace nb::literals;

bool is_float_number(nb::handle h) { return PyIndex_Check(h.ptr()) == 0 && PyBool_Check(h.ptr()) == 0; }
bool has_arithmetic(DType d) { return !d.is_void() && !d.is_ptr(); }
UOp as_float(const UOp& u) {
  if (u.dtype().is_float()) return u;
  const UOp converted = u.cast(default_float());
  return u.is_const() ? converted.simplify() : converted;
}

// A number beside a node has its dtype. For nothing else: no value.
std::optional<UOp> beside(const UOp& u, nb::handle h) {
  if (nb::isinstance<UOp>(h)) return loaded(instance<UOp>(h));
  if (!is_number(h)) return {};
  return operand(h).constant(u.dtype());
}

struct Pair {
  UOp node, other;
};

// The same, where a float of Python makes a float of an integer, and a size takes the dtype of what stands
// beside it.
std::optional<Pair> together(const UOp& from, nb::handle h) {
  const UOp u = loaded(from);
  const bool widens =
      is_number(h) && is_float_number(h) && !u.dtype().is_float() && has_arithmetic(u.dtype());
  const UOp node = widens ? as_float(u) : u;
  const std::optional<UOp> other = beside(node, h);
  if (!other) return {};
  const DType a = node.dtype(), b = other->dtype();
  if (a.is_index() && !b.is_index() && has_arithmetic(b) && !b.is_bool()) return Pair{node.cast(b), *other};
  if (b.is_index() && !a.is_index() && has_arithmetic(a) && !a.is_bool()) return Pair{node, other->cast(a)};
  return Pair{node, *other};
}

template <class F>
auto of_two(F compute, bool reversed = false) {
  return [compute, reversed](const UOp& u, nb::handle other) {
    const std::optional<Pair> pair = together(u, other);
    if (!pair) return nb::borrow(Py_NotImplemented);
    return nb::cast(reversed ? compute(pair->other, pair->node) : compute(pair->node, pair->other));
  };
}

template <class F>
void arithmetic(UOpClass& uop, const std::string& name, F compute) {
  uop.def(("__" + name + "__").c_str(), of_two(compute));
  uop.def(("__r" + name + "__").c_str(), of_two(compute, true));
}

UOp quotient(const UOp& a, const UOp& b) { return as_float(a) / as_float(b); }

UOp rounded_down(const UOp& a) {
  const UOp whole = UOp::alu(Op::TRUNC, {a});
  return where(a < whole, whole - 1.0, whole);
}

UOp floor_quotient(const UOp& a, const UOp& b) { return a.dtype().is_float() ? rounded_down(a / b) : a / b; }

// A power of an integer with a small constant is a product, which has bounds and can be a size.
UOp power(const UOp& a, const UOp& b) {
  if (!a.dtype().is_int() || !b.is_int_const() || b.int_value() < 0 || b.int_value() > 62)
    return UOp::alu(Op::POW, {a, b});
  UOp product = a.const_like(1);
  for (wide i = 0; i < b.int_value(); i++) product = product * a;
  return product.simplify();
}

// ---- numbers

std::string variable_names(const UOp& u) {
  std::string names;
  for (const UOp& v : u.variables()) names += (names.empty() ? "" : ", ") + v.arg().variable().name;
  return names;
}

// What a node is whatever the values of its variables are.
nb::object decided(const char* who, const UOp& u) {
  const auto refuse = [&](const std::string& why) {
    return ValueError(std::string(who) + "() of the UOp " + u.text() + ": " + why);
  };
  if (!has_arithmetic(u.dtype()) || u.dtype().lanes() != 1)
    throw refuse("a " + u.dtype().name() + " is no number");
  if (u.has_shape() && !u.shape().empty())
    throw refuse("it has " + std::to_string(u.shape().size()) + " axes");
  const UOp simple = u.simplify();
  if (simple.is_const() && !simple.is_invalid()) return number_of(simple.value(), simple.dtype());
  const bool bounded = simple.dtype().is_int() || simple.dtype().is_bool();
  if (bounded && simple.vmin() == simple.vmax()) return nb::int_(static_cast<int64_t>(simple.vmin()));
  const std::string names = variable_names(simple);
  if (names.empty()) throw refuse("it is known when the program runs");
  const std::string range =
      simple.dtype().is_int() ? ", from " + to_string(simple.vmin()) + " to " + to_string(simple.vmax()) : "";
  throw refuse("it depends on the value of " + names + range +
               "; v.unbind()[1] is that of a variable v which was bound to one");
}

bool is_true(const UOp& u) {
  const bool never_zero = u.dtype().is_int() && (u.vmin() > 0 || u.vmax() < 0);
  return never_zero || PyObject_IsTrue(decided("bool", u).ptr()) == 1;
}

nb::object as(nb::handle type, const char* who, const UOp& u) { return type(decided(who, u)); }

}  // namespace

void bind_arithmetic(UOpClass& uop) {
  arithmetic(uop, "add", [](const UOp& a, const UOp& b) { return a + b; });
  arithmetic(uop, "sub", [](const UOp& a, const UOp& b) { return a - b; });
  arithmetic(uop, "mul", [](const UOp& a, const UOp& b) { return a * b; });
  arithmetic(uop, "truediv", &quotient);
  arithmetic(uop, "floordiv", &floor_quotient);
  arithmetic(uop, "mod", [](const UOp& a, const UOp& b) { return a % b; });
  arithmetic(uop, "pow", &power);
  arithmetic(uop, "and", [](const UOp& a, const UOp& b) { return a & b; });
  arithmetic(uop, "or", [](const UOp& a, const UOp& b) { return a | b; });
  arithmetic(uop, "xor", [](const UOp& a, const UOp& b) { return a ^ b; });
  arithmetic(uop, "lshift", [](const UOp& a, const UOp& b) { return a << b; });
  arithmetic(uop, "rshift", [](const UOp& a, const UOp& b) { return a >> b; });
  uop.def("__lt__", of_two([](const UOp& a, const UOp& b) { return a < b; }));
  uop.def("__le__", of_two([](const UOp& a, const UOp& b) { return a <= b; }));
  uop.def("__gt__", of_two([](const UOp& a, const UOp& b) { return a > b; }));
  uop.def("__ge__", of_two([](const UOp& a, const UOp& b) { return a >= b; }));
  uop.def("eq", of_two([](const UOp& a, const UOp& b) { return eq(a, b); }));
  uop.def("ne", of_two([](const UOp& a, const UOp& b) { return ne(a, b); }));
  uop.def("maximum", of_two([](const UOp& a, const UOp& b) { return max(a, b); }));
  uop.def("minimum", of_two([](const UOp& a, const UOp& b) { return min(a, b); }));
  uop.def("pow", of_two(&power));
  uop.def("__neg__", [](const UOp& u) { return -loaded(u); });
  uop.def("__invert__", [](const UOp& u) { return ~loaded(u); });
  struct Unary {
    const char* name;
    Op op;
  };
  for (const Unary& unary : {Unary{"exp2", Op::EXP2}, Unary{"log2", Op::LOG2}, Unary{"sin", Op::SIN},
                             Unary{"sqrt", Op::SQRT}, Unary{"reciprocal", Op::RECIP}})
    uop.def(unary.name, [op = unary.op](const UOp& u) { return UOp::alu(op, {as_float(loaded(u))}); });
  uop.def("trunc", [](const UOp& u) { return u.dtype().is_float() ? UOp::alu(Op::TRUNC, {u}) : u; });

  // == asks whether two are one node, as for sets and dictionaries; != compares what they will be, as
  // tinygrad's does, and its truth is refused where that is not decided.
  uop.def(
      "__eq__",
      [](const UOp& a, nb::handle b) { return nb::isinstance<UOp>(b) && same(a, instance<UOp>(b)); },
      "other"_a.none());
  uop.def(
      "__ne__",
      [](const UOp& u, nb::handle other) {
        if (nb::isinstance<UOp>(other) && !has_arithmetic(loaded(u).dtype()))
          return nb::object(nb::bool_(!same(u, instance<UOp>(other))));
        return of_two([](const UOp& a, const UOp& b) { return ne(a, b); })(u, other);
      },
      "other"_a.none());
  uop.def("__bool__", &is_true);
  uop.def("__int__", [](const UOp& u) { return as(nb::handle(&PyLong_Type), "int", u); });
  uop.def("__float__", [](const UOp& u) { return as(nb::handle(&PyFloat_Type), "float", u); });
  uop.def("__index__", [](const UOp& u) {
    if (u.dtype().is_float()) wrong_type("an integer", nb::cast(u));
    return as(nb::handle(&PyLong_Type), "int", u);
  });

  uop.def(
      "alu",
      [](const UOp& u, Op op, const nb::args& others) {
        UOps operands = {loaded(u)};
        for (nb::handle o : others) {
          const std::optional<UOp> v = beside(operands[0], o);
          if (!v) wrong_type("a UOp or a number", o);
          operands.push_back(*v);
        }
        if (!is_alu(op) || std::cmp_not_equal(operands.size(), info(op).least_sources))
          throw ValueError("alu: " + std::string(name(op)) + " of " + std::to_string(operands.size()) +
                           " operands");
        return UOp::alu(op, operands);
      },
      "op"_a, "src"_a);
  uop.def(
      "where",
      [](const UOp& u, nb::handle yes, nb::handle no) {
        const UOp known = nb::isinstance<UOp>(yes)  ? loaded(instance<UOp>(yes))
                          : nb::isinstance<UOp>(no) ? loaded(instance<UOp>(no))
                                                    : u;
        const std::optional<UOp> a = beside(known, yes), b = beside(known, no);
        if (!a) wrong_type("a UOp or a number", yes);
        if (!b) wrong_type("a UOp or a number", no);
        return where(u, *a, *b);
      },
      "x"_a, "y"_a);
}

}  // namespace quern::python
