#include "test/ops/layout.h"

#include <algorithm>
#include <numeric>

namespace quern::optest {
namespace {

using Move = std::function<std::optional<Ints>(const Ints&)>;
using View = std::function<Tensor(const Tensor&)>;

Placed placed(const Ints& shape, const Ints& base, const View& view, const Move& from) {
  Placed p{base, view, {}};
  const Array memory(dtypes::bool_, base);
  each(shape, [&](const Ints& i) {
    const std::optional<Ints> source = from(i);
    p.places.push_back(source ? static_cast<int64_t>(memory.place(*source)) : -1);
  });
  return p;
}

std::optional<Placed> plain(const Ints& shape, Number) {
  return placed(shape, shape, [](const Tensor& x) { return x; }, [](const Ints& i) { return i; });
}

std::optional<Placed> permuted_view(const Ints& shape, Number) {
  if (shape.size() < 2) return std::nullopt;
  const Ints base(shape.rbegin(), shape.rend());
  Ints order(shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  return placed(
      shape, base, [order](const Tensor& x) { return x.permute(order); },
      [](const Ints& i) { return Ints(i.rbegin(), i.rend()); });
}

std::optional<Placed> flipped(const Ints& shape, Number) {
  if (shape.empty()) return std::nullopt;
  return placed(
      shape, shape, [](const Tensor& x) { return x.flip({}); },
      [=](Ints i) {
        for (size_t k = 0; k < i.size(); k++) i[k] = shape[k] - 1 - i[k];
        return i;
      });
}

std::optional<Placed> strided(const Ints& shape, Number) {  // [..., 1::2]
  if (shape.empty()) return std::nullopt;
  Ints base = shape;
  base.back() = 2 * base.back() + 1;
  return placed(
      shape, base, [](const Tensor& x) { return x.at({ellipsis, Slice{1, {}, 2}}); },
      [](Ints i) {
        i.back() = 2 * i.back() + 1;
        return i;
      });
}

std::optional<Placed> backwards(const Ints& shape, Number) {  // [::-3, ...]
  if (shape.empty() || shape[0] == 0) return std::nullopt;
  Ints base = shape;
  const int64_t n = shape[0];
  base[0] = 3 * n - 1;
  return placed(
      shape, base, [](const Tensor& x) { return x.at({Slice{{}, {}, -3}}); },
      [=](Ints i) {
        i[0] = 3 * n - 2 - 3 * i[0];
        return i;
      });
}

std::optional<Placed> expanded(const Ints& shape, Number) {
  if (shape.empty()) return std::nullopt;
  Ints base = shape;
  base[0] = 1;
  return placed(
      shape, base, [=](const Tensor& x) { return x.expand(dims(shape)); },
      [](Ints i) {
        i[0] = 0;
        return i;
      });
}

std::optional<Placed> padded(const Ints& shape, Number fill) {
  if (shape.empty() || shape.back() < 2) return std::nullopt;
  Ints base = shape;
  base.back() -= 1;
  return placed(
      shape, base, [=](const Tensor& x) { return x.pad({1, 0}, "constant", static_cast<double>(fill)); },
      [](Ints i) -> std::optional<Ints> {
        if (i.back()-- == 0) return std::nullopt;
        return i;
      });
}

std::optional<Placed> shrunk(const Ints& shape, Number) {
  if (shape.empty()) return std::nullopt;
  Ints base = shape;
  std::vector<std::optional<std::pair<Dim, Dim>>> bounds;
  for (int64_t& b : base) {
    bounds.push_back({{Dim(1), Dim(1 + b)}});
    b += 2;
  }
  return placed(
      shape, base, [=](const Tensor& x) { return x.shrink(bounds); },
      [](Ints i) {
        for (int64_t& k : i) k++;
        return i;
      });
}

std::optional<Placed> windows(const Ints& shape, Number) {  // overlapping: [i, j] is base[i + j]
  if (shape.size() < 2 || count(shape) == 0) return std::nullopt;
  Ints base(shape.begin(), shape.end() - 1);
  const int64_t size = shape.back();
  base.back() += size - 1;
  return placed(
      shape, base, [=](const Tensor& x) { return x.unfold(-1, size, 1); },
      [](const Ints& i) {
        Ints from(i.begin(), i.end() - 1);
        from.back() += i.back();
        return from;
      });
}

}  // namespace

const std::vector<Layout> layouts = {
    {"plain", plain},     {"permuted", permuted_view}, {"flipped", flipped},
    {"strided", strided}, {"backwards", backwards},    {"expanded", expanded},
    {"padded", padded},   {"shrunk", shrunk},          {"windows", windows},
};

Array seen(const Placed& placed, const Array& base, const Ints& shape, Number fill) {
  Array out(base.dtype, shape);
  for (size_t i = 0; i < out.at.size(); i++)
    out.at[i] = placed.places[i] < 0 ? fill : base.at[static_cast<size_t>(placed.places[i])];
  return out;
}

}  // namespace quern::optest
