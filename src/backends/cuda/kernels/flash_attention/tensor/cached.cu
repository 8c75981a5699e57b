// SPDX-License-Identifier: Apache-2.0
// Attention of many tokens over a KV cache in bf16, or in quants of 8 bits with scales: chunks of
// prompts, any mix of sequences. A few tokens, and the only token of a sequence in a tile, are
// computed in cached_attention.cu.
//
// A block owns 64 tokens of one head. For each sequence among them it iterates over the keys that
// any of its tokens attends to, 64 at a time with the online softmax, and loads the next keys
// meanwhile. Quants are widened in shared memory; scales multiply scores and weights. Products are
// those of a warpgroup (wgmma) on Hopper and those of warps (mma.sync) elsewhere; both have the
// same accumulators. Bound: 4 E FLOPs per visited pair; with products of warps, shared memory
// delivers the operands at two thirds of the rate of mma.sync.
#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/flash_attention/tensor/quants.cuh"
#include "backends/cuda/kernels/flash_attention/tensor/tile_products.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace tensor;

static_assert(kRows == kCachedAttentionTileTokens);

// Stages of keys and values: two if two blocks then still fit on a multiprocessor.
template <int kE>
inline constexpr int kStages = kE > 128 ? 1 : 2;

// Keys and values as they arrive. Products read a stage of bf16 where it lies, and of quants after
// they are widened.
template <class P, int kE, typename C>
struct Arrivals {
  using Operand = typename P::Operand;
  Operand keys[kStages<kE>], values[kStages<kE>];

  __device__ __forceinline__ Bf16* key(int stage, int row, int column) {
    return keys[stage].elements + Operand::place(row, column);
  }
  __device__ __forceinline__ Bf16* value(int stage, int row, int column) {
    return values[stage].elements + Operand::place(row, column);
  }
  __device__ __forceinline__ const Operand& tile_of_keys(int stage) const { return keys[stage]; }
  __device__ __forceinline__ const Operand& tile_of_values(int stage) const {
    return values[stage];
  }
};
template <class P, int kE>
struct QuantArrivals {
  typename P::Operand wide_keys, wide_values;
  alignas(16) uint8_t keys[kStages<kE>][kKeys * kE];
  alignas(16) uint8_t values[kStages<kE>][kKeys * kE];
  float key_scales[kStages<kE>][kKeys], value_scales[kStages<kE>][kKeys];

  __device__ __forceinline__ uint8_t* key(int stage, int row, int column) {
    return keys[stage] + row * kE + column;
  }
  __device__ __forceinline__ uint8_t* value(int stage, int row, int column) {
    return values[stage] + row * kE + column;
  }
  __device__ __forceinline__ const auto& tile_of_keys(int) const { return wide_keys; }
  __device__ __forceinline__ const auto& tile_of_values(int) const { return wide_values; }
};
template <class P, int kE>
struct Arrivals<P, kE, int8_t> : QuantArrivals<P, kE> {};
template <class P, int kE>
struct Arrivals<P, kE, F8E4M3> : QuantArrivals<P, kE> {};

template <class P, int kE, typename C>
struct Shared {
  typename P::Operand queries;
  Arrivals<P, kE, C> arrivals;
  int32_t positions[kRows];  // -1: padding
  int32_t slots[kRows];
};

// The tokens of one sequence in a block, and the positions of the keys that they attend to.
struct Members {
  Sequence sequence;
  int32_t first_key = 0, last_key = 0;
};

// Removes the tokens of the next sequence from `left`. Called by whole warps, with the same result
// in each.
template <class S>
__device__ __forceinline__ Members take_members(const S& shared, int64_t reach, uint64_t& left) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Members m;
  m.sequence = take_sequence(shared.slots, left);
  int32_t least = INT32_MAX, most = -1;
  if ((m.sequence.tokens >> lane & 1) != 0) least = most = shared.positions[lane];
  if ((m.sequence.tokens >> (lane + 32) & 1) != 0) {
    least = min(least, shared.positions[lane + 32]);
    most = max(most, shared.positions[lane + 32]);
  }
  least = __reduce_min_sync(0xffffffffu, least);
  m.last_key = __reduce_max_sync(0xffffffffu, most);
  m.first_key = static_cast<int32_t>(max(static_cast<int64_t>(least) + 1 - reach, int64_t{0}));
  return m;
}

template <class P, int kE, typename C>
__device__ __forceinline__ void fetch_keys(Shared<P, kE, C>& shared,
                                           const CachedAttention<uint16_t, C>& p,
                                           const SlotCells& cells,
                                           const Members& m,
                                           int64_t kv_head,
                                           int tile) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(C)), kVectors = kE / kVector;
  constexpr int kEach = kKeys * kVectors / kThreads;
  static_assert(kThreads % kVectors == 0);  // a thread keeps its column
  constexpr int kRowsApart = kThreads / kVectors;
  const int stage = tile % kStages<kE>;
  const auto head_size = static_cast<int>(p.keys.head_size);
  const int first_row = static_cast<int>(threadIdx.x) / kVectors,
            column = static_cast<int>(threadIdx.x) % kVectors * kVector;
  const int64_t width = p.keys.kv_heads * head_size, own = kv_head * head_size + column;
  // One remainder per tile; a ring that is shorter than a tile needs one per key.
  const uint32_t first_cell = static_cast<uint32_t>(tile * kKeys) % cells.ring;
  const auto cell_of = [&](int row) {
    const uint32_t cell = first_cell + static_cast<uint32_t>(row);
    if (cells.ring < kKeys) return cell % cells.ring;
    return cell >= cells.ring ? cell - cells.ring : cell;
  };
  const auto is_seen = [&](int row) {
    const int32_t key = tile * kKeys + row;
    return key >= m.first_key && key <= m.last_key;
  };
  uint32_t cell[kEach];
  int64_t rows[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) cell[k] = cell_of(first_row + k * kRowsApart);
  cells.find_rows(cell, rows);
  auto& to = shared.arrivals;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int row = first_row + k * kRowsApart;
    const bool inside = is_seen(row) && column < head_size;
    const int64_t at = inside ? rows[k] * width + own : 0;
    copy_async(to.key(stage, row, column), p.keys.data + at, inside);
    copy_async(to.value(stage, row, column), p.values.data + at, inside);
  }
  if constexpr (kIsQuant<C>) {
    static_assert(kThreads == 2 * kKeys);
    const int row = static_cast<int>(threadIdx.x) % kKeys;
    const bool is_key = static_cast<int>(threadIdx.x) < kKeys, inside = is_seen(row);
    const int64_t at = inside ? cells.place(cell_of(row)).scale(p.keys, kv_head) : 0;
    copy_scale_async(&(is_key ? to.key_scales : to.value_scales)[stage][row],
                     (is_key ? p.keys : p.values).scales + at, inside);
  }
  commit_copies();
}

// Widens the quants of a stage. Called between barriers by all threads of a block.
template <class P, int kE, typename C>
__device__ __forceinline__ void widen_keys(Arrivals<P, kE, C>& arrivals, int stage) {
  using To = typename P::Operand;
  constexpr int kVectors = kE / 16, kEach = kKeys * kVectors / kThreads;
  auto widen_vector = [](const uint8_t* from, To& to, int row, int column) {
    const uint4 vector = *reinterpret_cast<const uint4*>(from);
    const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
    uint32_t wide[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      wide[2 * i] = widen<0, 1>(words[i], C{});
      wide[2 * i + 1] = widen<2, 3>(words[i], C{});
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<uint4*>(to.elements + To::place(row, column + 8 * half)) =
          make_uint4(wide[4 * half], wide[4 * half + 1], wide[4 * half + 2], wide[4 * half + 3]);
  };
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kThreads;
    const int row = i / kVectors, column = i % kVectors * 16;
    widen_vector(arrivals.key(stage, row, column), arrivals.wide_keys, row, column);
    widen_vector(arrivals.value(stage, row, column), arrivals.wide_values, row, column);
  }
}

// Multiplies columns by the scales of their keys.
__device__ __forceinline__ void scale_columns(float (&s)[kTiles][4], const float* scales, Lane l) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const float2 pair = *reinterpret_cast<const float2*>(scales + 8 * j + 2 * l.place);
#pragma unroll
    for (int c = 0; c < 4; ++c) s[j][c] *= c % 2 == 0 ? pair.x : pair.y;
  }
}

template <int kE>
struct State {
  float out[kE / 8][4] = {};
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
};

// Converts scores to weights. The previous sums are rescaled if a row of the warp has a new
// maximum.
template <int kE>
__device__ __forceinline__ void online_softmax(float (&s)[kTiles][4],
                                               State<kE>& state,
                                               float to_log2) {
  float factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float highest = -INFINITY;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) highest = fmaxf(highest, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
    const float next = fmaxf(state.top[r], row_max(highest) * to_log2);
    const float base = next == -INFINITY ? 0.0f : next;
    factor[r] = exp2_hardware(state.top[r] - base);
    state.top[r] = next;
    float tile_sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int c = 2 * r; c < 2 * r + 2; ++c) {
        s[j][c] = exp2_hardware(fmaf(s[j][c], to_log2, -base));
        tile_sum += s[j][c];
      }
    }
    state.sum[r] = state.sum[r] * factor[r] + tile_sum;
  }
  if (__all_sync(0xffffffffu, factor[0] == 1.0f && factor[1] == 1.0f)) return;
#pragma unroll
  for (int n = 0; n < kE / 8; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) state.out[n][c] *= factor[c / 2];
  }
}

// The positions of this lane's rows g and g + 8 of its warp, or -1 for rows of other sequences.
struct OwnRows {
  int32_t position[2];
};

template <class P, int kE, typename C>
__device__ __forceinline__ void iterate_keys(Shared<P, kE, C>& shared,
                                             const CachedAttention<uint16_t, C>& p,
                                             const Members& m,
                                             int64_t kv_head,
                                             State<kE>& state,
                                             Lane l) {
  const SlotCells cells(p.cells, m.sequence.slot);
  const int begin = m.first_key / kKeys, end = m.last_key / kKeys + 1;
  OwnRows rows;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = l.row + l.group + 8 * r;
    rows.position[r] = (m.sequence.tokens >> row & 1) != 0 ? shared.positions[row] : -1;
  }
  const auto reach = static_cast<int32_t>(min(p.reach, static_cast<int64_t>(INT32_MAX)));
  const float to_log2 = p.scale * kLog2E;
  __syncthreads();  // the tiles of the previous sequence have been read
  fetch_keys(shared, p, cells, m, kv_head, begin);
  for (int tile = begin; tile < end; ++tile) {
    const int stage = tile % kStages<kE>;
    wait_for_copies<0>();
    auto& arrivals = shared.arrivals;
    if constexpr (kIsQuant<C>) {
      __syncthreads();
      widen_keys(arrivals, stage);
    }
    P::publish();
    __syncthreads();  // also behind the reads of the stage that is filled next
    if (kStages<kE> == 2 && tile + 1 < end) fetch_keys(shared, p, cells, m, kv_head, tile + 1);
    float s[kTiles][4];
    P::scores(shared.queries, arrivals.tile_of_keys(stage), s, l);
    if constexpr (kIsQuant<C>) scale_columns(s, arrivals.key_scales[stage], l);
    // Almost all tiles need no mask.
    const int32_t first_key = tile * kKeys;
    const bool is_whole = first_key + kKeys - 1 <= min(rows.position[0], rows.position[1]) &&
                          first_key > max(rows.position[0], rows.position[1]) - reach;
    if (!__all_sync(0xffffffffu, is_whole)) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int32_t position = rows.position[c / 2],
                        key = first_key + 8 * j + 2 * l.place + c % 2;
          if (key > position || key <= position - reach) s[j][c] = -INFINITY;
        }
      }
    }
    online_softmax<kE>(s, state, to_log2);
    if constexpr (kIsQuant<C>) scale_columns(s, arrivals.value_scales[stage], l);
    P::add_values(s, arrivals.tile_of_values(stage), state.out, l);
    if (kStages<kE> == 1 && tile + 1 < end) {
      __syncthreads();
      fetch_keys(shared, p, cells, m, kv_head, tile + 1);
    }
  }
}

// Whether the tile has two tokens of a sequence, or padding, whose rows are cleared. Called by all
// threads of a block.
template <class S>
__device__ __forceinline__ bool has_work(const S& shared, int tokens) {
  static_assert(kThreads == 2 * kRows);
  const int own = static_cast<int>(threadIdx.x) % kRows,
            others = static_cast<int>(threadIdx.x) / kRows * (kRows / 2);
  const bool is_live = shared.positions[own] >= 0;
  bool any = own < tokens && !is_live;
#pragma unroll 8
  for (int i = others; i < others + kRows / 2; ++i)
    any |= is_live && i != own && shared.positions[i] >= 0 && shared.slots[i] == shared.slots[own];
  return __syncthreads_or(any) != 0;
}

// Starts to copy the queries, with the first keys.
template <class P, int kE, typename C>
__device__ __forceinline__ void fetch_queries(Shared<P, kE, C>& shared,
                                              const HeadRows<const Bf16>& q,
                                              int tokens,
                                              int head_size) {
  constexpr int kVectors = kE / 8;
#pragma unroll
  for (int k = 0; k < kRows * kVectors / kThreads; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kThreads;
    const int row = i / kVectors, column = i % kVectors * 8;
    const bool inside = row < tokens && column < head_size;
    copy_async(shared.queries.elements + P::Operand::place(row, column),
               q.data + (inside ? row * q.stride + column : 0), inside);
  }
}

template <class P, int kE, typename C>
__device__ __forceinline__ void attend(const CachedAttention<uint16_t, C>& p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared<P, kE, C>*>(memory);
  const Lane l;
  let_next_start();
  if (!p.is_ready_early) wait_for_grids();
  const auto heads = static_cast<int>(p.heads), tokens = static_cast<int>(p.cells.tokens);
  const int head = static_cast<int>(blockIdx.x) % heads;
  // The last tokens of a prompt attend to the most keys, so they start first.
  const int first =
      (static_cast<int>(gridDim.x) / heads - 1 - static_cast<int>(blockIdx.x) / heads) * kRows;
  const int64_t kv_head = head / (p.heads / p.keys.kv_heads);
  if (threadIdx.x < kRows) {
    const int token = first + static_cast<int>(threadIdx.x);
    const bool inside = token < tokens;
    shared.positions[threadIdx.x] = inside ? live_position(p.cells, token) : -1;
    shared.slots[threadIdx.x] = inside ? p.cells.slots[token] : -1;
  }
  __syncthreads();
  const bool works = has_work(shared, tokens - first);
  wait_for_grids();
  note_bad_cells(p.cells);
  if (!works) return;
  const HeadRows<const Bf16> q{
      reinterpret_cast<const Bf16*>(p.q.data) + first * p.q.token_stride + head * p.q.head_stride,
      p.q.token_stride};
  const auto head_size = static_cast<int>(p.keys.head_size);
  fetch_queries(shared, q, tokens - first, head_size);
  uint64_t left = live_tokens(shared.positions);
  State<kE> state;
  while (left != 0) {
    const Members members = take_members(shared, p.reach, left);
    if (__popcll(members.sequence.tokens) == 1) continue;  // launch_cached_attention_of_lone_tokens
    iterate_keys<P>(shared, p, members, kv_head, state, l);
  }
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = row_sum(state.sum[r]);
    inverse[r] = total > 0.0f ? 1.0f / total : 0.0f;
  }
  const HeadRows<Bf16> o{
      reinterpret_cast<Bf16*>(p.o.data) + first * p.o.token_stride + head * p.o.head_stride,
      p.o.token_stride};
  store_rows<Bf16, kE>(o, 0, tokens - first, head_size, state.out, inverse[0], inverse[1], l);
}

template <int kE, typename C>
__global__ void __launch_bounds__(kThreads, 2)
    flash_attention_cached_kernel(const __grid_constant__ CachedAttention<uint16_t, C> p) {
  attend<WarpProducts<kE>, kE>(p);
}
template <int kE, typename C>
__global__ void __launch_bounds__(kThreads, 2)
    flash_attention_cached_hopper_kernel(const __grid_constant__ CachedAttention<uint16_t, C> p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  attend<WarpgroupProducts<kE>, kE>(p);
#else
  __trap();
#endif
}

template <class P, int kE, typename C, typename Kernel>
cudaError_t launch(Kernel kernel, const CachedAttention<uint16_t, C>& call, cudaStream_t stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<P, kE, C>));
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  const int64_t tiles = (call.cells.tokens + kRows - 1) / kRows;
  return launch_early(kernel, static_cast<unsigned>(tiles * call.heads), kThreads, kBytes, stream,
                      call);
}

}  // namespace

template <typename C>
cudaError_t launch_flash_attention_cached(const CachedAttention<uint16_t, C>& call,
                                          cudaStream_t stream) {
  const int64_t head_size = call.keys.head_size, vector = 16 / static_cast<int64_t>(sizeof(C));
  if (head_size % vector != 0 || head_size > kCachedAttentionMostHeadSize || call.reach < 1)
    return cudaErrorInvalidValue;
  if (call.cells.tokens == 0) return cudaSuccess;
  return with_padded_head(head_size, [&](auto padded) {
    constexpr int kE = decltype(padded)::value;
    return has_warpgroups()
               ? launch<WarpgroupProducts<kE>, kE>(flash_attention_cached_hopper_kernel<kE, C>,
                                                   call, stream)
               : launch<WarpProducts<kE>, kE>(flash_attention_cached_kernel<kE, C>, call, stream);
  });
}

template cudaError_t launch_flash_attention_cached(const CachedAttention<uint16_t>&, cudaStream_t);
template cudaError_t launch_flash_attention_cached(const CachedAttention<uint16_t, int8_t>&,
                                                   cudaStream_t);
template cudaError_t launch_flash_attention_cached(const CachedAttention<uint16_t, F8E4M3>&,
                                                   cudaStream_t);

}  // namespace ridge::backends::cuda
