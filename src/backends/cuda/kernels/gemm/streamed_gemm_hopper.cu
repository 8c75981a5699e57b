// SPDX-License-Identifier: Apache-2.0
// The kernel of streamed_gemm.h, for Hopper only.
//
// The weight's rows are the rows of the product and the tokens its columns, so that some tens of
// tokens fill the tensor cores' tiles. One warp keeps the copy engine (TMA) busy; two warpgroups
// multiply 64 rows of the weight each. If there are few rows, a cluster of blocks splits the depth
// and sums through shared memory in the order of the parts.
#include <algorithm>

#include "backends/cuda/kernels/device_attribute.h"
#include "backends/cuda/kernels/gemm/streamed_gemm.h"
#include "backends/cuda/kernels/gemm/wgmma_product.cuh"
#include "backends/cuda/kernels/tensor_map.h"

namespace ridge::backends::cuda {
namespace {

using namespace hopper;

constexpr int kOwnRows = 64;  // rows of the weight of a warpgroup
constexpr int kRows = 2 * kOwnRows;
constexpr int kDepth = 64;  // depth of one step
constexpr int kMultiplying = 2 * kWarpgroupThreads;
constexpr int kThreads = kMultiplying + 32;
constexpr int kMostParts = 6;           // blocks per cluster
constexpr int kResultStep = kRows + 4;  // in floats; puts tokens on different banks

struct Arguments {
  CUtensorMap x, weight;
  void* y;
  int64_t y_stride;
  int tokens, columns;  // the extents of y
  int steps;            // steps of the whole depth
  int parts;            // parts of the depth: blocks per cluster
  int half;             // rows from the gates to what they multiply; without an activation 64
  bool is_ready_early, y_is_f32;
};

template <int kTokensOfTile, int kSlotCount>
struct Tile {
  static constexpr int kTokens = kTokensOfTile, kSlots = kSlotCount;
  static constexpr int kWeightBytes = kRows * kDepth * 2, kXBytes = kTokens * kDepth * 2;
  static constexpr int kSlotBytes = kWeightBytes + kXBytes;
  static constexpr int kBarrierOffset = kSlots * kSlotBytes;
  static constexpr int kSharedBytes = kBarrierOffset + 16 * kSlots;
  static_assert(kTokens * kResultStep * 4 <= kBarrierOffset, "the result lies where operands did");

  uint32_t base;
  __device__ uint32_t weight(int slot) const { return base + slot * kSlotBytes; }
  __device__ uint32_t x(int slot) const { return weight(slot) + kWeightBytes; }
  __device__ uint32_t full(int slot) const { return base + kBarrierOffset + 8 * slot; }
  __device__ uint32_t empty(int slot) const { return full(kSlots + slot); }
};

// The block's rows of the weight and its steps of the depth.
struct DepthPart {
  int part, row, begin, count;
  __device__ __forceinline__ DepthPart(const Arguments& p, int rows_of_tile)
      : part(static_cast<int>(blockIdx.x) % p.parts),
        row(static_cast<int>(blockIdx.x) / p.parts * rows_of_tile),
        begin(part * p.steps / p.parts),
        count((part + 1) * p.steps / p.parts - begin) {}
};

// The copies, made by one thread. The weight's first tiles are on their way before the previous
// kernels end, x only afterwards.
template <class Tile>
struct Copies {
  const Arguments& p;
  const Tile& tile;
  const DepthPart& work;

  __device__ __forceinline__ int column(int step) const { return (work.begin + step) * kDepth; }

  __device__ __forceinline__ void weight(int slot, int step) const {
    barrier_expect(tile.full(slot), Tile::kSlotBytes);
    copy_in_2d(tile.weight(slot), &p.weight, tile.full(slot), column(step), work.row);
    copy_in_2d(tile.weight(slot) + kOwnRows * kRowBytes, &p.weight, tile.full(slot), column(step),
               work.row + p.half);
  }
  __device__ __forceinline__ void x(int slot, int step) const {
    copy_in_2d(tile.x(slot), &p.x, tile.full(slot), column(step), 0);
  }
  __device__ __forceinline__ void run() const {
    const int first = min(work.count, Tile::kSlots);
    if (!p.is_ready_early) grid_wait();
    for (int i = 0; i < first; ++i) weight(i, i);
    grid_wait();
    for (int i = 0; i < first; ++i) x(i, i);
    Ring<Tile::kSlots> ring;
    for (int i = first; i < work.count; ++i, ring.advance()) {
      barrier_wait(tile.empty(ring.slot), ring.parity);
      weight(ring.slot, i);
      x(ring.slot, i);
    }
  }
};

template <class Tile>
__device__ __forceinline__ void multiply(const Tile& tile,
                                         int count,
                                         int warpgroup,
                                         float (&sum)[Tile::kTokens / 2]) {
  Ring<Tile::kSlots> ring;
  for (int i = 0; i < count; ++i, ring.advance()) {
    const int slot = ring.slot;
    barrier_wait(tile.full(slot), ring.parity);
    const uint64_t weight = by_columns(tile.weight(slot) + warpgroup * kOwnRows * kRowBytes),
                   x = by_columns(tile.x(slot));
    product_fence();
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step)
      Product<Tile::kTokens>::template shared<0, 0>(sum, weight + column_step<kOwnRows>(step),
                                                    x + column_step<Tile::kTokens>(step), 1);
    product_commit();
    product_wait<1>();
    if (i > 0) barrier_arrive(tile.empty(slot == 0 ? Tile::kSlots - 1 : slot - 1));
  }
  product_wait<0>();
  pin(sum);
}

__device__ __forceinline__ float4 plus(const float4& x, const float4& y) {
  return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

// Sums the parts of four neighbouring results.
template <class Tile>
__device__ __forceinline__ float4 total_of(const Tile& tile, int parts, int token, int row) {
  const uint32_t at = tile.base + 4 * static_cast<uint32_t>(token * kResultStep + row);
  if (parts == 1) return load_shared_float4(at);
  float4 x[kMostParts];
#pragma unroll
  for (int i = 0; i < kMostParts; ++i)
    if (i < parts) x[i] = load_cluster_float4(at, i);
  float4 sum = x[0];
#pragma unroll
  for (int i = 1; i < kMostParts; ++i)
    if (i < parts) sum = plus(sum, x[i]);
  return sum;
}

// The factor of x in a gated activation, as in pointwise/glu.cu.
template <GemmActivation kActivation>
__device__ __forceinline__ float gated(float x, float up) {
  float u = x;
  if constexpr (kActivation == GemmActivation::kGeluTanh)
    u = x * fmaf(x * x, 1.5957691216057308f * 0.044715f, 1.5957691216057308f);
  return x * up / (1.0f + exp2_fast(-1.4426950408889634f * u));
}

// Stores the result through shared memory: each block of a cluster sums and writes its share.
template <GemmActivation kActivation, class Tile>
__device__ __forceinline__ void store(const Arguments& p,
                                      const Tile& tile,
                                      DepthPart work,
                                      int warpgroup,
                                      const float (&sum)[Tile::kTokens / 2]) {
  constexpr bool kGated = kActivation != GemmActivation::kNone;
  constexpr int kColumns = kGated ? kOwnRows : kRows, kQuads = kColumns / 4;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  named_sync(1, kMultiplying);  // both warpgroups have read the operands in this memory
  const int own = warpgroup * kOwnRows + thread % kWarpgroupThreads / 32 * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < Tile::kTokens / 8; ++j)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      store_shared_int(
          tile.base + 4 * static_cast<uint32_t>((8 * j + lane % 4 * 2 + c % 2) * kResultStep + own +
                                                c / 2 * 8),
          __float_as_int(sum[4 * j + c]));
  if (p.parts > 1)
    cluster_sync();
  else
    named_sync(1, kMultiplying);
  const auto total = [&](int token, int row) { return total_of(tile, p.parts, token, row); };
  for (int i = work.part * kMultiplying + thread; i < p.tokens * kQuads;
       i += p.parts * kMultiplying) {
    const int token = i / kQuads, row = i % kQuads * 4, column = work.row + row;
    if (column >= p.columns) continue;
    float4 v = total(token, row);
    if constexpr (kGated) {
      const float4 up = total(token, kOwnRows + row);
      v = make_float4(gated<kActivation>(v.x, up.x), gated<kActivation>(v.y, up.y),
                      gated<kActivation>(v.z, up.z), gated<kActivation>(v.w, up.w));
    }
    const int64_t to = token * p.y_stride + column;
    if (p.y_is_f32)
      *reinterpret_cast<float4*>(static_cast<float*>(p.y) + to) = v;
    else
      *reinterpret_cast<uint2*>(static_cast<uint16_t*>(p.y) + to) =
          make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
  }
  if (p.parts > 1) cluster_sync();  // other blocks may still read this memory
}

// Mapping: one block per 128 rows of the weight (64 gates and what they multiply, with an
// activation) and part of the depth, for all tokens. Bound: memory, the weight once; beside it the
// L2 cache delivers N / 128 of its bytes as x, and 3 to 4 us pass from the end of the kernel before
// to x, in the sum over a cluster and in the stores. The four products of a layer of 121 MB, one
// after the other with 16, 32 and 64 tokens, read at 69, 66 and 59% of an H200's rate (39.0, 40.4
// and 45.3 us); with 128 tokens cuBLASLt is faster (52 us, and 56 here).
template <GemmActivation kActivation, class Tile>
__global__ void __launch_bounds__(kThreads, 1)
    streamed_gemm_kernel(const __grid_constant__ Arguments p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) uint8_t shared[];
  const Tile tile{shared_address(shared)};
  const DepthPart work(p, kActivation == GemmActivation::kNone ? kRows : kOwnRows);
  const int warpgroup =
      __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (threadIdx.x == kMultiplying) {
    prefetch_map(&p.weight);
    prefetch_map(&p.x);
    for (int slot = 0; slot < Tile::kSlots; ++slot) {
      barrier_init(tile.full(slot), 1);
      barrier_init(tile.empty(slot), kMultiplying);
    }
    barrier_init_fence();
  }
  __syncthreads();
  grid_launch_dependents();
  if (warpgroup == 2) {
    if (threadIdx.x == kMultiplying) Copies<Tile>{p, tile, work}.run();
    if (p.parts > 1) {
      cluster_sync();
      cluster_sync();
    }
  } else {
    grid_wait();
    float sum[Tile::kTokens / 2];
#pragma unroll
    for (int i = 0; i < Tile::kTokens / 2; ++i) sum[i] = 0.0f;
    pin(sum);
    multiply(tile, work.count, warpgroup, sum);
    store<kActivation>(p, tile, work, warpgroup, sum);
  }
#else
  __trap();
#endif
}

// The blocks of a launch run at once: one per multiprocessor with 112 to 128 KiB of the weight in
// flight, or two with less each. Clusters leave some multiprocessors out, because they run within a
// group of them (GPC).
constexpr int kAlone = 132, kInPairs = 2 * kAlone, kMostInClusters = 100;

// More parts than that have less to do than a cluster takes to sum (measured from 64 to 512 KiB of
// a weight per block).
int best_parts(int tiles, int steps) {
  constexpr int kLeastSteps = 8;
  return std::clamp(std::min(kMostInClusters / tiles, steps / kLeastSteps), 1, kMostParts);
}

template <GemmActivation kActivation, class Tile>
cudaError_t launch(const Arguments& p, int tiles, cudaStream_t stream) {
  const auto kernel = streamed_gemm_kernel<kActivation, Tile>;
  static const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes);
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(p.parts), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(tiles * p.parts));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = Tile::kSharedBytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = p.parts > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, p);
}

template <GemmActivation kActivation>
cudaError_t launch_for(const Arguments& p, int tiles, cudaStream_t stream) {
  const bool is_alone = tiles * p.parts <= kAlone;
  if (p.tokens <= 32)
    return is_alone ? launch<kActivation, Tile<32, 8>>(p, tiles, stream)
                    : launch<kActivation, Tile<32, 5>>(p, tiles, stream);
  return is_alone ? launch<kActivation, Tile<64, 7>>(p, tiles, stream)
                  : launch<kActivation, Tile<64, 4>>(p, tiles, stream);
}

int tile_tokens(int64_t tokens) { return tokens <= 32 ? 32 : 64; }

int64_t columns_of(const StreamedGemm& call) {
  return call.activation == GemmActivation::kNone ? call.weight_rows : call.weight_rows / 2;
}
int tiles_of(const StreamedGemm& call) {
  const int rows = call.activation == GemmActivation::kNone ? kRows : kOwnRows;
  return static_cast<int>((columns_of(call) + rows - 1) / rows);
}

}  // namespace

bool takes_streamed_gemm(const StreamedGemm& call) {
  constexpr int64_t kMostExtent = int64_t{1} << 24;
  const auto lies_in_vectors = [](const void* data, int64_t stride) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride > 0 && stride % 8 == 0;
  };
  const int64_t columns = columns_of(call);
  return has_warpgroups() && call.tokens > 0 && call.tokens <= kStreamedGemmMostTokens &&
         call.in > 0 && call.in % 8 == 0 && call.in < kMostExtent && columns > 0 &&
         columns % 8 == 0 && call.weight_rows < kMostExtent && tiles_of(call) <= kInPairs &&
         lies_in_vectors(call.x.data, call.x.stride) &&
         lies_in_vectors(call.weight.data, call.weight.stride) &&
         lies_in_vectors(call.y, call.y_stride);
}

cudaError_t launch_streamed_gemm(const StreamedGemm& call, cudaStream_t stream) {
  if (!takes_streamed_gemm(call)) return cudaErrorInvalidValue;
  const bool is_gated = call.activation != GemmActivation::kNone;
  Arguments p{};
  p.y = call.y;
  p.y_stride = call.y_stride;
  p.tokens = static_cast<int>(call.tokens);
  p.columns = static_cast<int>(columns_of(call));
  p.steps = static_cast<int>((call.in + kDepth - 1) / kDepth);
  p.half = is_gated ? p.columns : kOwnRows;
  p.is_ready_early = call.is_ready_early;
  p.y_is_f32 = call.y_is_f32;
  const int tiles = tiles_of(call);
  p.parts = best_parts(tiles, p.steps);
  if (!encode_rows(&p.x, call.x, call.tokens, call.in, tile_tokens(call.tokens)) ||
      !encode_rows(&p.weight, call.weight, call.weight_rows, call.in, kOwnRows))
    return cudaErrorInvalidValue;
  switch (call.activation) {
    case GemmActivation::kSilu:
      return launch_for<GemmActivation::kSilu>(p, tiles, stream);
    case GemmActivation::kGeluTanh:
      return launch_for<GemmActivation::kGeluTanh>(p, tiles, stream);
    default:
      return launch_for<GemmActivation::kNone>(p, tiles, stream);
  }
}

}  // namespace ridge::backends::cuda
