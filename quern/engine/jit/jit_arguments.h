// Arguments and results of a function given to jit(), taken apart: the tensors and sizes in them, and all
// else.
#pragma once

#include <any>
#include <array>
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "quern/base/small_vector.h"
#include "quern/tensor/core/tensor.h"

namespace quern::detail {

// A value that is no tensor: it has to be equal in each call.
struct JitValue {
  const void* value;
  bool (*equals)(const void* value, const std::any& known);
  std::any (*copied)(const void* value);
  std::string (*text)(const void* value);
};

// Where something is.
template <class T>
struct JitPlace {
  T* at;
  T& operator*() const { return *at; }
  T* operator->() const { return at; }
};

// What a call was given, or gave: all of it in order, where it is.
struct JitArguments {
  SmallVector<JitPlace<Tensor>, 8> tensors;
  SmallVector<JitPlace<const Dim>, 4> dims;
  SmallVector<size_t, 4> lengths;  // of lists
  SmallVector<JitValue, 8> values;
};

template <class T>
struct JitKind {
  static constexpr bool is_list = false, is_optional = false, is_tuple = false, is_map = false;
};
template <class T>
struct JitKind<std::vector<T>> : JitKind<void> {
  static constexpr bool is_list = true;
};
template <class T>
struct JitKind<std::optional<T>> : JitKind<void> {
  static constexpr bool is_optional = true;
};
template <class... T>
struct JitKind<std::tuple<T...>> : JitKind<void> {
  static constexpr bool is_tuple = true;
};
template <class A, class B>
struct JitKind<std::pair<A, B>> : JitKind<void> {
  static constexpr bool is_tuple = true;
};
template <class T, size_t n>
struct JitKind<std::array<T, n>> : JitKind<void> {
  static constexpr bool is_tuple = true;
};
template <class K, class T>
struct JitKind<std::map<K, T>> : JitKind<void> {
  static constexpr bool is_map = true;
};

// Whether tensors (or sizes) can be in it, and whether nothing else can.
template <class T>
constexpr bool holds_tensors() {
  if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, Dim>) {
    return true;
  } else if constexpr (JitKind<T>::is_list || JitKind<T>::is_optional) {
    return holds_tensors<typename T::value_type>();
  } else if constexpr (JitKind<T>::is_map) {
    return holds_tensors<typename T::mapped_type>();
  } else if constexpr (JitKind<T>::is_tuple) {
    return []<size_t... i>(std::index_sequence<i...>) {
      return (holds_tensors<std::tuple_element_t<i, T>>() || ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    return false;
  }
}
template <class T>
constexpr bool holds_only_tensors() {
  if constexpr (std::is_same_v<T, Tensor>) {
    return true;
  } else if constexpr (JitKind<T>::is_list || JitKind<T>::is_optional) {
    return holds_only_tensors<typename T::value_type>();
  } else if constexpr (JitKind<T>::is_tuple) {
    return []<size_t... i>(std::index_sequence<i...>) {
      return (holds_only_tensors<std::tuple_element_t<i, T>>() && ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    return false;
  }
}

template <class T>
JitValue jit_value(const T& value) {
  static_assert(std::equality_comparable<T> && std::copy_constructible<T>,
                "jit: an argument that is no tensor must be a value that can be copied and compared");
  return {&value,
          [](const void* v, const std::any& known) {
            const T* const k = std::any_cast<T>(&known);
            return k != nullptr && *k == *static_cast<const T*>(v);
          },
          [](const void* v) { return std::any(*static_cast<const T*>(v)); },
          [](const void* v) -> std::string {
            if constexpr (std::is_arithmetic_v<T>)
              return std::to_string(*static_cast<const T*>(v));
            else if constexpr (std::is_same_v<T, std::string>)
              return "'" + *static_cast<const T*>(v) + "'";
            else
              return "another value";
          }};
}

template <class T>
void take_apart(T& x, JitArguments& all) {
  if constexpr (std::is_same_v<T, Tensor>) {
    all.tensors.push_back({&x});
  } else if constexpr (std::is_same_v<T, Dim>) {
    all.dims.push_back({&x});
  } else if constexpr (!holds_tensors<T>()) {
    all.values.push_back(jit_value(x));
  } else if constexpr (JitKind<T>::is_tuple) {
    std::apply([&](auto&... part) { (take_apart(part, all), ...); }, x);
  } else if constexpr (JitKind<T>::is_optional) {
    all.lengths.push_back(x ? 1 : 0);
    if (x) take_apart(*x, all);
  } else if constexpr (JitKind<T>::is_map) {
    all.lengths.push_back(x.size());
    for (auto& [key, part] : x) {
      all.values.push_back(jit_value(key));
      take_apart(part, all);
    }
  } else {
    all.lengths.push_back(x.size());
    for (auto& part : x) take_apart(part, all);
  }
}

template <class... T>
void take_apart_all(std::tuple<T...>& parts, JitArguments& all) {
  std::apply([&](auto&... part) { (take_apart(part, all), ...); }, parts);
}

// Results put together again.
struct JitResults {
  const Tensor* tensor;
  const size_t* length;
};
template <class T>
T put_together(JitResults& from) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return *from.tensor++;
  } else if constexpr (JitKind<T>::is_optional) {
    return *from.length++ > 0 ? T(put_together<typename T::value_type>(from)) : T();
  } else if constexpr (JitKind<T>::is_list) {
    T list;
    const size_t length = *from.length++;
    list.reserve(length);
    for (size_t i = 0; i < length; i++) list.push_back(put_together<typename T::value_type>(from));
    return list;
  } else {
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return T{put_together<std::tuple_element_t<i, T>>(from)...};
    }(std::make_index_sequence<std::tuple_size_v<T>>());
  }
}

// What an argument is kept as while the function runs: views as tensors, literals as strings.
template <class Given>
using JitKept = std::conditional_t<std::is_same_v<std::decay_t<Given>, View>, Tensor,
                                   std::conditional_t<std::is_same_v<std::decay_t<Given>, const char*> ||
                                                          std::is_same_v<std::decay_t<Given>, char*>,
                                                      std::string, std::decay_t<Given>>>;

}  // namespace quern::detail
