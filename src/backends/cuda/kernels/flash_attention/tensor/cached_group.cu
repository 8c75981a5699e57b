// SPDX-License-Identifier: Apache-2.0
// Attention of single tokens over a KV cache in bf16 for heads that share keys, on mma.sync: up to
// eight heads are the rows of a product. When the weights multiply the values, the other eight
// rows have what rounding the weights to bf16 leaves, so that the weights count with 16 bits. Each
// warp copies its own tiles of 16 keys to shared memory and waits for no other warp until its last
// key; the first tiles are copied before the kernels before this one end. Other arithmetic, and
// heads with keys of their own, are in cached_attention.cu.
#include <algorithm>

#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/cache/cached_parts.cuh"
#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/flash_attention/tensor/cached_tile.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace tensor;

constexpr int kWarpKeys = 16;  // keys of a warp's tile
// Keys of the tiles of all warps.
template <int kWarps>
inline constexpr int kKeys{kWarps * kWarpKeys};
// Tiles of a warp in shared memory: one is multiplied while the others are on their way. With heads
// of 64 elements four blocks fit on a multiprocessor and have 128 KiB in flight there.
constexpr int kStages = 3;

// Rows are not padded: vector v of row r lies at v ^ r % 8, so that eight rows of a matrix are on
// different banks.
template <int kE>
struct WarpTile {
  static constexpr int kVector = 8, kVectors = kE / kVector;  // elements, and vectors per row
  static_assert(kVectors % 8 == 0);
  Bf16 keys[kWarpKeys * kE];
  Bf16 values[kWarpKeys * kE];

  static __device__ __forceinline__ int place(int row, int vector) {
    return row * kE + (vector ^ row % 8) * kVector;
  }
};

template <int kE, int kWarps>
struct Shared {
  union {
    WarpTile<kE> tiles[kWarps][kStages];
    Merged<kMostGroup, kWarps, kE> merged;  // after the last tile
  };
  PartScratch<kMostGroup> part;
};

// Copies a warp's tiles of a part to shared memory, in order: its 16 keys of every 16 kWarps. Each
// lane looks up the row of one key of a tile while the tile before it is copied.
template <int kE, int kWarps>
class KeyCopies {
 public:
  __device__ __forceinline__ KeyCopies(const CachedAttention<uint16_t>& p,
                                       const SlotCells& cells,
                                       const KeyRange& part,
                                       int64_t kv_head)
      : p_(p),
        cells_(cells),
        part_(part),
        own_(kv_head * p.keys.head_size + vector_ * Rows::kVector),
        left_(static_cast<int>(part.end - part.begin) -
              static_cast<int>(threadIdx.x) / 32 * kWarpKeys) {
    look_up();
  }

  // Copies the next tile, if there is one.
  __device__ __forceinline__ void next(WarpTile<kE>& tile) {
    const int64_t width = p_.keys.kv_heads * p_.keys.head_size;
    if (left_ > 0) {
      const bool is_inside = vector_ * Rows::kVector < p_.keys.head_size;
#pragma unroll
      for (int k = 0; k < kWarpKeys / kRowsApart; ++k) {
        const int key = row_ + k * kRowsApart;
        const int64_t at = __shfl_sync(0xffffffffu, row_of_key_, key) * width + own_;
        const bool inside = key < left_ && is_inside;
        const int to = Rows::place(key, vector_);
        copy_async(&tile.keys[to], p_.keys.data + (inside ? at : 0), inside);
        copy_async(&tile.values[to], p_.values.data + (inside ? at : 0), inside);
      }
      left_ -= kKeys<kWarps>;
      look_up();
    }
    commit_copies();
  }

 private:
  using Rows = WarpTile<kE>;
  static constexpr int kRowsApart = 32 / Rows::kVectors;

  // Keys behind the part's last are replaced by it, and those of an empty part by its first.
  __device__ __forceinline__ void look_up() {
    const int64_t key = part_.end - left_ + static_cast<int>(threadIdx.x) % kWarpKeys;
    row_of_key_ = cells_.row(part_.cell(max(min(key, part_.end - 1), part_.begin), cells_.ring));
  }

  const CachedAttention<uint16_t>& p_;
  const SlotCells& cells_;
  const KeyRange& part_;
  const int row_ = static_cast<int>(threadIdx.x) % 32 / Rows::kVectors;
  const int vector_ = static_cast<int>(threadIdx.x) % Rows::kVectors;
  const int64_t own_;
  int left_;  // keys from the next tile's first on
  int64_t row_of_key_;
};

// The queries of a block's heads as the upper eight rows of the left operand; the others are 0.
template <int kE>
struct Queries {
  uint32_t pairs[kE / 16][2];

  __device__ __forceinline__ void load(const CachedAttention<uint16_t>& p,
                                       const BlockHeads<kMostGroup>& block,
                                       int64_t token,
                                       Lane l) {
    const bool is_head = l.group < block.count;
    const uint16_t* own = p.q.head(token, block.first + (is_head ? l.group : 0));
#pragma unroll
    for (int step = 0; step < kE / 16; ++step)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = 16 * step + 8 * half + 2 * l.place;
        pairs[step][half] = is_head && column < p.keys.head_size ? word(own + column) : 0;
      }
  }
};

// The state of a warp: head g is the sum of the accumulators' rows g and g + 8.
template <int kE>
struct State {
  float out[kE / 8][4] = {};
  float top = kMinusInfinity, sum = 0.0f;
};

__device__ __forceinline__ const Bf16* moved(const Bf16* rows, int bytes) {
  return reinterpret_cast<const Bf16*>(reinterpret_cast<const unsigned char*>(rows) + bytes);
}
__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], const Bf16* at) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(at));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Adds the keys of a tile, which begin at position `first`.
template <int kE>
__device__ __forceinline__ void add_keys(const Queries<kE>& queries,
                                         const WarpTile<kE>& tile,
                                         int64_t first,
                                         int64_t end,
                                         float to_log2,
                                         State<kE>& state,
                                         Lane l) {
  constexpr int kVectorBytes = 16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Bf16* keys = tile.keys + (lane % 8 + lane / 16 * 8) * kE;
  const int key_place = (lane / 8 % 2 ^ lane % 8) * kVectorBytes;
  float s[2][4] = {};
#pragma unroll
  for (int step = 0; step < kE / 16; ++step) {
    uint32_t b[4];
    load_matrices(b, moved(keys, 2 * step * kVectorBytes ^ key_place));
    const uint32_t a[4] = {queries.pairs[step][0], 0, queries.pairs[step][1], 0};
    Product<Bf16>::run(s[0], a, b[0], b[1]);
    Product<Bf16>::run(s[1], a, b[2], b[3]);
  }
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
  const Bf16* values = tile.values + lane % 16 * kE;
  const int value_place = (lane / 16 ^ lane % 8) * kVectorBytes;
#pragma unroll
  for (int n = 0; n < kE / 8; n += 2) {
    uint32_t b[4];
    load_transposed(b, moved(values, n * kVectorBytes ^ value_place));
    Product<Bf16>::run(state.out[n], weights, b[0], b[1]);
    Product<Bf16>::run(state.out[n + 1], weights, b[2], b[3]);
  }
}

// Whether a token of this run writes one of the cells that the block copies first. Called by all
// threads of a block.
template <int kWarps>
__device__ __forceinline__ bool are_written_now(const CacheCells& cells,
                                                int32_t slot,
                                                uint32_t ring,
                                                const KeyRange& part) {
  const auto count =
      static_cast<uint32_t>(min(part.end - part.begin, int64_t{(kStages - 1) * kKeys<kWarps>}));
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
template <int kE, int kWarps>
__device__ __forceinline__ void attend(const CachedAttention<uint16_t>& p,
                                       Shared<kE, kWarps>& shared,
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
  KeyCopies<kE, kWarps> copies(p, cells, part, block.kv_head);
  if (!p.is_ready_early || are_written_now<kWarps>(p.cells, slot, cells.ring, part))
    wait_for_grids();
  WarpTile<kE>* tiles = shared.tiles[warp];
#pragma unroll
  for (int stage = 0; stage + 1 < kStages; ++stage) copies.next(tiles[stage]);
  wait_for_grids();
  Queries<kE> queries;
  queries.load(p, block, token, l);
  State<kE> state;
  const float to_log2 = p.scale * kLog2E;
  int stage = 0, free = kStages - 1;
#pragma unroll 1
  for (int64_t first = part.begin + l.row; first < part.end; first += kKeys<kWarps>) {
    wait_for_copies<kStages - 2>();
    __syncwarp();  // the tile has come, and all lanes have read the one before
    copies.next(tiles[free]);
    add_keys<kE>(queries, tiles[stage], first, part.end, to_log2, state, l);
    free = stage;
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
  wait_for_copies<0>();
  __syncthreads();  // the results lie where the tiles did
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

// Blocks of four warps per multiprocessor, as many as shared memory holds.
template <int kE>
inline constexpr int kMostBlocks = 256 / kE;

template <int kE, int kWarps>
__device__ __forceinline__ Shared<kE, kWarps>& shared_memory() {
  extern __shared__ __align__(16) unsigned char memory[];
  return *reinterpret_cast<Shared<kE, kWarps>*>(memory);
}

// Mapping: one block per part of the keys (x), per kMostGroup of the heads that share a KV head
// (y), and per token (z). Bound: memory, the keys and values that the tokens attend to; with few
// tokens, latency. Of an H200's reading rate 32, 64 and 128 tokens with 8 KV heads of 64 elements
// and 1,031 keys reach 84, 90 and 93%, with heads of 128 90 and 93% (32 and 64 tokens).
template <int kE, int kWarps>
__global__ void __launch_bounds__(32 * kWarps, 4 * kMostBlocks<kE> / kWarps)
    cached_group_kernel(const __grid_constant__ CachedAttention<uint16_t> p) {
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
  attend(p, shared_memory<kE, kWarps>(), block, token, position, static_cast<int>(blockIdx.x),
         splits);
  note_bad_cells(p.cells);
}

// The tokens that launch_flash_attention_cached leaves out. Mapping: one block per token and
// kMostGroup heads, the heads of a token next to each other. Bound: memory; the block of another
// token ends after one read of its tile's slots.
template <int kE, int kWarps>
__global__ void __launch_bounds__(32 * kWarps, 4 * kMostBlocks<kE> / kWarps)
    lone_group_kernel(const __grid_constant__ CachedAttention<uint16_t> p) {
  let_next_start();
  if (!p.is_ready_early) wait_for_grids();
  const auto blocks = static_cast<unsigned>(head_blocks<kMostGroup>(p));
  const int64_t token = blockIdx.x / blocks;
  const int32_t position = live_position(p.cells, token);
  if (position < 0 || has_company(p.cells, token)) {
    wait_for_grids();
    return;
  }
  attend(p, shared_memory<kE, kWarps>(), BlockHeads<kMostGroup>(p, blockIdx.x % blocks), token,
         position, 0, 1);
}

template <int kE, int kWarps, typename Kernel>
cudaError_t launch(Kernel kernel,
                   dim3 grid,
                   const CachedAttention<uint16_t>& call,
                   cudaStream_t stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<kE, kWarps>));
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  return status != cudaSuccess ? status
                               : launch_early(kernel, grid, 32 * kWarps, kBytes, stream, call);
}

// Calls launch(integral constant, integral constant, blocks) for the elements of a padded head, the
// warps of a block, and how many blocks run at once. A block has eight warps where the tokens'
// blocks fill half of the multiprocessors' shared memory at most: its warps combine their results
// faster than blocks do.
template <typename Launch>
cudaError_t with_form(const CachedAttention<uint16_t>& call, const Launch& launch) {
  constexpr int64_t kMultiprocessors = 132;
  const int64_t blocks = call.cells.tokens * head_blocks<kMostGroup>(call);
  return with_padded_head(call.keys.head_size, [&](auto padded) {
    constexpr int kE = decltype(padded)::value;
    constexpr int64_t kAtOnce = kMultiprocessors * kMostBlocks<kE>;
    if constexpr (kMostBlocks < kE >> 1)
      if (2 * blocks <= kAtOnce)
        return launch(padded, std::integral_constant<int, 8>(), kAtOnce / 2);
    return launch(padded, std::integral_constant<int, 4>(), kAtOnce);
  });
}

}  // namespace

bool suits_group(const CachedAttention<uint16_t>& call) {
  return call.heads > call.keys.kv_heads && call.keys.head_size % 8 == 0 &&
         call.keys.head_size <= kCachedAttentionMostHeadSize && lies_in_vectors(call.q) &&
         reinterpret_cast<uintptr_t>(call.keys.data) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(call.values.data) % 16 == 0;
}

cudaError_t launch_cached_group(const CachedAttention<uint16_t>& call,
                                int64_t most_splits,
                                cudaStream_t stream) {
  const int64_t head_groups = head_blocks<kMostGroup>(call);
  return with_form(call, [&](auto padded, auto warps, int64_t at_once) {
    constexpr int kE = decltype(padded)::value, kWarps = decltype(warps)::value;
    const int64_t splits =
        std::clamp<int64_t>(at_once / (call.cells.tokens * head_groups), 1, most_splits);
    const dim3 grid(static_cast<unsigned>(splits), static_cast<unsigned>(head_groups),
                    static_cast<unsigned>(call.cells.tokens));
    return launch<kE, kWarps>(cached_group_kernel<kE, kWarps>, grid, call, stream);
  });
}

cudaError_t launch_lone_group(const CachedAttention<uint16_t>& call, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(call.cells.tokens * head_blocks<kMostGroup>(call)));
  return with_form(call, [&](auto padded, auto warps, int64_t) {
    constexpr int kE = decltype(padded)::value, kWarps = decltype(warps)::value;
    return launch<kE, kWarps>(lone_group_kernel<kE, kWarps>, grid, call, stream);
  });
}

}  // namespace ridge::backends::cuda
