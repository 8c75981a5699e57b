// SPDX-License-Identifier: Apache-2.0
// Causal, windowed or full attention for CPUs that never stores the score matrix: forward and
// backward on plain pointers, with native grouped queries. It has no rotary embedding, KV cache or
// decode.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/kernels/token_heads.h"

namespace ridge::backends::cpu {

// Query head h reads KV head h / (heads / kv_heads). Sequences are independent and equally long.
struct AttentionExtents {
  int64_t batch = 1;      // B
  int64_t sequence = 1;   // T, of queries and of keys
  int64_t heads = 1;      // H, a multiple of kv_heads
  int64_t kv_heads = 1;   // K
  int64_t head_size = 8;  // E, a multiple of 8, at most kMaxHeadSize
  bool causal = true;
  // 0: no window; else (causal only) query i attends to the keys j with i - window < j <= i
  int64_t window = 0;
  float scale = 1.0f;  // it multiplies the scores
};

// Operands hold B T tokens, token (b, t) at b T + t.

inline constexpr int64_t kMaxHeadSize = 256;

// Scores are computed in blocks of 16 x 16: a block with no visible pair is skipped, any other is
// computed whole. 16 is one AVX-512 vector and the two AVX2 vectors of the GEMM kernel, so all ISAs
// compute the same set.
inline constexpr int64_t kScoreBlock = 16;
// One tile of scores. 64 keys x 64 columns of fp32 are 16 KiB: the operand that a GEMM reads again
// for each block of rows takes half of a 32 KiB L1, while rows of the other two operands stream
// through. The ten tiles of the backward pass at E = 64 (160 KiB) stay in L2.
inline constexpr int64_t kKeyTile = 64;
inline constexpr int64_t kQueryTile = 64;

// Scores computed per head of one sequence, including masked parts of visited blocks and the
// padding of the last key block to 16. Per score, the GEMMs of the forward pass execute 4 E FLOPs
// (q k^T, p v) and those of the backward pass 10 E (q k^T again, dO v^T, p^T dO, dS^T q, dS k).
// Both passes visit the same blocks. If documents share rows, this is an upper bound.
int64_t flash_attention_visited_scores(const AttentionExtents& extents);
int64_t flash_attention_backward_visited_scores(const AttentionExtents& extents);

// Bytes that the caller provides, aligned to kAlignmentBytes; their contents are ignored. Both
// functions throw the same errors as the passes.
int64_t flash_attention_forward_workspace_bytes(const AttentionExtents& extents, int threads);
int64_t flash_attention_backward_workspace_bytes(const AttentionExtents& extents, int threads);

template <typename T>
struct FlashAttention {
  AttentionExtents extents;
  TokenHeads<const T> q, k, v;
  TokenHeads<T> o;
  // [N, H], the natural logarithm of the sum of the exponentials of a row's scaled scores, for the
  // backward pass; not written if null.
  float* lse = nullptr;
  float* workspace = nullptr;
  int threads = 1;
  // [N], causal only: each token's position in its document, in rows that several documents share.
  // A token attends only to keys of its document. From one token to the next, a position rises by 1
  // or falls. Null: each row is one document.
  const int32_t* positions = nullptr;
};

// o = softmax(mask(scale q k^T)) v with fp32 arithmetic and accumulation. Throws a usage Error for
// extents outside the rules above. The result does not depend on `threads`; the last bits do depend
// on the ISA.
template <typename T>
void flash_attention_forward(const FlashAttention<T>& call);

template <typename T>
struct FlashAttentionBackward {
  AttentionExtents extents;
  TokenHeads<const T> q, k, v;
  TokenHeads<const T> o;       // from the forward pass
  const float* lse = nullptr;  // from the forward pass
  TokenHeads<const T> d_o;
  TokenHeads<T> d_q, d_k, d_v;  // overwritten; may not overlap the inputs
  float* workspace = nullptr;
  int threads = 1;
  const int32_t* positions = nullptr;  // as in the forward pass
};

// Sums have a fixed order for a given `threads`. dK and dV add up query heads, then query tiles, in
// ascending order. dQ adds key tiles in ascending order; threads that share a KV head each
// contribute one partial sum.
template <typename T>
void flash_attention_backward(const FlashAttentionBackward<T>& call);

}  // namespace ridge::backends::cpu
