// SPDX-License-Identifier: Apache-2.0
// A product of fp32 matrices on Hopper's bf16 tensor cores: each operand is a sum of bf16 pieces.
// Launches on pointers and extents; other GPUs have cuBLAS alone.
//
// Three pieces of 8 bits hold the 24 bits of an fp32 number exactly. Of the nine products of pieces
// six are taken; the three left out are about 2^-25 of |a| |b|. The tensor cores, which truncate,
// sum 64 of the depth at a time, small products first, and fp32 additions sum what they give: so
// the error does not grow with the depth as that of a chain of fused multiply-adds does.
//
// Infinite operands have no pieces, nor have finite ones that bf16 rounds to infinity (from
// 3.39e38): a result that comes out infinite or NaN is computed again in fp32, term by term.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ridge::backends::cuda {

// An operand whose elements lie one after the other
// along one axis, `step` elements apart along the other.
struct PieceOperand {
  const float* data = nullptr;
  int64_t step = 0;
  bool by_depth = true;  // contiguous along k; otherwise along m or n
};

struct PieceProduct {
  int64_t m = 0, n = 0, k = 0;
  PieceOperand a;      // [m, k]
  PieceOperand b;      // [k, n]
  float* c = nullptr;  // [m, n], rows `c_step` elements apart
  int64_t c_step = 0;
  bool accumulate = false;  // c += a b
};

// Whether the current GPU and the copy engine take it: compute capability 9.0, n and all steps
// multiples of 4, `alignment_bytes` of all addresses a multiple of 16. Addresses are not looked at.
bool takes_piece_product(const PieceProduct& call, int64_t alignment_bytes);

// One launch, no workspace; the same bits each time.
cudaError_t launch_piece_product(const PieceProduct& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
