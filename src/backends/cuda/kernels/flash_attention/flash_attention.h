// SPDX-License-Identifier: Apache-2.0
// Flash attention on CUDA: softmax(scale Q K^T) V and its gradient
// without a T x T matrix in fp32. Launches on pointers and extents; no
// graph, no allocation. Two runs on the same inputs give the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"

namespace ridge::backends::cuda {

// B sequences of T tokens each; query head h reads key and value head h / (H / K).
struct AttentionExtents {
  int64_t batch = 0;
  int64_t sequence = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;   // divides heads
  int64_t head_size = 0;  // multiple of 8, at most 256
  bool causal = true;     // query t sees keys 0..t
  int64_t window = 0;     // > 0: query t sees keys t - window + 1..t (needs causal); 0: no window
  float scale = 1.0f;     // on the scores; positive
  bool tf32 = false;      // fp32 operands may be multiplied in TF32
};

// Element (b, t, h, e) lies at data + (b T + t) token_stride + h
// head_stride + e, strides in elements. So an operand may be a slice
// of a merged projection. Operands must not overlap an output.
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
  kRecompute,  // dQ from its own pass that forms the scores again: least memory
  kSpill,      // the key pass leaves dS (bf16) in the workspace
               // for a product with K: fastest, needs memory
};

// The operands of a backward pass; do is the gradient of o, lse what the forward pass wrote.
struct AttentionBackward {
  AttentionInput q, k, v, o, d_o;
  const float* lse = nullptr;  // [N, H]
  AttentionOutput dq, dk, dv;
};

// Which kernels run: Hopper's own on compute capability 9.0 for bf16 and head sizes 64, 128 and
// 256 (of which short sequences' gradient at 64 and 128 has its own), and for TF32 and 64 and 128;
// mma.sync for other bf16 and TF32, head sizes up to 128; else fp32 arithmetic on any GPU.
enum class AttentionKernels { kHopper, kHopperResident, kHopperTf32, kTensor, kPortable };
AttentionKernels flash_attention_forward_kernels(const AttentionExtents& extents, DType dtype);
AttentionKernels flash_attention_backward_kernels(const AttentionExtents& extents, DType dtype);

// Bytes of workspace, aligned to 256 by the caller; contents need not survive between launches. For
// kSpill, more than the minimum lets more heads run at a time:
// `flash_attention_backward_workspace_bytes` gives what holds all heads or `spill_limit_bytes`,
// whichever is less, but never less than one head of the group needs.
int64_t flash_attention_forward_workspace_bytes(const AttentionExtents& extents, DType dtype);
int64_t flash_attention_backward_workspace_bytes(const AttentionExtents& extents,
                                                 DType dtype,
                                                 AttentionGradient gradient,
                                                 int64_t spill_limit_bytes);

// Kernels of a backward pass whose heads all fit the workspace.
int flash_attention_backward_launches(const AttentionExtents& extents,
                                      DType dtype,
                                      AttentionGradient gradient);

// o [N, H, E] and lse [N, H] (natural logarithm of the sum of exponentials, fp32). dtype is kBF16
// or kF32, for all operands. Returns cudaErrorInvalidValue for extents or operands outside the
// contract. Capturable in a graph.
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

// dq, dk, dv are overwritten. With kSpill the heads run in as many rounds as the workspace asks.
cudaError_t launch_flash_attention_backward(const AttentionExtents& extents,
                                            DType dtype,
                                            const AttentionBackward& operands,
                                            AttentionGradient gradient,
                                            void* workspace,
                                            int64_t workspace_bytes,
                                            cudaStream_t stream);

// (query, key) pairs whose score the kernels form, masked ones inside a visited tile included, over
// all heads and sequences. Executed FLOPs: forward 4 E pairs; backward `AttentionPairs` below.
int64_t flash_attention_forward_pairs(const AttentionExtents& extents, DType dtype);

// key_pass: 8 E FLOPs a pair (S, dP, dV, dK). query_pass:
// 6 E (S, dP, dQ) when recomputing, 2 E when spilling.
struct AttentionPairs {
  int64_t key_pass = 0;
  int64_t query_pass = 0;
};
AttentionPairs flash_attention_backward_pairs(const AttentionExtents& extents,
                                              DType dtype,
                                              AttentionGradient gradient);

}  // namespace ridge::backends::cuda
