// SPDX-License-Identifier: Apache-2.0
// A GEMM of bf16 matrices with tiles (AMX): C = A B^T, or C += A B^T, summed in fp32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ridge::backends::cpu {

// bf16, [rows, depth]; steps are in elements, and one of the two is 1.
struct TileMatrix {
  const uint16_t* data = nullptr;
  int64_t row_step = 0, depth_step = 0;
};

struct TileGemm {
  int64_t m = 0, n = 0, k = 0;  // at least 1
  TileMatrix a;                 // [m, k]
  TileMatrix b;                 // [n, k]
  std::byte* c = nullptr;       // [m, n], columns contiguous
  int64_t c_step = 0;           // elements from row to row
  bool c_is_bf16 = false;       // else fp32
  bool accumulate = false;
};

// Scratch of a GEMM, aligned to 64 bytes: both operands in tiles, and the sums of each thread.
int64_t tile_gemm_workspace_bytes(int64_t m, int64_t n, int64_t k, int threads);

// Bound: multiply-adds, 512 per cycle and core, plus converting both operands to tiles once (30 to
// 100 cycles per 512 elements). The sum of an element has the same order for any number of threads.
// Needs AMX's bf16 tiles and AVX-512 BF16.
void tile_gemm(const TileGemm& call, std::byte* workspace, int threads);

}  // namespace ridge::backends::cpu
