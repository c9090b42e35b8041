// Layers are plain structs. One line names the members that hold tensors, or layers that hold tensors:
//
//   struct Net {
//     nn::Conv2d conv{1, 32, 3};
//     std::vector<nn::Linear> layers;
//     QUERN_PARAMETERS(conv, layers)
//     Tensor operator()(const Tensor& x) const;
//   };
//
// Members may be tensors, layers, and optionals, pointers, vectors, arrays and maps (by std::string) of
// these.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/tensor/core/tensor.h"

#define QUERN_PARAMETERS(...)                                                                \
  void each_member(const quern::nn::Visit& visit_, const std::string& prefix_) const {       \
    quern::nn::detail::each_named(visit_, prefix_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__); \
  }

namespace quern::nn {

// Called with the name of each tensor, such as "layers.0.weight".
using Visit = std::function<void(const std::string&, const Tensor&)>;

template <class T>
concept Layer = requires(const T& layer, const Visit& visit) { layer.each_member(visit, std::string()); };

template <class T>
void each_tensor(const T& value, const Visit& visit, const std::string& name = "");

namespace detail {

std::string joined(const std::string& prefix, std::string_view name);
std::string_view next_name(std::string_view& names);  // of "a, b, c", which then is "b, c"

template <class... Members>
void each_named(const Visit& visit, const std::string& prefix, [[maybe_unused]] std::string_view names,
                const Members&... members) {
  (each_tensor(members, visit, joined(prefix, next_name(names))), ...);
}

template <class T>
concept Pointer = requires(const T& p) {
  static_cast<bool>(p);
  *p;
};
template <class T>
concept Map = requires(const T& m) { typename T::mapped_type; };
template <class T>
concept List = requires(const T& l) {
  l.begin();
  l.end();
};

}  // namespace detail

template <class T>
void each_tensor(const T& value, const Visit& visit, const std::string& name) {
  if constexpr (std::same_as<T, Tensor>) {
    visit(name, value);
  } else if constexpr (Layer<T>) {
    value.each_member(visit, name);
  } else if constexpr (detail::Pointer<T>) {
    if (value) each_tensor(*value, visit, name);
  } else if constexpr (detail::Map<T>) {
    for (const auto& [key, entry] : value) each_tensor(entry, visit, detail::joined(name, key));
  } else if constexpr (detail::List<T>) {
    size_t number = 0;
    for (const auto& entry : value) each_tensor(entry, visit, detail::joined(name, std::to_string(number++)));
  } else {
    static_assert(Layer<T>, "neither a tensor nor a layer: does it have a line QUERN_PARAMETERS(...)?");
  }
}

}  // namespace quern::nn
