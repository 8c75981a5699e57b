// SPDX-License-Identifier: Apache-2.0
// Few rows times a matrix: the tensor cores process the matrix once, 16 of its rows by up to 8
// tokens per step. Matrices that fit the registers of the whole GPU use skinny_gemm_held.cu. CUDA
// only (mma.sync); elsewhere cuBLASLt and the unfused kernels replace it.
#include <algorithm>

#include "backends/cuda/kernels/gemm/skinny_gemm_tile.cuh"

namespace ridge::backends::cuda {
namespace skinny_gemm {
namespace {

constexpr int kHeld = 2;  // vectors of a row per thread

// The chunks that a warp has in flight at a time, double-buffered. A block alone on its
// multiprocessor needs twice as many as two that share one: a weight [2048,8192] in 10.1 us instead
// of 13.1 (docs/runs/2026-12-01-lone-blocks-h200.md).
constexpr int kShared = 4, kAlone = 8;

template <int kBatch>
struct Fragments {
  uint4 upper[kBatch], lower[kBatch];  // rows 0-7 and 8-15 of the tile
};

// A warp's part of the work: tiles of rows, and every kSplit-th chunk of each row.
template <int kSplit, int kBatch>
struct WarpShare {
  static constexpr int kGroups = kWarps / kSplit;  // tiles per block at a time
  int64_t tiles, chunks, batches, rounds;
  int split, group;

  __device__ __forceinline__ explicit WarpShare(const SkinnyGemm& p) {
    const int warp = static_cast<int>(threadIdx.x) / kLanes;
    split = warp % kSplit;
    group = warp / kSplit;
    tiles = (p.weight_rows + kTile - 1) / kTile;
    chunks = p.in / kChunk;
    batches = (chunks + kSplit * kBatch - 1) / (kSplit * kBatch);
    const int64_t all_rounds = (tiles + kGroups - 1) / kGroups;
    rounds = all_rounds > blockIdx.x ? (all_rounds - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  }
  __device__ __forceinline__ int64_t tile(int64_t round) const {
    return (blockIdx.x + round * gridDim.x) * kGroups + group;
  }
  __device__ __forceinline__ int64_t chunk(int64_t batch, int i) const {
    return (batch * kBatch + i) * kSplit + split;
  }
};

template <int kSplit, int kBatch>
__device__ __forceinline__ void fetch(const SkinnyGemm& p,
                                      const WarpShare<kSplit, kBatch>& share,
                                      int64_t round,
                                      int64_t batch,
                                      Fragments<kBatch>& f) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 8;
  const TileRows rows = rows_of_tile(p, share.tile(round));
  const uint16_t* upper = p.weight[rows.has_upper ? rows.upper : 0] + column;
  const uint16_t* lower = p.weight[rows.has_lower ? rows.lower : 0] + column;
#pragma unroll
  for (int i = 0; i < kBatch; ++i) {
    const int64_t chunk = share.chunk(batch, i);
    const bool inside = chunk < share.chunks;
    f.upper[i] = inside ? load_once(upper + chunk * kChunk) : uint4{};
    f.lower[i] = inside ? load_once(lower + chunk * kChunk) : uint4{};
  }
}

// Prefetches the data after the first batch of the first tile, if the whole weight fits easily into
// the last-level cache.
template <int kSplit, int kBatch>
__device__ __forceinline__ void prefetch_tile(const SkinnyGemm& p,
                                              const WarpShare<kSplit, kBatch>& share) {
  constexpr int64_t kMostElements = int64_t{8} << 20;
  if (share.batches < 2 || p.weight_rows * p.in > kMostElements) return;
  const int column = static_cast<int>(threadIdx.x) % 4 * 8;
  const TileRows rows = rows_of_tile(p, share.tile(0));
  for (int64_t batch = 1; batch < share.batches; ++batch)
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int64_t at = share.chunk(batch, i) * kChunk + column;
      if (share.chunk(batch, i) >= share.chunks) continue;
      if (rows.has_upper) asm volatile("prefetch.global.L2 [%0];" ::"l"(p.weight[rows.upper] + at));
      if (rows.has_lower) asm volatile("prefetch.global.L2 [%0];" ::"l"(p.weight[rows.lower] + at));
    }
}

// Mapping: kSplit warps share a tile of 16 rows of the weight and each sum a part of its columns;
// blocks iterate over the tiles. The first weights are loaded before the previous kernel ends, if
// no earlier kernel writes them. Bound: memory, the weight once; latency for small weights.
template <int kSplit, bool kNorms, int kBatch>
__global__ void __launch_bounds__(kThreads, kBatch == kAlone ? 1 : 2)
    skinny_gemm_kernel(const __grid_constant__ SkinnyGemm p) {
  extern __shared__ uint4 shared[];
  __shared__ Squares squares;
  __shared__ float parts[kSplit > 1 ? kWarps : 1][kLanes][4];
  const WarpShare<kSplit, kBatch> share(p);
  Fragments<kBatch> next;
  let_next_start();
  if (!p.is_ready_early) wait_for_grids();
  if (share.rounds > 0) {
    fetch(p, share, 0, 0, next);
    prefetch_tile(p, share);
  }
  auto* staged = reinterpret_cast<uint16_t*>(shared);
  float scales[2] = {1.0f, 1.0f};
  if constexpr (kNorms) {
    const RowTeam team(p);
    stage_normed<kHeld>(p, team, staged, squares);
    result_scales(p, squares, team.warps, scales);
  } else {
    wait_for_grids();
  }
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t token = lane / 4;
  const bool is_token = token < p.tokens;
  const uint16_t* x =
      kNorms ? staged + (is_token ? token : 0) * shared_stride(p.in) : p.x[is_token ? token : 0];
  x += lane % 4 * 8;
  for (int64_t round = 0; round < share.rounds; ++round) {
    float c[4] = {};
    for (int64_t batch = 0; batch < share.batches; ++batch) {
      const Fragments<kBatch> now = next;
      uint4 b[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int64_t chunk = share.chunk(batch, i);
        b[i] = is_token && chunk < share.chunks
                   ? *reinterpret_cast<const uint4*>(x + chunk * kChunk)
                   : uint4{};
      }
      if (batch + 1 < share.batches)
        fetch(p, share, round, batch + 1, next);
      else if (round + 1 < share.rounds)
        fetch(p, share, round + 1, 0, next);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        multiply(c, now.upper[i].x, now.lower[i].x, now.upper[i].y, now.lower[i].y, b[i].x, b[i].y);
        multiply(c, now.upper[i].z, now.lower[i].z, now.upper[i].w, now.lower[i].w, b[i].z, b[i].w);
      }
    }
    if constexpr (kSplit > 1) {
      const int warp = static_cast<int>(threadIdx.x) / kLanes;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < 4; ++i) parts[warp][lane][i] = c[i];
      __syncthreads();
      if (share.split != 0) continue;
#pragma unroll
      for (int s = 1; s < kSplit; ++s)
#pragma unroll
        for (int i = 0; i < 4; ++i) c[i] += parts[warp + s][lane][i];
    }
    const TileResults results(p, share.tile(round));
    float residual[4];
    results.load_residual(p, residual);
#pragma unroll
    for (int i = 0; i < 4; ++i) c[i] *= scales[i % 2];
    results.put(p, c, residual);
  }
}

constexpr int64_t kMultiprocessors = 132;

template <int kSplit, bool kNorms, int kBatch = kShared>
cudaError_t launch_form(const SkinnyGemm& call, cudaStream_t stream) {
  constexpr int64_t kResident = kMultiprocessors * (kBatch == kAlone ? 1 : 2);
  constexpr int kGroups = kWarps / kSplit;
  const int64_t tiles = (call.weight_rows + kTile - 1) / kTile;
  // All blocks have as many tiles, or one less: the last ones would leave most of the memory's rate
  // unused.
  const int64_t groups = (tiles + kGroups - 1) / kGroups,
                rounds = (groups + kResident - 1) / kResident,
                blocks = (groups + rounds - 1) / rounds;
  const int64_t bytes =
      kNorms ? call.tokens * shared_stride(call.in) * static_cast<int64_t>(sizeof(uint16_t)) : 0;
  const cudaError_t status =
      cudaFuncSetAttribute(skinny_gemm_kernel<kSplit, kNorms, kBatch>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  return launch_early(skinny_gemm_kernel<kSplit, kNorms, kBatch>,
                      dim3(static_cast<unsigned>(blocks)), kThreads, bytes, stream, call);
}

template <bool kNorms>
cudaError_t launch_split(const SkinnyGemm& call, cudaStream_t stream) {
  // As few warps per tile as keep 16 warps of each multiprocessor busy; for long rows all warps, so
  // that tiles end together.
  constexpr int64_t kWanted = kMultiprocessors * 16, kLongRow = 2048;
  const int64_t tiles = (call.weight_rows + kTile - 1) / kTile;
  if (call.in >= kLongRow && tiles <= kMultiprocessors)
    return launch_form<8, kNorms, kAlone>(call, stream);
  if (call.in >= kLongRow || tiles * 4 < kWanted) return launch_form<8, kNorms>(call, stream);
  if (tiles * 2 < kWanted) return launch_form<4, kNorms>(call, stream);
  if (tiles < kWanted) return launch_form<2, kNorms>(call, stream);
  return launch_form<1, kNorms>(call, stream);
}

}  // namespace
}  // namespace skinny_gemm

cudaError_t launch_skinny_gemm(const SkinnyGemm& call, cudaStream_t stream) {
  using namespace skinny_gemm;
  const bool is_long = call.norm != nullptr && call.tokens * call.in > kSkinnyGemmMostNormed;
  if (call.in % kChunk != 0 || call.tokens > kSkinnyGemmMostTokens || is_long)
    return cudaErrorInvalidValue;
  if (call.tokens == 0 || call.weight_rows == 0 || call.in == 0) return cudaSuccess;
  if (holds_skinny_gemm(call)) return launch_skinny_gemm_held(call, stream);
  return call.norm != nullptr ? launch_split<true>(call, stream)
                              : launch_split<false>(call, stream);
}

}  // namespace ridge::backends::cuda
