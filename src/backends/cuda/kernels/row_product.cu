// SPDX-License-Identifier: Apache-2.0
// Few rows by a matrix: the matrix goes through the tensor cores once, 16 of its rows by up to 8
// tokens a step. CUDA's own (mma.sync); elsewhere cuBLASLt and the unfused kernels stand for it.
#include "backends/cuda/kernels/row_product.h"

#include <algorithm>

#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/vector_io.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kLanes;
constexpr int kChunk = 32;  // elements of a row that four lanes hold, 8 each: two steps of 16
constexpr int kBatch = 4;   // chunks on their way at a time, twice
constexpr int kTile = 16;   // rows of the weight

// x's rows in shared memory lie 64 bytes off a multiple of 128, so that two rows' 64 bytes are all
// banks.
__host__ __device__ constexpr int64_t shared_stride(int64_t in) {
  return in + (in / kChunk % 2 == 0 ? kChunk : 0);
}

struct Fragments {
  uint4 upper[kBatch], lower[kBatch];  // of the tile's rows 0-7 and 8-15
};

// A warp's part of the work: tiles of rows, and of each row every kSplit-th chunk. `step` counts
// batches through all its tiles.
template <int kSplit>
struct Walk {
  static constexpr int kGroups = kWarps / kSplit;  // tiles of a block at a time
  int64_t tiles, chunks, batches, rounds;
  int split, group;

  __device__ __forceinline__ explicit Walk(const RowProduct& p) {
    const int warp = static_cast<int>(threadIdx.x) / kLanes;
    split = warp % kSplit;
    group = warp / kSplit;
    tiles = (p.weight_rows + kTile - 1) / kTile;
    chunks = p.in / kChunk;
    batches = (chunks + kSplit * kBatch - 1) / (kSplit * kBatch);
    const int64_t turns = (tiles + kGroups - 1) / kGroups;
    rounds = turns > blockIdx.x ? (turns - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  }
  __device__ __forceinline__ int64_t tile(int64_t round) const {
    return (blockIdx.x + round * gridDim.x) * kGroups + group;
  }
  __device__ __forceinline__ int64_t chunk(int64_t batch, int i) const {
    return (batch * kBatch + i) * kSplit + split;
  }
};

struct TileRows {
  int64_t upper, lower;  // of this lane
  bool has_upper, has_lower;
};

// With an activation a tile is 8 rows of the gate and the same 8 of up.
__device__ __forceinline__ TileRows rows_of_tile(const RowProduct& p, int64_t tile) {
  const int64_t quad = static_cast<int>(threadIdx.x) % kLanes / 4;
  if (p.activation == RowActivation::kNone) {
    const int64_t upper = tile * kTile + quad, lower = upper + 8;
    return {upper, lower, upper < p.weight_rows, lower < p.weight_rows};
  }
  const int64_t half = p.weight_rows / 2, upper = tile * (kTile / 2) + quad;
  return {upper, half + upper, upper < half, upper < half};
}

// Weights are read once and never again in this step.
__device__ __forceinline__ uint4 load_once(const uint16_t* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

template <int kSplit>
__device__ __forceinline__ void fetch(const RowProduct& p,
                                      const Walk<kSplit>& walk,
                                      int64_t round,
                                      int64_t batch,
                                      Fragments& f) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 8;
  const TileRows rows = rows_of_tile(p, walk.tile(round));
  const uint16_t* upper = p.weight[rows.has_upper ? rows.upper : 0] + column;
  const uint16_t* lower = p.weight[rows.has_lower ? rows.lower : 0] + column;
#pragma unroll
  for (int i = 0; i < kBatch; ++i) {
    const int64_t chunk = walk.chunk(batch, i);
    const bool inside = chunk < walk.chunks;
    f.upper[i] = inside ? load_once(upper + chunk * kChunk) : uint4{};
    f.lower[i] = inside ? load_once(lower + chunk * kChunk) : uint4{};
  }
}

// Asks for what follows the first batch of the first tile, where the whole weight fits into the
// last level of cache with room to spare.
template <int kSplit>
__device__ __forceinline__ void prefetch_tile(const RowProduct& p, const Walk<kSplit>& walk) {
  constexpr int64_t kMostElements = int64_t{8} << 20;
  if (walk.batches < 2 || p.weight_rows * p.in > kMostElements) return;
  const int column = static_cast<int>(threadIdx.x) % 4 * 8;
  const TileRows rows = rows_of_tile(p, walk.tile(0));
  for (int64_t batch = 1; batch < walk.batches; ++batch)
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int64_t at = walk.chunk(batch, i) * kChunk + column;
      if (walk.chunk(batch, i) >= walk.chunks) continue;
      if (rows.has_upper) asm volatile("prefetch.global.L2 [%0];" ::"l"(p.weight[rows.upper] + at));
      if (rows.has_lower) asm volatile("prefetch.global.L2 [%0];" ::"l"(p.weight[rows.lower] + at));
    }
}

// c += a b, 16 rows by 16 by 8 tokens. The order of the 16 summed elements is the same in a and b,
// and otherwise free: a lane's 8 neighbours serve two steps.
__device__ __forceinline__ void multiply(float (&c)[4],
                                         uint32_t a0,
                                         uint32_t a1,
                                         uint32_t a2,
                                         uint32_t a3,
                                         uint32_t b0,
                                         uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Sums of one number a thread over the threads of a row's team, which are whole warps; every thread
// of the block comes.
__device__ __forceinline__ float sum_of_team(float value, int team_warps, float* scratch) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  if (team_warps == 1) return value;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  __syncthreads();
  if (threadIdx.x % kLanes == 0) scratch[warp] = value;
  __syncthreads();
  float sum = 0.0f;
  const int first = warp / team_warps * team_warps;
  for (int w = 0; w < team_warps; ++w) sum += scratch[first + w];
  return sum;
}

__device__ __forceinline__ void load_weights(const float* weight, float offset, float (&w)[8]) {
  load_floats(weight, w);
#pragma unroll
  for (int i = 0; i < 8; ++i) w[i] += offset;
}

// Which threads have which row of the block's input: teams of whole warps, a row each.
struct RowTeam {
  int64_t row, first, step;  // this thread's vectors of its row: every `step` elements from `first`
  int warps;
  bool is_row;

  __device__ __forceinline__ explicit RowTeam(const RowProduct& p) {
    int teams = 1;
    while (teams < p.tokens) teams *= 2;
    const int threads = kThreads / teams;
    warps = kWarps / teams;
    row = static_cast<int>(threadIdx.x) / threads;
    first = static_cast<int>(threadIdx.x) % threads * 8;
    step = threads * 8;
    is_row = row < p.tokens;
  }
};

// What rows are normed with, where a thread holds all its vectors in registers: fetched before the
// kernel's turn.
constexpr int kHeld = 2;
struct HeldNorms {
  float norm[kHeld][8], delta[kHeld][8];

  __device__ __forceinline__ void fetch(const RowProduct& p, const RowTeam& team) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int64_t at = team.first + i * team.step;
      if (!team.is_row || at >= p.in) continue;
      load_weights(p.norm + at, p.norm_offset, norm[i]);
      if (p.delta) load_weights(p.delta_norm + at, p.norm_offset, delta[i]);
    }
  }
};

__device__ __forceinline__ float norm_scale(const RowProduct& p, float squares) {
  return rsqrtf(squares / static_cast<float>(p.in) + p.eps);
}

// The rows of the block's input, normed, in shared memory. The first block writes the sum. All that
// is read is on its way at once.
__device__ __forceinline__ void norm_held_rows(const RowProduct& p,
                                               const RowTeam& team,
                                               const HeldNorms& norms,
                                               uint16_t* staged,
                                               float* scratch) {
  float x[kHeld][8], d[kHeld][8], squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int64_t at = team.first + i * team.step;
    if (!team.is_row || at >= p.in) continue;
    load_floats(p.x[team.row] + at, x[i]);
    if (!p.delta) continue;
    load_floats(p.delta[team.row] + at, d[i]);
#pragma unroll
    for (int k = 0; k < 8; ++k) squares = fmaf(d[i][k], d[i][k], squares);
  }
  float delta_scale = 0.0f;
  if (p.delta) {
    delta_scale = norm_scale(p, sum_of_team(squares, team.warps, scratch));
    squares = 0.0f;
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
    for (int k = 0; k < 8; ++k) squares = fmaf(x[i][k], x[i][k], squares);
  }
  const float scale = norm_scale(p, sum_of_team(squares, team.warps, scratch));
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int64_t at = team.first + i * team.step;
    if (!team.is_row || at >= p.in) continue;
#pragma unroll
    for (int k = 0; k < 8; ++k) x[i][k] *= scale * norms.norm[i][k];
    store_floats(staged + team.row * shared_stride(p.in) + at, x[i]);
  }
  __syncthreads();
}

// The same of rows of any length.
__device__ __forceinline__ void norm_rows(const RowProduct& p,
                                          const RowTeam& team,
                                          uint16_t* staged,
                                          float* scratch) {
  uint16_t* z = staged + team.row * shared_stride(p.in);
  const int64_t end = team.is_row ? p.in : 0;
  float squares = 0.0f, x[8], w[8], d[8];
  float delta_scale = 0.0f;
  if (p.delta) {
    for (int64_t i = team.first; i < end; i += team.step) {
      load_floats(p.delta[team.row] + i, d);
#pragma unroll
      for (int k = 0; k < 8; ++k) squares = fmaf(d[k], d[k], squares);
    }
    delta_scale = norm_scale(p, sum_of_team(squares, team.warps, scratch));
    squares = 0.0f;
  }
  for (int64_t i = team.first; i < end; i += team.step) {
    load_floats(p.x[team.row] + i, x);
    if (p.delta) {
      load_floats(p.delta[team.row] + i, d);
      load_weights(p.delta_norm + i, p.norm_offset, w);
#pragma unroll
      for (int k = 0; k < 8; ++k) x[k] = fmaf(d[k] * delta_scale, w[k], x[k]);
    }
    const Packed<uint16_t, 8> rounded = pack<uint16_t, 8>(x);
    if (p.delta && blockIdx.x == 0) store_packed(p.sum[team.row] + i, rounded);
    store_packed(z + i, rounded);
    unpack(rounded, x);
#pragma unroll
    for (int k = 0; k < 8; ++k) squares = fmaf(x[k], x[k], squares);
  }
  const float scale = norm_scale(p, sum_of_team(squares, team.warps, scratch));
  for (int64_t i = team.first; i < end; i += team.step) {
    load_floats(z + i, x);
    load_weights(p.norm + i, p.norm_offset, w);
#pragma unroll
    for (int k = 0; k < 8; ++k) x[k] *= scale * w[k];
    store_floats(z + i, x);
  }
  __syncthreads();
}

__device__ __forceinline__ float activated(RowActivation activation, float gate) {
  if (activation == RowActivation::kSilu) return gate * sigmoid_for<uint16_t>(gate);
  const float inner = 0.7978845608028654f * fmaf(0.044715f * gate * gate, gate, gate);
  return gate * sigmoid_for<uint16_t>(2.0f * inner);
}

__device__ __forceinline__ void put(const RowProduct& p,
                                    int64_t token,
                                    int64_t column,
                                    float value) {
  if (token >= p.tokens) return;
  if (p.residual) value += to_float(p.residual[token][column]);
  const int64_t at = token * p.y_stride + column;
  if (p.y_is_f32)
    static_cast<float*>(p.y)[at] = value;
  else
    static_cast<uint16_t*>(p.y)[at] = from_float<uint16_t>(value);
}

// c[0], c[1]: this lane's upper row by two tokens; c[2], c[3]: its lower row.
__device__ __forceinline__ void put_tile(const RowProduct& p, int64_t tile, const float (&c)[4]) {
  const TileRows rows = rows_of_tile(p, tile);
  const int64_t token = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (p.activation != RowActivation::kNone) {
      if (rows.has_upper) put(p, token + i, rows.upper, activated(p.activation, c[i]) * c[2 + i]);
      continue;
    }
    if (rows.has_upper) put(p, token + i, rows.upper, c[i]);
    if (rows.has_lower) put(p, token + i, rows.lower, c[2 + i]);
  }
}

// Mapping: a tile of 16 rows of the weight for kSplit warps, which sum its columns in turn; blocks
// walk the tiles. The first weights are fetched before the kernel's turn comes,
// where nobody writes them. Bound: memory, the
// weight once; of small ones latency.
template <int kSplit, bool kNorms>
__global__ void __launch_bounds__(kThreads, 2)
    row_product_kernel(const __grid_constant__ RowProduct p) {
  extern __shared__ uint4 shared[];
  __shared__ float scratch[kWarps];
  __shared__ float parts[kSplit > 1 ? kWarps : 1][kLanes][4];
  const Walk<kSplit> walk(p);
  Fragments next;
  let_next_start();
  if (!p.is_settled) wait_for_grids();
  if (walk.rounds > 0) {
    fetch(p, walk, 0, 0, next);
    prefetch_tile(p, walk);
  }
  auto* staged = reinterpret_cast<uint16_t*>(shared);
  if constexpr (kNorms) {
    const RowTeam team(p);
    if (p.in <= kHeld * team.step) {
      HeldNorms norms;
      norms.fetch(p, team);
      wait_for_grids();
      norm_held_rows(p, team, norms, staged, scratch);
    } else {
      wait_for_grids();
      norm_rows(p, team, staged, scratch);
    }
  } else {
    wait_for_grids();
  }
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t token = lane / 4;
  const bool is_token = token < p.tokens;
  const uint16_t* x =
      kNorms ? staged + (is_token ? token : 0) * shared_stride(p.in) : p.x[is_token ? token : 0];
  x += lane % 4 * 8;
  for (int64_t round = 0; round < walk.rounds; ++round) {
    float c[4] = {};
    for (int64_t batch = 0; batch < walk.batches; ++batch) {
      const Fragments now = next;
      uint4 b[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int64_t chunk = walk.chunk(batch, i);
        b[i] = is_token && chunk < walk.chunks ? *reinterpret_cast<const uint4*>(x + chunk * kChunk)
                                               : uint4{};
      }
      if (batch + 1 < walk.batches)
        fetch(p, walk, round, batch + 1, next);
      else if (round + 1 < walk.rounds)
        fetch(p, walk, round + 1, 0, next);
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
      if (walk.split != 0) continue;
#pragma unroll
      for (int s = 1; s < kSplit; ++s)
#pragma unroll
        for (int i = 0; i < 4; ++i) c[i] += parts[warp + s][lane][i];
    }
    put_tile(p, walk.tile(round), c);
  }
}

template <int kSplit, bool kNorms>
cudaError_t launch_form(const RowProduct& call, cudaStream_t stream) {
  constexpr int64_t kResident = 264;  // two blocks for each of 132 multiprocessors
  constexpr int kGroups = kWarps / kSplit;
  const int64_t tiles = (call.weight_rows + kTile - 1) / kTile;
  const int64_t blocks = std::min((tiles + kGroups - 1) / kGroups, kResident);
  const int64_t bytes =
      kNorms ? call.tokens * shared_stride(call.in) * static_cast<int64_t>(sizeof(uint16_t)) : 0;
  const cudaError_t status =
      cudaFuncSetAttribute(row_product_kernel<kSplit, kNorms>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  return launch_early(row_product_kernel<kSplit, kNorms>, dim3(static_cast<unsigned>(blocks)),
                      kThreads, bytes, stream, call);
}

template <bool kNorms>
cudaError_t launch_split(const RowProduct& call, cudaStream_t stream) {
  // As few warps a tile as keep 16 warps of each multiprocessor busy; of long rows all, so that
  // tiles end together.
  constexpr int64_t kWanted = 132 * 16, kLongRow = 2048;
  const int64_t tiles = (call.weight_rows + kTile - 1) / kTile;
  if (call.in >= kLongRow || tiles * 4 < kWanted) return launch_form<8, kNorms>(call, stream);
  if (tiles * 2 < kWanted) return launch_form<4, kNorms>(call, stream);
  if (tiles < kWanted) return launch_form<2, kNorms>(call, stream);
  return launch_form<1, kNorms>(call, stream);
}

}  // namespace

cudaError_t launch_row_product(const RowProduct& call, cudaStream_t stream) {
  const bool is_long = call.norm != nullptr && call.in > kRowProductMostNormed;
  if (call.in % kChunk != 0 || call.tokens > kRowProductMostTokens || is_long)
    return cudaErrorInvalidValue;
  if (call.tokens == 0 || call.weight_rows == 0 || call.in == 0) return cudaSuccess;
  return call.norm != nullptr ? launch_split<true>(call, stream)
                              : launch_split<false>(call, stream);
}

}  // namespace ridge::backends::cuda
