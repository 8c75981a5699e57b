// SPDX-License-Identifier: Apache-2.0
// Few rows times a quantized weight in fragment tiles. Like skinny_gemm.cu, whose tiles are bf16.
// CUDA only (mma.sync).
#include <algorithm>

#include "backends/cuda/kernels/gemm/fragment_tile.cuh"
#include "backends/cuda/kernels/gemm/skinny_gemm_tile.cuh"

namespace ridge::backends::cuda {
namespace skinny_gemm {
namespace {

using namespace fragments;

constexpr int kHeldRows = 2;  // vectors of a row per thread

constexpr int kBatch = 8;      // tiles of rows whose sums wait for the other warps
constexpr int kAheadInL2 = 3;  // tiles that a warp asks the L2 cache for, beyond those in registers

// A warp's way through its tiles of the weight: every eighth tile of the columns of each of the
// block's tiles of rows, one after the other.
template <class Lane>
struct FragmentPath {
  static constexpr int64_t kTileBytes = sizeof(typename Lane::Tile);
  const uint8_t* weight;
  int64_t row_blocks, half;  // `half` row blocks lie between a gate and its up; 0 without GLU
  int steps, first, step, rounds, round;
  const uint8_t *upper, *lower;

  __device__ __forceinline__ explicit FragmentPath(const FragmentGemm& p)
      : weight(p.weight),
        row_blocks(p.product.weight_rows / kFragmentRows),
        half(p.product.activation == GemmActivation::kNone ? 0 : row_blocks / 2),
        steps(static_cast<int>(p.product.in / kColumns)),
        first(static_cast<int>(threadIdx.x) / kLanes),
        round(0) {
    const int tiles = static_cast<int>((p.product.weight_rows + kTile - 1) / kTile);
    rounds = (tiles - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) /
             static_cast<int>(gridDim.x);
    step = first;
    if (first >= steps) round = rounds;
    place();
  }
  __device__ __forceinline__ bool is_over() const { return round >= rounds; }
  // Rows after the last are read twice.
  __device__ __forceinline__ void place() {
    const int64_t tile = blockIdx.x + int64_t{round} * gridDim.x;
    const int64_t above = half > 0 ? tile : 2 * tile;
    const int64_t below = half > 0 ? above + half : above + 1;
    upper = weight + (above * steps + step) * kTileBytes;
    lower = below < row_blocks ? upper + (below - above) * steps * kTileBytes : upper;
  }
  __device__ __forceinline__ void advance() {
    step += kWarps;
    if (step < steps) {
      upper += kWarps * kTileBytes;
      lower += kWarps * kTileBytes;
      return;
    }
    step = first;
    ++round;
    place();
  }
};

// The tiles of both row blocks, in registers.
template <class Lane>
struct LanePair {
  Lane upper, lower;
  __device__ __forceinline__ void fetch(FragmentPath<Lane>& path) {
    if (path.is_over()) return;
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    upper.load(path.upper, lane);
    lower.load(path.lower, lane);
    path.advance();
  }
};

template <class Lane>
__device__ __forceinline__ void prefetch_pair(FragmentPath<Lane>& path) {
  constexpr int kLines = (sizeof(typename Lane::Tile) + 127) / 128;
  if (path.is_over()) return;
  const int lane = static_cast<int>(threadIdx.x) % kLanes, line = lane % 16;
  if (line < kLines) prefetch_to_l2((lane < 16 ? path.upper : path.lower) + line * 128);
  path.advance();
}

// The warps' sums of a batch of tiles, added up in the order of the warps.
struct WarpSums {
  float4 parts[kBatch][kWarps][kLanes];

  __device__ __forceinline__ void total(int tile, int lane, float (&c)[4]) const {
    float4 sum = parts[tile][0][lane];
#pragma unroll
    for (int s = 1; s < kWarps; ++s) {
      const float4 part = parts[tile][s][lane];
      sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
    }
    c[0] = sum.x, c[1] = sum.y, c[2] = sum.z, c[3] = sum.w;
  }
};

// A warp's sums of the tile of rows that it is at.
template <class Lane>
struct Accumulation {
  const uint16_t* x;  // this lane's token
  const TokenSums<Lane>& sums;
  WarpSums& done;
  int first, steps, step, tile;
  float c[4];

  __device__ __forceinline__ void add(const LanePair<Lane>& weight) {
    add_tile(weight.upper, weight.lower, x + step * kColumns, sums, step, c);
    step += kWarps;
    if (step < steps) return;
    done.parts[tile % kBatch][first][threadIdx.x % kLanes] = make_float4(c[0], c[1], c[2], c[3]);
    c[0] = c[1] = c[2] = c[3] = 0.0f;
    step = first;
    ++tile;
  }
};

// Mapping: a block's eight warps share a tile of 16 rows (8 gates and what they multiply, with an
// activation), each with every eighth tile of the columns; blocks iterate over the tiles, and warps
// wait for each other once in eight. The first weights are loaded before the previous kernel ends,
// if no earlier kernel writes them. Bound: memory, the weight once. A multiprocessor of an H200
// receives 19 bytes a cycle, 34 elements of 4.5 bits; dequantization, products and scales are 2.2
// instructions of a lane for each of Q4_K's, of the 3.7 that it issues in that time.
template <class Lane, bool kNorms>
__global__ void __launch_bounds__(kThreads, 2)
    fragment_gemv_kernel(const __grid_constant__ FragmentGemm call) {
  extern __shared__ uint4 shared[];
  __shared__ Squares squares;
  __shared__ WarpSums warp_sums;
  const SkinnyGemm& p = call.product;
  const int warp = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  let_next_start();
  if (!p.is_ready_early) wait_for_grids();
  FragmentPath<Lane> path(call);
  LanePair<Lane> even, odd;
  even.fetch(path);
  FragmentPath<Lane> ahead = path;
#pragma unroll
  for (int i = 0; i < kAheadInL2; ++i) prefetch_pair(ahead);
  const TokenSums<Lane> sums(shared, p.in);
  auto* staged = reinterpret_cast<uint16_t*>(reinterpret_cast<std::byte*>(shared) +
                                             TokenSums<Lane>::bytes(p.in));
  float scales[2] = {1.0f, 1.0f};
  StridedRows<const uint16_t> x = p.x;
  if constexpr (kNorms) {
    const RowTeam team(p);
    if (p.in <= kHeldRows * team.step) {
      HeldNorms<kHeldRows> norms;
      norms.fetch(p, team);
      wait_for_grids();
      stage_held_rows(p, team, norms, staged, squares);
    } else {
      wait_for_grids();
      stage_rows(p, team, staged, squares);
    }
    result_scales(p, squares, team.warps, scales);
    x = {staged, shared_stride(p.in)};
  } else {
    wait_for_grids();
  }
  for (int step = warp; step < path.steps; step += kWarps)
    sums.add_up(step, x, static_cast<int>(p.tokens));
  __syncwarp();
  // Lanes without a token compute what the last one's do, and store nothing.
  const int64_t token = min(static_cast<int64_t>(lane / 4), p.tokens - 1);
  Accumulation<Lane> own{x[token], sums, warp_sums, warp, path.steps, warp, 0, {}};
  const int of_tile = warp < path.steps ? (path.steps - warp + kWarps - 1) / kWarps : 0;
  for (int batch = 0; batch < path.rounds; batch += kBatch) {
    const int tiles = min(kBatch, path.rounds - batch);
    if (of_tile == 0)
      for (int i = 0; i < tiles; ++i) warp_sums.parts[i][warp][lane] = float4{};
    // All batches but the last have an even number of tiles.
    for (int i = 0; i < tiles * of_tile; i += 2) {
      odd.fetch(path);
      prefetch_pair(ahead);
      own.add(even);
      if (i + 1 >= tiles * of_tile) break;
      even.fetch(path);
      prefetch_pair(ahead);
      own.add(odd);
    }
    __syncthreads();
    if (warp < tiles) {
      const TileResults results(p, blockIdx.x + int64_t{batch + warp} * gridDim.x);
      float c[4], residual[4];
      results.load_residual(p, residual);
      warp_sums.total(warp, lane, c);
#pragma unroll
      for (int i = 0; i < 4; ++i) c[i] *= scales[i % 2];
      results.put(p, c, residual);
    }
    if (batch + kBatch < path.rounds) __syncthreads();
  }
}

template <class Lane, bool kNorms>
cudaError_t launch_fragments(const FragmentGemm& call, cudaStream_t stream) {
  constexpr int64_t kResident = 264;  // two blocks for each of 132 multiprocessors
  const SkinnyGemm& p = call.product;
  const int64_t tiles = (p.weight_rows + kTile - 1) / kTile;
  const int64_t staged_bytes =
      kNorms ? p.tokens * shared_stride(p.in) * static_cast<int64_t>(sizeof(uint16_t)) : 0;
  const int64_t bytes = TokenSums<Lane>::bytes(p.in) + staged_bytes;
  const cudaError_t status =
      cudaFuncSetAttribute(fragment_gemv_kernel<Lane, kNorms>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  return launch_early(fragment_gemv_kernel<Lane, kNorms>,
                      dim3(static_cast<unsigned>(std::min(tiles, kResident))), kThreads, bytes,
                      stream, call);
}

}  // namespace
}  // namespace skinny_gemm

cudaError_t launch_fragment_gemv(const FragmentGemm& call, cudaStream_t stream) {
  using namespace skinny_gemm;
  const SkinnyGemm& p = call.product;
  const bool is_long = p.norm != nullptr && p.tokens * p.in > kSkinnyGemmMostNormed;
  const int64_t row_step = kFragmentRows * (p.activation == GemmActivation::kNone ? 1 : 2);
  if (p.in % kFragmentColumns != 0 || p.weight_rows % row_step != 0 ||
      p.tokens > kSkinnyGemmMostTokens || is_long)
    return cudaErrorInvalidValue;
  if (p.tokens == 0 || p.weight_rows == 0 || p.in == 0) return cudaSuccess;
  return fragments::with_lane(call.format, [&](auto lane) {
    using Lane = decltype(lane);
    return p.norm != nullptr ? launch_fragments<Lane, true>(call, stream)
                             : launch_fragments<Lane, false>(call, stream);
  });
}

}  // namespace ridge::backends::cuda
