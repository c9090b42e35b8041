// Tensors put together and taken apart.
#include <fmt/format.h>

#include <ranges>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/function.h"
#include "quern/tensor/core/size_conditions.h"
#include "quern/tensor/core/support.h"

namespace quern {

using detail::difference, detail::part, detail::resolve_axis, detail::sum_of;

namespace {

// Each tensor is padded to the whole and the right one is selected at each place. (A sum of them would do,
// but for -0.0.)
Tensor joined(const std::vector<Tensor>& tensors, int64_t at) {
  const int64_t n = tensors[0].ndim();
  DType dtype = tensors[0].dtype();
  Dim total = 0;
  for (const Tensor& t : tensors) {
    dtype = promote(dtype, t.dtype());
    total = sum_of(total, t.size(at));
  }
  std::optional<Tensor> behind;
  Dim end = total;
  for (const Tensor& t : std::views::reverse(tensors)) {  // from the last, which needs no condition
    const Dim begin = difference(end, t.size(at));
    std::vector<std::pair<Dim, Dim>> padding(static_cast<size_t>(n), {Dim(0), Dim(0)});
    padding[static_cast<size_t>(at)] = {begin, difference(total, end)};
    const Tensor value = t.cast(dtype).pad_axes(padding, 0);
    if (!behind) {
      behind = value;
    } else if (t.size(at) != Dim(0)) {
      padding[static_cast<size_t>(at)] = {Dim(0), difference(total, end)};
      Shape until = t.shape();
      until[static_cast<size_t>(at)] = end;
      const Tensor here = Tensor::full(until, true).pad_axes(padding, 0);
      behind = detail::if_else(here, value, *behind);
    }
    end = begin;
  }
  return *behind;
}

// The size that an axis has now: it says how many parts there are.
int64_t length_now(const char* who, const Tensor& x, int64_t axis) {
  const std::optional<wide> now = detail::value_now(x.size(axis).uop());
  if (!now)
    throw ShapeError(
        fmt::format("{}: axis {} of {} is symbolic, and has no value that says how many parts there are", who,
                    axis, shape_text(x.shape())));
  return static_cast<int64_t>(*now);
}

}  // namespace

Tensor Tensor::cat(const std::vector<Tensor>& tensors, int64_t axis) {
  if (tensors.empty()) throw ValueError("cat: no tensors are given");
  detail::check_same_device("cat", tensors);
  const int64_t n = tensors[0].ndim(), at = resolve_axis("cat", axis, n);
  for (size_t i = 0; i < tensors.size(); i++) {
    const Tensor& t = tensors[i];
    bool fits = t.ndim() == n;
    for (int64_t a = 0; fits && a < n; a++)
      fits = a == at || detail::same_dims(t.size(a), tensors[0].size(a));
    if (!fits)
      throw ShapeError(fmt::format("cat: tensor {} has shape {}, the first {}; only axis {} may differ", i,
                                   shape_text(t.shape()), shape_text(tensors[0].shape()), at));
  }
  if (tensors.size() == 1) return joined(tensors, at);
  return detail::call_of_body("cat", {at}, tensors,
                              [&](const std::vector<Tensor>& inputs) { return joined(inputs, at); });
}

Tensor Tensor::stack(const std::vector<Tensor>& tensors, int64_t axis) {
  if (tensors.empty()) throw ValueError("stack: no tensors are given");
  std::vector<Tensor> rows;
  const int64_t at = resolve_axis("stack", axis, tensors[0].ndim() + 1);
  for (const Tensor& t : tensors) {
    if (t.ndim() != tensors[0].ndim() || !same_sizes(t.uop().shape(), tensors[0].uop().shape()))
      throw ShapeError(fmt::format("stack: shapes {} and {} differ", shape_text(tensors[0].shape()),
                                   shape_text(t.shape())));
    rows.push_back(t.unsqueeze(at));
  }
  return cat(rows, at);
}

// Of a symbolic axis there are as many parts as its value now makes, and the last one has what is left.
std::vector<Tensor> Tensor::split(const IntList& sizes, int64_t axis) const {
  const int64_t at = resolve_axis("split", axis, ndim());
  const Dim length = size(at);
  const int64_t n = length_now("split", *this, at);
  Ints parts = sizes.values();
  const bool all_alike = parts.size() == 1;
  if (all_alike) {
    const int64_t each = parts[0];
    if (each <= 0) throw ValueError(fmt::format("split: parts of {} elements; they must be positive", each));
    parts.clear();
    for (int64_t i = 0; i < n; i += each) parts.push_back(std::min(each, n - i));
    if (parts.empty()) parts.push_back(0);
  }
  wide total = 0;
  for (const int64_t p : parts) {
    if (p < 0) throw ShapeError(fmt::format("split: a part of {} elements", p));
    total += p;
  }
  if (total != n)
    throw ShapeError(fmt::format("split: parts [{}] do not add up to {}, the size of axis {}",
                                 fmt::join(parts, ", "), n, at));
  std::vector<Tensor> result;
  int64_t begin = 0;
  for (size_t i = 0; i + 1 < parts.size(); i++) {
    result.push_back(part(*this, at, begin, begin + parts[i]));
    begin += parts[i];
  }
  const int64_t most = all_alike ? sizes.values()[0] : parts.empty() ? 0 : parts.back();
  const int64_t least = all_alike ? std::min<int64_t>(n, 1) : most;
  const auto text = [&] {
    return fmt::format("split: axis {} is {} long, which makes other parts", at, length.text());
  };
  detail::note_not_negative((length.uop() - begin - least).simplify(), text);
  detail::note_not_negative((begin + most - length.uop()).simplify(), text);
  if (!parts.empty())
    result.push_back(part(*this, at, begin, all_alike ? length : Dim(begin + parts.back())));
  return result;
}

std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t axis) const {
  if (chunks <= 0) throw ValueError(fmt::format("chunk: {} chunks; there must be at least 1", chunks));
  const int64_t at = resolve_axis("chunk", axis, ndim()), n = length_now("chunk", *this, at);
  const int64_t each = n == 0 ? 0 : (n - 1) / chunks + 1;
  const UOp length = size(at).uop();
  const auto text = [&] {
    return fmt::format("chunk: axis {} is {} long, which makes other parts", at, length.text());
  };
  detail::note_not_negative((each * chunks - length).simplify(), text);
  detail::note_not_negative((length - std::max<int64_t>((each - 1) * chunks + 1, 0)).simplify(), text);
  if (n == 0) return std::vector<Tensor>(static_cast<size_t>(chunks), *this);
  return split(each, at);
}

}  // namespace quern
