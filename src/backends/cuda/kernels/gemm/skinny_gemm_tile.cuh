// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels of skinny_gemm: a tile of the weight, the block's input rows, and the
// stores of results. Contains no kernel.
#pragma once

#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/gemm/skinny_gemm.h"
#include "backends/cuda/kernels/gemm/warp_product.cuh"
#include "backends/cuda/kernels/vector_io.cuh"

namespace ridge::backends::cuda {

// Whether the weight fits into the registers of blocks on all multiprocessors, and the launch of
// the kernel for that case (skinny_gemm_held.cu).
bool holds_skinny_gemm(const SkinnyGemm& call);
cudaError_t launch_skinny_gemm_held(const SkinnyGemm& call, cudaStream_t stream);

namespace skinny_gemm {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / kLanes;
// Elements of a row that four lanes hold, 8 each: two steps of 16.
inline constexpr int kChunk = 32;
inline constexpr int kTile = 16;  // rows of the weight

// The stride of x's rows in shared memory is 64 bytes more than a multiple of 128, so that 64 bytes
// of two rows cover all banks.
__host__ __device__ constexpr int64_t shared_stride(int64_t in) {
  return in + (in / kChunk % 2 == 0 ? kChunk : 0);
}

struct TileRows {
  int64_t upper, lower;  // rows of this lane
  bool has_upper, has_lower;
};

// With an activation, a tile is 8 rows of the gate and the same 8 rows of up.
__device__ __forceinline__ TileRows rows_of_tile(const SkinnyGemm& p, int64_t tile) {
  const int64_t quad = static_cast<int>(threadIdx.x) % kLanes / 4;
  if (p.activation == GemmActivation::kNone) {
    const int64_t upper = tile * kTile + quad, lower = upper + 8;
    return {upper, lower, upper < p.weight_rows, lower < p.weight_rows};
  }
  const int64_t half = p.weight_rows / 2, upper = tile * (kTile / 2) + quad;
  return {upper, half + upper, upper < half, upper < half};
}

// Weights are read only once in a step.
__device__ __forceinline__ uint4 load_once(const uint16_t* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// c += a b, 16 rows by a depth of 16 by 8 tokens. The order of the 16 summed elements must be the
// same in a and b, but is otherwise free: a lane's 8 consecutive elements serve two steps.
__device__ __forceinline__ void multiply(float (&c)[4],
                                         uint32_t a0,
                                         uint32_t a1,
                                         uint32_t a2,
                                         uint32_t a3,
                                         uint32_t b0,
                                         uint32_t b1) {
  const uint32_t a[4] = {a0, a1, a2, a3};
  warp_product(c, a, b0, b1);
}

__device__ __forceinline__ void load_weights(const float* weight, float offset, float (&w)[8]) {
  load_floats(weight, w);
#pragma unroll
  for (int i = 0; i < 8; ++i) w[i] += offset;
}

// Assigns a block's threads to the rows of its input: teams of whole warps, one row per team.
// Further threads have no row.
struct RowTeam {
  int64_t row, first, step;  // this thread's vectors of its row: every `step` elements from `first`
  int warps;
  bool is_row;

  __device__ __forceinline__ explicit RowTeam(const SkinnyGemm& p, int of_block = kThreads) {
    const int doublings = 32 - __clz(static_cast<int>(p.tokens) - 1),
              threads = of_block >> doublings;
    warps = threads / kLanes;
    row = static_cast<int>(threadIdx.x) * (1 << doublings) / of_block;
    first = (static_cast<int>(threadIdx.x) & (threads - 1)) * 8;
    step = threads * 8;
    is_row = row < p.tokens;
  }
};

// Sums of squares of the block's rows, one number per warp, from which the norms' scales are
// computed.
struct Squares {
  static constexpr int kMostWarps = 16;
  float of_delta[kMostWarps], of_row[kMostWarps];
};

__device__ __forceinline__ void note_squares(float (&squares)[Squares::kMostWarps], float own) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) own += shuffle_xor(own, mask);
  if (threadIdx.x % kLanes == 0) squares[threadIdx.x / kLanes] = own;
}

// The scale of a row's norm. Call it after all warps of the row's team have stored their sums.
__device__ __forceinline__ float norm_scale(const SkinnyGemm& p,
                                            const float (&squares)[Squares::kMostWarps],
                                            int64_t row,
                                            int warps) {
  float sum = 0.0f;
  for (int w = 0; w < warps; ++w) sum += squares[row * warps + w];
  return rsqrtf(sum / static_cast<float>(p.in) + p.eps);
}

// The factors for the products of this lane's two tokens: rows are staged without the scale of
// their norm, which is known only after the whole row has been read.
__device__ __forceinline__ void result_scales(const SkinnyGemm& p,
                                              const Squares& squares,
                                              int warps,
                                              float (&scales)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes, token = lane % 4 * 2;
  float sum = squares.of_row[lane % Squares::kMostWarps];
  for (int mask = 1; mask < warps; mask *= 2) sum += shuffle_xor(sum, mask);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float of_token = __shfl_sync(0xffffffffu, sum, (token + i) * warps);
    scales[i] = token + i < p.tokens ? rsqrtf(of_token / static_cast<float>(p.in) + p.eps) : 0.0f;
  }
}

// The norm weights of rows, if a thread holds all its vectors in registers; loaded before the
// previous kernel ends.
template <int kHeld>
struct HeldNorms {
  float norm[kHeld][8], delta[kHeld][8];

  __device__ __forceinline__ void fetch(const SkinnyGemm& p, const RowTeam& team) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int64_t at = team.first + i * team.step;
      if (!team.is_row || at >= p.in) continue;
      load_weights(p.norm + at, p.norm_offset, norm[i]);
      if (p.delta) load_weights(p.delta_norm + at, p.norm_offset, delta[i]);
    }
  }
};

// Stages the rows of the block's input, multiplied by their norm's weight, in shared memory. The
// first block writes the sum. All loads are in flight at once.
template <int kHeld>
__device__ __forceinline__ void stage_held_rows(const SkinnyGemm& p,
                                                const RowTeam& team,
                                                const HeldNorms<kHeld>& norms,
                                                uint16_t* staged,
                                                Squares& squares) {
  float x[kHeld][8], d[kHeld][8], own = 0.0f;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int64_t at = team.first + i * team.step;
    if (!team.is_row || at >= p.in) continue;
    load_floats(p.x[team.row] + at, x[i]);
    if (!p.delta) continue;
    load_floats(p.delta[team.row] + at, d[i]);
#pragma unroll
    for (int k = 0; k < 8; ++k) own = fmaf(d[i][k], d[i][k], own);
  }
  float delta_scale = 0.0f;
  if (p.delta) {
    note_squares(squares.of_delta, own);
    __syncthreads();
    delta_scale = norm_scale(p, squares.of_delta, team.row, team.warps);
    own = 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int64_t at = team.first + i * team.step;
    if (!team.is_row || at >= p.in) continue;
    if (p.delta) {
#pragma unroll
      for (int k = 0; k < 8; ++k) x[i][k] = fmaf(d[i][k] * delta_scale, norms.delta[i][k], x[i][k]);
      const Packed<uint16_t, 8> rounded = pack<uint16_t, 8>(x[i]);
      if (blockIdx.x == 0) store_packed(p.sum[team.row] + at, rounded);
      unpack(rounded, x[i]);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      own = fmaf(x[i][k], x[i][k], own);
      x[i][k] *= norms.norm[i][k];
    }
    store_floats(staged + team.row * shared_stride(p.in) + at, x[i]);
  }
  note_squares(squares.of_row, own);
  __syncthreads();
}

// Like stage_held_rows, for rows of any length, with kInFlight vectors in flight at a time.
__device__ __forceinline__ void stage_rows(const SkinnyGemm& p,
                                           const RowTeam& team,
                                           uint16_t* staged,
                                           Squares& squares) {
  constexpr int kInFlight = 4;
  uint16_t* z = staged + team.row * shared_stride(p.in);
  const int64_t end = team.is_row ? p.in : 0;
  float own = 0.0f, delta_scale = 0.0f;
  if (p.delta) {
    float d[8];
#pragma unroll 4
    for (int64_t i = team.first; i < end; i += team.step) {
      load_floats(p.delta[team.row] + i, d);
#pragma unroll
      for (int k = 0; k < 8; ++k) own = fmaf(d[k], d[k], own);
    }
    note_squares(squares.of_delta, own);
    __syncthreads();
    delta_scale = norm_scale(p, squares.of_delta, team.row, team.warps);
    own = 0.0f;
  }
  for (int64_t base = team.first; base < end; base += kInFlight * team.step) {
    Packed<uint16_t, 8> rows[kInFlight], deltas[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int64_t i = base + j * team.step;
      if (i >= end) continue;
      rows[j] = load_packed<8>(p.x[team.row] + i);
      if (p.delta) deltas[j] = load_packed<8>(p.delta[team.row] + i);
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int64_t i = base + j * team.step;
      if (i >= end) continue;
      float x[8], w[8];
      load_weights(p.norm + i, p.norm_offset, w);
      unpack(rows[j], x);
      if (p.delta) {
        float d[8], delta_weight[8];
        unpack(deltas[j], d);
        load_weights(p.delta_norm + i, p.norm_offset, delta_weight);
#pragma unroll
        for (int k = 0; k < 8; ++k) x[k] = fmaf(d[k] * delta_scale, delta_weight[k], x[k]);
        const Packed<uint16_t, 8> rounded = pack<uint16_t, 8>(x);
        if (blockIdx.x == 0) store_packed(p.sum[team.row] + i, rounded);
        unpack(rounded, x);
      }
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        own = fmaf(x[k], x[k], own);
        x[k] *= w[k];
      }
      store_floats(z + i, x);
    }
  }
  note_squares(squares.of_row, own);
  __syncthreads();
}

// Waits for the previous kernels and stages the rows; rows of up to kHeld vectors per thread are
// held in registers.
template <int kHeld>
__device__ __forceinline__ void stage_normed(const SkinnyGemm& p,
                                             const RowTeam& team,
                                             uint16_t* staged,
                                             Squares& squares) {
  if (p.in <= kHeld * team.step) {
    HeldNorms<kHeld> norms;
    norms.fetch(p, team);
    wait_for_grids();
    stage_held_rows(p, team, norms, staged, squares);
  } else {
    wait_for_grids();
    stage_rows(p, team, staged, squares);
  }
}

__device__ __forceinline__ float activated(GemmActivation activation, float gate) {
  if (activation == GemmActivation::kSilu) return gate * sigmoid_for<uint16_t>(gate);
  const float inner = 0.7978845608028654f * fmaf(0.044715f * gate * gate, gate, gate);
  return gate * sigmoid_for<uint16_t>(2.0f * inner);
}

// This lane's part of a tile's results: elements 0 and 1 are its upper row for two tokens, 2 and 3
// its lower row.
struct TileResults {
  TileRows rows;
  int64_t token;

  __device__ __forceinline__ TileResults(const SkinnyGemm& p, int64_t tile, int first_token = 0)
      : rows(rows_of_tile(p, tile)), token(first_token + static_cast<int>(threadIdx.x) % 4 * 2) {}

  // With an activation only the upper row has results.
  __device__ __forceinline__ bool has(const SkinnyGemm& p, int i) const {
    const bool is_upper = i < 2;
    return token + i % 2 < p.tokens && (is_upper ? rows.has_upper : rows.has_lower) &&
           (is_upper || p.activation == GemmActivation::kNone);
  }
  __device__ __forceinline__ int64_t column(int i) const { return i < 2 ? rows.upper : rows.lower; }

  __device__ __forceinline__ void load_residual(const SkinnyGemm& p, float (&residual)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      residual[i] = p.residual && has(p, i) ? to_float(p.residual[token + i % 2][column(i)]) : 0.0f;
  }
  __device__ __forceinline__ void put(const SkinnyGemm& p,
                                      const float (&c)[4],
                                      const float (&residual)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!has(p, i)) continue;
      float value = p.activation == GemmActivation::kNone
                        ? c[i]
                        : activated(p.activation, c[i]) * c[2 + i % 2];
      value += residual[i];
      const int64_t at = (token + i % 2) * p.y_stride + column(i);
      if (p.y_is_f32)
        static_cast<float*>(p.y)[at] = value;
      else
        static_cast<uint16_t*>(p.y)[at] = from_float<uint16_t>(value);
    }
  }
};

}  // namespace skinny_gemm
}  // namespace ridge::backends::cuda
