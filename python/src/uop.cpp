// UOp: the nodes that programs are made of, and sizes that are known later.
#include <nanobind/stl/map.h>

#include "python/src/uop.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/spec/spec.h"
#include "quern/ir/text/arg_text.h"
#include "quern/ir/text/parse.h"

namespace quern::python {
namespace {

using namespace nb::literals;

// ---- arguments: None, numbers, texts, tuples; those of many fields as text

nb::object value_of(const Arg& arg, DType dtype) {
  switch (arg.kind()) {
    case ArgKind::None: return nb::none();
    case ArgKind::Const:
      return arg.constant().is_invalid() ? nb::object(nb::str("invalid")) : number_of(arg.constant(), dtype);
    case ArgKind::Int: return nb::int_(arg.integer());
    case ArgKind::Ints: return nb::tuple(nb::cast(arg.ints()));
    case ArgKind::Text: return nb::str(arg.text().c_str());
    case ArgKind::Texts: return nb::tuple(nb::cast(arg.texts()));
    case ArgKind::Variable:
      return nb::make_tuple(arg.variable().name, arg.variable().min, arg.variable().max);
    case ArgKind::Range: return nb::make_tuple(arg.range().id, std::string(name(arg.range().kind)));
    case ArgKind::Reduce: return nb::make_tuple(arg.reduce().op, nb::tuple(nb::cast(arg.reduce().axes)));
    default: {
      std::string text;
      print_arg(text, arg, arg.kind());
      return nb::str(text.c_str());
    }
  }
}

Op op_of(nb::handle h) {
  if (!nb::isinstance<Op>(h)) wrong_type("one of Ops for the op of a UOp", h);
  return nb::cast<Op>(h);
}

std::string argument_of(Op op, const char* expected) {
  return std::string(name(op)) + ": " + expected + " as its argument";
}

[[noreturn]] void wrong_arg(Op op, const char* expected, nb::handle given) {
  wrong_type(argument_of(op, expected).c_str(), given);
}

Arg arg_from(Op op, DType dtype, nb::handle h) {
  if (h.is_none()) return {};
  const auto what = [&](const char* expected) { return argument_of(op, expected); };
  const auto part = [&](size_t i) { return nb::borrow<nb::sequence>(h)[i]; };
  const auto is_tuple_of = [&](size_t n) { return nb::isinstance<nb::tuple>(h) && nb::len(h) == n; };
  switch (info(op).arg) {
    case ArgKind::Const:
      if (nb::isinstance<nb::str>(h) && text(h, "text") == "invalid") return Const::invalid();
      if (!is_number(h)) wrong_arg(op, "a number", h);
      return operand(h).constant(dtype).value();
    case ArgKind::Int: return integer(h, what("an integer").c_str());
    case ArgKind::Ints: return int_list(h).values();
    case ArgKind::Text: return text(h, what("text").c_str());
    case ArgKind::Texts: {
      if (nb::isinstance<nb::str>(h)) return Texts{text(h, "text")};
      if (!is_sequence(h)) wrong_arg(op, "texts", h);
      Texts all;
      for (nb::handle each : nb::borrow<nb::sequence>(h)) all.push_back(text(each, what("texts").c_str()));
      return all;
    }
    case ArgKind::Variable:
      if (!is_tuple_of(3)) wrong_arg(op, "(name, min, max)", h);
      return VariableArg{text(part(0), what("a name").c_str()), integer(part(1), what("an integer").c_str()),
                         integer(part(2), what("an integer").c_str())};
    case ArgKind::Range: {
      if (!is_tuple_of(2)) wrong_arg(op, "(id, kind)", h);
      const std::optional<AxisKind> kind = axis_kind_named(text(part(1), what("the name of a kind").c_str()));
      if (!kind) wrong_arg(op, "(id, kind), with a kind such as 'LOOP'", h);
      return RangeArg{integer(part(0), what("an integer").c_str()), *kind};
    }
    case ArgKind::Reduce:
      if (!is_tuple_of(2)) wrong_arg(op, "(op, axes)", h);
      return ReduceArg{op_of(part(0)), int_list(part(1)).values(), 1};
    case ArgKind::Kernel:
      if (is_tuple_of(2)) {
        Texts opts;
        if (!nb::try_cast(part(1), opts)) wrong_arg(op, "(name, opts), with opts as texts,", h);
        return KernelArg{text(part(0), what("the name of a kernel").c_str()), opts};
      }
      return KernelArg{text(h, what("the name of a kernel, or (name, opts),").c_str()), {}};
    default: {
      const std::string given = text(h, what("nothing, or its text,").c_str());
      Lexer lexer(given);
      return parse_arg(lexer, info(op).arg);
    }
  }
}

Arg tag_from(nb::handle h) {
  if (h.is_none()) return {};
  if (nb::isinstance<nb::str>(h)) return text(h, "text");
  if (nb::isinstance<nb::tuple>(h)) return int_list(h).values();
  return integer(h, "text, an int or a tuple of ints as a tag");
}

UOp node(const char* who, nb::handle h) {
  if (!nb::isinstance<UOp>(h)) wrong_type((std::string("a UOp for ") + who).c_str(), h);
  return instance<UOp>(h);
}
UOps nodes(const char* who, nb::handle h) {
  if (!nb::isinstance<nb::tuple>(h) && !nb::isinstance<nb::list>(h))
    wrong_type((std::string("a tuple of UOps for ") + who).c_str(), h);
  UOps list;
  for (nb::handle part : nb::borrow<nb::sequence>(h)) list.push_back(node(who, part));
  return list;
}

UOp make(Op op, std::optional<DType> dtype, const UOps& src, nb::handle arg, nb::handle tag) {
  const DType type = dtype.value_or(dtypes::void_);
  for (const UOp& s : src)
    if (!s) throw ValueError("UOp: a source is no node");
  UOp made = UOp::make(op, type, src, arg_from(op, type, arg), tag_from(tag));
  check_node(made);
  return made;
}

UOp replaced(const UOp& u, const nb::kwargs& changes) {
  Op op = u.op();
  DType type = u.dtype();
  UOps src(u.src().begin(), u.src().end());
  nb::object arg, tag;
  for (const auto& [key, value] : changes) {
    const std::string what = text(key, "a name");
    if (what == "op")
      op = op_of(value);
    else if (what == "dtype")
      type = dtype(value);
    else if (what == "src")
      src = nodes("replace()", value);
    else if (what == "arg")
      arg = nb::borrow(value);
    else if (what == "tag")
      tag = nb::borrow(value);
    else
      throw ValueError("replace: a node has op, dtype, src, arg and tag, and no " + what);
  }
  UOp made = UOp::make(op, type, src, arg.is_valid() ? arg_from(op, type, arg) : u.arg(),
                       tag.is_valid() ? tag_from(tag) : u.tag());
  check_node(made);
  return made;
}

UOp rewritten(const UOp& root, const nb::callable& rewrite, const std::vector<Op>& roots, bool bottom_up,
              const std::string& pass) {
  OpSet from = roots.empty() ? ops::all : OpSet();
  for (const Op o : roots) from.insert(o);
  const Rules rules({Rule(
      op(from).as("node"),
      [&rewrite](const UOp& node) {
        const nb::object given = nb::cast(node);
        const nb::object result = run_python([&] { return rewrite(given); });
        if (result.is_none()) return UOp();
        if (!nb::isinstance<UOp>(result)) wrong_type("a UOp or None from a rule", result);
        return instance<UOp>(result);
      },
      "rules written in Python")});
  RewriteOptions options;
  options.order = bottom_up ? Order::before_sources : Order::after_sources;
  options.name = pass;
  return graph_rewrite(root, rules, options);
}

nb::object bound_of(const UOp& u, bool least) {
  if (!u.dtype().is_int() && !u.dtype().is_bool()) return nb::float_(least ? -INFINITY : INFINITY);
  const wide value = least ? u.vmin() : u.vmax();
  return nb::steal(PyLong_FromString(to_string(value).c_str(), nullptr, 10));
}

}  // namespace

Tensor tensor_of_node(const UOp& node) {
  return node.dtype().is_index() ? Tensor::from_dim(Dim(node)) : Tensor(node);
}

void bind_uop(nb::module_& m) {
  nb::enum_<Op> all(m, "Ops", "The operations of nodes.");
  for (int i = 0; i < kOpCount; i++) all.value(kOps[i].name.data(), static_cast<Op>(i));

  UOpClass uop(m, "UOp", nb::is_weak_referenceable(),
               "A node: an op, a dtype, sources and an argument. Equal nodes are one.");
  uop.def(  // not __init__: there may be an object for this node
      nb::new_([](nb::handle op, std::optional<DType> dtype, const UOps& src, nb::handle arg,
                  nb::handle tag) { return make(op_of(op), dtype, src, arg, tag); }),
      "op"_a, "dtype"_a = nb::none(), "src"_a = nb::make_tuple(), "arg"_a = nb::none(), "tag"_a = nb::none());
  uop.def_prop_ro("op", &UOp::op);
  uop.def_prop_ro("dtype", &UOp::dtype);
  uop.def_prop_ro("src",
                  [](const UOp& u) { return nb::tuple(nb::cast(UOps(u.src().begin(), u.src().end()))); });
  uop.def_prop_ro("arg", [](const UOp& u) { return value_of(u.arg(), u.dtype()); });
  uop.def_prop_ro("tag", [](const UOp& u) { return value_of(u.tag(), u.dtype()); });
  uop.def_prop_ro("device", [](const UOp& u) { return nb::tuple(nb::cast(u.device())); });
  uop.def_prop_ro("ranges", [](const UOp& u) { return nb::tuple(nb::cast(u.ranges())); });
  uop.def_prop_ro("key", &UOp::key, "128 bits of the structure, the same in every process.");
  uop.def_prop_ro("vmin", [](const UOp& u) { return bound_of(u, true); }, "The least that it can be.");
  uop.def_prop_ro("vmax", [](const UOp& u) { return bound_of(u, false); }, "The greatest that it can be.");
  uop.def("replace", &replaced, "changes"_a, "A copy with another op, dtype, src, arg or tag.");
  uop.def("rtag", [](const UOp& u, nb::handle tag) { return u.rtag(tag_from(tag)); }, "tag"_a.none());
  uop.def("cast", [](const UOp& u, nb::handle to) { return u.cast(dtype(to)); }, "dtype"_a);
  uop.def("bitcast", [](const UOp& u, nb::handle to) { return u.bitcast(dtype(to)); }, "dtype"_a);
  uop.def("const_like", [](const UOp& u, nb::handle v) { return operand(v).constant(u.dtype()); }, "b"_a);
  uop.def_prop_ro(
      "expr",
      [](const UOp& u) {
        if (u.op() != Op::DEFINE_VAR) throw ValueError("expr: not a variable: " + u.text());
        return u.arg().variable().name;
      },
      "The name of a variable.");
  uop.def("bind", &UOp::bind, "value"_a, "A variable with a value.");
  uop.def(
      "unbind",
      [](const UOp& u) {
        if (u.op() != Op::BIND || u.src().size() != 2)
          throw ValueError("unbind: not a variable with a value: " + u.text());
        return u.unbind();
      },
      "The variable and its value.");
  uop.def("simplify", &UOp::simplify);
  uop.def(
      "substitute",
      [](const UOp& u, const nb::dict& map) {
        std::unordered_map<UOp, UOp> replacements;
        for (const auto& [from, to] : map)
          replacements.emplace(node("substitute()", from), node("substitute()", to));
        return u.substitute(replacements);
      },
      "dvars"_a, "All occurrences of the keys become their values.");
  uop.def(
      "toposort",
      [](const UOp& u) {
        nb::list nodes;
        const NodeList sorted = u.toposort();
        for (const UOp& n : sorted) nodes.append(nb::cast(n));
        return nodes;
      },
      "Everything it is made from, sources first, itself last.");
  uop.def("variables", &UOp::variables);
  uop.def_static(
      "const",
      [](nb::handle value, nb::handle type) {
        const bool dtype_first = nb::isinstance<DType>(value) || nb::isinstance<nb::str>(value);
        const nb::handle number = dtype_first ? type : value, given = dtype_first ? value : type;
        const Operand constant = operand(number);
        return constant.constant(given.is_none() ? constant.dtype() : dtype(given));
      },
      "b"_a.none(), "dtype"_a = nb::none(), "A constant. The dtype may also stand first.");
  uop.def_static(
      "variable",
      [](const std::string& name, int64_t least, int64_t most, std::optional<DType> type) {
        return UOp::variable(name, least, most, type.value_or(dtypes::index));
      },
      "name"_a, "min_val"_a, "max_val"_a, "dtype"_a = nb::none(), "An integer that is known later.");
  uop.def_static(
      "range",
      [](const Dim& end, int64_t id, const std::string& kind) {
        const std::optional<AxisKind> axis = axis_kind_named(kind);
        if (!axis) throw ValueError("range: there is no kind " + kind);
        return UOp::range(end.uop(), id, *axis);
      },
      "end"_a, "axis_id"_a, "axis_type"_a = "LOOP", "A loop.");
  uop.def_static(
      "parse", [](const std::string& text) { return parse(text); }, "text"_a, "A graph from its text.");
  bind_arithmetic(uop);
  bind_kernel_nodes(uop);
  bind_memory_of_nodes(uop);
  uop.def("__hash__", [](const UOp& u) { return static_cast<Py_hash_t>(u.hash() >> 1); });
  uop.def("__repr__", &UOp::text);
  m.def("rewrite_nodes", &rewritten, "root"_a, "rewrite"_a, "roots"_a, "bottom_up"_a, "name"_a);
}

}  // namespace quern::python
