#include "test/engine/random_shapes.h"

#include <algorithm>
#include <numeric>

namespace quern::program {

Ints random_sizes(std::mt19937_64& random, int64_t elements) {
  int64_t left = elements;
  Ints shape;
  while (left > 1 && shape.size() < 3) {
    Ints divisors;
    for (int64_t d = 1; d <= left; d++)
      if (left % d == 0) divisors.push_back(d);
    shape.push_back(divisors[static_cast<size_t>(pick(random, 0, std::ssize(divisors) - 1))]);
    left /= shape.back();
  }
  if (left > 1 || one_in(random, 3)) shape.push_back(left);
  return shape;
}

Ints random_order(std::mt19937_64& random, size_t axes) {
  Ints order(axes);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  return order;
}

Ints random_axes(std::mt19937_64& random, size_t axes) {
  Ints found;
  for (size_t i = 0; i < axes; i++)
    if (one_in(random, 2)) found.push_back(static_cast<int64_t>(i));
  return found;
}

Ints random_slices(std::mt19937_64& random, const Ints& shape) {
  Ints numbers;
  auto add = [&](int64_t start, int64_t stop, int64_t step) {
    numbers.insert(numbers.end(), {start, stop, step});
  };
  for (const int64_t s : shape) {
    const int64_t start = pick(random, 0, s - 1), stop = pick(random, start + 1, s);
    switch (pick(random, 0, 4)) {
      case 0: add(start, 0, 0); break;
      case 1: add(start, pick(random, -1, start - 1), -pick(random, 1, 2)); break;
      case 2: add(start, stop, pick(random, 2, 3)); break;
      case 3: add(0, s, 1); break;
      default: add(start, stop, 1);
    }
  }
  return numbers;
}

bool broadcasts(const Ints& shape, const Ints& into) {
  if (shape.size() > into.size()) return false;
  const size_t skip = into.size() - shape.size();
  for (size_t i = 0; i < shape.size(); i++)
    if (shape[i] != 1 && shape[i] != into[skip + i]) return false;
  return true;
}

}  // namespace quern::program
