// SPDX-License-Identifier: Apache-2.0
// store_f32: what a file holds in blocks becomes fp32 when
// it is loaded, and no other type in the graph changes.
#include "passes/tied_head.h"

namespace ridge::passes {
namespace {

TEST(StoreF32, UnpacksMatricesWhenTheyAreLoaded) { expect_stored_as(DType::kF32, store_f32_pass); }

}  // namespace
}  // namespace ridge::passes
