// SPDX-License-Identifier: Apache-2.0
// Attention of single tokens over a KV cache in bf16, or in quants of 8 bits with scales, on
// mma.sync: the heads that share keys, up to eight, are the rows of a product (key_tile.cuh). Each
// warp copies its own tiles of 16 keys to shared memory and waits for no other warp until its last
// key; the first tiles are copied before the kernels before this one end. Other arithmetic is in
// cached_attention.cu.
#include <algorithm>

#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/cache/cached_parts.cuh"
#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/flash_attention/tensor/key_tile.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace tensor;

// Keys of the tiles of all warps.
template <int kWarps>
inline constexpr int kKeys{kWarps * kWarpKeys};

// Blocks of four warps per multiprocessor, as many as shared memory and registers hold.
template <int kE, typename C>
inline constexpr int kMostBlocks = !kIsQuant<C> ? 256 / kE
                                   : kE == 64   ? 4
                                   : kE == 128  ? 3
                                                : 2;
// Tiles of a warp in shared memory: one is multiplied while the others are on their way, 128 KiB
// of them or more on a multiprocessor.
template <int kE, typename C>
inline constexpr int kStages = !kIsQuant<C> || kE == 256 ? 3
                               : kE == 64                ? 6
                                                         : 4;

template <int kE, typename C, int kWarps>
struct Shared {
  union {
    WarpTile<kE, C> tiles[kWarps][kStages<kE, C>];
    Merged<kMostGroup, kWarps, kE> merged;  // after the last tile
  };
  PartScratch<kMostGroup> part;
};

// Copies a warp's tiles of a part to shared memory, in order: its 16 keys of every 16 kWarps. Each
// lane looks up the row of one key of a tile while the tile before it is copied.
template <int kE, typename C, int kWarps>
class KeyCopies {
 public:
  __device__ __forceinline__ KeyCopies(const CachedAttention<uint16_t, C>& p,
                                       const SlotCells& cells,
                                       const KeyRange& part,
                                       int64_t kv_head)
      : p_(p),
        cells_(cells),
        part_(part),
        kv_head_(kv_head),
        own_(kv_head * p.keys.head_size + vector_ * Rows::kVector),
        left_(static_cast<int>(part.end - part.begin) -
              static_cast<int>(threadIdx.x) / 32 * kWarpKeys) {
    look_up();
  }

  // Copies the next tile, if there is one.
  __device__ __forceinline__ void next(WarpTile<kE, C>& tile) {
    const int64_t width = p_.keys.kv_heads * p_.keys.head_size;
    if (left_ > 0) {
      const bool is_inside = vector_ * Rows::kVector < p_.keys.head_size;
#pragma unroll
      for (int k = 0; k < kWarpKeys / kRowsApart; ++k) {
        const int key = row_ + k * kRowsApart;
        const int64_t at = __shfl_sync(0xffffffffu, row_of_key_, key) * width + own_;
        const bool inside = key < left_ && is_inside;
        copy_async(&tile.keys[Rows::key_place(key, vector_)], p_.keys.data + (inside ? at : 0),
                   inside);
        copy_async(&tile.values[Rows::value_place(key, vector_)],
                   p_.values.data + (inside ? at : 0), inside);
      }
      if constexpr (kIsQuant<C>) {  // the lanes of a half warp each have one key
        const bool is_key = threadIdx.x % 32 < kWarpKeys;
        const int key = static_cast<int>(threadIdx.x) % kWarpKeys;
        copy_scale_async((is_key ? tile.key_scales : tile.value_scales) + key,
                         (is_key ? p_.keys : p_.values).scales + scale_of_key_, key < left_);
      }
      left_ -= kKeys<kWarps>;
      look_up();
    }
    commit_copies();
  }

 private:
  using Rows = WarpTile<kE, C>;
  static constexpr int kRowsApart = 32 / Rows::kVectors;

  // Keys behind the part's last are replaced by it, and those of an empty part by its first.
  __device__ __forceinline__ void look_up() {
    const int64_t key = part_.end - left_ + static_cast<int>(threadIdx.x) % kWarpKeys;
    const CellPlace place =
        cells_.place(part_.cell(max(min(key, part_.end - 1), part_.begin), cells_.ring));
    row_of_key_ = place.row();
    if constexpr (kIsQuant<C>) scale_of_key_ = place.scale(p_.keys, kv_head_);
  }

  const CachedAttention<uint16_t, C>& p_;
  const SlotCells& cells_;
  const KeyRange& part_;
  const int row_ = static_cast<int>(threadIdx.x) % 32 / Rows::kVectors;
  const int vector_ = static_cast<int>(threadIdx.x) % Rows::kVectors;
  const int64_t kv_head_, own_;
  int left_;  // keys from the next tile's first on
  int64_t row_of_key_, scale_of_key_ = 0;
};

template <int kE, typename C>
struct State {
  Mix<kE, C> mix;
  float top = kMinusInfinity, sum = 0.0f;
};

__device__ __forceinline__ void scale_columns(float (&s)[2][4], const float* scales, Lane l) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float2 pair = *reinterpret_cast<const float2*>(scales + 8 * j + 2 * l.place);
    s[j][0] *= pair.x;
    s[j][1] *= pair.y;
  }
}

// Adds the keys of a tile, which begin at position `first`.
template <int kE, typename C>
__device__ __forceinline__ void add_keys(const Queries<kE, C>& queries,
                                         const WarpTile<kE, C>& tile,
                                         int64_t first,
                                         int64_t end,
                                         float to_log2,
                                         State<kE, C>& state,
                                         Lane l) {
  float s[2][4] = {};
  multiply_keys(queries, tile, s, l);
  if constexpr (kIsQuant<C>) scale_columns(s, tile.key_scales, l);
  const int64_t own_first = first + 2 * l.place;
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
  if (!__all_sync(0xffffffffu, kept == 1.0f)) state.mix.scale_by(kept);
  if constexpr (kIsQuant<C>) scale_columns(s, tile.value_scales, l);
  uint32_t weights[4];
  split_weights(s, weights);
  add_values(tile, weights, state.mix);
}

// Whether a token of this run writes one of the cells that the block copies first. Called by all
// threads of a block.
template <int kWarps>
__device__ __forceinline__ bool are_written_now(const CacheCells& cells,
                                                int32_t slot,
                                                uint32_t ring,
                                                const KeyRange& part,
                                                int tiles) {
  const auto count =
      static_cast<uint32_t>(min(part.end - part.begin, int64_t{tiles * kKeys<kWarps>}));
  bool is_written = false;
  for (int64_t other = threadIdx.x; other < cells.tokens; other += 32 * kWarps) {
    const int32_t position = cells.positions[other];
    if (cells.slots[other] != slot || position < 0) continue;
    const uint32_t cell = static_cast<uint32_t>(position) % ring;
    is_written |= (cell >= part.first_cell ? cell : cell + ring) - part.first_cell < count;
  }
  return __syncthreads_or(is_written) != 0;
}

// One token's heads over one part of its keys. The first keys are copied before the kernels before
// this one end, unless they write them.
template <int kE, typename C, int kWarps>
__device__ __forceinline__ void attend(const CachedAttention<uint16_t, C>& p,
                                       Shared<kE, C, kWarps>& shared,
                                       const BlockHeads<kMostGroup>& block,
                                       int64_t token,
                                       int32_t position,
                                       int split,
                                       int splits) {
  const Lane l;
  const int warp = l.row / 16;
  const int32_t slot = p.cells.slots[token];
  const SlotCells cells(p.cells, slot);
  const KeyRange part = part_of(position, p.reach, cells.ring, split, splits, kKeys<kWarps>);
  constexpr int kTiles = kStages<kE, C>;
  KeyCopies<kE, C, kWarps> copies(p, cells, part, block.kv_head);
  if (!p.is_ready_early || are_written_now<kWarps>(p.cells, slot, cells.ring, part, kTiles - 1))
    wait_for_grids();
  WarpTile<kE, C>* tiles = shared.tiles[warp];
#pragma unroll
  for (int stage = 0; stage + 1 < kTiles; ++stage) copies.next(tiles[stage]);
  wait_for_grids();
  Queries<kE, C> queries;
  queries.load(l.group < block.count ? p.q.head(token, block.first + l.group) : nullptr,
               p.keys.head_size, l);
  State<kE, C> state;
  const float to_log2 = p.scale * kLog2E;
  int stage = 0, free = kTiles - 1;
#pragma unroll 1
  for (int64_t first = part.begin + l.row; first < part.end; first += kKeys<kWarps>) {
    wait_for_copies<kTiles - 2>();
    __syncwarp();  // the tile has come, and all lanes have read the one before
    copies.next(tiles[free]);
    add_keys(queries, tiles[stage], first, part.end, to_log2, state, l);
    free = stage;
    stage = stage + 1 == kTiles ? 0 : stage + 1;
  }
  wait_for_copies<0>();
  __syncthreads();  // the results lie where the tiles did
  const float sum = row_sum(state.sum);
  if (l.place == 0) {
    shared.merged.top[l.group][warp] = state.top;
    shared.merged.sum[l.group][warp] = sum;
  }
  state.mix.store(shared.merged.mix[l.group][warp], l);
  __syncthreads();
  store_part(p, shared.merged, shared.part, block, token, split, splits);
}

template <int kE, typename C, int kWarps>
__device__ __forceinline__ Shared<kE, C, kWarps>& shared_memory() {
  extern __shared__ __align__(16) unsigned char memory[];
  return *reinterpret_cast<Shared<kE, C, kWarps>*>(memory);
}

// Mapping: one block per part of the keys (x), per kMostGroup of the heads that share a KV head
// (y), and per token (z). Bound: memory, the keys and values that the tokens attend to; with few
// tokens, latency. Of an H200's reading rate 32, 64 and 128 tokens with 8 KV heads of 64 elements
// and 1,031 keys reach 84, 90 and 93%, with heads of 128 90 and 93% (32 and 64 tokens).
template <int kE, typename C, int kWarps>
__global__ void __launch_bounds__(32 * kWarps, 4 * kMostBlocks<kE, C> / kWarps)
    cached_group_kernel(const __grid_constant__ CachedAttention<uint16_t, C> p) {
  let_next_start();
  if (!p.is_ready_early) wait_for_grids();
  const BlockHeads<kMostGroup> block(p, blockIdx.y);
  const int64_t token = blockIdx.z;
  const int32_t position = live_position(p.cells, token);
  const int splits = splits_of(position, p.reach, kKeys<kWarps>);
  if (position < 0 || static_cast<int>(blockIdx.x) >= splits) {
    wait_for_grids();
    note_bad_cells(p.cells);
    if (position < 0 && blockIdx.x == 0) clear_heads(p, block, token);
    return;
  }
  attend(p, shared_memory<kE, C, kWarps>(), block, token, position, static_cast<int>(blockIdx.x),
         splits);
  note_bad_cells(p.cells);
}

// The tokens that launch_flash_attention_cached leaves out. Mapping: one block per slot and
// kMostGroup heads, the heads of a slot next to each other. Bound: memory; a block without a lone
// token ends after a search of the slots.
template <int kE, typename C, int kWarps>
__global__ void __launch_bounds__(32 * kWarps, 4 * kMostBlocks<kE, C> / kWarps)
    lone_group_kernel(const __grid_constant__ CachedAttention<uint16_t, C> p) {
  let_next_start();
  if (!p.is_ready_early) wait_for_grids();
  const auto blocks = static_cast<unsigned>(head_blocks<kMostGroup>(p));
  const BlockHeads<kMostGroup> block(p, blockIdx.x % blocks);
  visit_lone_tokens(p.cells, blockIdx.x / blocks, [&](int64_t token, int32_t position) {
    attend(p, shared_memory<kE, C, kWarps>(), block, token, position, 0, 1);
  });
  wait_for_grids();
}

template <int kE, int kWarps, typename C, typename Kernel>
cudaError_t launch(Kernel kernel,
                   dim3 grid,
                   const CachedAttention<uint16_t, C>& call,
                   cudaStream_t stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<kE, C, kWarps>));
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  return status != cudaSuccess ? status
                               : launch_early(kernel, grid, 32 * kWarps, kBytes, stream, call);
}

constexpr int64_t kMultiprocessors = 132;

// Calls launch(integral constant, integral constant, blocks) for the elements of a padded head, the
// warps of a block, and how many blocks run at once. A block has eight warps where the tokens'
// blocks fill half of the multiprocessors' shared memory at most: its warps combine their results
// faster than blocks do.
template <typename C, typename Launch>
cudaError_t with_form(const CachedAttention<uint16_t, C>& call,
                      int64_t tokens,
                      const Launch& launch) {
  const int64_t blocks = tokens * head_blocks<kMostGroup>(call);
  return with_padded_head(call.keys.head_size, [&](auto padded) {
    constexpr int kE = decltype(padded)::value, kMost = kMostBlocks<kE, C>;
    if constexpr (kMost / 2 > 0)
      if (blocks <= kMultiprocessors * (kMost / 2))
        return launch(padded, std::integral_constant<int, 8>(), kMultiprocessors * (kMost / 2));
    return launch(padded, std::integral_constant<int, 4>(), kMultiprocessors * kMost);
  });
}

// Parts of the keys. The memory is busy with the keys in bf16 of few blocks; quants are widened, so
// that blocks should end at the same time: each takes as long as its part is.
template <typename C>
int64_t parts_of(int64_t blocks, int64_t at_once, int64_t most) {
  int64_t best = std::clamp<int64_t>(at_once / blocks, 1, most);
  if (!kIsQuant<C> || best > 1 || blocks >= 2 * at_once) return best;
  const auto rounds = [&](int64_t parts) { return (blocks * parts + at_once - 1) / at_once; };
  for (int64_t parts = 2; parts <= most && rounds(parts) <= 2; ++parts)
    if (rounds(parts) * best < rounds(best) * parts) best = parts;
  return best;
}

}  // namespace

template <typename C>
cudaError_t launch_cached_group(const CachedAttention<uint16_t, C>& call,
                                int64_t most_splits,
                                cudaStream_t stream) {
  const int64_t head_groups = head_blocks<kMostGroup>(call);
  return with_form(call, call.cells.tokens, [&](auto padded, auto warps, int64_t at_once) {
    constexpr int kE = decltype(padded)::value, kWarps = decltype(warps)::value;
    const int64_t blocks = call.cells.tokens * head_groups;
    const int64_t splits = parts_of<C>(blocks, at_once, most_splits);
    const dim3 grid(static_cast<unsigned>(splits), static_cast<unsigned>(head_groups),
                    static_cast<unsigned>(call.cells.tokens));
    return launch<kE, kWarps>(cached_group_kernel<kE, C, kWarps>, grid, call, stream);
  });
}

template <typename C>
cudaError_t launch_lone_group(const CachedAttention<uint16_t, C>& call, cudaStream_t stream) {
  const int64_t tokens = lone_blocks(call.cells);
  const dim3 grid(static_cast<unsigned>(tokens * head_blocks<kMostGroup>(call)));
  return with_form(call, tokens, [&](auto padded, auto warps, int64_t) {
    constexpr int kE = decltype(padded)::value, kWarps = decltype(warps)::value;
    return launch<kE, kWarps>(lone_group_kernel<kE, C, kWarps>, grid, call, stream);
  });
}

#define RIDGE_CACHE_TYPE(C)                                                              \
  template cudaError_t launch_cached_group(const CachedAttention<uint16_t, C>&, int64_t, \
                                           cudaStream_t);                                \
  template cudaError_t launch_lone_group(const CachedAttention<uint16_t, C>&, cudaStream_t);
RIDGE_CACHE_TYPE(uint16_t)
RIDGE_CACHE_TYPE(int8_t)
RIDGE_CACHE_TYPE(F8E4M3)
#undef RIDGE_CACHE_TYPE

}  // namespace ridge::backends::cuda
