// SPDX-License-Identifier: Apache-2.0
// A product of fp32 matrices on Hopper's bf16 tensor cores: each operand is represented as a sum of
// bf16 pieces. The functions launch on pointers and extents. Other GPUs use cuBLAS only.
//
// Three pieces of 8 bits hold the 24 bits of an fp32 number exactly. Of the nine products of pieces
// six are computed; the other three are about 2^-25 of |a| |b|. The tensor cores, which truncate,
// sum over 64 of the depth at a time, small products first, and fp32 additions accumulate these
// sums. So the error does not grow with the depth as in a chain of fused multiply-adds.
//
// Infinite operands have no pieces, nor do finite ones that bf16 rounds to infinity (from 3.39e38):
// a result that is infinite or NaN is recomputed in fp32, term by term.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ridge::backends::cuda {

// An operand that is contiguous along one axis, with a stride of `step` elements along the other.
struct SplitOperand {
  const float* data = nullptr;
  int64_t step = 0;
  bool by_depth = true;  // contiguous along k; otherwise along m or n
};

struct SplitBf16Gemm {
  int64_t m = 0, n = 0, k = 0;
  SplitOperand a;      // [m, k]
  SplitOperand b;      // [k, n]
  float* c = nullptr;  // [m, n], rows `c_step` elements apart
  int64_t c_step = 0;
  bool accumulate = false;  // c += a b
};

// Whether the current GPU and the copy engine support the product: compute capability 9.0, n and
// all steps multiples of 4, and `alignment_bytes` of all addresses a multiple of 16. The addresses
// themselves are not checked.
bool takes_split_bf16_gemm(const SplitBf16Gemm& call, int64_t alignment_bytes);

// One launch, no workspace; deterministic.
cudaError_t launch_split_bf16_gemm(const SplitBf16Gemm& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
