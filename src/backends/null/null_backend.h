// SPDX-License-Identifier: Apache-2.0
// The target of plans: supports every op and layout, runs nothing. What it answers is what a device
// with kernels of the given tiles would; its passes are those of a GPU.
#pragma once

#include <memory>

#include "passes/pass.h"

namespace ridge::backends::null {

struct NullOptions {
  int64_t query_tile = 128;  // flash attention's tile: rows of scores that are computed together
  int64_t key_tile = 128;
  int64_t row_product_rows = 8;  // a row_product's at most: more of them are a product's tile
};

std::unique_ptr<passes::PassTarget> make_null_target(const NullOptions& options = {});

}  // namespace ridge::backends::null
