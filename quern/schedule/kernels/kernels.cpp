#include "quern/schedule/kernels/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>

#include "quern/base/error.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/symbolic/symbolic.h"
#include "quern/schedule/facts/facts.h"
#include "quern/schedule/facts/memory_view.h"

namespace quern {
namespace {

bool is_global_state(const UOp& u) {
  return (u.op() == Op::AFTER && is_memory(memory_under(u))) || is_memory(u);
}

// ---- one kernel
// ---------------------------------------------------------------------------------------------

struct Kernel {
  UOp effect;
  UOp program;
  Texts reasons;
  UOps states;  // the memory of each PARAM, in the state in which it is used: a BUFFER, or an AFTER over one
};

class Cutter {
 public:
  explicit Cutter(UOp effect) : effect_(std::move(effect)) {}

  // False when memory is used in two states.
  bool run(Kernel& kernel, UOps& contested) {
    kernel.effect = effect_;
    if (effect_.op() == Op::CALL) {
      kernel.program = effect_.src(0);
      for (const UOp& s : effect_.src().subspan(1)) kernel.states.push_back(s);
      return true;
    }
    const UOp& body = effect_.op() == Op::END ? effect_.src(0) : effect_;
    const UOp& store = body.op() == Op::GROUP ? body.src(0) : body;
    if (store.src(1).op() == Op::COPY) {
      const UOp& from = store.src(1).src(0);
      const UOp source =
          UOp::make(Op::PARAM, from.dtype(), {UOp::index(elements_at_most(from.shape()))}, int64_t{1});
      kernel.program = UOp::make(Op::COPY, from.dtype(), {source, store.src(1).src(1)});
      kernel.states = {store.src(0), store.src(1).src(0)};
      return true;
    }
    order_ = std::make_unique<NodeList>(effect_.toposort([](const UOp& u) { return !is_global_state(u); }));
    if (body.op() == Op::GROUP)
      for (const UOp& s : body.src()) slot(s.src(0).src(0));
    else
      slot(store.src(0).src(0));
    number_ranges();
    for (const UOp& u : *order_) rewrite(u);
    const UOp program =
        UOp::make(Op::SINK, dtypes::void_, {*done_.find(effect_)}, KernelArg{.name = name(), .opts = opts_});
    // The order of operands comes from the numbers of loops, which are other ones now.
    kernel.program = graph_rewrite(program, sums, {.name = "order operands"});
    kernel.reasons = reasons_;
    kernel.states = states_;
    find_hazards(contested);
    find_two_states(body.op() == Op::GROUP ? body.src().size() : 1, contested);
    return contested.empty();
  }

 private:
  static UOp param_of(const UOp& memory, int64_t slot) {
    const int64_t elements = elements_at_most(memory_under(memory).shape());
    return UOp::make(Op::PARAM, memory.dtype().ptr(elements), {}, slot);
  }
  UOp slot(const UOp& state) {
    for (size_t i = 0; i < states_.size(); i++)
      if (same(states_[i], state)) return param_of(state, static_cast<int64_t>(i));
    states_.push_back(state);
    return param_of(state, std::ssize(states_) - 1);
  }

  // Memory in two states at once, or written and seen in another way too (as all of it and as a part of it).
  void find_two_states(size_t written, UOps& contested) const {
    std::vector<UOps> parts;
    for (const UOp& s : states_) parts.push_back(states_under(s));
    for (size_t i = 0; i < states_.size(); i++)
      for (size_t k = i + 1; k < states_.size(); k++)
        for (const UOp& a : parts[i])
          for (const UOp& b : parts[k])
            if (same(memory_under(a), memory_under(b)) && (!same(a, b) || i < written))
              contested.push_back(memory_under(a));
  }

  // Memory that is written must not be read at another place: that may be before or after it is overwritten.
  void find_hazards(UOps& contested) const {
    std::vector<const UOp*> stores, reads;
    for (const UOp& u : *order_) {
      if (u.op() == Op::STORE && is_global_state(u.src(0).src(0))) stores.push_back(&u);
      if (u.op() == Op::INDEX && is_global_state(u.src(0))) reads.push_back(&u);
    }
    for (const UOp* s : stores)
      for (const UOp* r : reads) {
        const UOp& memory = memory_under(r->src(0));
        if (same(memory, memory_under(s->src(0).src(0))) && !same(r->src(1), s->src(0).src(1)))
          contested.push_back(memory);
      }
  }

  // Output loops first, those that reduces depend on outside of the others; then the loops of reduces as they
  // come.
  void number_ranges() {
    UOps outputs, inner;
    if (effect_.op() == Op::END) outputs.assign(effect_.src().begin() + 1, effect_.src().end());
    std::erase_if(outputs, [](const UOp& r) { return r.op() != Op::RANGE; });
    std::map<int64_t, int> needed;
    auto need = [&](const UOp& u) {
      for (const UOp& r : u.ranges()) needed[r.arg().range().id]++;
    };
    for (const UOp& u : *order_) {
      if (u.op() == Op::REDUCE) need(u);
      if (u.op() == Op::BARRIER) need(u);
      if (u.op() == Op::RANGE && std::ranges::find(outputs, u) == outputs.end()) inner.push_back(u);
    }
    std::ranges::stable_sort(outputs, [&](const UOp& a, const UOp& b) {
      const int64_t x = a.arg().range().id, y = b.arg().range().id;
      return needed[x] != needed[y] ? needed[x] > needed[y] : x < y;
    });
    for (const UOp& r : outputs)
      number_[r.arg().range().id] = std::ssize(number_), sizes_.push_back(r.src(0));
    for (const UOp& r : inner) number_[r.arg().range().id] = std::ssize(number_);
    outputs_ = outputs;
  }

  void rewrite(const UOp& u) {
    if (is_global_state(u)) {
      done_.emplace(u, slot(u));
      return;
    }
    UOps sources;
    for (const UOp& s : u.src()) sources.push_back(*done_.find(s));
    switch (u.op()) {
      case Op::RANGE: {
        RangeArg arg = u.arg().range();
        arg.id = number_.at(arg.id);
        done_.emplace(u, u.replace({.src = sources, .arg = arg}));
        return;
      }
      case Op::DEFINE_LOCAL: {
        const auto [at, added] = locals_.emplace(u.arg().integer(), std::ssize(locals_));
        done_.emplace(u, u.replace({.arg = at->second}));
        return;
      }
      case Op::REDUCE: reduces_ = true; break;
      case Op::STORE: {
        if (!u.hints().reason.empty()) reasons_.push_back(u.hints().reason);
        if (!u.arg().none()) take_opts(u.arg().texts());
        const DType memory = memory_under(sources[0].src(0)).dtype();
        const UOp address = sources[0].replace({.dtype = memory});
        done_.emplace(u, UOp::make(Op::STORE, dtypes::void_, {address, sources[1]}));
        return;
      }
      case Op::END: {
        if (!same(u, effect_)) break;
        UOps closed{sources[0]};
        for (const UOp& r : outputs_) closed.push_back(*done_.find(r));
        done_.emplace(u, u.with_src(closed));
        return;
      }
      case Op::CONST:
        if (!u.src().empty()) {
          done_.emplace(u, UOp::constant(u.dtype(), u.value()));
          return;
        }
        break;
      case Op::BIND: done_.emplace(u, sources[0]); return;
      default: break;
    }
    done_.emplace(u, u.src().empty() ? u : u.with_src(sources));
  }

  void take_opts(const Texts& opts) {
    if (!opts_.empty() && opts_ != opts)
      throw Error(fmt::format("two tensors that one kernel makes ask for different opts: {}, and {}",
                              fmt::join(opts_, " "), fmt::join(opts, " ")));
    opts_ = opts;
  }

  std::string name() const {
    std::string s = reduces_ ? "r" : "e";
    for (const UOp& size : sizes_)
      s += "_" + (size.is_int_const() ? to_string(size.int_value()) : std::string("n"));
    return s;
  }

  const UOp effect_;
  std::unique_ptr<NodeList> order_;
  NodeMap<UOp> done_;
  UOps states_, outputs_, sizes_;
  std::map<int64_t, int64_t> number_, locals_;
  Texts reasons_, opts_;
  bool reduces_ = false;
};

// ---- the order of kernels
// -----------------------------------------------------------------------------------

class Splitter {
 public:
  Steps run(const UOp& sink) {
    gather(sink);
    Steps result;
    if (!contested_.empty()) {
      result.contested = std::move(contested_);
      return result;
    }
    order_accesses();
    return in_order();
  }

 private:
  // Every effect that an AFTER over global memory waits for is a kernel.
  void gather(const UOp& sink) {
    const NodeList order = sink.toposort([&](const UOp& u) { return u.op() != Op::SINK || same(u, sink); });
    for (const UOp& u : order) {
      if (u.op() != Op::AFTER || !is_memory(memory_under(u))) continue;
      states_.push_back(u);
      for (const UOp& e : u.src().subspan(1)) add_effect(e);
    }
    for (const UOp& e : sink.src())
      if (e.op() != Op::AFTER && !is_memory(e)) add_effect(e);
  }
  void add_effect(const UOp& e) {
    if (e.op() == Op::GROUP) {
      for (const UOp& s : e.src()) add_effect(s);
      return;
    }
    if (e.op() == Op::NOOP || !kernel_of_.emplace(e, kernels_.size()).second) return;
    kernels_.emplace_back();
    Cutter(e).run(kernels_.back(), contested_);
  }
  void effects_of(const UOp& after, std::vector<size_t>& into) const {
    UOps stack(after.src().begin() + 1, after.src().end());
    while (!stack.empty()) {
      const UOp e = std::move(stack.back());
      stack.pop_back();
      if (e.op() == Op::GROUP)
        stack.insert(stack.end(), e.src().begin(), e.src().end());
      else if (const size_t* k = kernel_of_.find(e))
        into.push_back(*k);
    }
  }

  void order_accesses() {
    waits_.resize(kernels_.size());
    std::map<UOp, std::vector<size_t>, bool (*)(const UOp&, const UOp&)> readers(before);
    for (size_t k = 0; k < kernels_.size(); k++)
      for (const UOp& used : kernels_[k].states)
        for (const UOp& state : states_under(used)) {
          readers[state].push_back(k);
          wait_for(state, waits_[k]);
        }
    for (const UOp& after : states_) {
      std::vector<size_t> writers;
      effects_of(after, writers);
      for (size_t reader : readers[after.src(0)])
        if (std::ranges::find(writers, reader) == writers.end())
          for (size_t writer : writers) waits_[writer].push_back(reader);
    }
  }

  // For the effects that made a state, and those before them. An effect that itself uses the state before
  // waits for the rest.
  void wait_for(const UOp& state, std::vector<size_t>& waits) const {
    for (const UOp* s = &state; s->op() == Op::AFTER; s = &s->src(0)) {
      const size_t begin = waits.size();
      effects_of(*s, waits);
      for (size_t i = begin; i < waits.size(); i++)
        for (const UOp& used : kernels_[waits[i]].states)
          for (const UOp& before : states_under(used))
            if (same(before, s->src(0))) return;
    }
  }

  Steps in_order() {
    Steps result;
    std::vector<std::vector<size_t>> next(kernels_.size());
    std::vector<size_t> open(kernels_.size());
    for (size_t k = 0; k < kernels_.size(); k++) {
      std::ranges::sort(waits_[k]);
      waits_[k].erase(std::ranges::unique(waits_[k]).begin(), waits_[k].end());
      for (size_t w : waits_[k])
        if (w != k) next[w].push_back(k), open[k]++;
    }
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t k = 0; k < kernels_.size(); k++)
      if (open[k] == 0) ready.push(k);
    while (!ready.empty()) {
      const size_t k = ready.top();
      ready.pop();
      Step step{.program = kernels_[k].program, .buffers = {}, .reasons = kernels_[k].reasons};
      for (const UOp& s : kernels_[k].states) step.buffers.push_back(plain(s));
      result.steps.push_back(std::move(step));
      for (size_t n : next[k])
        if (--open[n] == 0) ready.push(n);
    }
    if (result.steps.size() == kernels_.size()) return result;
    result.steps.clear();
    const std::vector<bool> circle = in_a_circle(next, open);
    for (size_t k = 0; k < kernels_.size(); k++)
      if (circle[k]) {
        result.circle.push_back(describe(kernels_[k].program));
        for (const UOp& used : kernels_[k].states)
          for (const UOp& state : states_under(used)) result.contested.push_back(memory_under(state));
      }
    return result;
  }

  // Of the kernels that are left: those that another one of them waits for.
  std::vector<bool> in_a_circle(const std::vector<std::vector<size_t>>& next,
                                const std::vector<size_t>& open) const {
    std::vector<bool> left(kernels_.size());
    std::vector<size_t> waiting(kernels_.size()), gone;
    for (size_t k = 0; k < kernels_.size(); k++) left[k] = open[k] != 0;
    for (size_t k = 0; k < kernels_.size(); k++) {
      if (!left[k]) continue;
      for (size_t n : next[k]) waiting[k] += left[n] ? 1 : 0;
      if (waiting[k] == 0) gone.push_back(k);
    }
    while (!gone.empty()) {
      const size_t k = gone.back();
      gone.pop_back();
      left[k] = false;
      for (size_t w : waits_[k])
        if (w != k && left[w] && --waiting[w] == 0) gone.push_back(w);
    }
    return left;
  }
  static std::string describe(const UOp& program) {
    if (program.op() == Op::COPY) return "a copy";
    const std::string& name = program.arg().none() ? std::string() : program.arg().kernel().name;
    return name.empty() ? "a kernel of the user's" : name;
  }

  // The same without AFTERs. What wraps memory does so a few times at most.
  static UOp plain(const UOp& state) {
    if (state.op() != Op::SLICE && state.op() != Op::MSELECT && state.op() != Op::MSTACK)
      return memory_under(state);
    UOps sources(state.src().begin(), state.src().end());
    for (size_t i = 0; i < (state.op() == Op::MSTACK ? sources.size() : 1); i++)
      sources[i] = plain(sources[i]);
    return state.with_src(sources);
  }

  std::vector<Kernel> kernels_;
  NodeMap<size_t> kernel_of_;
  UOps states_, contested_;
  std::vector<std::vector<size_t>> waits_;
};

}  // namespace

Steps split_into_kernels(const UOp& sink) { return Splitter().run(sink); }

}  // namespace quern
