// SPDX-License-Identifier: Apache-2.0
// An operand of heads per token: each head is contiguous, tokens and heads have any stride, so that
// q, k and v may be slices of one merged tensor. It stores neither its extents nor its dtype.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

// [N, heads, E]: element (n, h, e) is at data[n token_stride + h head_stride + e]; strides are in
// elements. A uint16_t holds the bits of a bf16.
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
