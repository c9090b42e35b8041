#include "quern/ir/rewrite/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "quern/ir/node/node_map.h"
#include "quern/ir/rewrite/trace.h"

namespace quern {
namespace {

constexpr size_t kLongestChain = 1000;  // replacements of one node by another, in a row
constexpr size_t kDeepest =
    100'000;  // results that wait for each other, beyond ten for every node of the graph

// One rewrite of one graph. Each node is in `done` with its result, or with none while it is being worked on:
// what needs the result of such a node would need its own.
template <bool Observed>
class Rewrite {
 public:
  Rewrite(const UOp& root, const Rules& rules, Context context, const RewriteOptions& options,
          Observation* observation)
      : root_(root),
        rules_(rules),
        roots_(rules.roots()),
        context_(context),
        options_(options),
        observation_(observation) {}

  UOp run() {
    if (untouched(root_)) return root_;
    push(root_);
    while (!stack_.empty()) {
      Frame& frame = stack_.back();
      switch (frame.stage) {
        case Stage::first: enter(frame); break;
        case Stage::sources: sources(frame); break;
        case Stage::waiting: finish(result_of(frame.target)); break;
      }
    }
    return result_of(root_);
  }

 private:
  enum class Stage : uint8_t { first, sources, waiting };
  struct Frame {
    UOp node;    // what the result is for
    UOp now;     // what it has become so far
    UOp target;  // waiting: for the result of this
    uint32_t next = 0;
    Stage stage = Stage::first;
    const Rule* rule = nullptr;  // waiting: the rule that made the target
    size_t chain = 0;            // how many replacements in a row led here
  };

  // No rule can start anywhere in it, or none is known to apply.
  bool untouched(const UOp& u) const {
    if (options_.to_simplest && u.node()->simplest.load(std::memory_order_relaxed) != 0) return true;
    return !u.ops_below().intersects(roots_);
  }

  UOp result_of(const UOp& u) { return untouched(u) ? u : *done_.find(u); }

  // Makes a frame for the node unless its result is known already.
  bool push(const UOp& node, size_t chain = 0) {
    if (untouched(node)) return false;
    const auto [result, added] = done_.emplace(node);
    if (!added) {
      if (!*result) looping(node);
      return false;
    }
    stack_.push_back({.node = node, .now = node, .target = {}, .chain = chain});
    return true;
  }

  void enter(Frame& frame) {
    frame.stage = Stage::sources;
    if (options_.order == Order::after_sources) return;
    if (Rules::Step step = apply(frame.now); step.result) return wait(frame, step);
    if (options_.gate && !options_.gate(frame.now)) finish(UOp(frame.now));
  }

  void sources(Frame& frame) {
    const Sources given = frame.node.src();
    while (frame.next < given.size())
      if (push(given[frame.next++])) return;  // `frame` is no longer valid
    bool changed = false;
    scratch_.clear();
    for (const UOp& s : given) {
      scratch_.push_back(result_of(s));
      changed |= !same(scratch_.back(), s);
    }
    if (changed) {
      frame.now = frame.node.with_src(scratch_);
      if (options_.order == Order::before_sources) return wait(frame, {frame.now, nullptr});
      if (untouched(frame.now)) return finish(UOp(frame.now));
      // The rebuilt node's sources are final, so only its rules are left to try; it may be known already.
      const auto [result, added] = done_.emplace(frame.now);
      if (!added) {
        if (!*result) looping(frame.now);
        return finish(UOp(*result));
      }
    }
    if (options_.order == Order::after_sources)
      if (Rules::Step step = apply(frame.now); step.result) return wait(frame, step);
    finish(UOp(frame.now));
  }

  void wait(Frame& frame, const Rules::Step& step) {
    frame.stage = Stage::waiting;
    frame.target = step.result;
    frame.rule = step.rule;
    if (step.rule && ++waiting_ > deepest_) endless_growth();
    if (frame.chain >= kLongestChain) endless_chain();
    push(step.result, step.rule ? frame.chain + 1 : frame.chain);
  }

  void finish(UOp result) {
    Frame& frame = stack_.back();
    if (frame.rule) waiting_--;
    kept_.push_back(frame.node);  // ids of nodes in `done_` must not be given to others
    *done_.find(frame.node) = result;
    if (!same(frame.now, frame.node)) {
      kept_.push_back(frame.now);
      if (!untouched(frame.now)) *done_.emplace(frame.now).first = result;
    }
    // A result is final: rewriting it again gives itself.
    if (!untouched(result)) *done_.emplace(result).first = result;
    if (options_.to_simplest) result.node()->simplest.store(1, std::memory_order_relaxed);
    stack_.pop_back();
  }

  Rules::Step apply(const UOp& u) {
    Rules::Step step = Observed && observation_->counts_attempts()
                           ? rules_.apply_observed(u, context_, *observation_)
                           : rules_.apply(u, context_);
    if (step.result) {
      if constexpr (Observed) observation_->fired(*step.rule, u, step.result);
    }
    return step;
  }

  // Rules that never come to rest make ever more results wait: nodes are done depth first. So do long graphs,
  // so the graph's size is looked at before giving up; the innermost of those that wait tell which rules go
  // on and on.
  void endless_growth() {
    if (deepest_ == kDeepest) {
      walk(root_, [&](const UOp&) { deepest_ += 10; });
      return;
    }
    std::vector<const Rule*> fired;
    for (auto frame = stack_.rbegin(); fired.size() < kLongestChain; ++frame)
      if (frame->rule) fired.push_back(frame->rule);
    give_up(fired, "and the graph keeps growing");
  }

  // The node is needed for its own result: the rules that fired since it was entered go round in a circle.
  [[noreturn]] void looping(const UOp& node) {
    std::vector<const Rule*> fired;
    for (auto frame = stack_.rbegin(); frame != stack_.rend(); ++frame) {
      if (frame->rule) fired.push_back(frame->rule);
      if (same(frame->node, node) || same(frame->now, node)) break;
    }
    give_up(fired, fmt::format("at {}", node.text().substr(0, 400)));
  }

  [[noreturn]] void endless_chain() {
    std::vector<const Rule*> fired;
    for (auto frame = stack_.rbegin(); frame->chain > kLongestChain / 2; ++frame)
      if (frame->rule) fired.push_back(frame->rule);
    give_up(fired, fmt::format("at {}", stack_.back().node.text().substr(0, 400)));
  }

  [[noreturn]] void give_up(std::vector<const Rule*> fired, const std::string& what) {
    std::ranges::sort(fired);
    fired.erase(std::ranges::unique(fired).begin(), fired.end());
    std::set<std::string> names;
    for (const Rule* rule : fired) names.insert(fmt::format("  {}  ({})", rule->text(), rule->location()));
    throw RewriteError(fmt::format("{}: these rules undo each other or never come to rest, {}:\n{}",
                                   options_.name, what, fmt::join(names, "\n")));
  }

  const UOp& root_;
  const Rules& rules_;
  const OpSet roots_;
  const Context context_;
  const RewriteOptions& options_;
  Observation* observation_;
  NodeMap<UOp> done_;
  std::vector<Frame> stack_;
  UOps scratch_, kept_;
  size_t waiting_ = 0, deepest_ = kDeepest;
};

// Order::once. Parts of the graph in which no rule can start are not entered, and only nodes that change are
// remembered.
template <bool Observed>
UOp rewrite_once(const UOp& root, const Rules& rules, Context context, const RewriteOptions& options,
                 Observation* observation) {
  if (!rules.rebuilds())
    throw RewriteError(fmt::format("{}: a rule is no function of a node and its new sources", options.name));
  const OpSet roots = rules.roots();
  NodeMap<UOp> done;  // what became of nodes that are others now
  UOps scratch;
  const auto enter = [&](const UOp& u) {
    return u.ops_below().intersects(roots) && (!options.gate || options.gate(u));
  };
  const auto visit = [&](const UOp& u) {
    const Sources given = u.src();
    Sources now = given;
    if (!options.gate || options.gate(u)) {
      size_t i = 0;
      while (i < given.size() && !done.contains(given[i])) i++;
      if (i < given.size()) {
        scratch.assign(given.begin(), given.end());
        for (; i < given.size(); i++)
          if (const UOp* changed = done.find(given[i])) scratch[i] = *changed;
        now = scratch;
      }
    }
    if (roots.contains(u.op())) {
      Rules::Step step = Observed && observation->counts_attempts()
                             ? rules.apply_observed(u, now, context, *observation)
                             : rules.apply(u, now, context);
      if (step.result) {
        if constexpr (Observed) observation->fired(*step.rule, u, step.result);
        done.emplace(u, std::move(step.result));
        return;
      }
    }
    if (now.data() != given.data()) done.emplace(u, u.with_src(now));
  };
  walk(root, enter, visit);
  const UOp* changed = done.find(root);
  return changed ? *changed : root;
}

template <bool Observed>
UOp rewrite(const UOp& root, const Rules& rules, Context context, const RewriteOptions& options,
            Observation* observation) {
  if (options.order == Order::once) return rewrite_once<Observed>(root, rules, context, options, observation);
  return Rewrite<Observed>(root, rules, context, options, observation).run();
}

}  // namespace

UOp graph_rewrite_with(const UOp& root, const Rules& rules, Context context, const RewriteOptions& options) {
  if (!observing()) return rewrite<false>(root, rules, context, options, nullptr);
  Observation observation(options.name, root);
  UOp result = rewrite<true>(root, rules, context, options, &observation);
  observation.finish(result);
  return result;
}

UOp graph_rewrite(const UOp& root, const Rules& rules, const RewriteOptions& options) {
  return graph_rewrite_with(root, rules, {}, options);
}

}  // namespace quern
