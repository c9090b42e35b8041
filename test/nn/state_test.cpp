// Parameters by name: found, loaded, and what does not fit.
#include "quern/nn/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/nn/layers.h"
#include "quern/nn/norms.h"
#include "test/error_of.h"

namespace quern::nn {
namespace {

struct Block {
  Linear first{2, 2}, second{2, 2, false};
  QUERN_PARAMETERS(first, second)
};
struct Model {
  std::vector<Block> blocks{Block(), Block()};
  std::optional<Tensor> scale;
  std::map<std::string, Tensor> named{{"a", Tensor::zeros({1}).contiguous()}};
  std::shared_ptr<BatchNorm> norm = std::make_shared<BatchNorm>(2);
  std::unique_ptr<Linear> none;
  Tensor tied = blocks[0].first.weight;
  int other = 3;
  QUERN_PARAMETERS(blocks, scale, named, norm, none, tied)
};
struct Empty {
  QUERN_PARAMETERS()
};

TEST(State, NamesOfParameters) {
  const Model model;
  std::vector<std::string> names;
  for (const auto& [name, t] : get_state_dict(model)) names.push_back(name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("blocks.0.first.weight", "blocks.0.first.bias",
                                                   "blocks.0.second.weight", "blocks.1.first.weight",
                                                   "blocks.1.first.bias", "blocks.1.second.weight", "named.a",
                                                   "norm.weight", "norm.bias", "norm.running_mean",
                                                   "norm.running_var", "norm.num_batches_tracked", "tied"));
  EXPECT_EQ(get_parameters(model).size(), names.size() - 1);  // tied is one of the others
  EXPECT_TRUE(get_state_dict(Empty()).empty());
  EXPECT_TRUE(get_state_dict(Linear(1, 1), "net").contains("net.weight"));
}

TEST(State, LoadsByName) {
  const Block from, to;
  load_state_dict(to, get_state_dict(from));
  EXPECT_EQ(from.first.weight.to_vector<float>(), to.first.weight.to_vector<float>());
  EXPECT_NE(from.first.weight.state(), to.first.weight.state());
}

TEST(State, WhatDoesNotFitIsNamed) {
  using testing::HasSubstr;
  const Block to;
  const auto before = to.first.bias->to_vector<float>();
  StateDict values = get_state_dict(Block());
  values.erase("second.weight");
  values.emplace("third", Tensor::ones({1}));
  EXPECT_THAT(error_of([&] { load_state_dict(to, values); }),
              HasSubstr("missing: second.weight; not of this model: third"));
  EXPECT_EQ(to.first.bias->to_vector<float>(), before);
  EXPECT_EQ(error_of([&] { load_state_dict(to, values, false); }), "");
  values.insert_or_assign("first.bias", Tensor::ones({3}));
  EXPECT_THAT(error_of([&] { load_state_dict(to, values, false); }),
              HasSubstr("first.bias has shape (2), given is (3)"));
}

}  // namespace
}  // namespace quern::nn
