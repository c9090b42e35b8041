// Matrix products of sizes for which loops are cut, padded, packed and done in blocks: exact, since all sums
// are.
#include <gtest/gtest.h>

#include <ostream>

#include "quern/quern.h"

namespace quern {
namespace {

struct Sizes {
  int64_t rows, reduced, columns;
  friend std::ostream& operator<<(std::ostream& out, const Sizes& s) {
    return out << s.rows << "x" << s.reduced << "x" << s.columns;
  }
};

class Products : public testing::TestWithParam<Sizes> {
 protected:
  // Numbers from -3 to 3.
  static std::vector<float> numbers(int64_t count, uint32_t seed) {
    std::vector<float> list;
    for (int64_t i = 0; i < count; i++) {
      seed = seed * 1664525u + 1013904223u;
      list.push_back(static_cast<float>(static_cast<int>(seed >> 24) % 7 - 3));
    }
    return list;
  }

  void SetUp() override {
    const auto [m, k, n] = sizes;
    product.assign(static_cast<size_t>(m * n), 0);
    for (int64_t i = 0; i < m; i++)
      for (int64_t r = 0; r < k; r++)
        for (int64_t j = 0; j < n; j++)
          product[static_cast<size_t>(i * n + j)] +=
              first[static_cast<size_t>(i * k + r)] * second[static_cast<size_t>(r * n + j)];
  }

  void expect_product(const Tensor& computed) const { EXPECT_EQ(computed.to_vector<float>(), product); }

  const Sizes& sizes = GetParam();
  const std::vector<float> first = numbers(sizes.rows * sizes.reduced, 1),
                           second = numbers(sizes.reduced * sizes.columns, 2);
  const Tensor a = Tensor::from(first, Shape{sizes.rows, sizes.reduced}, {.device = "CPU"}),
               b = Tensor::from(second, Shape{sizes.reduced, sizes.columns}, {.device = "CPU"});
  std::vector<float> product;
};

TEST_P(Products, Plain) { expect_product(a.matmul(b)); }

TEST_P(Products, OfATransposed) {
  const Tensor transposed = b.transpose(0, 1).contiguous().realize();
  expect_product(a.matmul(transposed.transpose(0, 1)));
}

TEST_P(Products, WithMoreAroundThem) {
  const std::vector<float> added = numbers(sizes.columns, 3);
  const Tensor row = Tensor::from(added, {}, {.device = "CPU"});
  for (size_t i = 0; i < product.size(); i++)
    product[i] = std::max(product[i] + added[i % added.size()], 0.0f);
  expect_product((a.matmul(b) + row).relu());
}

TEST_P(Products, InBatches) {
  const Tensor both = Tensor::stack({a, a * 2.0}).contiguous().realize(),
               right = Tensor::stack({b, b + 1.0}).contiguous().realize();
  expect_product(both.matmul(right).realize().at({0}));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Products,
                         testing::Values(Sizes{37, 4096, 150}, Sizes{40, 2048, 400}, Sizes{9, 6000, 129},
                                         Sizes{130, 300, 100}, Sizes{33, 65, 60}, Sizes{100, 8192, 28}),
                         [](const auto& given) {
                           const Sizes& s = given.param;
                           return std::to_string(s.rows) + "_" + std::to_string(s.reduced) + "_" +
                                  std::to_string(s.columns);
                         });

}  // namespace
}  // namespace quern
