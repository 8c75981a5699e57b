// SPDX-License-Identifier: Apache-2.0
// Published configurations have the published numbers of parameters.
#include "models/known_shapes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ridge::models {
namespace {

TEST(KnownShapes, HaveThePublishedParameters) {
  for (const auto& [name, parameters] :
       std::vector<std::pair<const char*, int64_t>>{{"gemma3-270m", 268'098'176},
                                                    {"gemma3-1b", 999'885'952},
                                                    {"llama-2-7b", 6'738'415'616},
                                                    {"llama-2-70b", 68'976'648'192},
                                                    {"llama-3-8b", 8'030'261'248},
                                                    {"smollm2-135m", 134'515'008}}) {
    const ModelConfig config = config_by_name(name);
    EXPECT_EQ(config.parameters(), parameters) << name;
    EXPECT_NO_THROW(validate(config));
  }
  EXPECT_EQ(known_shapes().size(), 6u);
  EXPECT_EQ(config_by_name("tiny").hidden, 256);
  EXPECT_THROW(config_by_name("gemma3-271m"), Error);
  // Full attention at layers 5, 11 and 17.
  const ModelConfig gemma = config_by_name("gemma3-270m");
  for (int64_t layer = 0; layer < gemma.layers; ++layer)
    EXPECT_EQ(gemma.is_window(layer), layer != 5 && layer != 11 && layer != 17);
}

}  // namespace
}  // namespace ridge::models
