// SPDX-License-Identifier: Apache-2.0
// Building blocks of kernels on a KV cache on the tensor cores: asynchronous copies to shared
// memory, loads of fragments, and the sequences among the tokens of a tile.
#pragma once

#include <type_traits>

#include "backends/cuda/kernels/async_copy.cuh"
#include "backends/cuda/kernels/flash_attention/tensor/tiles.cuh"

namespace ridge::backends::cuda::tensor {

using Bf16 = __nv_bfloat16;

// Copies 16 bytes to shared memory, or clears them.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}
// The same for a scale.
__device__ __forceinline__ void copy_scale_async(float* to, const float* from, bool inside) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
               "r"(inside ? 4 : 0)
               : "memory");
}
// Loads four matrices of 8 x 8, each lane with the address of one row.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const Bf16* at) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(at));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
// The address of a lane for the left operand [16, 16], and for 16 rows as the columns of the right
// operand [16, 16].
__device__ __forceinline__ const Bf16* left_address(const Bf16* rows, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return rows + lane % 16 * stride + lane / 16 * 8;
}
__device__ __forceinline__ const Bf16* right_address(const Bf16* rows, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return rows + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
}

// s[16, 8 kTiles] += the rows of `own` times those of `streamed`, over 16 elements. The addresses
// are those that left_address and right_address return, moved to the first of the elements.
template <int kTiles>
__device__ __forceinline__ void add_products(float (&s)[kTiles][4],
                                             const Bf16* own,
                                             const Bf16* streamed,
                                             int stride) {
  static_assert(kTiles % 2 == 0);
  uint32_t a[4];
  load_matrices(a, own);
#pragma unroll
  for (int j = 0; j < kTiles; j += 2) {
    uint32_t b[4];
    load_matrices(b, streamed + 8 * j * stride);
    Product<Bf16>::run(s[j], a, b[0], b[1]);
    Product<Bf16>::run(s[j + 1], a, b[2], b[3]);
  }
}

// The four threads that hold a row of an accumulator combine what each has of it.
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Calls launch(integral constant) for the elements of a padded head.
template <typename Launch>
cudaError_t with_padded_head(int64_t head_size, const Launch& launch) {
  if (head_size <= 64) return launch(std::integral_constant<int, 64>());
  if (head_size <= 128) return launch(std::integral_constant<int, 128>());
  return launch(std::integral_constant<int, 256>());
}

// The tokens of a tile of 64 that belong to one sequence: one bit per token.
struct Sequence {
  uint64_t tokens;
  int32_t slot;
};

// The tokens whose flag is set. Called by whole warps with the flags of 64 tokens, as are the
// functions below.
__device__ __forceinline__ uint64_t tokens_where(bool low, bool high) {
  return __ballot_sync(0xffffffffu, low) | static_cast<uint64_t>(__ballot_sync(0xffffffffu, high))
                                               << 32;
}
__device__ __forceinline__ uint64_t live_tokens(const int32_t* positions) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return tokens_where(positions[lane] >= 0, positions[lane + 32] >= 0);
}
// Removes the tokens of the next sequence from `left`.
__device__ __forceinline__ Sequence take_sequence(const int32_t* slots, uint64_t& left) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t slot = slots[__ffsll(static_cast<long long>(left)) - 1];
  const uint64_t tokens = left & tokens_where(slots[lane] == slot, slots[lane + 32] == slot);
  left &= ~tokens;
  return {tokens, slot};
}

}  // namespace ridge::backends::cuda::tensor
