// SPDX-License-Identifier: Apache-2.0
// store_bf16: what a file holds in blocks becomes bf16 when
// it is loaded, and no other type in the graph changes.
#include "passes/tied_head.h"

namespace ridge::passes {
namespace {

TEST(StoreBf16, UnpacksMatricesWhenTheyAreLoaded) {
  expect_stored_as(DType::kBF16, store_bf16_pass);
}

}  // namespace
}  // namespace ridge::passes
