// SPDX-License-Identifier: Apache-2.0
// Tests of store_f32: matrices that a file holds in quantized blocks become fp32 at load time, and
// no other type in the graph changes.
#include "passes/tied_head.h"

namespace ridge::passes {
namespace {

TEST(StoreF32, UnpacksMatricesWhenTheyAreLoaded) { expect_stored_as(DType::kF32, store_f32_pass); }

}  // namespace
}  // namespace ridge::passes
