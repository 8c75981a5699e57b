// SPDX-License-Identifier: Apache-2.0
// The kernels of fragment_gemm_hopper.h.
//
// A first kernel converts the tokens to fp16 with a power of two each, in the order of the lanes'
// elements. In the second the weight's rows are the rows of the product: a warp dequantizes 16 of
// them in registers, which are the left operand of its warpgroup's product, from its own ring of
// copies. A further thread keeps the copy engine (TMA) busy with the tokens. If there are few rows,
// a cluster of blocks divides the depth and sums through shared memory in the order of the parts.
#include "backends/cuda/kernels/gemm/fragment_gemm_hopper.h"

#include <algorithm>
#include <array>

#include "backends/cuda/kernels/device_attribute.h"
#include "backends/cuda/kernels/gemm/fragment_shares.cuh"
#include "backends/cuda/kernels/gemm/skinny_gemm_tile.cuh"
#include "backends/cuda/kernels/gemm/wgmma_product.cuh"
#include "backends/cuda/kernels/tensor_map.h"

namespace ridge::backends::cuda {
namespace skinny_gemm::warpgroups {
namespace {

using namespace fragments;
using namespace hopper;

constexpr int kGroupWarps = 4;
constexpr int kMultiplyingGroups = 3;
constexpr int kUnits = kMultiplyingGroups * kGroupWarps;  // tiles of 16 rows of a block
constexpr int kThreads = (kMultiplyingGroups + 1) * kWarpgroupThreads;
constexpr int kMostBytes = 225 << 10;

// The tokens as the product reads them.
struct Tokens {
  uint16_t* x;      // [tokens, in] fp16, of every 32 columns in the order of the lanes' elements
  uint32_t* pairs;  // [in / 256, kTokens / 8, 2, 8, 4]: a sum of 32 columns as two fp16
  float* scales;    // [kTokens]: what fp16 is multiplied by
  int most_tokens;  // kTokens
};

// A block's shared memory: slots of the tokens' columns (as in wgmma_product.cuh) and of the sums
// of their blocks of 32 columns; barriers; the warps' rings.
template <class LaneType, int kTokenCount>
struct Form {
  using Lane = LaneType;
  static constexpr int kTokens = kTokenCount, kSums = kTokens / 2;
  static constexpr int kSlots = kTokens == 64 ? 3 : 4;
  static constexpr int kTileBytes = sizeof(typename Lane::Tile), kCopyBytes = 2 * kTileBytes;
  static constexpr int kXBytes = kTokens * kColumns * 2;
  static constexpr int kPairBytes = Lane::kHasMins ? kTokens * kWords * 4 : 0;
  static constexpr int kPairsAt = kSlots * kXBytes, kBarriersAt = kPairsAt + kSlots * kPairBytes,
                       kRingsAt = kBarriersAt + 16 * kSlots;
  static constexpr int kDepth = std::clamp((kMostBytes - kRingsAt) / (kUnits * kCopyBytes), 1, 4);
  static constexpr int kBytes = kRingsAt + kUnits * kDepth * kCopyBytes;
  static_assert(kBytes <= kMostBytes);
  static_assert(kUnits * kSums * kLanes * 4 <= kBytes, "sums lie where operands did");

  uint32_t base;
  __device__ uint32_t x(int slot) const { return base + slot * kXBytes; }
  __device__ uint32_t pairs(int slot) const { return base + kPairsAt + slot * kPairBytes; }
  __device__ uint32_t full(int slot) const { return base + kBarriersAt + 8 * slot; }
  __device__ uint32_t empty(int slot) const { return full(kSlots + slot); }
  __device__ uint32_t sums(int unit, int group) const {
    return base +
           ((unit * kTokens / 8 + group) * kLanes + static_cast<int>(threadIdx.x) % kLanes) * 16;
  }
};

// The block's rows of the weight, in units of 16, and its part of the depth.
struct Share {
  Depth depth;
  int part, first, units;
  __device__ __forceinline__ explicit Share(const Arguments& p)
      : depth(static_cast<int>(blockIdx.x) & (p.parts() - 1), p),
        part(static_cast<int>(blockIdx.x) & (p.parts() - 1)) {
    const int cluster = static_cast<int>(blockIdx.x) >> p.shift;
    first = cluster * p.each + min(cluster, p.more);
    units = p.each + (cluster < p.more ? 1 : 0);
  }
  // The warps of the warpgroups that have units; some of the last one's may have none.
  __device__ __forceinline__ int warps() const {
    return (units + kGroupWarps - 1) / kGroupWarps * kGroupWarps;
  }
};

// ---- tokens ----

constexpr int kConverting = 256;

// A thread's 32 columns of a token.
struct Columns {
  uint32_t words[4][4];  // [vector, pair]

  __device__ __forceinline__ explicit Columns(const uint16_t* from) {
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const uint4 bits = *reinterpret_cast<const uint4*>(from + 8 * v);
#pragma unroll
      for (int q = 0; q < 4; ++q) words[v][q] = word_of(bits, q);
    }
  }
  // The bits of the largest magnitude.
  __device__ __forceinline__ uint32_t largest() const {
    constexpr uint32_t kMagnitudes = 0x7fff7fffu;
    uint32_t most = 0;
#pragma unroll
    for (int v = 0; v < 4; ++v)
#pragma unroll
      for (int q = 0; q < 4; ++q) most = __vmaxu2(most, words[v][q] & kMagnitudes);
    return max(most & 0xffffu, most >> 16);
  }
  // Stores them times the factor, and returns their sum.
  __device__ __forceinline__ float convert(float factor, uint16_t* to) const {
    float sums[4] = {};
    uint32_t turned[4][4];
#pragma unroll
    for (int v = 0; v < 4; ++v)
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const float low = __uint_as_float(words[v][q] << 16) * factor,
                    high = __uint_as_float(words[v][q] & 0xffff0000u) * factor;
        turned[q][v] = pack_f16(low, high);
        sums[q] += low + high;
      }
#pragma unroll
    for (int q = 0; q < 4; ++q)
      *reinterpret_cast<uint4*>(to + 8 * q) =
          make_uint4(turned[q][0], turned[q][1], turned[q][2], turned[q][3]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

// Mapping: a block per token, a thread per 32 columns. Bound: launch. The largest element of a
// token is below 2^10 then, so sums of 32 are finite too.
__global__ void __launch_bounds__(kConverting)
    convert_tokens_kernel(const __grid_constant__ SkinnyGemm product,
                          const __grid_constant__ Tokens to) {
  constexpr uint32_t kLeast = 10, kTop = 9;
  __shared__ uint32_t of_warps[kConverting / kLanes];
  let_next_start();
  wait_for_grids();
  const int token = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x),
            blocks = static_cast<int>(product.in / 32);
  const uint16_t* row = product.x[token];
  uint32_t most = 0;
  for (int block = thread; block < blocks; block += kConverting)
    most = max(most, Columns(row + 32 * block).largest());
  most = __reduce_max_sync(0xffffffffu, most);
  if (thread % kLanes == 0) of_warps[thread / kLanes] = most;
  __syncthreads();
  for (const uint32_t each : of_warps) most = max(most, each);
  const uint32_t exponent = max(most >> 7, kLeast);
  const float factor = __uint_as_float((254 + kTop - exponent) << 23);
  for (int block = thread; block < blocks; block += kConverting) {
    const float sum =
        Columns(row + 32 * block).convert(factor, to.x + token * product.in + 32 * block);
    const float high = __half2float(__float2half_rn(sum));
    const int tile = block / kWords, within = block % kWords;
    to.pairs[(((tile * to.most_tokens / 8 + token / 8) * 2 + within / 4) * 8 + token % 8) * 4 +
             within % 4] = pack_f16(high, sum - high);
  }
  if (thread == 0) to.scales[token] = __uint_as_float((exponent - kTop) << 23);
}

// Copies the tokens' columns to the slots. Called by one thread.
template <class Form>
__device__ __forceinline__ void copy_tokens(const CUtensorMap* map,
                                            const Tokens& tokens,
                                            const Form& memory,
                                            const Share& work) {
  Ring<Form::kSlots> ring;
  for (int step = 0; step < work.depth.steps; ++step, ring.advance()) {
    const int slot = ring.slot, tile = work.depth.begin + step;
    barrier_wait(memory.empty(slot), ring.parity ^ 1);
    barrier_expect(memory.full(slot), Form::kXBytes + Form::kPairBytes);
    for (int i = 0; i < kColumns / kChunkColumns; ++i)
      copy_in_2d(memory.x(slot) + static_cast<uint32_t>(i * Form::kTokens * kRowBytes), map,
                 memory.full(slot), tile * kColumns + i * kChunkColumns, 0);
    if constexpr (Form::kPairBytes > 0)
      copy_in_flat(memory.pairs(slot), tokens.pairs + tile * (Form::kPairBytes / 4),
                   Form::kPairBytes, memory.full(slot));
  }
}

// ---- products ----

// The copies of a warp's tiles; without a unit it copies nothing.
template <class Form>
struct Copies {
  const uint8_t *above, *below;  // this lane's vector of the next tiles
  std::byte* ring;
  int left, slot = 0;

  __device__ __forceinline__ Copies(const Arguments& p, const Share& work, std::byte* rings)
      : ring(rings + static_cast<int>(threadIdx.x) / kLanes * Form::kDepth * Form::kCopyBytes),
        left(work.depth.steps) {
    const int warp = static_cast<int>(threadIdx.x) / kLanes,
              lane = static_cast<int>(threadIdx.x) % kLanes;
    const UnitTiles tiles(p, work.first + warp);
    const auto place = [&](int tile) {
      return p.call.weight + (int64_t{tile} * p.steps + work.depth.begin) * Form::kTileBytes +
             lane * 16;
    };
    above = place(tiles.upper), below = place(tiles.lower);
    if (warp >= work.units) left = 0;
    for (int i = 0; i < Form::kDepth; ++i) start(i);
  }
  __device__ __forceinline__ void start(int to_slot) {
    if (left > 0) {
      std::byte* to = ring + to_slot * Form::kCopyBytes + threadIdx.x % kLanes * 16;
      copy_tile<Form::kTileBytes>(to, above);
      copy_tile<Form::kTileBytes>(to + Form::kTileBytes, below);
      above += Form::kTileBytes;
      below += Form::kTileBytes;
      --left;
    }
    commit_copies();
  }
  // Loads the oldest tiles into registers and starts the copy of others in their place.
  __device__ __forceinline__ void take(typename Form::Lane& upper, typename Form::Lane& lower) {
    wait_for_copies<Form::kDepth - 1>();
    __syncwarp();
    const auto* copy = reinterpret_cast<const uint8_t*>(ring + slot * Form::kCopyBytes);
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    upper.load(copy, lane);
    lower.load(copy + Form::kTileBytes, lane);
    __syncwarp();
    start(slot);
    slot = slot + 1 == Form::kDepth ? 0 : slot + 1;
  }
};

// c = a warpgroup's tiles times the tokens' columns of a slot. While the tensor cores multiply 64
// columns, the next ones are dequantized.
template <class Form>
__device__ __forceinline__ void multiply_tile(const typename Form::Lane& above,
                                              const typename Form::Lane& below,
                                              uint32_t columns,
                                              float (&c)[Form::kSums]) {
  const uint64_t x = by_columns(columns);
  uint32_t a[2][4][4];
#pragma unroll
  for (int j = 0; j < kWords / 2; ++j) {
    uint32_t upper[2][4], lower[2][4];
    above.weights(j, upper);
    below.weights(j, lower);
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const int k = s / 2, pair = s % 2 * 2;
      a[j % 2][s][0] = upper[k][pair], a[j % 2][s][1] = lower[k][pair];
      a[j % 2][s][2] = upper[k][pair + 1], a[j % 2][s][3] = lower[k][pair + 1];
    }
    product_fence();
#pragma unroll
    for (int s = 0; s < 4; ++s)
      Product<Form::kTokens>::registers_f16(c, a[j % 2][s],
                                            x + column_step<Form::kTokens>(4 * j + s), j + s > 0);
    product_commit();
    if (j > 0) product_wait<1>();
  }
  product_wait<0>();
  pin(c);
}

// sum += c times the scales of the rows.
template <int kCount>
__device__ __forceinline__ void add(const float (&c)[kCount],
                                    float upper,
                                    float lower,
                                    float (&sum)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] = fmaf(c[i], i % 4 < 2 ? upper : lower, sum[i]);
}

template <class Form>
__device__ __forceinline__ void multiply(const Form& memory,
                                         const Share& work,
                                         Copies<Form>& copies,
                                         float (&sum)[Form::kSums]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const auto t = static_cast<uint32_t>(lane % 4);
  Ring<Form::kSlots> ring;
  float c[Form::kSums];
  for (int step = 0; step < work.depth.steps; ++step, ring.advance()) {
    typename Form::Lane above, below;
    copies.take(above, below);
    barrier_wait(memory.full(ring.slot), ring.parity);
    multiply_tile<Form>(above, below, memory.x(ring.slot), c);
    add(c, above.row_scale(), below.row_scale(), sum);
    if constexpr (Form::Lane::kHasMins) {
      uint32_t mins[4];
      above.min_pairs(t, mins[0], mins[2]);
      below.min_pairs(t, mins[1], mins[3]);
      product_fence();
      Product<Form::kTokens>::registers_f16(c, mins,
                                            descriptor(memory.pairs(ring.slot), 128, 256, 0), 0);
      product_commit();
      product_wait<0>();
      pin(c);
      add(c, -above.row_min(), -below.row_min(), sum);
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(memory.empty(ring.slot));
  }
}

// ---- results ----

// Stores a unit's sums for 8 tokens.
__device__ __forceinline__ void store(const Arguments& p,
                                      const Tokens& tokens,
                                      int unit,
                                      int group,
                                      const float4& sum) {
  const TileResults results(p.call.product, unit, 8 * group);
  float residual[4];
  results.load_residual(p.call.product, residual);
  const float2 scale = *reinterpret_cast<const float2*>(tokens.scales + results.token);
  const float c[4] = {sum.x * scale.x, sum.y * scale.y, sum.z * scale.x, sum.w * scale.y};
  results.put(p.call.product, c, residual);
}

// Sums the parts of a cluster and stores them; each block has its share.
template <class Form>
__device__ __forceinline__ void store_parts(const Arguments& p,
                                            const Tokens& tokens,
                                            const Form& memory,
                                            const Share& work) {
  constexpr int kGroups = Form::kTokens / 8;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  for (int i = warp * p.parts() + work.part; i < work.units * kGroups; i += kUnits * p.parts()) {
    const int unit = i / kGroups, group = i % kGroups;
    float4 parts[kMostParts];
#pragma unroll
    for (int k = 0; k < kMostParts; ++k)
      if (k < p.parts()) parts[k] = load_cluster_float4(memory.sums(unit, group), k);
    float4 sum = parts[0];
#pragma unroll
    for (int k = 1; k < kMostParts; ++k)
      if (k < p.parts()) sum = added(sum, parts[k]);
    store(p, tokens, work.first + unit, group, sum);
  }
}

// Mapping: a cluster per range of rows of the weight, in it a block per part of the depth; a warp
// has 16 rows, and one more thread copies the tokens. The first copies of the weight start before
// the previous kernel ends, if no earlier kernel writes it. Bound: memory, the weight once; but of
// the multiprocessor's cycles 45% issue an instruction, and warps wait for their own ones.
template <class Form>
__global__ void __launch_bounds__(kThreads, 1)
    fragment_gemm_hopper_kernel(const __grid_constant__ Arguments p,
                                const __grid_constant__ Tokens tokens,
                                const __grid_constant__ CUtensorMap x) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) std::byte shared[];
  const Form memory{shared_address(shared)};
  const Share work(p);
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kLanes, 0);
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < Form::kSlots; ++slot) {
      barrier_init(memory.full(slot), 1);
      barrier_init(memory.empty(slot), work.warps());
    }
    barrier_init_fence();
  }
  __syncthreads();
  grid_launch_dependents();
  if (warp >= kUnits) {
    give_registers<40>();
    if (threadIdx.x == kUnits * kLanes) {
      prefetch_map(&x);
      grid_wait();
      copy_tokens(&x, tokens, memory, work);
    }
    if (p.shift > 0) {
      cluster_sync();
      cluster_wait();
    }
  } else {
    take_registers<152>();
    if (warp < work.warps()) {
      if (!p.call.product.is_ready_early) grid_wait();
      Copies<Form> copies(p, work, shared + Form::kRingsAt);
      grid_wait();
      float sum[Form::kSums] = {};
      multiply(memory, work, copies, sum);
      if (p.shift > 0) named_sync(1, work.warps() * kLanes);  // all have read the operands
#pragma unroll
      for (int g = 0; g < Form::kTokens / 8; ++g) {
        const float4 own = make_float4(sum[4 * g], sum[4 * g + 1], sum[4 * g + 2], sum[4 * g + 3]);
        if (p.shift > 0)
          *reinterpret_cast<float4*>(shared + (memory.sums(warp, g) - memory.base)) = own;
        else if (warp < work.units)
          store(p, tokens, work.first + warp, g, own);
      }
    }
    if (p.shift > 0) {
      cluster_sync();
      store_parts(p, tokens, memory, work);
      cluster_wait();  // other blocks may still read this memory
    }
  }
#else
  __trap();
#endif
}

// ---- launches ----

template <class Form>
cudaError_t allow_bytes() {
  static const cudaError_t status = cudaFuncSetAttribute(
      fragment_gemm_hopper_kernel<Form>, cudaFuncAttributeMaxDynamicSharedMemorySize, Form::kBytes);
  return status;
}

// The clusters that run at once.
template <class Form>
int rooms_of(int parts) {
  if (parts == 1) return multiprocessors();
  if (allow_bytes<Form>() != cudaSuccess) return 0;
  return clusters_at_once(fragment_gemm_hopper_kernel<Form>, parts, kThreads, Form::kBytes);
}

struct Choice {
  int shift = -1, clusters = 0;
};

// The cluster with which a multiprocessor is done first, in the times of a tile of 16 rows: a step
// takes as long as 7, and a sum over blocks as 14.
template <class Form>
Choice choose(const Arguments& p) {
  static const std::array<int, 4> rooms = {rooms_of<Form>(1), rooms_of<Form>(2), rooms_of<Form>(4),
                                           rooms_of<Form>(8)};
  Choice best;
  double least = 1e30;
  for (int shift = 0; shift < std::ssize(rooms); ++shift) {
    const int parts = 1 << shift, room = rooms[static_cast<size_t>(shift)];
    if (room == 0 || parts > p.steps) continue;
    const int waves = (p.units + kUnits * room - 1) / (kUnits * room),
              clusters = std::min(p.units, waves * room),
              units = (p.units + clusters - 1) / clusters;
    const double of_step = std::max(static_cast<double>(units), 7.0);
    const double time = waves * (of_step * most_steps(p.steps, parts) + (parts > 1 ? 14 : 0));
    if (time < least) least = time, best = {shift, clusters};
  }
  return best;
}

int tile_tokens(int64_t tokens) { return tokens <= 32 ? 32 : int{kFragmentGemmHopperTokens}; }

// Where the workspace has the tokens.
Tokens tokens_of(const FragmentGemm& call) {
  const int most = tile_tokens(call.product.tokens);
  Tokens tokens{};
  tokens.most_tokens = most;
  tokens.x = reinterpret_cast<uint16_t*>(call.workspace);
  tokens.pairs = reinterpret_cast<uint32_t*>(tokens.x + most * call.product.in);
  tokens.scales = reinterpret_cast<float*>(tokens.pairs + most * call.product.in / 32);
  return tokens;
}

template <class Form>
cudaError_t launch(Arguments p, cudaStream_t stream) {
  cudaError_t status = allow_bytes<Form>();
  if (status != cudaSuccess) return status;
  const Choice choice = choose<Form>(p);
  if (choice.shift < 0) return cudaErrorInvalidValue;
  p.shift = choice.shift;
  p.each = p.units / choice.clusters;
  p.more = p.units % choice.clusters;
  const SkinnyGemm& product = p.call.product;
  const Tokens tokens = tokens_of(p.call);
  CUtensorMap x;
  if (!encode_rows(&x, {tokens.x, product.in}, product.tokens, product.in, Form::kTokens))
    return cudaErrorInvalidValue;
  status = launch_early(convert_tokens_kernel, dim3(static_cast<unsigned>(product.tokens)),
                        kConverting, 0, stream, product, tokens);
  if (status != cudaSuccess) return status;
  return launch_clusters_early(fragment_gemm_hopper_kernel<Form>,
                               dim3(static_cast<unsigned>(choice.clusters << p.shift)), p.parts(),
                               kThreads, Form::kBytes, stream, p, tokens, x);
}

}  // namespace
}  // namespace skinny_gemm::warpgroups

bool takes_fragment_gemm_hopper(const FragmentGemm& call) {
  return has_warpgroups() && call.product.norm == nullptr;
}

int64_t fragment_gemm_hopper_bytes(const FragmentGemm& call) {
  const int64_t tokens = skinny_gemm::warpgroups::tile_tokens(call.product.tokens);
  return tokens * (call.product.in * 2 + call.product.in / 32 * 4 + 4);
}

cudaError_t launch_fragment_gemm_hopper(const FragmentGemm& call, cudaStream_t stream) {
  using namespace skinny_gemm;
  Arguments p{call};
  p.steps = static_cast<int>(call.product.in / kFragmentColumns);
  p.units = static_cast<int>((call.product.weight_rows + kTile - 1) / kTile);
  return fragments::with_lane(call.format, [&](auto lane) {
    using Lane = decltype(lane);
    return call.product.tokens <= 32 ? warpgroups::launch<warpgroups::Form<Lane, 32>>(p, stream)
                                     : warpgroups::launch<warpgroups::Form<Lane, 64>>(p, stream);
  });
}

}  // namespace ridge::backends::cuda
