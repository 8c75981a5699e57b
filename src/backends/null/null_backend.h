// SPDX-License-Identifier: Apache-2.0
// A target for planning only: it supports every op and layout and runs nothing. It answers as a
// device would whose kernels have the given tiles, and uses a GPU's passes.
#pragma once

#include <memory>

#include "passes/pass.h"

namespace ridge::backends::null {

struct NullOptions {
  int64_t query_tile = 128;  // tile of flash attention: query rows that are computed together
  int64_t key_tile = 128;
  int64_t row_product_rows = 8;  // maximum rows of a row_product; more rows fill a product's tile
};

std::unique_ptr<passes::PassTarget> make_null_target(const NullOptions& options = {});

}  // namespace ridge::backends::null
