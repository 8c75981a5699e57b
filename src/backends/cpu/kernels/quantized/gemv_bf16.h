// SPDX-License-Identifier: Apache-2.0
// y[N, out] = x[N, in] W^T of a dense bf16 weight [out, in] and a few bf16 tokens, with sums in
// fp32. matmul.h has the products of fp32 tokens with quantized weights.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cpu {

// Y: float or bf16 (uint16_t).
template <typename Y>
struct GemvBf16 {
  const uint16_t* weight = nullptr;
  int64_t out = 0;
  int64_t in = 0;
  StridedRows<const uint16_t> x;  // [N, in]
  StridedRows<Y> y;               // [N, out]
  int64_t tokens = 0;
};

// The bits depend neither on the thread count nor on N. Mapping: rows in static ranges over
// threads. Bound: memory, the bytes of W, up to four tokens.
template <typename Y>
void gemv_bf16(const GemvBf16<Y>& call);

}  // namespace ridge::backends::cpu
