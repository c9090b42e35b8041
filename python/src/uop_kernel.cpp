// What kernels in Python are written with: places in memory, loads, stores, loops that end.
#include "python/src/uop.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/ir/spec/spec.h"

namespace quern::python {
namespace {

using namespace nb::literals;

bool is_place(const UOp& u) { return u.op() == Op::INDEX && u.dtype().is_ptr(); }

UOp checked(UOp made) {
  check_node(made);
  return made;
}

UOps nodes_of(const char* who, const nb::tuple& given) {
  UOps nodes;
  for (nb::handle h : given) {
    if (!nb::isinstance<UOp>(h)) wrong_type((std::string("a UOp for ") + who).c_str(), h);
    nodes.push_back(instance<UOp>(h));
  }
  return nodes;
}

UOp with(Op op, DType dtype, const UOp& u, const UOps& others, const Arg& arg = {}) {
  UOps src = {u};
  src.insert(src.end(), others.begin(), others.end());
  return checked(UOp::make(op, dtype, src, arg));
}

UOp place(const UOp& memory, const nb::tuple& given) {
  if (!memory.dtype().is_ptr())
    throw DTypeError("index: expected memory of a kernel, got " + std::string(name(memory.op())) +
                     " of dtype " + memory.dtype().name());
  if (given.size() != 1)
    throw ShapeError("index: memory of a kernel has one axis, not " + std::to_string(given.size()) +
                     "; of i and j it is i * n + j");
  return with(Op::INDEX, memory.dtype(), memory, {dim(given[0]).uop()});
}

UOp stored(const UOp& to, nb::handle value) {
  if (!is_place(to)) throw DTypeError("store: expected a place in memory, x[i], got " + to.text());
  const DType dtype = to.dtype().base();
  UOp number;
  if (nb::isinstance<UOp>(value))
    number = loaded(instance<UOp>(value));
  else if (is_number(value))
    number = operand(value).constant(dtype);
  else
    wrong_type("a UOp or a number for store()", value);
  return with(Op::STORE, dtypes::void_, to, {number.dtype().is_index() ? number.cast(dtype) : number});
}

UOp ended(const UOp& u, const UOps& ranges) {
  return ranges.empty() ? u : with(Op::END, dtypes::void_, u, ranges);
}

// The whole of one node, or of a list of them.
UOps ranges_of(nb::handle given) {
  if (nb::isinstance<UOp>(given)) return {instance<UOp>(given)};
  return nodes_of("set()", nb::tuple(given));
}

Shape sizes(const UOp& u) {
  const DType d = u.dtype();
  if (d.is_ptr() && !is_place(u) && d.size() != DType::kUnsized) return {Dim(d.size())};
  return shape_from(u.shape());
}

}  // namespace

UOp loaded(const UOp& u) { return is_place(u) ? checked(UOp::make(Op::LOAD, u.dtype().base(), {u})) : u; }

void bind_kernel_nodes(UOpClass& uop) {
  uop.def(
      "index", [](const UOp& u, const nb::args& at) { return place(u, at); }, "src"_a,
      "A place in the memory of a kernel.");
  uop.def("__getitem__", [](const UOp& u, nb::handle at) {
    return place(u, nb::isinstance<nb::tuple>(at) ? nb::borrow<nb::tuple>(at) : nb::make_tuple(at));
  });
  uop.def("load", &loaded, "The value at a place; arithmetic does it by itself.");
  uop.def("store", &stored, "src"_a, "Writes a value at a place.");
  uop.def(
      "end", [](const UOp& u, const nb::args& ranges) { return ended(u, nodes_of("end()", ranges)); },
      "src"_a, "The end of loops that this is in.");
  uop.def(
      "after",
      [](const UOp& u, const nb::args& effects) {
        return effects.size() == 0 ? u : with(Op::AFTER, u.dtype(), u, nodes_of("after()", effects));
      },
      "src"_a, "The same, once these have been done.");
  uop.def("_effects", [](const UOp& u) {
    const bool is_memory = u.op() == Op::AFTER && u.dtype().is_ptr();
    return is_memory ? UOps(u.src().begin() + 1, u.src().end()) : UOps{u};
  });
  uop.def(
      "set",
      [](const UOp& u, nb::handle value, nb::handle end) {
        const UOp done = ended(stored(u, value), ranges_of(end));
        return with(Op::AFTER, u.src(0).dtype(), u.src(0), {done});
      },
      "val"_a, "end"_a = nb::make_tuple(),
      "The memory of a place once a value has been written there, in loops that end.");
  uop.def(
      "reduce",
      [](const UOp& u, const nb::args& ranges, Op op) {
        const UOp value = loaded(u);
        return with(Op::REDUCE, value.dtype(), value, nodes_of("reduce()", ranges), ReduceArg{op, {}, 1});
      },
      "src"_a, "arg"_a = Op::ADD, "The sum, product or greatest over loops.");
  uop.def_prop_ro("shape", [](const UOp& u) { return to_python(sizes(u)); });
  uop.def(
      "size",
      [](const UOp& u, std::optional<int64_t> axis) -> nb::object {
        const Shape all = sizes(u);
        if (!axis) return to_python(all);
        const auto n = static_cast<int64_t>(all.size());
        if (*axis < -n || *axis >= n)
          throw IndexError("size: axis " + std::to_string(*axis) + " of " + std::to_string(n));
        return to_python(all[*axis < 0 ? *axis + n : *axis]);
      },
      "dim"_a = nb::none(), "The size of an axis, or the shape.");
  uop.def(
      "flatten", [](const UOp& u) { return u.dtype().is_ptr() ? u : Tensor(u).flatten().uop(); },
      "All elements on one axis; memory of a kernel has no other.");
  uop.def_prop_ro("base", [](const UOp& u) { return base_of(u); }, "What this is a view of.");
  uop.def_prop_ro(
      "is_realized", [](const UOp& u) { return memory_base(u).op() == Op::BUFFER; },
      "Whether its values are in memory.");
}

}  // namespace quern::python
