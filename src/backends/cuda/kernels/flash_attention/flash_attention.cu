// SPDX-License-Identifier: Apache-2.0
// Entry points of flash attention: check the operands, select the kernels, and provide the host
// functions that the Hopper launches need. Contains no kernel.
#include "backends/cuda/kernels/flash_attention/flash_attention.h"

#include "backends/cuda/kernels/device_attribute.h"
#include "backends/cuda/kernels/flash_attention/hopper/launch.h"
#include "backends/cuda/kernels/flash_attention/portable/launch.h"
#include "backends/cuda/kernels/flash_attention/tensor/launch.h"
#include "backends/cuda/kernels/tensor_map.h"

namespace ridge::backends::cuda {
namespace {

bool are_valid(const AttentionExtents& x, DType dtype) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  return (dtype == DType::kBF16 || dtype == DType::kF32) && x.batch > 0 && x.sequence > 0 &&
         x.heads > 0 && x.kv_heads > 0 && x.heads % x.kv_heads == 0 && x.head_size > 0 &&
         x.head_size <= 256 && x.head_size % 8 == 0 && x.sequence < kLimit / 64 &&
         x.batch * x.heads <= 65535 && x.batch * x.heads * (x.sequence / 64 + 1) < kLimit &&
         x.window >= 0 && (x.window == 0 || x.causal) && x.scale > 0.0f &&
         (x.positions == nullptr || x.causal);
}

// Rows must be aligned to 16 bytes, because the kernels read and copy whole vectors.
template <typename Operand>
bool is_aligned(const Operand& x, DType dtype) {
  const int64_t elements = dtype == DType::kF32 ? 4 : 8;
  return x.data != nullptr && reinterpret_cast<uintptr_t>(x.data) % 16 == 0 &&
         x.token_stride % elements == 0 && x.head_stride % elements == 0;
}

}  // namespace

Visibility visibility_of(const AttentionExtents& extents) {
  Visibility v;
  v.sequence = static_cast<int>(extents.sequence);
  v.causal = extents.causal ? 1 : 0;
  v.window = static_cast<int>(extents.window < extents.sequence ? extents.window : 0);
  return v;
}

DocumentVisibility visibility_with_documents(const AttentionExtents& extents) {
  return {visibility_of(extents), extents.positions};
}

AttentionPairs visited_pairs(const Visibility& v, int own, int streamed, int64_t heads) {
  AttentionPairs pairs;
  for (int first = 0; first < v.sequence; first += own) {
    const int last = (first + own < v.sequence ? first + own : v.sequence) - 1;
    const BlockRange queries = query_blocks(v, first, last, streamed);
    const BlockRange keys = key_blocks(v, first, last, streamed);
    pairs.key_pass += queries.end - queries.begin;
    pairs.query_pass += keys.end - keys.begin;
  }
  pairs.key_pass *= heads * own * streamed;
  pairs.query_pass *= heads * own * streamed;
  return pairs;
}

int section_heads(const AttentionExtents& extents, int heads, int streams) {
  const int64_t head_bytes = 2 * extents.sequence * extents.head_size * 2 * streams;
  const int64_t fitting = device_attribute(cudaDevAttrL2CacheSize) / 2 / head_bytes;
  return static_cast<int>(fitting < 1 ? 1 : (fitting < heads ? fitting : heads));
}

bool encode_tokens(CUtensorMap* map,
                   const AttentionInput& operand,
                   const AttentionExtents& extents,
                   int64_t heads,
                   int rows,
                   MapChunks chunks,
                   DType dtype) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr) return false;
  const bool is_bf16 = dtype == DType::kBF16;
  const cuuint64_t bytes = is_bf16 ? 2 : 4, chunk = 128 / bytes;
  const auto chunk_count = static_cast<cuuint64_t>(extents.head_size) / chunk;
  const cuuint64_t extent[5] = {chunk, static_cast<cuuint64_t>(extents.sequence), chunk_count,
                                static_cast<cuuint64_t>(heads),
                                static_cast<cuuint64_t>(extents.batch)};
  const cuuint64_t stride_bytes[4] = {
      static_cast<cuuint64_t>(operand.token_stride) * bytes, 128,
      static_cast<cuuint64_t>(operand.head_stride) * bytes,
      static_cast<cuuint64_t>(operand.token_stride * extents.sequence) * bytes};
  const cuuint32_t box[5] = {static_cast<cuuint32_t>(chunk), static_cast<cuuint32_t>(rows),
                             chunks == kAllChunks ? static_cast<cuuint32_t>(chunk_count) : 1, 1, 1};
  const cuuint32_t step[5] = {1, 1, 1, 1, 1};
  return encode(map, is_bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                5, const_cast<void*>(operand.data), extent, stride_bytes, box, step,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

AttentionKernels flash_attention_forward_kernels(const AttentionExtents& extents, DType dtype) {
  const int64_t e = extents.head_size;
  if (has_warpgroups() && dtype == DType::kBF16 && (e == 64 || e == 128 || e == 256))
    return AttentionKernels::kHopper;
  if (has_warpgroups() && dtype == DType::kF32 && extents.tf32 && (e == 64 || e == 128))
    return AttentionKernels::kHopperTf32;
  const bool has_products = dtype == DType::kBF16 || extents.tf32;
  return has_products && e <= 128 ? AttentionKernels::kTensor : AttentionKernels::kPortable;
}

AttentionKernels flash_attention_backward_kernels(const AttentionExtents& extents, DType dtype) {
  const AttentionKernels kernels = flash_attention_forward_kernels(extents, dtype);
  const bool is_hopper =
      kernels == AttentionKernels::kHopper || kernels == AttentionKernels::kHopperTf32;
  return is_hopper && fits_backward_resident(extents, dtype)
             ? AttentionKernels::kHopperResident
             : kernels;
}

int64_t flash_attention_forward_workspace_bytes(const AttentionExtents& extents, DType dtype) {
  return flash_attention_forward_kernels(extents, dtype) == AttentionKernels::kHopper ? 256 : 0;
}

int64_t flash_attention_backward_workspace_bytes(const AttentionExtents& extents,
                                                 DType dtype,
                                                 AttentionGradient gradient,
                                                 int64_t spill_limit_bytes) {
  switch (flash_attention_backward_kernels(extents, dtype)) {
    case AttentionKernels::kHopper:
      return flash_attention_backward_hopper_workspace_bytes(extents, gradient, spill_limit_bytes);
    case AttentionKernels::kHopperTf32:
      return flash_attention_backward_tf32_workspace_bytes(extents);
    case AttentionKernels::kHopperResident:
    case AttentionKernels::kTensor:
    case AttentionKernels::kPortable:
      break;
  }
  return 0;
}

int flash_attention_backward_launches(const AttentionExtents& extents,
                                      DType dtype,
                                      AttentionGradient gradient) {
  switch (flash_attention_backward_kernels(extents, dtype)) {
    case AttentionKernels::kHopper:  // row statistics; keys and queries in one launch or two
      return gradient == AttentionGradient::kSpill ? 2 : 3;
    case AttentionKernels::kHopperTf32:
      return 2;
    case AttentionKernels::kHopperResident:
    case AttentionKernels::kTensor:
    case AttentionKernels::kPortable:
      break;
  }
  return 1;
}

cudaError_t launch_flash_attention_forward(const AttentionExtents& extents,
                                           DType dtype,
                                           const AttentionInput& q,
                                           const AttentionInput& k,
                                           const AttentionInput& v,
                                           const AttentionOutput& o,
                                           float* lse,
                                           void* workspace,
                                           int64_t workspace_bytes,
                                           cudaStream_t stream) {
  const bool valid = are_valid(extents, dtype) && is_aligned(q, dtype) && is_aligned(k, dtype) &&
                     is_aligned(v, dtype) && is_aligned(o, dtype) && lse != nullptr &&
                     workspace_bytes >= flash_attention_forward_workspace_bytes(extents, dtype);
  if (!valid) return cudaErrorInvalidValue;
  switch (flash_attention_forward_kernels(extents, dtype)) {
    case AttentionKernels::kHopper:
      return launch_flash_attention_forward_hopper(extents, q, k, v, o, lse, workspace, stream);
    case AttentionKernels::kHopperTf32:
      return launch_flash_attention_forward_tf32(extents, q, k, v, o, lse, stream);
    case AttentionKernels::kTensor:
      return launch_flash_attention_forward_tensor(extents, dtype, q, k, v, o, lse, stream);
    case AttentionKernels::kHopperResident:
    case AttentionKernels::kPortable:
      break;
  }
  return launch_flash_attention_forward_portable(extents, dtype, q, k, v, o, lse, stream);
}

cudaError_t launch_flash_attention_backward(const AttentionExtents& extents,
                                            DType dtype,
                                            const AttentionBackward& x,
                                            AttentionGradient gradient,
                                            void* workspace,
                                            int64_t workspace_bytes,
                                            cudaStream_t stream) {
  const bool valid =
      are_valid(extents, dtype) && is_aligned(x.q, dtype) && is_aligned(x.k, dtype) &&
      is_aligned(x.v, dtype) && is_aligned(x.o, dtype) && is_aligned(x.d_o, dtype) &&
      is_aligned(x.dq, dtype) && is_aligned(x.dk, dtype) && is_aligned(x.dv, dtype) &&
      x.lse != nullptr &&
      workspace_bytes >= flash_attention_backward_workspace_bytes(extents, dtype, gradient, 0);
  if (!valid) return cudaErrorInvalidValue;
  switch (flash_attention_backward_kernels(extents, dtype)) {
    case AttentionKernels::kHopper:
      return launch_flash_attention_backward_hopper(extents, x, gradient, workspace,
                                                    workspace_bytes, stream);
    case AttentionKernels::kHopperTf32:
      return launch_flash_attention_backward_tf32(extents, x, workspace, stream);
    case AttentionKernels::kHopperResident:
      return launch_flash_attention_backward_resident(extents, dtype, x, stream);
    case AttentionKernels::kTensor:
      return launch_flash_attention_backward_tensor(extents, dtype, x, stream);
    case AttentionKernels::kPortable:
      break;
  }
  return launch_flash_attention_backward_portable(extents, dtype, x, stream);
}

int64_t flash_attention_forward_pairs(const AttentionExtents& extents, DType dtype) {
  switch (flash_attention_forward_kernels(extents, dtype)) {
    case AttentionKernels::kHopper:
      return flash_attention_forward_hopper_pairs(extents);
    case AttentionKernels::kHopperTf32:
      return flash_attention_forward_tf32_pairs(extents);
    case AttentionKernels::kTensor:
      return flash_attention_forward_tensor_pairs(extents);
    case AttentionKernels::kHopperResident:
    case AttentionKernels::kPortable:
      break;
  }
  return flash_attention_forward_portable_pairs(extents);
}

AttentionPairs flash_attention_backward_pairs(const AttentionExtents& extents,
                                              DType dtype,
                                              AttentionGradient gradient) {
  switch (flash_attention_backward_kernels(extents, dtype)) {
    case AttentionKernels::kHopper:
      return flash_attention_backward_hopper_pairs(extents, gradient);
    case AttentionKernels::kHopperTf32:
      return flash_attention_backward_tf32_pairs(extents);
    case AttentionKernels::kHopperResident:
      return flash_attention_backward_resident_pairs(extents);
    case AttentionKernels::kTensor:
      return flash_attention_backward_tensor_pairs(extents);
    case AttentionKernels::kPortable:
      break;
  }
  return flash_attention_backward_portable_pairs(extents);
}

}  // namespace ridge::backends::cuda
