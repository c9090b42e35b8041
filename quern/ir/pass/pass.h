// A stage of the compiler is a table: its passes, in the order in which they run. A pass is a list of rewrite
// rules, or a function from graph to graph. Where rules ask for facts about the whole graph, a function finds
// these and applies the rules. One runner goes through every table, and does the same for each
// pass: records the graph before and after, checks it, times it, prints it, and stops where it is asked to.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "quern/base/profile.h"
#include "quern/ir/pass/pass_info.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/rewrite/trace.h"
#include "quern/ir/spec/spec.h"

namespace quern {

// One pass. `Context` has what passes may ask for; it is computed before the first pass and does not change.
// Its member `met` holds the needs that are met.
template <class Context>
struct Pass {
  std::string_view name;
  std::string_view file;  // under quern/
  Needs needs;
  // Either rules, which are applied until none applies, or once where they are made for that (Order::once),
  // or a function. With both the function applies the rules.
  const Rules* rules = nullptr;
  UOp (*run)(const UOp&, const Context&) = nullptr;
  std::string_view result;  // what holds afterwards, for the documentation
};

template <class Context>
struct PassTable {
  std::string_view name;
  std::optional<Level> level;  // of the graphs between its passes; none: they are on the way to another one
  std::span<const Pass<Context>> passes;
};

template <class Context>
std::vector<PassInfo> passes_of(const PassTable<Context>& table) {
  std::vector<PassInfo> list;
  for (const Pass<Context>& p : table.passes)
    list.push_back({table.name, p.name, p.file, p.needs, p.rules != nullptr, p.result});
  return list;
}

namespace detail {

// Does anybody watch what passes do: a trace, statistics, a profile, SPEC or DEBUG?
bool watching_passes();

// One pass as it runs, while somebody watches.
class PassWatch {
 public:
  // `observed`: it is recorded here; a list of rules is by graph_rewrite.
  PassWatch(std::string_view name, std::optional<Level> level, const UOp& graph, bool observed);
  PassWatch(const PassWatch&) = delete;
  PassWatch& operator=(const PassWatch&) = delete;
  ~PassWatch();
  void finish(const UOp& result);

 private:
  std::string_view name_;
  std::optional<Level> level_;
  const UOp& graph_;
  std::unique_ptr<Observation> observation_;
  profile::Timer timer_;
};

}  // namespace detail

// One pass, whatever it needs.
template <class Context>
UOp run_pass(const PassTable<Context>& table, const Pass<Context>& pass, const UOp& graph,
             const Context& context) {
  const auto run = [&] {
    if (pass.run) return pass.run(graph, context);
    const Order order = pass.rules->rebuilds() ? Order::once : Order::after_sources;
    return graph_rewrite(graph, *pass.rules, {.order = order, .name = pass.name});
  };
  if (!detail::watching_passes()) return run();
  detail::PassWatch watch(pass.name, table.level, graph, pass.rules == nullptr);
  UOp result = run();
  watch.finish(result);
  return result;
}

// The pass of this name; null: the table has none.
template <class Context>
const Pass<Context>* pass_named(const PassTable<Context>& table, std::string_view name) {
  for (const Pass<Context>& pass : table.passes)
    if (pass.name == name) return &pass;
  return nullptr;
}

// Runs the passes whose needs are met, up to and with the one called `last`; none: all of them.
template <class Context>
UOp run_passes(const PassTable<Context>& table, UOp graph, const Context& context,
               std::string_view last = {}) {
  for (const Pass<Context>& pass : table.passes) {
    if (context.met.contains_all(pass.needs)) graph = run_pass(table, pass, graph, context);
    if (pass.name == last) break;
  }
  return graph;
}

}  // namespace quern
