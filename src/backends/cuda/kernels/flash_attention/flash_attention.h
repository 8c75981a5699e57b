// SPDX-License-Identifier: Apache-2.0
// Flash attention on CUDA: softmax(scale Q K^T) V and its gradient without a T x T matrix in fp32.
// The functions launch kernels on pointers and extents, without a graph and without allocation. Two
// runs on the same inputs give the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"

namespace ridge::backends::cuda {

// B sequences of T tokens each. Query head h uses key and value head h / (H / K).
struct AttentionExtents {
  int64_t batch = 0;
  int64_t sequence = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;   // divides heads
  int64_t head_size = 0;  // multiple of 8, at most 256
  bool causal = true;     // query t attends to keys 0..t
  // If > 0, query t attends to keys t - window + 1..t (needs causal); 0: no window.
  int64_t window = 0;
  float scale = 1.0f;  // factor of the scores; positive
  bool tf32 = false;   // fp32 operands may be multiplied in TF32
  // [N] in the device's memory, causal only: each token's position in its document, in rows that
  // several documents share. A token attends only to keys of its document. From one token to the
  // next, a position rises by 1 or falls. Only launches read it; counts are those of rows of one
  // document, an upper bound. Null: each row is one document.
  const int32_t* positions = nullptr;
};

// Element (b, t, h, e) lies at data + (b T + t) token_stride + h head_stride + e, with strides in
// elements, so an operand may be a slice of a merged projection. Inputs must not overlap an output.
struct AttentionInput {
  const void* data = nullptr;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};
struct AttentionOutput {
  void* data = nullptr;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};

// How the backward kernels obtain dQ (Hopper only; the other kernels always recompute).
enum class AttentionGradient {
  kRecompute,  // a separate pass for dQ recomputes the scores: least memory
  // The key pass stores dS (bf16) in the workspace for a product with K: fastest, needs memory.
  kSpill,
};

// The operands of a backward pass. d_o is the gradient of o; lse is the output of the forward pass.
struct AttentionBackward {
  AttentionInput q, k, v, o, d_o;
  const float* lse = nullptr;  // [N, H]
  AttentionOutput dq, dk, dv;
};

// Which kernels run. On compute capability 9.0: kHopper for bf16 and head sizes 64, 128 and 256;
// kHopperTf32 for TF32 and head sizes 64 and 128; kHopperResident for the gradient of few and short
// sequences (bf16: head sizes 64 and 128, TF32: 64). kTensor (mma.sync): other bf16 and TF32, head
// sizes up to 128. kPortable: fp32 arithmetic on any GPU, for everything else.
enum class AttentionKernels { kHopper, kHopperResident, kHopperTf32, kTensor, kPortable };
AttentionKernels flash_attention_forward_kernels(const AttentionExtents& extents, DType dtype);
AttentionKernels flash_attention_backward_kernels(const AttentionExtents& extents, DType dtype);

// Workspace sizes in bytes. The caller aligns the workspace to 256 bytes; its contents need not
// survive between launches. For kSpill, more than the minimum lets more heads run at a time:
// `flash_attention_backward_workspace_bytes` returns enough for all heads, or `spill_limit_bytes`
// if that is less, but never less than the group of one key head needs.
int64_t flash_attention_forward_workspace_bytes(const AttentionExtents& extents, DType dtype);
int64_t flash_attention_backward_workspace_bytes(const AttentionExtents& extents,
                                                 DType dtype,
                                                 AttentionGradient gradient,
                                                 int64_t spill_limit_bytes);

// The number of kernels of a backward pass if all heads fit the workspace.
int flash_attention_backward_launches(const AttentionExtents& extents,
                                      DType dtype,
                                      AttentionGradient gradient);

// Computes o [N, H, E] and lse [N, H] (natural logarithm of the sum of exponentials, fp32). dtype
// is kBF16 or kF32, for all operands. Returns cudaErrorInvalidValue for extents or operands outside
// the contract. Can be captured in a graph.
cudaError_t launch_flash_attention_forward(const AttentionExtents& extents,
                                           DType dtype,
                                           const AttentionInput& q,
                                           const AttentionInput& k,
                                           const AttentionInput& v,
                                           const AttentionOutput& o,
                                           float* lse,
                                           void* workspace,
                                           int64_t workspace_bytes,
                                           cudaStream_t stream);

// Overwrites dq, dk and dv. With kSpill, the number of rounds over the heads depends on the
// workspace size.
cudaError_t launch_flash_attention_backward(const AttentionExtents& extents,
                                            DType dtype,
                                            const AttentionBackward& operands,
                                            AttentionGradient gradient,
                                            void* workspace,
                                            int64_t workspace_bytes,
                                            cudaStream_t stream);

// (query, key) pairs whose score the kernels compute, over all heads and sequences, including
// masked pairs inside a visited tile. Executed FLOPs: forward 4 E per pair; backward as in
// `AttentionPairs` below.
int64_t flash_attention_forward_pairs(const AttentionExtents& extents, DType dtype);

// FLOPs per pair: key_pass 8 E (S, dP, dV, dK); query_pass 6 E (S, dP, dQ) when recomputing, 2 E
// when spilling.
struct AttentionPairs {
  int64_t key_pass = 0;
  int64_t query_pass = 0;
};
AttentionPairs flash_attention_backward_pairs(const AttentionExtents& extents,
                                              DType dtype,
                                              AttentionGradient gradient);

}  // namespace ridge::backends::cuda
