// Sums of products, in Einstein's notation: "bij,bjk->bik", with "..." for axes that are broadcast.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "quern/tensor/core/support.h"

namespace quern {
namespace {

[[noreturn]] void refuse_einsum(const std::string& formula, const std::string& why) {
  throw ValueError(fmt::format("einsum \"{}\": {}", formula, why));
}

// One operand's letters. The axes of an ellipsis are the characters from 128 on, counted from the last axis.
std::u32string letters(const std::string& formula, const std::string& term, int64_t axes) {
  std::u32string result;
  const size_t dots = term.find("...");
  if (dots != std::string::npos && term.find('.', dots + 3) != std::string::npos)
    refuse_einsum(formula, "more than one ellipsis in a term");
  const int64_t named = std::ssize(term) - (dots == std::string::npos ? 0 : 3);
  if (dots == std::string::npos ? axes != named : axes < named)
    refuse_einsum(formula, fmt::format("the term \"{}\" has {} letters for {} axes", term, named, axes));
  for (size_t i = 0; i < term.size(); i++) {
    if (i == dots) {
      for (int64_t hidden = axes - named; hidden-- > 0;)
        result.push_back(static_cast<char32_t>(128 + hidden));
      i += 2;
      continue;
    }
    if (std::isalpha(static_cast<unsigned char>(term[i])) == 0)
      refuse_einsum(formula, fmt::format("'{}' is not a letter", term[i]));
    result.push_back(static_cast<char32_t>(term[i]));
  }
  return result;
}

std::vector<std::string> terms_of(const std::string& text) {
  std::vector<std::string> terms(1);
  for (const char c : text)
    if (c == ',')
      terms.emplace_back();
    else
      terms.back().push_back(c);
  return terms;
}

}  // namespace

Tensor Tensor::einsum(const std::string& formula, const std::vector<Tensor>& operands,
                      std::optional<DType> dtype) {
  std::string text;
  for (const char c : formula)
    if (c != ' ') text.push_back(c);
  const size_t arrow = text.find("->");
  const std::vector<std::string> terms = terms_of(text.substr(0, arrow));
  if (terms.size() != operands.size() || operands.empty())
    refuse_einsum(formula, fmt::format("{} terms for {} tensors", terms.size(), operands.size()));
  detail::check_same_device("einsum", operands);

  std::map<char32_t, Dim> sizes;
  std::map<char32_t, int> uses;
  std::vector<Tensor> tensors;
  std::vector<std::u32string> axes;
  size_t hidden = 0;
  DType out = operands[0].dtype();
  for (size_t i = 0; i < operands.size(); i++) {
    Tensor t = operands[i];
    std::u32string names = letters(formula, terms[i], t.ndim());
    out = promote(out, t.dtype());
    for (size_t a = 0; a < names.size(); a++) {
      const Dim size = t.size(static_cast<int64_t>(a));
      if (names[a] >= 128) hidden = std::max(hidden, static_cast<size_t>(names[a]) - 127);
      const auto [known, fresh] = sizes.emplace(names[a], size);
      if (!fresh && !detail::same_dims(known->second, size)) {
        const bool broadcast = names[a] >= 128 && (known->second == Dim(1) || size == Dim(1));
        if (!broadcast)
          refuse_einsum(formula,
                        fmt::format("{} is {} and {}",
                                    names[a] >= 128 ? "an axis of the ellipsis"
                                                    : std::string("'") + static_cast<char>(names[a]) + "'",
                                    known->second.text(), size.text()));
        if (known->second == Dim(1)) known->second = size;
      }
      uses[names[a]]++;
    }
    for (size_t a = 0; a < names.size(); a++)  // a letter that occurs twice in a term: the diagonal
      for (size_t b = names.size() - 1; b > a; b--)
        if (names[a] == names[b]) {
          t = t.diagonal(0, static_cast<int64_t>(a), static_cast<int64_t>(b));
          const char32_t name = names[a];
          names.erase(b, 1), names.erase(a, 1);
          names.push_back(name);  // diagonal() puts it last
          a = static_cast<size_t>(-1);
          break;
        }
    tensors.push_back(t), axes.push_back(names);
  }

  std::u32string result;
  if (arrow != std::string::npos) {
    const std::string right = text.substr(arrow + 2);
    const size_t dots = right.find("...");
    const int64_t named = std::ssize(right) - (dots == std::string::npos ? 0 : 3);
    result = letters(formula, right, named + (dots == std::string::npos ? 0 : static_cast<int64_t>(hidden)));
    for (size_t i = 0; i < result.size(); i++) {
      if (!sizes.contains(result[i]))
        refuse_einsum(formula, fmt::format("'{}' of the result is in no term", static_cast<char>(result[i])));
      if (result.find(result[i], i + 1) != std::u32string::npos)
        refuse_einsum(formula, fmt::format("'{}' is twice in the result", static_cast<char>(result[i])));
    }
  } else {  // the ellipsis, then the letters that occur once, in order of the alphabet
    for (size_t i = hidden; i-- > 0;) result.push_back(static_cast<char32_t>(128 + i));
    for (const auto& [name, count] : uses)
      if (name < 128 && count == 1) result.push_back(name);
  }

  std::u32string all = result;
  for (const auto& [name, size] : sizes)
    if (all.find(name) == std::u32string::npos) all.push_back(name);
  const DType computed = dtype.value_or(detail::sum_dtype(out));
  std::optional<Tensor> product;
  for (size_t i = 0; i < tensors.size(); i++) {
    Ints order;
    Shape shape;
    for (const char32_t name : all) {
      const size_t at = axes[i].find(name);
      if (at == std::u32string::npos) {
        shape.emplace_back(1);
        continue;
      }
      order.push_back(static_cast<int64_t>(at));
      shape.push_back(tensors[i].size(static_cast<int64_t>(at)));
    }
    const Tensor placed = tensors[i].permute(order).reshape(shape).cast(computed);
    product = product ? *product * placed : placed;
  }
  Ints summed;
  for (size_t i = result.size(); i < all.size(); i++) summed.push_back(static_cast<int64_t>(i));
  const Tensor sum =
      summed.empty() ? detail::own_value(*product, tensors[0]) : product->sum(summed, false, computed);
  return sum.cast(dtype.value_or(detail::product_dtype(out)));
}

}  // namespace quern
