// SPDX-License-Identifier: Apache-2.0
// An operand of tokens' heads: each head contiguous, tokens and heads
// at any step, so that q, k and v may be slices of one merged tensor.
// Not a tensor: it knows neither its extents nor its dtype at run time.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

// [N, heads, E]: element (n, h, e) at data[n token_stride + h head_stride + e]; steps in elements.
// A uint16_t is the bits of a bf16.
template <typename T>
struct TokenHeads {
  T* data = nullptr;
  int64_t token_stride = 0;
  int64_t head_stride = 0;

  RIDGE_HOST_DEVICE T* head(int64_t token, int64_t head) const {
    return data + token * token_stride + head * head_stride;
  }
};

}  // namespace ridge::backends
