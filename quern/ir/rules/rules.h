// Rules: a left side to match, and a right side that is an expression in the same variables, or a function.
//
//   const Rules divisions = [] {
//     const Pat i = ints("i"), c0 = int_const("c0"), c1 = int_const("c1");
//     return RuleList{
//         {(i / c0) / c1, i / exact(c0 * c1), c0 > 0 && c1 > 0},
//         {op(Op::FLOORMOD).as("mod"), drop_multiples},
//     };
//   };
//   const Rules both = [] { return divisions + others; };
//
// A list at namespace scope is built when it is first used: nothing happens during static initialisation, and
// the order of translation units does not matter. Rules are tried in the order of the list; the first that
// gives another node wins. When a condition or a function refuses, the next order of operands is tried.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "quern/ir/rules/pattern.h"

namespace quern {

// The context of a rewrite: any object that the rules' functions want to see.
struct Context {
  void* object = nullptr;
  const std::type_info* type = nullptr;
};

namespace detail {

struct RuleFunction {
  std::function<UOp(const UOp* const* captured, void* context)> call;
  const std::type_info* context = nullptr;  // the type it wants, or null
  int captures = 0;
  std::function<UOp(const UOp& node, Sources now, void* context)> rebuild = {};  // instead of `call`
};

template <class T>
inline constexpr bool kIsUOp = std::is_same_v<std::remove_cvref_t<T>, UOp>;

template <class F, class... A>
RuleFunction rule_function(F f, UOp (*)(A...)) {
  static_assert((kIsUOp<A> && ...), "a rule's function takes an optional context, then UOps");
  return {[f = std::move(f)](const UOp* const* captured, void*) {
            return [&]<size_t... I>(std::index_sequence<I...>) {
              return f(*captured[I]...);
            }(std::index_sequence_for<A...>{});
          },
          nullptr, static_cast<int>(sizeof...(A))};
}
template <class F, class C, class... A>
  requires(!kIsUOp<C>)
RuleFunction rule_function(F f, UOp (*)(C&, A...)) {
  static_assert((kIsUOp<A> && ...), "a rule's function takes an optional context, then UOps");
  return {[f = std::move(f)](const UOp* const* captured, void* context) {
            return [&]<size_t... I>(std::index_sequence<I...>) {
              return f(*static_cast<C*>(context), *captured[I]...);
            }(std::index_sequence_for<A...>{});
          },
          &typeid(C), static_cast<int>(sizeof...(A))};
}

// Those that take a node as it was, and its sources as they are now.
template <class F>
RuleFunction rule_function(F f, UOp (*)(const UOp&, Sources)) {
  return {.call = {},
          .rebuild = [f = std::move(f)](const UOp& node, Sources now, void*) { return f(node, now); }};
}
template <class F, class C>
RuleFunction rule_function(F f, UOp (*)(C&, const UOp&, Sources)) {
  return {.call = {},
          .context = &typeid(C),
          .rebuild = [f = std::move(f)](const UOp& node, Sources now, void* context) {
            return f(*static_cast<C*>(context), node, now);
          }};
}

template <class T>
struct Signature;
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using type = R (*)(A...);
};
template <class T, class R, class... A>
struct Signature<R (T::*)(A...) const> {
  using type = R (*)(A...);
};
template <class F>
auto signature_of() {
  if constexpr (std::is_class_v<F>)
    return typename Signature<decltype(&F::operator())>::type{};
  else
    return typename Signature<F>::type{};
}

}  // namespace detail

class Rule {
 public:
  Rule(Pat left, Pat right, Pat condition = {}, std::source_location where = std::source_location::current());

  // The function receives a reference to the context, if it takes one, and then the captured nodes in the
  // order in which their names first appear on the left side, a node's own name before those of its sources.
  // It returns a node, or none to refuse. The note says in a few words what becomes of the node; traces show
  // it.
  // For Order::once it receives the context, if it takes one, the node as it was, which is the one that the
  // left side matches, and the node's sources as they are now (Sources).
  template <class F>
    requires(!std::is_convertible_v<F, Pat>)
  Rule(Pat left, F does, const char* note = "", std::source_location where = std::source_location::current())
      : Rule(std::move(left), detail::rule_function(does, detail::signature_of<std::decay_t<F>>()), note,
             where) {}

  const Pat& left() const { return left_; }
  const Pat& right() const { return right_; }          // none when it is a function
  const Pat& condition() const { return condition_; }  // may be none
  bool has_function() const { return function_.call || function_.rebuild; }
  bool rebuilds() const { return static_cast<bool>(function_.rebuild); }  // it is one for Order::once
  const detail::RuleFunction& function() const { return function_; }
  uint64_t id() const { return id_; }  // the same for copies of a rule, another for every other rule
  std::string text() const;            // "i + 0 -> i"
  std::string location() const;        // "quern/ir/symbolic/identities.cpp:12"

 private:
  Rule(Pat left, detail::RuleFunction function, const char* note, std::source_location where);
  Pat left_, right_, condition_;
  detail::RuleFunction function_;
  static uint64_t next_id();
  const char* note_ = "";
  std::source_location where_;
  uint64_t id_ = next_id();
};

using RuleList = std::vector<Rule>;

namespace detail {
struct CompiledRules;

// Told of every attempt when match statistics are on.
struct AttemptObserver {
  virtual ~AttemptObserver() = default;
  virtual int64_t clock() const = 0;  // nanoseconds; it stands still while another pass runs inside this one
  virtual void attempt(const Rule& rule, bool matched, int64_t nanoseconds) = 0;
};
}  // namespace detail

class Rules {
 public:
  using Maker = RuleList (*)();
  template <class F>
    requires std::is_convertible_v<F, Maker>
  constexpr Rules(F make) : make_(make) {}  // NOLINT(google-explicit-constructor)
  Rules(RuleList list);                     // NOLINT(google-explicit-constructor)
  Rules(std::initializer_list<Rule> list) : Rules(RuleList(list)) {}
  Rules(const Rules&) = delete;
  Rules& operator=(const Rules&) = delete;
  ~Rules();

  const RuleList& list() const;
  OpSet roots() const;    // ops that a rule may start from
  bool rebuilds() const;  // do all of them take a node and its new sources, as Order::once wants?

  // One step at this node: what the first rule that applies makes of it, or none.
  struct Step {
    UOp result;
    const Rule* rule = nullptr;
  };
  Step apply(const UOp& node, Context context = {}) const { return apply(node, node.src(), context); }
  Step apply_observed(const UOp& node, Context context, detail::AttemptObserver& observer) const {
    return apply_observed(node, node.src(), context, observer);
  }
  // The same with sources that the node did not have so far, for rules that take them.
  Step apply(const UOp& node, Sources now, Context context) const;
  Step apply_observed(const UOp& node, Sources now, Context context, detail::AttemptObserver& observer) const;

 private:
  const detail::CompiledRules& compiled() const;
  Maker make_ = nullptr;
  mutable std::atomic<const detail::CompiledRules*> compiled_{nullptr};
};

RuleList operator+(const Rules& a, const Rules& b);
RuleList operator+(RuleList a, const Rules& b);

}  // namespace quern
