// SPDX-License-Identifier: Apache-2.0
// Few rows times a matrix that fits into registers: all of it is loaded before the previous kernel
// ends, so that afterwards only the rows are waited for. CUDA only (mma.sync).
#include <algorithm>

#include "backends/cuda/kernels/gemm/skinny_gemm_tile.cuh"

namespace ridge::backends::cuda {
namespace skinny_gemm {
namespace {

constexpr int kHeld = 1;        // vectors of a row per thread
constexpr int kMostChunks = 8;  // chunks of a row per warp: 64 registers per lane
// One per multiprocessor, which leaves room for the blocks of the next kernel.
constexpr int64_t kMostBlocks = 132;

// Mapping: kSplit warps share a tile of 16 rows of the weight, each with every kSplit-th chunk of a
// row; one tile per warp. Bound: latency of loading the rows through the cache, a barrier if they
// are normed, and one if warps sum.
template <int kSplit, int kChunks, bool kNorms>
__global__ void __launch_bounds__(kThreads, 2)
    skinny_gemm_held_kernel(const __grid_constant__ SkinnyGemm p) {
  extern __shared__ uint4 shared[];
  __shared__ Squares squares;
  __shared__ float4 parts[kWarps][kLanes];
  if (!p.is_ready_early) wait_for_grids();
  const int warp = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  const int split = warp % kSplit, column = lane % 4 * 8;
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * (kWarps / kSplit) + warp / kSplit;
  const int64_t chunks = p.in / kChunk;
  const TileResults results(p, tile);
  const TileRows& rows = results.rows;
  const uint16_t* upper_row = p.weight[rows.has_upper ? rows.upper : 0] + column;
  const uint16_t* lower_row = p.weight[rows.has_lower ? rows.lower : 0] + column;
  uint4 upper[kChunks], lower[kChunks];
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int64_t chunk = i * kSplit + split;
    upper[i] = chunk < chunks ? load_once(upper_row + chunk * kChunk) : uint4{};
    lower[i] = chunk < chunks ? load_once(lower_row + chunk * kChunk) : uint4{};
  }
  let_next_start();
  const bool is_token = lane / 4 < p.tokens;
  const int64_t token = is_token ? lane / 4 : 0;
  const RowTeam team(p);
  const uint16_t* x = nullptr;
  float residual[4] = {}, scales[2] = {1.0f, 1.0f};
  if constexpr (kNorms) {
    auto* staged = reinterpret_cast<uint16_t*>(shared);
    HeldNorms<kHeld> norms;
    norms.fetch(p, team);
    wait_for_grids();
    if (split == 0) results.load_residual(p, residual);
    stage_held_rows(p, team, norms, staged, squares);
    x = staged + token * shared_stride(p.in);
  } else {
    wait_for_grids();
    if (split == 0) results.load_residual(p, residual);
    x = p.x[token];
  }
  uint4 b[kChunks];
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int64_t chunk = i * kSplit + split;
    b[i] = is_token && chunk < chunks ? *reinterpret_cast<const uint4*>(x + chunk * kChunk + column)
                                      : uint4{};
  }
  float c[2][4] = {};
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    multiply(c[0], upper[i].x, lower[i].x, upper[i].y, lower[i].y, b[i].x, b[i].y);
    multiply(c[1], upper[i].z, lower[i].z, upper[i].w, lower[i].w, b[i].z, b[i].w);
  }
  float4 sum =
      make_float4(c[0][0] + c[1][0], c[0][1] + c[1][1], c[0][2] + c[1][2], c[0][3] + c[1][3]);
  parts[warp][lane] = sum;
  __syncthreads();
  if (split != 0) return;
#pragma unroll
  for (int s = 1; s < kSplit; ++s) {
    const float4 part = parts[warp + s][lane];
    sum.x += part.x;
    sum.y += part.y;
    sum.z += part.z;
    sum.w += part.w;
  }
  if constexpr (kNorms) result_scales(p, squares, team.warps, scales);
  const float scaled[4] = {sum.x * scales[0], sum.y * scales[1], sum.z * scales[0],
                           sum.w * scales[1]};
  results.put(p, scaled, residual);
}

// How a weight is distributed among warps; a split of 0 if it does not fit.
struct Deal {
  int split = 0;
  int64_t blocks = 0, chunks = 0;
};

// As many warps per tile as the number of blocks allows: the fewer chunks a warp has, the sooner it
// is done.
Deal deal_of(const SkinnyGemm& call) {
  const int64_t tiles = (call.weight_rows + kTile - 1) / kTile, all = call.in / kChunk;
  for (int split : {8, 4}) {
    const int64_t blocks = (tiles * split + kWarps - 1) / kWarps,
                  chunks = (all + split - 1) / split;
    if (blocks <= kMostBlocks && chunks <= kMostChunks) return {split, blocks, chunks};
  }
  return {};
}

template <int kSplit, int kChunks, bool kNorms>
cudaError_t launch_form(const SkinnyGemm& call, int64_t blocks, cudaStream_t stream) {
  const int64_t bytes =
      kNorms ? call.tokens * shared_stride(call.in) * static_cast<int64_t>(sizeof(uint16_t)) : 0;
  return launch_early(skinny_gemm_held_kernel<kSplit, kChunks, kNorms>,
                      dim3(static_cast<unsigned>(blocks)), kThreads, bytes, stream, call);
}

template <int kSplit, bool kNorms>
cudaError_t launch_chunks(const SkinnyGemm& call, const Deal& deal, cudaStream_t stream) {
  if (deal.chunks <= 4) return launch_form<kSplit, 4, kNorms>(call, deal.blocks, stream);
  if (deal.chunks <= 6) return launch_form<kSplit, 6, kNorms>(call, deal.blocks, stream);
  return launch_form<kSplit, kMostChunks, kNorms>(call, deal.blocks, stream);
}

template <int kSplit>
cudaError_t launch_split(const SkinnyGemm& call, const Deal& deal, cudaStream_t stream) {
  return call.norm != nullptr ? launch_chunks<kSplit, true>(call, deal, stream)
                              : launch_chunks<kSplit, false>(call, deal, stream);
}

}  // namespace
}  // namespace skinny_gemm

bool holds_skinny_gemm(const SkinnyGemm& call) {
  using namespace skinny_gemm;
  int64_t teams = 1;
  while (teams < call.tokens) teams *= 2;
  const bool is_short = call.norm == nullptr || call.in * teams <= kHeld * kThreads * 8;
  return is_short && deal_of(call).split > 0;
}

cudaError_t launch_skinny_gemm_held(const SkinnyGemm& call, cudaStream_t stream) {
  using namespace skinny_gemm;
  const Deal deal = deal_of(call);
  return deal.split == 8 ? launch_split<8>(call, deal, stream)
                         : launch_split<4>(call, deal, stream);
}

}  // namespace ridge::backends::cuda
