#include "quern/ir/node/arg.h"

#include <compare>

#include "quern/base/error.h"

namespace quern {
namespace {

using detail::mix;

uint64_t hash_of(int64_t v) { return mix(1, static_cast<uint64_t>(v)); }
uint64_t hash_of(bool v) { return mix(2, v ? 1 : 0); }
uint64_t hash_of(Op v) { return mix(3, static_cast<uint64_t>(v)); }
uint64_t hash_of(AddrSpace v) { return mix(4, static_cast<uint64_t>(v)); }
uint64_t hash_of(const std::string& v) {
  uint64_t h = mix(5, v.size());
  for (char c : v) h = mix(h, static_cast<unsigned char>(c));
  return h;
}
template <class T>
uint64_t hash_of(const std::vector<T>& v) {
  uint64_t h = mix(6, v.size());
  for (const T& x : v) h = mix(h, hash_of(x));
  return h;
}
template <class T>
  requires requires { T::fields(); }
uint64_t hash_of(const T& v) {
  uint64_t h = 7;
  std::apply([&](auto... f) { ((h = mix(h, hash_of(v.*f.member))), ...); }, T::fields());
  return h;
}

template <class T>
int order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}
template <class T>
  requires requires { T::fields(); }
int order(const T& a, const T& b) {
  int result = 0;
  std::apply([&](auto... f) { (void)((result = order(a.*f.member, b.*f.member), result != 0) || ...); },
             T::fields());
  return result;
}

// Calls f with the boxed value's type as a null pointer to it.
template <class F>
auto with_box_type(ArgKind kind, F f) {
  switch (kind) {
    case ArgKind::Ints: return f(static_cast<Ints*>(nullptr));
    case ArgKind::Text: return f(static_cast<std::string*>(nullptr));
    case ArgKind::Texts: return f(static_cast<Texts*>(nullptr));
    case ArgKind::Variable: return f(static_cast<VariableArg*>(nullptr));
    case ArgKind::Reduce: return f(static_cast<ReduceArg*>(nullptr));
    case ArgKind::Stage: return f(static_cast<StageArg*>(nullptr));
    case ArgKind::Kernel: return f(static_cast<KernelArg*>(nullptr));
    case ArgKind::Function: return f(static_cast<FunctionArg*>(nullptr));
    case ArgKind::Hints: return f(static_cast<Hints*>(nullptr));
    default:
      check_failed("boxed argument", __FILE__, __LINE__, "kind " + std::to_string(static_cast<int>(kind)));
  }
}

constexpr const char* kKindNames[] = {"none",   "constant", "integer", "integers", "text",
                                      "texts",  "variable", "range",   "reduce",   "stage",
                                      "kernel", "function", "hints"};

}  // namespace

template <class T>
  requires(detail::kBoxKind<T> != ArgKind::None)
Arg::Arg(T value) : kind_(detail::kBoxKind<T>) {
  auto* made = new detail::BoxOf<T>(std::move(value));  // NOLINT(cppcoreguidelines-owning-memory): counted
  made->hash = hash_of(made->value);
  value_ = reinterpret_cast<int64_t>(static_cast<detail::Box*>(made));  // NOLINT
}
template Arg::Arg(Ints);
template Arg::Arg(std::string);
template Arg::Arg(Texts);
template Arg::Arg(VariableArg);
template Arg::Arg(ReduceArg);
template Arg::Arg(StageArg);
template Arg::Arg(KernelArg);
template Arg::Arg(FunctionArg);
template Arg::Arg(Hints);

void Arg::destroy() {
  with_box_type(kind_, [&](auto* type) {
    delete static_cast<const detail::BoxOf<std::remove_pointer_t<decltype(type)>>*>(box());  // NOLINT
  });
}

bool Arg::equal_boxes(const Arg& a, const Arg& b) {
  if (a.box()->hash != b.box()->hash) return false;
  return with_box_type(a.kind_, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return a.get<T>() == b.get<T>();
  });
}

int Arg::compare(const Arg& a, const Arg& b) {
  if (a.kind_ != b.kind_) return order(a.kind_, b.kind_);
  if (!a.boxed()) return a.value_ != b.value_ ? order(a.value_, b.value_) : order(a.sub_, b.sub_);
  if (a.value_ == b.value_) return 0;
  return with_box_type(a.kind_, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return order(a.get<T>(), b.get<T>());
  });
}

int64_t Arg::integer() const {
  if (kind_ != ArgKind::Int) wrong_kind(ArgKind::Int);
  return value_;
}
RangeArg Arg::range() const {
  if (kind_ != ArgKind::Range) wrong_kind(ArgKind::Range);
  return {value_, static_cast<AxisKind>(sub_)};
}

void Arg::wrong_kind(ArgKind wanted) const {
  check_failed("argument kind", __FILE__, __LINE__,
               std::string("an argument of kind ") + kKindNames[static_cast<int>(kind_)] + " was read as " +
                   kKindNames[static_cast<int>(wanted)]);
}

}  // namespace quern
