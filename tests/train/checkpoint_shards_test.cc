// SPDX-License-Identifier: Apache-2.0
// Which rank writes which tensors of a checkpoint, and what their files are called.
#include "train/checkpoint_shards.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ridge::train {
namespace {

using Json = nlohmann::json;

TEST(TensorOwners, TheRankWithTheLeastToWriteIsNext) {
  TensorOwners owners(3);
  EXPECT_EQ(owners.of("table", 100), 0);
  EXPECT_EQ(owners.of("a", 10), 1);
  EXPECT_EQ(owners.files("model"), (std::vector<std::string>{"model-00001-of-00003.safetensors",
                                                             "model-00002-of-00003.safetensors"}));
  EXPECT_EQ(owners.of("b", 20), 2);
  EXPECT_EQ(owners.of("c", 5), 1);
  EXPECT_EQ(owners.of("b", 20), 2) << "asked for again";
  EXPECT_EQ(owners.of("d", 6), 1) << "15 before, and 20 on the other one";
  const Json map = Json::parse(owners.index("optimizer", std::vector<std::string_view>{".m", ".v"}))
                       .at("weight_map");
  EXPECT_EQ(map.size(), 10u);
  EXPECT_EQ(map.at("table.v"), "optimizer-00001-of-00003.safetensors");
  EXPECT_EQ(map.at("d.m"), "optimizer-00002-of-00003.safetensors");
  EXPECT_EQ(map.at("b.m"), "optimizer-00003-of-00003.safetensors");
}

TEST(TensorOwners, OneRankHasOneFile) {
  TensorOwners owners(1);
  EXPECT_EQ(owners.of("a", 1), 0);
  EXPECT_EQ(owners.of("b", 1), 0);
  EXPECT_EQ(owners.files("model"), std::vector<std::string>{"model.safetensors"});
}

}  // namespace
}  // namespace ridge::train
