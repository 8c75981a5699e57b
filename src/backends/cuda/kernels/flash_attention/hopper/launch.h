// SPDX-License-Identifier: Apache-2.0
// Shared by the Hopper launches on the host: tensor maps, the L2 sections, and kernel attributes.
// Not part of the interface (flash_attention.h).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "backends/cuda/kernels/flash_attention/visibility.h"

namespace ridge::backends::cuda {

constexpr float kLog2E = 1.4426950408889634f;

// The number of heads whose streamed operands (two of [T, E] bf16 for each of `streams` heads) fill
// at most half the L2 cache; at least 1, at most `heads`.
int section_heads(const AttentionExtents& extents, int heads, int streams);

enum MapChunks { kOneChunk, kAllChunks };  // the 128-byte chunks of a row that a copy moves

// Encodes a tensor map of an operand as (C columns, T, E / C, heads, B), where C columns of `dtype`
// are 128 bytes, with boxes of `rows` tokens and a 128-byte swizzle. Tokens past T read as zero and
// are not written. Returns false if the driver rejects the map (alignment).
bool encode_tokens(CUtensorMap* map,
                   const AttentionInput& operand,
                   const AttentionExtents& extents,
                   int64_t heads,
                   int rows,
                   MapChunks chunks,
                   DType dtype = DType::kBF16);
inline bool encode_tokens(CUtensorMap* map,
                          const AttentionOutput& operand,
                          const AttentionExtents& extents,
                          int64_t heads,
                          int rows,
                          MapChunks chunks) {
  return encode_tokens(map, AttentionInput{operand.data, operand.token_stride, operand.head_stride},
                       extents, heads, rows, chunks);
}

// When a grid may start: after the previous grid, or once the previous grid has called
// grid_launch_dependents. In the latter case it must call grid_wait before it uses what that grid
// writes, and in any case before it ends.
enum GridStart { kInTurn, kAfterTrigger };

// Launches a kernel with dynamic shared memory and raises its limit.
template <typename Arguments>
cudaError_t launch_kernel(void (*kernel)(Arguments),
                          int blocks,
                          int threads,
                          int shared_bytes,
                          const Arguments& arguments,
                          cudaStream_t stream,
                          GridStart start = kInTurn) {
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = start == kAfterTrigger ? 1 : 0;
  void* values[] = {const_cast<Arguments*>(&arguments)};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), values);
}

cudaError_t launch_flash_attention_forward_hopper(const AttentionExtents& extents,
                                                  const AttentionInput& q,
                                                  const AttentionInput& k,
                                                  const AttentionInput& v,
                                                  const AttentionOutput& o,
                                                  float* lse,
                                                  void* workspace,
                                                  cudaStream_t stream);
int64_t flash_attention_forward_hopper_pairs(const AttentionExtents& extents);

cudaError_t launch_flash_attention_backward_hopper(const AttentionExtents& extents,
                                                   const AttentionBackward& operands,
                                                   AttentionGradient gradient,
                                                   void* workspace,
                                                   int64_t workspace_bytes,
                                                   cudaStream_t stream);
int64_t flash_attention_backward_hopper_workspace_bytes(const AttentionExtents& extents,
                                                        AttentionGradient gradient,
                                                        int64_t spill_limit_bytes);
AttentionPairs flash_attention_backward_hopper_pairs(const AttentionExtents& extents,
                                                     AttentionGradient gradient);

// The backward pass of short sequences in one launch without workspace, bf16 or TF32. Use it only
// if fits_backward_resident returns true.
bool fits_backward_resident(const AttentionExtents& extents, DType dtype);
cudaError_t launch_flash_attention_backward_resident(const AttentionExtents& extents,
                                                     DType dtype,
                                                     const AttentionBackward& operands,
                                                     cudaStream_t stream);
AttentionPairs flash_attention_backward_resident_pairs(const AttentionExtents& extents);

// Forward and backward for fp32 operands in TF32, head sizes 64 and 128. The backward pass is two
// launches.
cudaError_t launch_flash_attention_forward_tf32(const AttentionExtents& extents,
                                                const AttentionInput& q,
                                                const AttentionInput& k,
                                                const AttentionInput& v,
                                                const AttentionOutput& o,
                                                float* lse,
                                                cudaStream_t stream);
int64_t flash_attention_forward_tf32_pairs(const AttentionExtents& extents);

cudaError_t launch_flash_attention_backward_tf32(const AttentionExtents& extents,
                                                 const AttentionBackward& operands,
                                                 void* workspace,
                                                 cudaStream_t stream);
int64_t flash_attention_backward_tf32_workspace_bytes(const AttentionExtents& extents);
AttentionPairs flash_attention_backward_tf32_pairs(const AttentionExtents& extents);

}  // namespace ridge::backends::cuda
