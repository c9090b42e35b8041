#include "quern/schedule/canonicalise/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "quern/base/error.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/places.h"
#include "quern/schedule/facts/device_parts.h"

namespace quern {
namespace {

std::string described(const UOp& u) { return fmt::format("{} {}", u.dtype().name(), shape_text(u.shape())); }

bool is_parameter(const UOp& u) { return u.op() == Op::PARAM && !u.dtype().is_ptr(); }

// What a body is made from, sources first. Bodies of functions that it calls have parameters of their own:
// they are not walked into.
UOps nodes_of_body(const UOp& body) {
  struct Frame {
    UOp node;
    size_t next;
  };
  UOps order;
  NodeSet seen;
  std::vector<Frame> stack;
  auto enter = [&](const UOp& u) {
    if (seen.insert(u)) stack.push_back({u, u.op() == Op::FUNCTION ? size_t{1} : size_t{0}});
  };
  enter(body);
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next < top.node.src().size()) {
      enter(UOp(top.node.src(top.next++)));
    } else {
      order.push_back(std::move(top.node));
      stack.pop_back();
    }
  }
  return order;
}

void check_argument(const std::string& name, const UOp& p, Sources arguments) {
  const int64_t slot = p.arg().integer();
  if (slot < 0 || slot >= std::ssize(arguments))
    throw Error(fmt::format("function {}: it has a parameter {}, but {} arguments were given", name, slot,
                            arguments.size()));
  const UOp& a = arguments[static_cast<size_t>(slot)];
  if (p.dtype() != a.dtype() || !same_sizes(p.shape(), a.shape()))
    throw ShapeError(
        fmt::format("function {}: argument {} is {}, expected {}", name, slot, described(a), described(p)));
}

// The body with values in place of its parameters.
UOp with_arguments(const UOp& body, const std::string& name, Sources arguments, Sources values) {
  NodeMap<UOp> done;
  const UOps order = nodes_of_body(body);
  UOps sources;
  for (const UOp& u : order) {
    if (is_parameter(u)) {
      check_argument(name, u, arguments);
      done.emplace(u, values[static_cast<size_t>(u.arg().integer())]);
      continue;
    }
    sources.clear();
    bool changed = false;
    for (size_t i = 0; i < u.src().size(); i++) {
      sources.push_back(u.op() == Op::FUNCTION && i == 0 ? u.src(0) : *done.find(u.src(i)));
      changed |= !same(sources.back(), u.src(i));
    }
    done.emplace(u, changed ? u.with_src(sources) : u);
  }
  return *done.find(body);
}

struct Calls {
  int64_t next_identity = 0;
  bool several_devices = false;
  UOps bodies;
  std::unordered_map<UOp, int64_t> number;   // of each body
  std::unordered_map<UOp, UOps> outputs_of;  // of each FUNCTION that was met
};

UOps values_of(const UOp& body) {
  return body.op() == Op::TUPLE ? UOps(body.src().begin(), body.src().end()) : UOps{body};
}

// The one device of all arguments, if the function can be a program of its own: sizes are numbers, it only
// computes, and there is something to compute on.
UOp device_of_call(const Calls& calls, const UOp& call) {
  constexpr OpSet kEffects = {Op::STORE, Op::AFTER, Op::CALL};
  if (!call.arg().function().precompile || calls.several_devices ||
      call.src(0).ops_below().intersects(kEffects))
    return {};
  auto is_plain = [](const UOp& u) {
    return u.has_shape() && !u.dtype().is_void() && !u.dtype().is_index() &&
           std::ranges::all_of(u.shape(), [](const UOp& s) { return s.is_int_const() && !s.equals(0); });
  };
  const UOps outputs = values_of(call.src(0));
  if (!std::ranges::all_of(outputs, is_plain)) return {};
  Texts device;
  for (const UOp& a : call.src().subspan(1)) {
    if (!is_plain(a)) return {};
    const Texts its = a.device();
    if (its.empty()) continue;
    if (its.size() != 1 || (!device.empty() && device != its)) return {};
    device = its;
  }
  return device.empty() ? UOp() : device_node(device[0]);
}

UOp parameter(const UOp& like, const UOp& device, int64_t slot) {
  return UOp::make(Op::PARAM, like.dtype(), {elements_in(like.shape()), device}, slot);
}

// A call over memory, one for each of its values.
UOps called(Calls& calls, const UOp& call, const UOp& device) {
  const Sources arguments = call.src().subspan(1);
  const std::string& name = call.arg().function().name;
  const UOps shapes_of = values_of(call.src(0));
  UOps memory, values(arguments.begin(), arguments.end()), passed;
  int64_t slot = std::ssize(shapes_of);
  for (UOp& v : values) {
    if (base_of(v).is_const() || base_of(v).op() == Op::IOTA) continue;  // a part of the body
    passed.push_back(v);
    v = reshape(parameter(v, device, slot++), v.shape());
  }
  const UOps outputs = values_of(with_arguments(call.src(0), name, arguments, values));
  UOps states;
  for (size_t i = 0; i < outputs.size(); i++) {
    const UOp out = parameter(outputs[i], device, static_cast<int64_t>(i));
    states.push_back(after(out, UOps{store(reshape(out, outputs[i].shape()), outputs[i])}));
    memory.push_back(own_memory(outputs[i].dtype(), static_cast<int64_t>(out.shape()[0].int_value()), device,
                                calls.next_identity++));
  }
  const UOp body = UOp::sink(states);
  const auto [number, added] = calls.number.emplace(body, std::ssize(calls.bodies));
  if (added) calls.bodies.push_back(body);
  UOps sources{UOp::make(Op::SINK, dtypes::void_, {}, KernelArg{.name = name, .opts = {}},
                         Hints{.body = number->second})};
  sources.insert(sources.end(), memory.begin(), memory.end());
  sources.insert(sources.end(), passed.begin(), passed.end());
  const UOp effect = UOp::make(Op::CALL, dtypes::void_, sources);
  UOps results;
  for (size_t i = 0; i < outputs.size(); i++)
    results.push_back(reshape(after(memory[i], UOps{effect}), outputs[i].shape()));
  return results;
}

const UOps& outputs_of(Calls& calls, const UOp& call) {
  const auto [known, added] = calls.outputs_of.emplace(call, UOps());
  if (!added) return known->second;
  UOps outputs;
  if (const UOp device = device_of_call(calls, call)) {
    outputs = called(calls, call, device);
  } else {
    const Sources arguments = call.src().subspan(1);
    outputs = values_of(with_arguments(call.src(0), call.arg().function().name, arguments, arguments));
  }
  return calls.outputs_of[call] = std::move(outputs);
}

UOp value_of_call(Calls& calls, const UOp& call) {
  const UOps& outputs = outputs_of(calls, call);
  return call.src(0).op() == Op::TUPLE ? UOp::make(Op::TUPLE, dtypes::void_, outputs) : outputs[0];
}
UOp value_of_tuple(Calls& calls, const UOp& get, const UOp& from) {
  if (is_put(from)) return {};  // by a kernel, perhaps: put.h
  const auto i = static_cast<size_t>(get.arg().integer());
  if (from.op() == Op::TUPLE) return from.src(i);
  return outputs_of(calls, from).at(i);
}

UOp closed(const UOp& call) {
  if (!call.src(0).ops_below().contains(Op::BUFFER)) return {};
  std::unordered_map<UOp, UOp> map;
  UOps sources(call.src().begin(), call.src().end());
  for (const UOp& u : nodes_of_body(call.src(0))) {
    if (u.op() != Op::BUFFER) continue;
    map.emplace(u, parameter(u, u.src(1), std::ssize(sources) - 1));
    sources.push_back(u);
  }
  sources[0] = sources[0].substitute(map);
  return call.with_src(sources);
}

const Rules closing = [] {
  return RuleList{{op(Op::FUNCTION).as("call"), closed, "memory that a body names -> an argument"}};
};

}  // namespace

// Callers before what they call: the body of a function that is kept is resolved when it is scheduled.
const Rules resolved_functions = [] {
  return RuleList{
      {op(Op::GETTUPLE, {op({Op::FUNCTION, Op::TUPLE}).as("from")}).as("get"), value_of_tuple,
       "a value of a call, or of a tuple -> the value"},
      {op(Op::FUNCTION).as("call"), value_of_call, "a call -> the function's body, or memory after a call"},
  };
};

WithoutFunctions resolve_functions(const UOp& sink) {
  if (!sink.ops_below().contains(Op::FUNCTION) && !sink.ops_below().contains(Op::GETTUPLE)) return {sink, {}};
  Calls calls;
  calls.next_identity = next_identity(sink);
  walk(sink, [&](const UOp& u) {
    if (u.op() == Op::DEVICE && u.arg().texts().size() > 1) calls.several_devices = true;
  });
  UOp resolved =
      graph_rewrite(sink, resolved_functions, calls, {.order = Order::before_sources, .name = "functions"});
  return {std::move(resolved), std::move(calls.bodies)};
}

UOp with_closed_functions(const UOp& sink) {
  if (!sink.ops_below().contains(Op::FUNCTION)) return sink;
  bool names_memory = false;
  walk(
      sink, [](const UOp& u) { return u.ops_below().contains(Op::FUNCTION); },
      [&](const UOp& u) {
        names_memory |= u.op() == Op::FUNCTION && u.src(0).ops_below().contains(Op::BUFFER);
      });
  if (!names_memory) return sink;
  return graph_rewrite(sink, closing, {.name = "close functions"});
}

}  // namespace quern
