// SPDX-License-Identifier: Apache-2.0
// The shapes that steps are padded to.
#include "serve/bucket.h"

#include <gtest/gtest.h>

#include <set>

namespace ridge::serve {
namespace {

int64_t padded(int64_t tokens) {
  return bucket_shape(models::InferenceTask::kPrefill, tokens, tokens, 1, false, {}).tokens;
}

TEST(BucketTest, PaddingIsLessThanAnEighthFrom128TokensOn) {
  for (int64_t tokens = 1; tokens <= 4096; ++tokens) {
    const int64_t padding = padded(tokens) - tokens;
    EXPECT_GE(padding, 0) << tokens;
    EXPECT_LT(padding, tokens < 128 ? 16 : tokens / 8.0) << tokens;
    EXPECT_EQ(padded(padded(tokens)), padded(tokens)) << tokens;
  }
}

TEST(BucketTest, EachDoublingTakesEightGraphs) {
  for (int64_t tokens : {128, 256, 512, 1024}) {
    std::set<int64_t> shapes;
    for (int64_t n = tokens + 1; n <= 2 * tokens; ++n) shapes.insert(padded(n));
    EXPECT_EQ(shapes.size(), 8u) << tokens;
  }
}

}  // namespace
}  // namespace ridge::serve
