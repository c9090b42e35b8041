#include "quern/tensor/core/function.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "quern/ir/node/arg.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/rules/rules.h"
#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/support.h"

namespace quern {
namespace {

bool is_fixed(const Tensor& x) {
  return std::ranges::none_of(x.shape(), [](const Dim& d) { return d.is_symbolic(); });
}

// A body is scheduled for one device, where all that it is given is, and what it gives.
bool is_on_one_device(const std::vector<Tensor>& arguments, const std::vector<Tensor>& results) {
  std::set<Texts> devices;
  for (const Tensor& y : results) devices.insert(y.devices());
  for (const Tensor& x : arguments)
    if (!x.devices().empty()) devices.insert(x.devices());
  return devices.size() == 1 && !devices.begin()->empty();
}

UOp joined(const UOp& x) { return reshape(x.src(0), x.src().subspan(1)); }

const Rules one_reshape = [] { return RuleList{{op(Op::RESHAPE).as("x"), joined}}; };

void refuse_memory(const UOp& body, const std::string& name, int64_t begun) {
  std::vector<std::string> found;
  for (const UOp& u : body.toposort())
    if (u.op() == Op::BUFFER && u.src(0).arg().integer() < begun)
      found.push_back(
          fmt::format("{} elements of {} on {}", u.arg().integer(), u.dtype().name(), u.device()[0]));
  if (found.empty()) return;
  throw Error(fmt::format(
      "function {}: it uses memory that is no argument: {}; pass it, or allow it (allow_implicit)", name,
      fmt::join(found, ", ")));
}

}  // namespace

std::vector<Tensor> called(const std::vector<Tensor>& arguments, const std::vector<Tensor>& results,
                           const FunctionSettings& settings) {
  if (results.empty()) return results;
  std::unordered_map<UOp, UOp> parameters;
  UOps sources = {UOp()};  // the body, then what was given
  for (const Tensor& x : arguments) {
    // Views are joined where they meet, so what is under them is looked for. Seen through a reshape only, it
    // is the reshape that is given: whether a layer reads memory or what another one computed, its body is
    // the same.
    const UOp view = x.uop(), base = base_of(view);
    if (x.devices().empty() || parameters.contains(base)) continue;
    const UOp given = view.op() == Op::RESHAPE && view.src(0) == base ? view : base;
    const auto slot = static_cast<int64_t>(parameters.size());
    const UOp parameter = UOp::make(Op::PARAM, given.dtype(), given.shape(), slot);
    parameters.emplace(base, reshape(parameter, base.shape()));
    sources.push_back(given);
  }
  UOps values;
  for (const Tensor& y : results) values.push_back(y.uop());
  const UOp body =
      graph_rewrite(UOp::make(Op::TUPLE, dtypes::void_, values).substitute(parameters), one_reshape);
  if (!settings.allow_implicit) refuse_memory(body, settings.name, settings.begun);
  constexpr OpSet kEffects = {Op::STORE, Op::AFTER, Op::CALL};
  if (body.ops_below().intersects(kEffects)) return results;
  if (!std::ranges::all_of(arguments, is_fixed) || !std::ranges::all_of(results, is_fixed)) return results;
  if (!is_on_one_device(arguments, results) || body.ops_below().contains(Op::COPY)) return results;

  sources[0] = body;
  const UOp call = UOp::make(Op::FUNCTION, dtypes::void_, sources,
                             FunctionArg{.name = settings.name, .precompile = settings.precompile});
  std::vector<Tensor> from_call;
  from_call.reserve(results.size());
  for (size_t i = 0; i < results.size(); i++)
    from_call.emplace_back(UOp::make(Op::GETTUPLE, results[i].dtype(), {call}, static_cast<int64_t>(i)));
  return from_call;
}

namespace detail {
namespace {

// The bodies that this thread has made, by name, settings and parameters.
struct Bodies {
  struct Key {
    const char* name;
    Ints settings;
    UOps parameters;
    bool operator==(const Key& o) const {
      return name == o.name && settings == o.settings && std::ranges::equal(parameters, o.parameters);
    }
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      size_t hash = std::hash<const char*>()(key.name);
      const auto add = [&](size_t h) { hash = hash * 0x9e3779b97f4a7c15ULL + h; };
      for (const int64_t n : key.settings) add(static_cast<size_t>(n));
      for (const UOp& p : key.parameters) add(std::hash<UOp>()(p));
      return hash;
    }
  };
  static constexpr size_t kMost = 1024;
  std::unordered_map<Key, UOp, Hash> all;
};

bool can_be_called(const std::vector<Tensor>& inputs) {
  Texts device;
  for (const Tensor& x : inputs) {
    const UOp u = x.uop();
    const Texts its = u.device();
    if (its.size() != 1 || (!device.empty() && its != device)) return false;
    device = its;
    for (const UOp& size : u.shape())
      if (!size.is_int_const()) return false;
  }
  return true;
}

}  // namespace

Tensor call_of_body(const char* name, const Ints& settings, const std::vector<Tensor>& inputs,
                    const FunctionBody& body) {
  if (!can_be_called(inputs)) return body(inputs);
  UOps sources{UOp()}, parameters;
  for (const Tensor& x : inputs) {
    const UOp u = x.uop();
    parameters.push_back(UOp::make(Op::PARAM, u.dtype(), u.shape(), std::ssize(parameters)));
    sources.push_back(u);
  }
  thread_local Bodies bodies;
  if (bodies.all.size() >= Bodies::kMost) bodies.all.clear();
  Bodies::Key key{name, settings, parameters};
  if (const auto known = bodies.all.find(key); known != bodies.all.end()) {
    sources[0] = known->second;
  } else {
    std::vector<Tensor> given;
    for (const UOp& p : parameters) given.emplace_back(p);
    sources[0] = body(given).uop();  // which may call this
    bodies.all.emplace(std::move(key), sources[0]);
  }
  return Tensor(UOp::make(Op::FUNCTION, sources[0].dtype(), sources, FunctionArg{.name = name}));
}

}  // namespace detail

int64_t memory_mark() { return with_new_identity(UOp::index(0)).src(0).arg().integer(); }

std::vector<Tensor> call_function(const TensorFunction& function, const std::vector<Tensor>& arguments,
                                  const FunctionSettings& settings) {
  FunctionSettings its = settings;
  its.begun = memory_mark();
  return called(arguments, function(arguments), its);
}

}  // namespace quern
