// SPDX-License-Identifier: Apache-2.0
// Attention of single tokens over a KV cache in bf16 for heads that share keys, on mma.sync: up to
// eight heads are the rows of a product. When the weights multiply the values, the other eight
// rows have what rounding the weights to bf16 leaves, so that the weights count with 16 bits. Each
// warp takes its own 16 of the 64 keys that the block has in shared memory. Other arithmetic, and
// heads with keys of their own, are in cached_attention.cu.
#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/cache/cached_parts.cuh"
#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/flash_attention/tensor/cached_tile.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace tensor;
static_assert(kThreads == kPartThreads);

constexpr int kKeys = 64;      // per tile
constexpr int kWarpKeys = 16;  // per warp
static_assert(kKeys == kWarpKeys * kWarps);

// Tiles in shared memory: one is multiplied while the next is on its way.
constexpr int kStages = 2;

template <int kE>
struct KeyTile {
  Bf16 keys[kKeys * Tile<Bf16, kE>::kStride];
  Bf16 values[kKeys * Tile<Bf16, kE>::kStride];
};

template <int kE>
struct Shared {
  Bf16 queries[16 * Tile<Bf16, kE>::kStride];
  union {
    KeyTile<kE> stages[kStages];
    Merged<kMostGroup, kWarps, kE> merged;  // after the last tile
  };
  PartScratch<kMostGroup> part;
};

// Copies tiles of a part to shared memory, in order. The rows of a tile are looked up while the
// one before it is copied.
template <int kE>
class KeyCopies {
 public:
  __device__ __forceinline__ KeyCopies(const CachedAttention<uint16_t>& p,
                                       const SlotCells& cells,
                                       const KeyRange& part,
                                       int64_t kv_head)
      : p_(p),
        cells_(cells),
        part_(part),
        own_(kv_head * p.keys.head_size + column_),
        key_(part.begin + row_) {
    look_up();
  }

  // Copies the next tile, if there is one.
  __device__ __forceinline__ void next(KeyTile<kE>& tile) {
    const int64_t first = key_ - row_, width = p_.keys.kv_heads * p_.keys.head_size;
    if (first < part_.end) {
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const bool inside = key_ + k * kRowsApart < part_.end && column_ < p_.keys.head_size;
        const int64_t at = inside ? rows_[k] * width + own_ : 0;
        const int to = (row_ + k * kRowsApart) * Rows::kStride + column_;
        copy_async(&tile.keys[to], p_.keys.data + at, inside);
        copy_async(&tile.values[to], p_.values.data + at, inside);
      }
      key_ += kKeys;
      look_up();
    }
    commit_copies();
  }

 private:
  using Rows = Tile<Bf16, kE>;
  static constexpr int kRowsApart = kThreads / Rows::kVectors, kEach = kKeys / kRowsApart;

  // Keys behind the part's last are replaced by it, and those of an empty part by its first.
  __device__ __forceinline__ void look_up() {
    uint32_t cell[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      cell[k] =
          part_.cell(max(min(key_ + k * kRowsApart, part_.end - 1), part_.begin), cells_.ring);
    cells_.find_rows(cell, rows_);
  }

  const CachedAttention<uint16_t>& p_;
  const SlotCells& cells_;
  const KeyRange& part_;
  const int row_ = static_cast<int>(threadIdx.x) / Rows::kVectors;
  const int column_ = static_cast<int>(threadIdx.x) % Rows::kVectors * Rows::kVector;
  const int64_t own_;
  int64_t key_;
  int64_t rows_[kEach];
};

// The state of a warp: head g is the sum of the accumulators' rows g and g + 8.
template <int kE>
struct State {
  float out[kE / 8][4] = {};
  float top = kMinusInfinity, sum = 0.0f;
};

// Adds the warp's keys of a tile, which begin at position `first`.
template <int kE>
__device__ __forceinline__ void add_keys(const Bf16* queries,
                                         const KeyTile<kE>& tile,
                                         int64_t first,
                                         int64_t end,
                                         float to_log2,
                                         State<kE>& state,
                                         Lane l) {
  constexpr int kStride = Tile<Bf16, kE>::kStride;
  const Bf16* own = left_address(queries, kStride);
  const Bf16* streamed = right_address(tile.keys + l.row * kStride, kStride);
  float s[2][4] = {};
#pragma unroll
  for (int step = 0; step < kE / 16; ++step)
    add_products(s, own + 16 * step, streamed + 16 * step, kStride);
  const int64_t own_first = first + l.row + 2 * l.place;
  float highest = kMinusInfinity;
#pragma unroll
  for (int j = 0; j < 2; ++j)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (own_first + 8 * j + c >= end) s[j][c] = kMinusInfinity;
      highest = fmaxf(highest, s[j][c]);
    }
  const float top = fmaxf(state.top, row_max(highest) * to_log2), base = exponent_base(top),
              kept = exp2_hardware(state.top - base);
  state.top = top;
  state.sum *= kept;
#pragma unroll
  for (int j = 0; j < 2; ++j)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      s[j][c] = exp2_hardware(fmaf(s[j][c], to_log2, -base));
      state.sum += s[j][c];
    }
  if (!__all_sync(0xffffffffu, kept == 1.0f)) {
#pragma unroll
    for (int n = 0; n < kE / 8; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) state.out[n][c] *= kept;
  }
  uint32_t weights[4];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const uint32_t rounded = Product<Bf16>::pack(s[j][0], s[j][1]);
    weights[2 * j] = rounded;
    weights[2 * j + 1] = Product<Bf16>::pack(s[j][0] - __uint_as_float(rounded << 16),
                                             s[j][1] - __uint_as_float(rounded & 0xffff0000u));
  }
#pragma unroll
  for (int n = 0; n < kE / 8; n += 2) {
    uint32_t b[4];
    Product<Bf16>::right_columns(b, tile.values + l.row * kStride, kStride, 0, 8 * n, l);
    Product<Bf16>::run(state.out[n], weights, b[0], b[1]);
    Product<Bf16>::run(state.out[n + 1], weights, b[2], b[3]);
  }
}

// One token's heads over one part of its keys.
template <int kE>
__device__ __forceinline__ void attend(const CachedAttention<uint16_t>& p,
                                       Shared<kE>& shared,
                                       const BlockHeads<kMostGroup>& block,
                                       int64_t token,
                                       int32_t position,
                                       int split,
                                       int splits) {
  using Rows = Tile<Bf16, kE>;
  const Lane l;
  const SlotCells cells(p.cells, p.cells.slots[token]);
  const KeyRange part = part_of(position, p.reach, cells.ring, split, splits, kKeys);
  const auto tiles = static_cast<int>((part.end - part.begin + kKeys - 1) / kKeys);
  for (int i = static_cast<int>(threadIdx.x); i < 16 * Rows::kVectors; i += kThreads) {
    const int row = i / Rows::kVectors, column = i % Rows::kVectors * Rows::kVector;
    const bool inside = row < block.count && column < p.keys.head_size;
    const uint16_t* from = inside ? p.q.head(token, block.first + row) + column : p.q.data;
    copy_async(shared.queries + row * Rows::kStride + column, from, inside);
  }
  KeyCopies<kE> copies(p, cells, part, block.kv_head);
#pragma unroll
  for (int stage = 0; stage + 1 < kStages; ++stage) copies.next(shared.stages[stage]);
  State<kE> state;
  const float to_log2 = p.scale * kLog2E;
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for_copies<kStages - 2>();
    __syncthreads();  // the tile has come, and all have read the one before
    copies.next(shared.stages[(tile + kStages - 1) % kStages]);
    add_keys<kE>(shared.queries, shared.stages[tile % kStages], part.begin + int64_t{kKeys} * tile,
                 part.end, to_log2, state, l);
  }
  wait_for_copies<0>();
  __syncthreads();
  const int warp = l.row / 16;
  const float sum = row_sum(state.sum);
  if (l.place == 0) {
    shared.merged.top[l.group][warp] = state.top;
    shared.merged.sum[l.group][warp] = sum;
  }
#pragma unroll
  for (int n = 0; n < kE / 8; ++n)
    *reinterpret_cast<float2*>(&shared.merged.mix[l.group][warp][8 * n + 2 * l.place]) =
        make_float2(state.out[n][0] + state.out[n][2], state.out[n][1] + state.out[n][3]);
  __syncthreads();
  store_part(p, shared.merged, shared.part, block, token, split, splits);
}

template <int kE>
__device__ __forceinline__ Shared<kE>& shared_memory() {
  extern __shared__ __align__(16) unsigned char memory[];
  return *reinterpret_cast<Shared<kE>*>(memory);
}

// Mapping: one block per part of the keys (x), per kMostGroup of the heads that share a KV head
// (y), and per token (z). Bound: memory, the keys and values that the tokens attend to; with few
// tokens, latency.
template <int kE>
__global__ void __launch_bounds__(kThreads)
    cached_group_kernel(const __grid_constant__ CachedAttention<uint16_t> p) {
  let_next_start();
  wait_for_grids();
  const BlockHeads<kMostGroup> block(p, blockIdx.y);
  const int64_t token = blockIdx.z;
  note_bad_cells(p.cells);
  const int32_t position = live_position(p.cells, token);
  if (position < 0) {
    if (blockIdx.x == 0) clear_heads(p, block, token);
    return;
  }
  const int splits = splits_of(position, p.reach, kKeys);
  if (static_cast<int>(blockIdx.x) >= splits) return;
  attend<kE>(p, shared_memory<kE>(), block, token, position, static_cast<int>(blockIdx.x), splits);
}

// The tokens that launch_flash_attention_cached leaves out. Mapping: one block per token and
// kMostGroup heads, the heads of a token next to each other. Bound: memory; the block of another
// token ends after one read of its tile's slots.
template <int kE>
__global__ void __launch_bounds__(kThreads)
    lone_group_kernel(const __grid_constant__ CachedAttention<uint16_t> p) {
  let_next_start();
  wait_for_grids();
  const auto blocks = static_cast<unsigned>(head_blocks<kMostGroup>(p));
  const int64_t token = blockIdx.x / blocks;
  const int32_t position = live_position(p.cells, token);
  if (position < 0 || has_company(p.cells, token)) return;
  attend<kE>(p, shared_memory<kE>(), BlockHeads<kMostGroup>(p, blockIdx.x % blocks), token,
             position, 0, 1);
}

template <typename Kernel>
cudaError_t launch(Kernel kernel,
                   int bytes,
                   dim3 grid,
                   const CachedAttention<uint16_t>& call,
                   cudaStream_t stream) {
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  return status != cudaSuccess ? status : launch_early(kernel, grid, kThreads, bytes, stream, call);
}

}  // namespace

bool suits_group(const CachedAttention<uint16_t>& call) {
  return call.heads > call.keys.kv_heads && call.keys.head_size % 8 == 0 &&
         call.keys.head_size <= kCachedAttentionMostHeadSize && lies_in_vectors(call.q) &&
         reinterpret_cast<uintptr_t>(call.keys.data) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(call.values.data) % 16 == 0;
}

cudaError_t launch_cached_group(const CachedAttention<uint16_t>& call,
                                int64_t splits,
                                cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(splits),
                  static_cast<unsigned>(head_blocks<kMostGroup>(call)),
                  static_cast<unsigned>(call.cells.tokens));
  return with_padded_head(call.keys.head_size, [&](auto padded) {
    constexpr int kE = decltype(padded)::value;
    return launch(cached_group_kernel<kE>, sizeof(Shared<kE>), grid, call, stream);
  });
}

cudaError_t launch_lone_group(const CachedAttention<uint16_t>& call, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(call.cells.tokens * head_blocks<kMostGroup>(call)));
  return with_padded_head(call.keys.head_size, [&](auto padded) {
    constexpr int kE = decltype(padded)::value;
    return launch(lone_group_kernel<kE>, sizeof(Shared<kE>), grid, call, stream);
  });
}

}  // namespace ridge::backends::cuda
