// SPDX-License-Identifier: Apache-2.0
// Tests of patterns of names.
#include "base/name_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace ridge {
namespace {

TEST(NamePattern, StarStandsForAnyCharacters) {
  EXPECT_TRUE(matches_pattern("", ""));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("***", "abc"));
  EXPECT_TRUE(matches_pattern("a.b", "a.b"));
  EXPECT_FALSE(matches_pattern("a.b", "axb"));
  EXPECT_FALSE(matches_pattern("a.b", "a.b.c"));
  EXPECT_TRUE(matches_pattern("*norm*", "model.layers.0.input_layernorm.weight"));
  EXPECT_TRUE(matches_pattern("model.layers.1.*", "model.layers.1.mlp.up_proj.weight"));
  EXPECT_FALSE(matches_pattern("model.layers.1.*", "model.layers.11.mlp.up_proj.weight"));
  EXPECT_TRUE(matches_pattern("*_proj.weight", "q_proj.q_proj.weight"));
  EXPECT_FALSE(matches_pattern("*b", "abc"));
  EXPECT_TRUE(matches_pattern("a*b*c", "aXbbXcc"));
}

TEST(NamePattern, OfManyStarsTakesNoExponentialTime) {
  std::string pattern, name(4000, 'a');
  for (int i = 0; i < 500; ++i) pattern += "a*";
  EXPECT_FALSE(matches_pattern(pattern + "b", name));
}

}  // namespace
}  // namespace ridge
