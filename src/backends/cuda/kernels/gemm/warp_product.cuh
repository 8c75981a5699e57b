// SPDX-License-Identifier: Apache-2.0
// A warp's tensor core products, bf16 or fp16 in, fp32 out, from compute capability 8.0 on. Callers
// define tiles and load them; warpgroup products are in wgmma_product.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ridge::backends::cuda {

// c [16, 8] += a [16, 16] b [16, 8], in the layouts of mma.m16n8k16.
__device__ __forceinline__ void warp_product(float* c,
                                             const uint32_t (&a)[4],
                                             uint32_t b0,
                                             uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same with fp16 operands. The compiler may move it.
__device__ __forceinline__ void warp_product_f16(float* c,
                                                 const uint32_t (&a)[4],
                                                 uint32_t b0,
                                                 uint32_t b1) {
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace ridge::backends::cuda
