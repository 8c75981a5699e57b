// SPDX-License-Identifier: Apache-2.0
// Tests of store_bf16: matrices that a file holds in quantized blocks become bf16 at load time, and
// no other type in the graph changes.
#include "passes/tied_head.h"

namespace ridge::passes {
namespace {

TEST(StoreBf16, UnpacksMatricesWhenTheyAreLoaded) {
  expect_stored_as(DType::kBF16, store_bf16_pass);
}

}  // namespace
}  // namespace ridge::passes
