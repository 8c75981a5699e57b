// SPDX-License-Identifier: Apache-2.0
// Rows of bf16, 16 at a time, times a quantized weight in fragment tiles. Like skinny_gemm.cu, but
// its weights are bf16. CUDA only (mma.sync); clusters of blocks from compute capability 9.0 on.
//
// A block keeps its part of the tokens' columns in shared memory, as fp16 with a power of two per
// token and 256 columns, so that its warps read the weight independently of each other, each from
// its own copies. The tiles of a block's rows are dealt out evenly: a warp's share may end
// within a row, and the warps' sums of the rows wait in slots until all are done. If the tokens
// take too much room, a cluster of blocks divides the columns and sums through shared memory.
#include <algorithm>
#include <array>

#include "backends/cuda/kernels/async_copy.cuh"
#include "backends/cuda/kernels/device_attribute.h"
#include "backends/cuda/kernels/gemm/fragment_gemm_hopper.h"
#include "backends/cuda/kernels/gemm/fragment_shares.cuh"
#include "backends/cuda/kernels/gemm/fragment_tile.cuh"
#include "backends/cuda/kernels/gemm/fragment_tokens.cuh"
#include "backends/cuda/kernels/gemm/skinny_gemm_tile.cuh"
#include "backends/cuda/kernels/hopper_instructions.cuh"

namespace ridge::backends::cuda {
namespace skinny_gemm {
namespace {

using namespace fragments;

// ---- copies of the weight ----

// The copies of a warp's tiles, one ahead of its products. More in flight gain nothing: memory
// delivers them in order, and what other warps load waits behind them.
template <class Form>
struct Copies {
  const Arguments& p;
  int begin;  // the block's first tile of a row
  Path<Form> path;
  std::byte* copy;
  const uint8_t *above, *below;  // this lane's vector of the next tiles

  __device__ __forceinline__
  Copies(const Arguments& arguments, int first, const Path<Form>& own, std::byte* copies)
      : p(arguments),
        begin(first),
        path(own),
        copy(copies + static_cast<int>(threadIdx.x) / kLanes * Form::kCopyBytes) {
    place();
  }
  __device__ __forceinline__ void place() {
    const uint8_t* lane = p.call.weight + threadIdx.x % kLanes * 16;
    const UnitTiles tiles(p, path.first + path.unit);
    above = lane + (int64_t{tiles.upper} * p.steps + begin + path.step) * Form::kTileBytes;
    below = lane + (int64_t{tiles.lower} * p.steps + begin + path.step) * Form::kTileBytes;
  }
  // Starts the copy of the next tiles, if there are any.
  __device__ __forceinline__ void start() {
    if (path.left == 0 && path.remaining > 0) {
      while (path.left == 0 && path.remaining > 0) path.next_batch();
      place();
    }
    if (path.left > 0) {
      std::byte* to = copy + threadIdx.x % kLanes * 16;
      copy_tile<Form::kTileBytes>(to, above);
      copy_tile<Form::kTileBytes>(to + Form::kTileBytes, below);
      above += Form::kTileBytes;
      below += Form::kTileBytes;
      path.advance();
      if (path.step == 0) place();
    }
    commit_copies();
  }
  // Loads the copied tiles into registers and starts the copy of the next ones.
  __device__ __forceinline__ void take(typename Form::Lane& upper, typename Form::Lane& lower) {
    wait_for_copies<0>();
    __syncwarp();
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    upper.load(reinterpret_cast<const uint8_t*>(copy), lane);
    lower.load(reinterpret_cast<const uint8_t*>(copy) + Form::kTileBytes, lane);
    __syncwarp();
    start();
  }
};

// ---- products ----

// sum += a warp's tiles of both row blocks times the tokens' columns of tile `step`.
template <class Form>
__device__ __forceinline__ void multiply(const typename Form::Lane& above,
                                         const typename Form::Lane& below,
                                         const Tokens<Form>& tokens,
                                         const uint16_t* x,
                                         int step,
                                         float (&sum)[Form::kGroups][4]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes, t = lane % 4;
  float c[2][Form::kGroups][4] = {};  // a product waits for 33 cycles for the sum of the one before
#pragma unroll
  for (int j = 0; j < kWords / 2; ++j) {
    uint32_t upper[2][4], lower[2][4];
    above.weights(j, upper);
    below.weights(j, lower);
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int g = 0; g < Form::kGroups; ++g) {
        const uint4 b =
            *reinterpret_cast<const uint4*>(x + g * 8 * tokens.row_step + 32 * (2 * j + k));
        const uint32_t first[4] = {upper[k][0], lower[k][0], upper[k][1], lower[k][1]},
                       second[4] = {upper[k][2], lower[k][2], upper[k][3], lower[k][3]};
        warp_product_f16(c[0][g], first, b.x, b.y);
        warp_product_f16(c[1][g], second, b.z, b.w);
      }
  }
#pragma unroll
  for (int g = 0; g < Form::kGroups; ++g) {
    const float2 scale =
        *reinterpret_cast<const float2*>(tokens.scales + step * Form::kTokens + 8 * g + 2 * t);
    float minus[4] = {};
    if constexpr (Form::Lane::kHasMins) {
      const int token = min(8 * g + lane / 4, tokens.rows - 1);
      const uint2 of_block = *reinterpret_cast<const uint2*>(
          tokens.pairs + ((step * tokens.rows + token) * 4 + t) * 2);
      uint32_t a[4];
      above.min_pairs(static_cast<uint32_t>(t), a[0], a[2]);
      below.min_pairs(static_cast<uint32_t>(t), a[1], a[3]);
      warp_product_f16(minus, a, of_block.x, of_block.y);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto& row = i < 2 ? above : below;
      float value = (c[0][g][i] + c[1][g][i]) * row.row_scale();
      if constexpr (Form::Lane::kHasMins) value = fmaf(-row.row_min(), minus[i], value);
      sum[g][i] = fmaf(value, i % 2 == 0 ? scale.x : scale.y, sum[g][i]);
    }
  }
}

// A warp's sums of a unit, to its slot; they begin again at 0.
template <class Form>
__device__ __forceinline__ void park(float4* slot, float (&sum)[Form::kGroups][4]) {
#pragma unroll
  for (int g = 0; g < Form::kGroups; ++g) {
    float(&c)[4] = sum[g];
    slot[g * kLanes + threadIdx.x % kLanes] = make_float4(c[0], c[1], c[2], c[3]);
    c[0] = c[1] = c[2] = c[3] = 0.0f;
  }
}

// ---- results ----

__device__ __forceinline__ void sync_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  hopper::cluster_sync();
#endif
}
// The vector at the same place of block `rank`.
__device__ __forceinline__ float4 load_of_block(const float4* place, int rank) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  return hopper::load_cluster_float4(hopper::shared_address(place), rank);
#else
  return *place;
#endif
}

// Adds the warps' parts of vector `item` of a batch into the first one's slot.
template <class Form>
__device__ __forceinline__ float4
sum_of_warps(float4* slots, const Parts<Form>& parts, int unit, int at) {
  float4* first = slots + parts.slot * Form::kGroups * kLanes + at;
  float4 sum = *first;
  for (uint32_t left = parts.warps & (parts.warps - 1); left != 0; left &= left - 1) {
    const int warp = __ffs(static_cast<int>(left)) - 1;
    sum = added(sum, slots[(unit + warp) * Form::kGroups * kLanes + at]);
  }
  return sum;
}

// The sum over the blocks of a cluster, which have as many tiles of the depth, or one more.
template <class Form>
__device__ __forceinline__ float4
sum_of_blocks(const Arguments& p, const float4* slots, int unit, int units, int at) {
  const int few = p.steps >> p.shift;
  const int slot[2] = {Parts<Form>(unit, units, few).slot, Parts<Form>(unit, units, few + 1).slot};
  float4 parts[kMostParts];
#pragma unroll
  for (int i = 0; i < kMostParts; ++i)
    if (i < p.parts()) {
      const int own = Depth(i, p).steps == few ? slot[0] : slot[1];
      parts[i] = load_of_block(slots + own * Form::kGroups * kLanes + at, i);
    }
  float4 sum = parts[0];
#pragma unroll
  for (int i = 1; i < kMostParts; ++i)
    if (i < p.parts()) sum = added(sum, parts[i]);
  return sum;
}

// Sums and stores a batch; each block of a cluster has its share of the vectors. Called after all
// warps have parked their sums.
template <class Form>
__device__ __forceinline__ void store_batch(const Arguments& p,
                                            const Path<Form>& path,
                                            float4* slots,
                                            int part,
                                            const float (&scales)[2]) {
  const int warp = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes, all = path.units * Form::kGroups;
  const bool is_whole = path.units % Form::kBlockWarps == 0;
  const int first = warp * p.parts() + part, step = Form::kBlockWarps * p.parts();
  const auto results_of = [&](int i) {
    return TileResults(p.call.product, path.first + i / Form::kGroups, 8 * (i % Form::kGroups));
  };
  float residual[4];
  if (first < all) results_of(first).load_residual(p.call.product, residual);
  __syncthreads();
  if (p.shift > 0) {
    if (!is_whole)
      for (int i = warp; i < all; i += Form::kBlockWarps) {
        const int unit = i / Form::kGroups, at = i % Form::kGroups * kLanes + lane;
        const Parts<Form> parts(unit, path.units, path.steps);
        slots[parts.slot * Form::kGroups * kLanes + at] = sum_of_warps(slots, parts, unit, at);
      }
    sync_cluster();
  }
  for (int i = first; i < all; i += step) {
    const int unit = i / Form::kGroups, at = i % Form::kGroups * kLanes + lane;
    const TileResults results = results_of(i);
    if (i > first) results.load_residual(p.call.product, residual);
    const float4 sum =
        p.shift > 0 ? sum_of_blocks<Form>(p, slots, unit, path.units, at)
                    : sum_of_warps(slots, Parts<Form>(unit, path.units, path.steps), unit, at);
    const float c[4] = {sum.x * scales[0], sum.y * scales[1], sum.z * scales[0], sum.w * scales[1]};
    results.put(p.call.product, c, residual);
  }
  if (p.shift > 0)
    sync_cluster();
  else if (path.remaining > 0)
    __syncthreads();
}

// Mapping: a cluster per range of rows of the weight, in it a block per part of the depth; warps
// share the block's tiles evenly. The first copies of the weight start before the previous kernel
// ends, if no earlier kernel writes it. Bound: memory, the weight once. A multiprocessor of an H200
// receives 19 bytes a cycle, 34 elements of 4.5 bits; weights and products are 2.5 instructions of
// a lane for each of Q4_K's with 8 tokens, of the 3.7 that it issues in that time.
template <class Form, bool kNorms>
__global__ void __launch_bounds__(Form::kBlockThreads, 1)
    fragment_gemm_kernel(const __grid_constant__ Arguments p) {
  extern __shared__ uint4 shared[];
  __shared__ Squares squares;
  auto* memory = reinterpret_cast<std::byte*>(shared);
  const SkinnyGemm& product = p.call.product;
  const int warp = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  const int part = static_cast<int>(blockIdx.x) & (p.parts() - 1),
            cluster = static_cast<int>(blockIdx.x) >> p.shift,
            most = most_steps(p.steps, p.parts());
  const Depth depth(part, p);
  auto* slots = reinterpret_cast<float4*>(memory + Form::slots_at(p.rows, p.row_step, most));
  let_next_start();
  if (!product.is_ready_early) wait_for_grids();
  Path<Form> own(p, cluster, depth.steps);
  Copies<Form> copies(p, depth.begin, own, memory + Form::copies_at(p.rows, p.row_step, most));
  if constexpr (Form::kCopiesFirst) copies.start();
  const auto start_copies = [&] {
    if constexpr (!Form::kCopiesFirst) copies.start();
  };
  wait_for_grids();

  auto* x = reinterpret_cast<uint16_t*>(memory);
  const Tokens<Form> tokens{
      x,
      reinterpret_cast<float*>(memory + Form::scales_at(p.rows, p.row_step)),
      reinterpret_cast<uint32_t*>(memory + Form::sums_at(p.rows, p.row_step, most)),
      p.row_step,
      p.rows,
      p.inverse};
  float scales[2] = {1.0f, 1.0f};
  if constexpr (kNorms) {
    const RowTeam team(product, Form::kBlockThreads);
    tokens.put_normed(product, team, depth, squares, start_copies);
    __syncthreads();
    result_scales(product, squares, team.warps, scales);
  } else {
    StridedRows<const uint16_t> from = product.x;
    from.data += depth.begin * kColumns;
    tokens.put_all(from, static_cast<int>(product.tokens), depth.steps, start_copies);
    __syncthreads();
  }
  // Lanes without a token compute what the last one's do, and store nothing.
  const uint16_t* lane_x = x + min(lane / 4, p.rows - 1) * p.row_step + 8 * (lane % 4);
  float sum[Form::kGroups][4] = {};
  while (true) {
    while (own.left > 0) {
      typename Form::Lane above, below;
      copies.take(above, below);
      multiply<Form>(above, below, tokens, lane_x + own.step * kColumns, own.step, sum);
      const int slot = own.slot(warp);
      own.advance();
      if (own.step == 0 || own.left == 0) park<Form>(slots + slot * Form::kGroups * kLanes, sum);
    }
    store_batch(p, own, slots, part, scales);
    if (own.remaining == 0) break;
    own.next_batch();
  }
}

// ---- launches ----

struct Choice {
  int parts = 0;  // 0: the tokens do not fit into shared memory
  int clusters = 0;
  int64_t bytes = 0;
};

// The shared memory of a block, beside what the kernel declares.
int most_bytes() {
  constexpr int kDeclared = 1024;
  static const int bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return (bytes > 0 ? bytes : 227 << 10) - kDeclared;
}

template <class Form, bool kNorms>
cudaError_t allow_most_bytes() {
  static const cudaError_t status =
      cudaFuncSetAttribute(fragment_gemm_kernel<Form, kNorms>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, most_bytes());
  return status;
}

// The clusters that run at once, one block on a multiprocessor.
template <class Form>
int rooms_of(int parts) {
  if (parts == 1) return multiprocessors();
  if (!has_clusters() || allow_most_bytes<Form, false>() != cudaSuccess) return 0;
  return clusters_at_once(fragment_gemm_kernel<Form, false>, parts, Form::kBlockThreads,
                          most_bytes());
}

// The cluster with which the busiest multiprocessor is done first, in the times of a tile of 16
// rows: a sum over blocks takes about as long as 14 of them, converting 11 tokens' tiles as one.
template <class Form>
Choice choose(const Arguments& p) {
  static const std::array<int, 4> rooms = {rooms_of<Form>(1), rooms_of<Form>(2), rooms_of<Form>(4),
                                           rooms_of<Form>(8)};
  Choice best;
  double least = 1e30;
  for (int shift = 0; shift < std::ssize(rooms); ++shift) {
    const int parts = 1 << shift, clusters = std::min(rooms[static_cast<size_t>(shift)], p.units);
    if (clusters == 0 || parts > p.steps) continue;
    const int steps = most_steps(p.steps, parts),
              row_step = static_cast<int>(shared_stride(steps * kColumns));
    const int64_t bytes = Form::bytes(p.rows, row_step, steps);
    if (bytes > most_bytes()) continue;
    const int units = (p.units + clusters - 1) / clusters;
    const double time = static_cast<double>(units) * steps +
                        static_cast<double>(p.rows) * steps / 11 +
                        (parts > 1 ? 14 * Form::batches_of(units) : 0);
    if (time < least) least = time, best = {parts, clusters, bytes};
  }
  return best;
}

template <class Form, bool kNorms>
cudaError_t launch(Arguments p, cudaStream_t stream) {
  const auto kernel = fragment_gemm_kernel<Form, kNorms>;
  const cudaError_t status = allow_most_bytes<Form, kNorms>();
  if (status != cudaSuccess) return status;
  const Choice choice = choose<Form>(p);
  if (choice.parts == 0) return cudaErrorInvalidValue;
  while (p.parts() < choice.parts) ++p.shift;
  p.row_step = static_cast<int>(shared_stride(most_steps(p.steps, p.parts()) * kColumns));
  p.each = p.units / choice.clusters;
  p.more = p.units % choice.clusters;
  return launch_clusters_early(kernel, dim3(static_cast<unsigned>(choice.clusters * choice.parts)),
                               choice.parts, Form::kBlockThreads, choice.bytes, stream, p);
}

template <class Form>
Arguments arguments_of(const FragmentGemm& call) {
  const SkinnyGemm& product = call.product;
  Arguments p{call};
  p.steps = static_cast<int>(product.in / kFragmentColumns);
  p.shift = 0;
  p.inverse = static_cast<int>((65536 + product.tokens - 1) / product.tokens);
  p.units = static_cast<int>((product.weight_rows + kTile - 1) / kTile);
  p.rows = Form::kGroups == 1 ? static_cast<int>(product.tokens) : Form::kTokens;
  return p;
}

// Calls body(Form()).
template <typename Body>
auto with_form(const FragmentGemm& call, const Body& body) {
  return with_lane(call.format, [&](auto lane) {
    using Lane = decltype(lane);
    return call.product.tokens <= 8 ? body(Form<Lane, 1>()) : body(Form<Lane, 2>());
  });
}

// Whether the other kernel is faster, which reads the weight once.
bool is_wide(const FragmentGemm& call) {
  constexpr int64_t kFew = 16;
  return call.product.tokens > kFew && takes_fragment_gemm_hopper(call);
}

// The tokens multiplied at once; 0 if not even one fits.
int64_t tokens_at_once(FragmentGemm call) {
  if (is_wide(call)) return std::min(call.product.tokens, kFragmentGemmHopperTokens);
  constexpr int64_t kMostTokens = 16;
  int64_t& tokens = call.product.tokens;
  tokens = std::min(tokens, kMostTokens);
  for (; tokens > 0; tokens /= 2) {
    const bool fits = with_form(call, [&](auto form) {
      using Form = decltype(form);
      return choose<Form>(arguments_of<Form>(call)).parts > 0;
    });
    if (fits) break;
  }
  return tokens;
}

template <typename T>
StridedRows<T> rows_from(StridedRows<T> rows, int64_t first) {
  return rows ? StridedRows<T>{rows.data + first * rows.stride, rows.stride} : rows;
}

FragmentGemm some_tokens(const FragmentGemm& all, int64_t first, int64_t count) {
  FragmentGemm call = all;
  SkinnyGemm& p = call.product;
  p.tokens = std::min(count, p.tokens - first);
  p.x = rows_from(p.x, first);
  p.delta = rows_from(p.delta, first);
  p.sum = rows_from(p.sum, first);
  p.residual = rows_from(p.residual, first);
  p.y = static_cast<std::byte*>(p.y) + first * p.y_stride * (p.y_is_f32 ? 4 : 2);
  return call;
}

}  // namespace
}  // namespace skinny_gemm

namespace {

// On a GPU without the kernel that reads the weight once, more rows are faster unpacked.
int64_t most_tokens(const FragmentGemm& call) {
  constexpr int64_t kFew = 64;
  return takes_fragment_gemm_hopper(call) ? kFragmentGemmMostTokens : kFew;
}

}  // namespace

bool takes_fragment_gemm(const FragmentGemm& call) {
  const SkinnyGemm& p = call.product;
  const int64_t step = kFragmentRows * (p.activation == GemmActivation::kNone ? 1 : 2);
  constexpr int64_t kMostExtent = int64_t{1} << 24;
  if (p.in % kFragmentColumns != 0 || p.weight_rows % step != 0 || p.in >= kMostExtent ||
      p.weight_rows >= kMostExtent || p.tokens > most_tokens(call) ||
      (p.norm != nullptr && p.tokens > kSkinnyGemmMostTokens) ||
      (p.norm != nullptr && p.tokens * p.in > kSkinnyGemmMostNormed))
    return false;
  return p.tokens == 0 || p.in == 0 || p.weight_rows == 0 || skinny_gemm::tokens_at_once(call) > 0;
}

int fragment_gemm_launches(const FragmentGemm& call) {
  const int64_t step = skinny_gemm::tokens_at_once(call);
  int launches = 0;
  FragmentGemm some = call;
  for (int64_t left = call.product.tokens; step > 0 && left > 0; left -= step) {
    some.product.tokens = std::min(left, step);
    launches += skinny_gemm::is_wide(some) ? 2 : 1;
  }
  return launches;
}

int64_t fragment_gemm_workspace_bytes(const FragmentGemm& call) {
  return skinny_gemm::is_wide(call) ? fragment_gemm_hopper_bytes(call) : 0;
}

cudaError_t launch_fragment_gemm(const FragmentGemm& call, cudaStream_t stream) {
  using namespace skinny_gemm;
  if (!takes_fragment_gemm(call)) return cudaErrorInvalidValue;
  if (call.product.in == 0 || call.product.weight_rows == 0) return cudaSuccess;
  const int64_t step = tokens_at_once(call);
  for (int64_t first = 0; first < call.product.tokens; first += step) {
    const FragmentGemm some = some_tokens(call, first, step);
    const cudaError_t status =
        is_wide(some) ? launch_fragment_gemm_hopper(some, stream) : with_form(some, [&](auto form) {
          using Form = decltype(form);
          const Arguments p = arguments_of<Form>(some);
          if constexpr (Form::kGroups == 1)
            if (some.product.norm != nullptr) return launch<Form, true>(p, stream);
          return launch<Form, false>(p, stream);
        });
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

}  // namespace ridge::backends::cuda
