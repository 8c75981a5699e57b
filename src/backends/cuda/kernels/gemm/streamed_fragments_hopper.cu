// SPDX-License-Identifier: Apache-2.0
// Some tens of rows times a quantized weight in fragment tiles, on Hopper: each warp dequantizes 16
// rows of the weight in registers and multiplies them with all tokens. If there are few rows, a
// cluster of blocks splits the depth and sums through shared memory in the order of the parts, as
// in streamed_gemm_hopper.cu, whose weights are bf16.
#include <algorithm>

#include "backends/cuda/kernels/device_attribute.h"
#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/gemm/fragment_tile.cuh"
#include "backends/cuda/kernels/hopper_instructions.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace fragments;
using hopper::cluster_sync;
using hopper::load_cluster_float4;
using hopper::load_shared_float4;
using hopper::shared_address;
using hopper::store_shared_int;

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kRows = 16 * kWarps;      // rows of the weight of a block
constexpr int kResultStep = kRows + 4;  // in floats; puts tokens on different banks
constexpr int kStages = 3;              // tiles of x in shared memory
constexpr int kMostParts = 8;           // blocks per cluster

struct Arguments {
  FragmentGemm call;
  int columns;  // the columns of y
  int steps;    // tiles of the whole depth
  int parts;    // parts of the depth: blocks per cluster
};

// The shared memory of a block: a ring of x's tiles, with their sums in each block of columns for
// formats with mins.
template <class Lane, int kTokensOfTile>
struct Buffers {
  static constexpr int kTokens = kTokensOfTile, kGroups = kTokens / 8;
  static constexpr int kBlocks = kColumns / Lane::kScaleColumns;
  // Rows of tokens start on different banks for the vectors that a lane loads.
  static constexpr int kStride = kColumns + (Lane::kScaleColumns == 32 ? 32 : 16);
  static constexpr int kXBytes = kTokens * kStride * 2;
  static constexpr int kSumBytes = Lane::kHasMins ? kBlocks * kTokens * 4 : 0;
  static constexpr int kBytes = std::max(kStages * (kXBytes + kSumBytes), kTokens* kResultStep * 4);

  std::byte* base;
  __device__ uint16_t* x(int stage) const {
    return reinterpret_cast<uint16_t*>(base + stage * kXBytes);
  }
  __device__ uint32_t* pairs(int stage) const {  // [token, block % 4, block / 4]
    return reinterpret_cast<uint32_t*>(base + kStages * kXBytes + stage * kSumBytes);
  }

  // Starts the copy of a tile of x.
  __device__ __forceinline__ void copy(int stage, const SkinnyGemm& p, int step) const {
    constexpr int kVectors = kColumns / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kTokens * kVectors; i += kThreads) {
      const int token = i / kVectors, column = i % kVectors * 8;
      if (token >= p.tokens) break;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                       shared_address(x(stage) + token * kStride + column)),
                   "l"(p.x[token] + int64_t{step} * kColumns + column)
                   : "memory");
    }
  }
  // The sums of a tile that has arrived, a token per warp at a time, as two bf16 that add up to
  // them.
  __device__ __forceinline__ void add_up(int stage, int tokens) const {
    if constexpr (Lane::kHasMins) {
      constexpr int kLanesOfBlock = Lane::kScaleColumns / 8;
      const int lane = static_cast<int>(threadIdx.x) % 32, block = lane / kLanesOfBlock;
#pragma unroll
      for (int i = 0; i < kTokens / kWarps; ++i) {
        const int token = i * kWarps + static_cast<int>(threadIdx.x) / 32;
        if (token >= tokens) break;
        float v[8];
        load_floats(x(stage) + token * kStride + 8 * lane, v);
        float sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
#pragma unroll
        for (int mask = 1; mask < kLanesOfBlock; mask *= 2) sum += shuffle_xor(sum, mask);
        if (lane % kLanesOfBlock != 0) continue;
        const float high = to_float(from_float<uint16_t>(sum));
        pairs(stage)[(token * 4 + block % 4) * 2 + block / 4] = pack_bf16(high, sum - high);
      }
    }
  }
};

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;"); }
template <int kLeft>
__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// The left operand of a product without the quants' offset: for tens of tokens that costs less than
// accumulators that start at their sums.
template <class Lane>
__device__ __forceinline__ void exact_operand(const Lane& upper,
                                              const Lane& lower,
                                              int word,
                                              int i,
                                              uint32_t offset,
                                              uint32_t (&a)[4]) {
  left_operand(upper, lower, word, i, offset, a);
  const __nv_bfloat162 minus = __float2bfloat162_rn(-Lane::kOffset);
#pragma unroll
  for (uint32_t& pair : a) {
    const __nv_bfloat162 quants = __hadd2(reinterpret_cast<const __nv_bfloat162&>(pair), minus);
    pair = reinterpret_cast<const uint32_t&>(quants);
  }
}

// sum += the warp's tile of 16 rows times all tokens' columns in a stage. The products of several
// tokens are independent and follow each other.
template <class Lane, class Shared>
__device__ __forceinline__ void multiply(const Lane& upper,
                                         const Lane& lower,
                                         const Shared& shared,
                                         int stage,
                                         float (&sum)[Shared::kGroups][4]) {
  constexpr int kSteps = Lane::kScaleColumns / 16;  // products of 16 columns per block
  constexpr int kAtOnce = Shared::kGroups < 4 ? Shared::kGroups : 4;
  const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
  const Scales above(upper), below(lower);
  const uint16_t* x = shared.x(stage) + lane / 4 * Shared::kStride + (kSteps == 2 ? 8 : 4) * t;
  const uint32_t offset = offset_pair();
#pragma unroll
  for (int block = 0; block < Shared::kBlocks; ++block) {
    const float scale_above = above.template of<Lane>(block),
                scale_below = below.template of<Lane>(block);
    uint32_t a[kSteps][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      exact_operand(upper, lower, kSteps == 2 ? block : block / 2,
                    2 * (kSteps == 2 ? step : block % 2), offset, a[step]);
#pragma unroll
    for (int first = 0; first < Shared::kGroups; first += kAtOnce) {
      uint32_t b[kAtOnce][2 * kSteps];
      float c[kAtOnce][4] = {};
#pragma unroll
      for (int g = 0; g < kAtOnce; ++g) {
        const auto own = load_packed<8 * kSteps / 2>(x + (first + g) * 8 * Shared::kStride +
                                                     Lane::kScaleColumns * block);
        split_word(own.words[0], b[g]);
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int g = 0; g < kAtOnce; ++g)
          warp_product(c[g], a[step], b[g][2 * step], b[g][2 * step + 1]);
#pragma unroll
      for (int g = 0; g < kAtOnce; ++g) add_scaled(scale_above, scale_below, c[g], sum[first + g]);
    }
  }
  if constexpr (Lane::kHasMins)
#pragma unroll
    for (int group = 0; group < Shared::kGroups; ++group)
      subtract_mins(upper, lower,
                    *reinterpret_cast<const uint2*>(shared.pairs(stage) +
                                                    ((group * 8 + lane / 4) * 4 + t) * 2),
                    sum[group]);
}

// The block's rows of the weight and its tiles of the depth.
struct Share {
  int part, row, begin, count, upper, lower;  // row blocks of this warp
  bool is_gated;
  __device__ __forceinline__ explicit Share(const Arguments& p)
      : part(static_cast<int>(blockIdx.x) % p.parts),
        begin(part * p.steps / p.parts),
        count((part + 1) * p.steps / p.parts - begin),
        is_gated(p.call.product.activation != GemmActivation::kNone) {
    const int tile = static_cast<int>(blockIdx.x) / p.parts,
              warp = static_cast<int>(threadIdx.x) / 32;
    const int last = static_cast<int>(p.call.product.weight_rows / kFragmentRows) - 1;
    row = tile * (is_gated ? kRows / 2 : kRows);
    const int first = row / static_cast<int>(kFragmentRows);
    upper = first + (is_gated ? warp : 2 * warp);
    lower = is_gated ? upper + (last + 1) / 2 : upper + 1;
    // Rows after the last are read for nothing.
    upper = min(upper, last), lower = min(lower, last);
  }
  // Where the rows of this warp's sums are in the block's result.
  __device__ __forceinline__ int result_row(bool is_upper) const {
    const int warp = static_cast<int>(threadIdx.x) / 32,
              own = static_cast<int>(threadIdx.x) % 32 / 4;
    if (is_gated) return warp * 8 + own + (is_upper ? 0 : kRows / 2);
    return warp * 16 + own + (is_upper ? 0 : 8);
  }
};

template <class Lane>
__device__ __forceinline__ void fetch(const Arguments& p,
                                      const Share& work,
                                      int i,
                                      Lane& upper,
                                      Lane& lower) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto tile = [&](int block) {
    return p.call.weight + (int64_t{block} * p.steps + work.begin + i) *
                               static_cast<int64_t>(sizeof(typename Lane::Tile));
  };
  upper.load(tile(work.upper), lane);
  lower.load(tile(work.lower), lane);
}

// Sums the parts of four neighbouring results.
__device__ __forceinline__ float4 total_of(uint32_t base, int parts, int token, int row) {
  const uint32_t at = base + 4 * static_cast<uint32_t>(token * kResultStep + row);
  if (parts == 1) return load_shared_float4(at);
  float4 sum = load_cluster_float4(at, 0);
  for (int i = 1; i < parts; ++i) {
    const float4 part = load_cluster_float4(at, i);
    sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
  }
  return sum;
}

// The factor of x in a gated activation, as in pointwise/glu.cu.
__device__ __forceinline__ float gated(GemmActivation activation, float x, float up) {
  const float u = activation == GemmActivation::kSilu
                      ? x
                      : x * fmaf(x * x, 1.5957691216057308f * 0.044715f, 1.5957691216057308f);
  return x * up / (1.0f + hopper::exp2_fast(-1.4426950408889634f * u));
}

// Stores the result through shared memory: each block of a cluster sums and writes its share.
template <class Shared>
__device__ __forceinline__ void store(const Arguments& p,
                                      const Shared& shared,
                                      const Share& work,
                                      const float (&sum)[Shared::kGroups][4]) {
  const SkinnyGemm& y = p.call.product;
  const int thread = static_cast<int>(threadIdx.x), t = thread % 4;
  const uint32_t base = shared_address(shared.base);
#pragma unroll
  for (int group = 0; group < Shared::kGroups; ++group)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      store_shared_int(base + 4 * static_cast<uint32_t>((8 * group + 2 * t + c % 2) * kResultStep +
                                                        work.result_row(c < 2)),
                       __float_as_int(sum[group][c]));
  if (p.parts > 1)
    cluster_sync();
  else
    __syncthreads();
  const int quads = (work.is_gated ? kRows / 2 : kRows) / 4;
  for (int i = work.part * kThreads + thread; i < y.tokens * quads; i += p.parts * kThreads) {
    const int token = i / quads, row = i % quads * 4, column = work.row + row;
    if (column >= p.columns) continue;
    float4 v = total_of(base, p.parts, token, row);
    if (work.is_gated) {
      const float4 up = total_of(base, p.parts, token, kRows / 2 + row);
      v = make_float4(gated(y.activation, v.x, up.x), gated(y.activation, v.y, up.y),
                      gated(y.activation, v.z, up.z), gated(y.activation, v.w, up.w));
    }
    const int64_t to = token * y.y_stride + column;
    if (y.y_is_f32)
      *reinterpret_cast<float4*>(static_cast<float*>(y.y) + to) = v;
    else
      *reinterpret_cast<uint2*>(static_cast<uint16_t*>(y.y) + to) =
          make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
  }
  if (p.parts > 1) cluster_sync();  // other blocks may still read this memory
}

// Mapping: one block per 128 rows of the weight (64 gates and what they multiply, with an
// activation) and part of the depth, for all tokens; a warp per 16 rows. Bound: memory, the weight
// once; beside it the L2 cache delivers 4 N / 4.5 / 128 of its bytes as x, and with 32 tokens the
// tensor cores and the issue of instructions take about as long as memory.
template <class Lane, int kTokens>
__global__ void __launch_bounds__(kThreads, 2)
    streamed_fragments_kernel(const __grid_constant__ Arguments p) {
  extern __shared__ uint4 memory[];
  using Shared = Buffers<Lane, kTokens>;
  const Shared shared{reinterpret_cast<std::byte*>(memory)};
  const Share work(p);
  const SkinnyGemm& product = p.call.product;
  const int tokens = static_cast<int>(product.tokens);
  Lane upper, lower;
  let_next_start();
  if (!product.is_ready_early) wait_for_grids();
  fetch(p, work, 0, upper, lower);
  wait_for_grids();
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < work.count) shared.copy(i, product, work.begin + i);
    commit_copies();
  }
  await_copies<kStages - 2>();
  __syncthreads();
  shared.add_up(0, tokens);
  float sum[Shared::kGroups][4] = {};
  for (int i = 0; i < work.count; ++i) {
    // The next tile of x has arrived; all warps are done with the one before this.
    await_copies<0>();
    __syncthreads();
    if (i + 2 < work.count) shared.copy((i + 2) % kStages, product, work.begin + i + 2);
    commit_copies();
    Lane next_upper = upper, next_lower = lower;
    if (i + 1 < work.count) {
      fetch(p, work, i + 1, next_upper, next_lower);
      shared.add_up((i + 1) % kStages, tokens);
    }
    multiply(upper, lower, shared, i % kStages, sum);
    upper = next_upper, lower = next_lower;
  }
  __syncthreads();
  store(p, shared, work, sum);
}

// The parts with which the busiest multiprocessor is done first. A block takes about as long as one
// and a half tiles of the depth to start and to sum.
int best_parts(int tiles, int steps) {
  constexpr int kMultiprocessors = 132;
  constexpr double kStart = 1.5;
  int best = 1;
  double least = 1e30;
  for (int parts = 1; parts <= std::min(kMostParts, steps); ++parts) {
    const int rounds = (tiles * parts + kMultiprocessors - 1) / kMultiprocessors;
    const double time = rounds * (static_cast<double>(steps) / parts + kStart);
    if (time < least) least = time, best = parts;
  }
  return best;
}

template <class Lane, int kTokens>
cudaError_t launch(const Arguments& p, int tiles, cudaStream_t stream) {
  const auto kernel = streamed_fragments_kernel<Lane, kTokens>;
  constexpr int kBytes = Buffers<Lane, kTokens>::kBytes;
  static const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  return launch_clusters_early(kernel, dim3(static_cast<unsigned>(tiles * p.parts)), p.parts,
                               kThreads, kBytes, stream, p);
}

}  // namespace

bool takes_streamed_fragments(const FragmentGemm& call) {
  const SkinnyGemm& p = call.product;
  const int64_t step = kFragmentRows * (p.activation == GemmActivation::kNone ? 1 : 2);
  return device_attribute(cudaDevAttrComputeCapabilityMajor) == 9 &&
         p.tokens <= kStreamedFragmentsMostTokens && p.norm == nullptr && !p.residual &&
         p.in % kFragmentColumns == 0 && p.in > 0 && p.weight_rows % step == 0 &&
         p.weight_rows > 0 && p.x.stride % 8 == 0 && p.y_stride % 4 == 0;
}

cudaError_t launch_streamed_fragments(const FragmentGemm& call, cudaStream_t stream) {
  const SkinnyGemm& p = call.product;
  if (!takes_streamed_fragments(call)) return cudaErrorInvalidValue;
  if (p.tokens == 0) return cudaSuccess;
  Arguments arguments{call, 0, static_cast<int>(p.in / kFragmentColumns), 1};
  arguments.columns =
      static_cast<int>(p.activation == GemmActivation::kNone ? p.weight_rows : p.weight_rows / 2);
  const int tiles = static_cast<int>((p.weight_rows + kRows - 1) / kRows);
  arguments.parts = best_parts(tiles, arguments.steps);
  return with_lane(call.format, [&](auto lane) {
    using Lane = decltype(lane);
    if (p.tokens <= 16) return launch<Lane, 16>(arguments, tiles, stream);
    return launch<Lane, 32>(arguments, tiles, stream);
  });
}

}  // namespace ridge::backends::cuda
