// SPDX-License-Identifier: Apache-2.0
// cached_scores and cached_mix in bf16 on the tensor cores: attention over a KV cache with the
// matrix of scores in memory, as batched GEMMs per sequence and head.
//
// Mapping, many tokens: a block owns 64 tokens of a head and multiplies them with tiles of 64 cells
// of each sequence among them in turn, in the forms of tile_products.cuh, and copies a tile while
// it multiplies the one before. Few tokens: a block owns the tokens of one sequence among 16, and
// its warps share the columns (mma.sync). Bound: few tokens memory, the keys or values once per KV
// head; many tokens memory, the scores, and 2 E FLOPs per score.
#include <algorithm>

#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/flash_attention/tensor/tile_products.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace tensor;

constexpr int64_t kFewTokens = 64;
constexpr int kMostHeadSize = 512;  // three tiles of it fit into shared memory
constexpr int kPad = Product<Bf16>::kPad;

// The tokens of a block: rows of its tile, of which some belong to sequences and others are
// padding.
template <bool kFew>
struct TileTokens {
  static constexpr int kOwn = kFew ? 16 : kRows;

  int first;           // token of row 0
  uint64_t sequences;  // rows to multiply
  uint64_t written;    // rows to store; those that are padding get zeros

  // Called by all threads; `positions` and `slots` lie in shared memory.
  __device__ __forceinline__ TileTokens(const CacheCells& cells,
                                        int32_t* positions,
                                        int32_t* slots) {
    const auto block = static_cast<int>(blockIdx.z), tokens = static_cast<int>(cells.tokens);
    first = kFew ? block / kOwn * kOwn : block * kOwn;
    const auto row = static_cast<int>(threadIdx.x);
    if (row < kRows) {
      const bool inside = row < kOwn && first + row < tokens;
      positions[row] = inside ? live_position(cells, first + row) : -1;
      slots[row] = inside ? cells.slots[first + row] : -1;
    }
    __syncthreads();
    sequences = live_tokens(positions);
    written = ~uint64_t{0};
    if (!kFew) return;
    // The block of a sequence's first token takes the sequence; that of padding clears its row.
    const uint64_t own = uint64_t{1} << (block - first);
    if ((sequences & own) == 0) {
      sequences = 0;
      written = own;
      return;
    }
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int32_t slot = slots[block - first];
    sequences &= tokens_where(slots[lane] == slot, slots[lane + 32] == slot);
    written = sequences;
    if ((sequences & (own - 1)) != 0) sequences = written = 0;
  }

  __device__ __forceinline__ bool writes(int row, int64_t tokens) const {
    return (written >> row & 1) != 0 && first + row < tokens;
  }
};

// Loads rows of kVectors 16-byte vectors asynchronously; `at(row, column)` is the address of a
// vector, or null for zeros.
template <int kCount, int kVectors, typename At>
__device__ __forceinline__ void load_rows(Bf16* tile, int stride, const At& at) {
  static_assert(kCount * kVectors % kThreads == 0);
#pragma unroll
  for (int i = 0; i < kCount * kVectors / kThreads; ++i) {
    const int index = static_cast<int>(threadIdx.x) + i * kThreads;
    const int row = index / kVectors, column = index % kVectors * 8;
    const uint16_t* from = at(row, column);
    copy_async(tile + row * stride + column, from, from != nullptr);
  }
}

__device__ __forceinline__ const uint16_t* cache_head(const Cache<const uint16_t>& cache,
                                                      int64_t row,
                                                      int64_t head) {
  return cache.data + (row * cache.kv_heads + head) * cache.head_size;
}

constexpr int kScoreColumns = 64;  // per block
constexpr int kDepth = 128;        // elements of a head in shared memory at a time

__global__ void __launch_bounds__(kThreads)
    few_scores_kernel(const __grid_constant__ CachedScores<uint16_t> p) {
  using Tokens = TileTokens<true>;
  constexpr int kStride = kDepth + kPad, kStagedStride = kScoreColumns + kPad;
  constexpr int kTiles = 2;  // accumulators of 8 columns in a warp
  __shared__ __align__(16) Bf16 queries[Tokens::kOwn * kStride];
  __shared__ __align__(16) Bf16 keys[kScoreColumns * kStride];
  __shared__ __align__(16) Bf16 staged[Tokens::kOwn * kStagedStride];
  __shared__ int32_t positions[kRows], slots[kRows];
  const Lane l;
  const auto head = static_cast<int>(blockIdx.y);
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kScoreColumns;
  note_bad_cells(p.cells);
  const Tokens tokens(p.cells, positions, slots);
  const int own_column = l.row;
  const auto head_size = static_cast<int>(p.keys.head_size);
  const int64_t kv_head = head / (p.heads / p.keys.kv_heads);
  for (int i = static_cast<int>(threadIdx.x); i < Tokens::kOwn * kStagedStride; i += kThreads)
    staged[i] = __float2bfloat16(0.0f);
  for (uint64_t left = tokens.sequences; left != 0;) {
    const Sequence sequence = take_sequence(slots, left);
    const SlotCells cells(p.cells, sequence.slot);
    float s[kTiles][4] = {};
    for (int depth = 0; depth < head_size; depth += kDepth) {
      __syncthreads();  // the tiles before have been read
      load_rows<Tokens::kOwn, kDepth / 8>(queries, kStride, [&](int row, int column) {
        const bool inside = (sequence.tokens >> row & 1) != 0 && depth + column < head_size;
        return inside ? p.q.head(tokens.first + row, head) + depth + column : nullptr;
      });
      load_rows<kScoreColumns, kDepth / 8>(keys, kStride, [&](int row, int column) {
        const int64_t cell = first_column + row;
        const bool inside = cell < p.columns && depth + column < head_size;
        return inside ? cache_head(p.keys, cells.row(static_cast<uint32_t>(cell)), kv_head) +
                            depth + column
                      : nullptr;
      });
      commit_copies();
      wait_for_copies<0>();
      __syncthreads();
      const Bf16* own = left_address(queries, kStride);
      const Bf16* streamed = right_address(keys + own_column * kStride, kStride);
      const int steps = (min(head_size - depth, kDepth) + 15) / 16;
      for (int step = 0; step < steps; ++step)
        add_products(s, own + 16 * step, streamed + 16 * step, kStride);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = l.group + 8 * r;
      if ((sequence.tokens >> row & 1) == 0) continue;
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
        Product<Bf16>::store(staged + row * kStagedStride + own_column + 8 * j + 2 * l.place,
                             s[j][2 * r], s[j][2 * r + 1]);
    }
  }
  __syncthreads();
  const bool vectors = p.columns % 8 == 0 && reinterpret_cast<uintptr_t>(p.scores) % 16 == 0;
  for (int i = static_cast<int>(threadIdx.x); i < Tokens::kOwn * kScoreColumns / 8; i += kThreads) {
    const int row = i / (kScoreColumns / 8);
    const int64_t column = first_column + i % (kScoreColumns / 8) * 8;
    if (!tokens.writes(row, p.cells.tokens)) continue;
    const Bf16* from = staged + row * kStagedStride + (column - first_column);
    uint16_t* to = p.scores + ((tokens.first + row) * p.heads + head) * p.columns + column;
    if (vectors && column < p.columns) {
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    } else {
      for (int e = 0; e < 8 && column + e < p.columns; ++e)
        to[e] = reinterpret_cast<const uint16_t*>(from)[e];
    }
  }
}

// The heads of the four cells of a tile that a thread copies some vectors of, 16 cells apart; null
// beyond the columns.
__device__ __forceinline__ void find_heads(const Cache<const uint16_t>& cache,
                                           int64_t kv_head,
                                           const SlotCells& cells,
                                           int first,
                                           int columns,
                                           const uint16_t* (&heads)[4]) {
  first += static_cast<int>(threadIdx.x) / 8;
  uint32_t cell[4];
  int64_t rows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) cell[i] = static_cast<uint32_t>(min(first + 16 * i, columns - 1));
  cells.find_rows(cell, rows);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    heads[i] = first + 16 * i < columns ? cache_head(cache, rows[i], kv_head) : nullptr;
}

// Copies the thread's vectors of four rows to a tile of kColumns: the elements from `begin` on, and
// zeros for null and from `end` on.
template <int kColumns, class Operand>
__device__ __forceinline__ void copy_rows(Operand& tile,
                                          const uint16_t* const (&rows)[4],
                                          int begin,
                                          int end) {
  const int lane = static_cast<int>(threadIdx.x) % 8, row = static_cast<int>(threadIdx.x) / 8;
#pragma unroll
  for (int column = 8 * lane; column < kColumns; column += 64)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool inside = rows[i] != nullptr && begin + column < end;
      copy_async(tile.elements + Operand::place(row + 16 * i, column),
                 inside ? rows[i] + begin + column : nullptr, inside);
    }
}

// Tiles of 64 cells follow each other, and a tile is copied while the one before is multiplied.
// Scores are staged where their keys were.
template <class P>
struct ScoreTiles {
  typename P::Operand queries, keys[2];
  int32_t positions[kRows], slots[kRows];
};

template <class P, int kE>
__device__ __forceinline__ void score_many(const CachedScores<uint16_t>& p, int tiles_of_block) {
  static_assert(kThreads / 8 * 4 == kRows && kRows == kScoreColumns);
  using Operand = typename P::Operand;
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<ScoreTiles<P>*>(memory);
  const Lane l;
  const auto head = static_cast<int>(blockIdx.y), head_size = static_cast<int>(p.keys.head_size),
             columns = static_cast<int>(p.columns);
  const int begin = static_cast<int>(blockIdx.x) * tiles_of_block * kScoreColumns,
            end = min(begin + tiles_of_block * kScoreColumns, columns);
  const int64_t kv_head = head / (p.heads / p.keys.kv_heads);
  note_bad_cells(p.cells);
  const TileTokens<false> tokens(p.cells, shared.positions, shared.slots);
  const int own = static_cast<int>(threadIdx.x) / 8;
  const auto score = [&](int row, int column) {
    return p.scores + ((int64_t{tokens.first} + row) * p.heads + head) * columns + column;
  };
  for (int row = own; row < kRows; row += kThreads / 8)  // padding
    if ((tokens.sequences >> row & 1) == 0 && tokens.writes(row, p.cells.tokens))
      for (int column = begin + static_cast<int>(threadIdx.x) % 8; column < end; column += 8)
        *score(row, column) = 0;
  if (tokens.sequences == 0) return;
  {
    const uint16_t* rows[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      rows[i] = (tokens.sequences >> (own + 16 * i) & 1) != 0
                    ? p.q.head(tokens.first + own + 16 * i, head)
                    : nullptr;
    copy_rows<kE>(shared.queries, rows, 0, head_size);
  }
  const auto copy_keys = [&](Operand& keys, int32_t slot, int first) {
    const uint16_t* heads[4];
    find_heads(p.keys, kv_head, SlotCells(p.cells, slot), first, columns, heads);
    copy_rows<kE>(keys, heads, 0, head_size);
    commit_copies();
  };
  const bool vectors = columns % 8 == 0 && reinterpret_cast<uintptr_t>(p.scores) % 16 == 0;
  uint64_t left = tokens.sequences;
  Sequence sequence = take_sequence(shared.slots, left);
  Operand *keys = shared.keys, *others = keys + 1;
  copy_keys(*keys, sequence.slot, begin);
  for (int first = begin;;) {
    Sequence next = sequence;
    int next_first = first + kScoreColumns;
    const bool is_last_tile = next_first >= end, is_last = is_last_tile && left == 0;
    if (is_last_tile && !is_last) next = take_sequence(shared.slots, left), next_first = begin;
    wait_for_copies<0>();
    P::publish();
    __syncthreads();  // the tile is there, and the scores before it have left the other
    if (!is_last) copy_keys(*others, next.slot, next_first);
    float s[kTiles][4];
    P::scores(shared.queries, *keys, s, l);
    __syncthreads();  // all have read the keys
    Bf16* const staged = keys->elements;
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
        Product<Bf16>::store(staged + Operand::place(l.row + l.group + 8 * r, 8 * j + 2 * l.place),
                             s[j][2 * r], s[j][2 * r + 1]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int index = static_cast<int>(threadIdx.x) % 32 + 32 * i, row = l.row + index / 8,
                place = index % 8 * 8, column = first + place;
      if ((sequence.tokens >> row & 1) == 0) continue;
      const Bf16* from = staged + Operand::place(row, place);
      if (vectors && column < end) {
        *reinterpret_cast<uint4*>(score(row, column)) = *reinterpret_cast<const uint4*>(from);
      } else {
        for (int e = 0; e < 8 && column + e < end; ++e)
          score(row, column)[e] = reinterpret_cast<const uint16_t*>(from)[e];
      }
    }
    if (is_last) return;
    sequence = next, first = next_first;
    Operand* const read = keys;
    keys = others, others = read;
  }
}

template <int kE>
__global__ void __launch_bounds__(kThreads)
    many_scores_kernel(const __grid_constant__ CachedScores<uint16_t> p, int tiles_of_block) {
  score_many<WarpProducts<kE>, kE>(p, tiles_of_block);
}
template <int kE>
__global__ void __launch_bounds__(kThreads)
    many_scores_hopper_kernel(const __grid_constant__ CachedScores<uint16_t> p,
                              int tiles_of_block) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  score_many<WarpgroupProducts<kE>, kE>(p, tiles_of_block);
#else
  __trap();
#endif
}

// kE: elements of a head that a block computes.
template <int kE>
__global__ void __launch_bounds__(kThreads)
    few_mix_kernel(const __grid_constant__ CachedMix<uint16_t> p) {
  using Tokens = TileTokens<true>;
  constexpr int kColumns = 256;  // cells in shared memory at a time
  constexpr int kStride = kColumns + kPad, kValueStride = kE + kPad;
  constexpr int kSteps = kColumns / 16 / kWarps;  // per warp
  __shared__ __align__(16) Bf16 weights[Tokens::kOwn * kStride];
  __shared__ __align__(16) Bf16 values[kColumns * kValueStride];
  __shared__ int32_t positions[kRows], slots[kRows];
  const Lane l;
  const auto head = static_cast<int>(blockIdx.y), begin = static_cast<int>(blockIdx.x) * kE;
  note_bad_cells(p.cells);
  const Tokens tokens(p.cells, positions, slots);
  if (tokens.written == 0) return;
  const auto head_size = static_cast<int>(p.values.head_size);
  const int64_t kv_head = head / (p.heads / p.values.kv_heads);
  const bool vectors = p.columns % 8 == 0 && reinterpret_cast<uintptr_t>(p.p) % 16 == 0;
  const int first_step = static_cast<int>(threadIdx.x) / 32 * kSteps;
  float out[kE / 8][4] = {};
  for (uint64_t left = tokens.sequences; left != 0;) {
    const Sequence sequence = take_sequence(slots, left);
    const SlotCells cells(p.cells, sequence.slot);
    for (int64_t first = 0; first < p.columns; first += kColumns) {
      const uint16_t* const rows = p.p + (tokens.first * p.heads + head) * p.columns + first;
      const auto row_of = [&](int row) { return rows + row * p.heads * p.columns; };
      __syncthreads();  // the tiles before have been read
      if (vectors) {
        load_rows<Tokens::kOwn, kColumns / 8>(weights, kStride, [&](int row, int column) {
          const bool inside = (sequence.tokens >> row & 1) != 0 && first + column < p.columns;
          return inside ? row_of(row) + column : nullptr;
        });
      } else {
        for (int i = static_cast<int>(threadIdx.x); i < Tokens::kOwn * kColumns; i += kThreads) {
          const int row = i / kColumns, column = i % kColumns;
          const bool inside = (sequence.tokens >> row & 1) != 0 && first + column < p.columns;
          reinterpret_cast<uint16_t*>(weights)[row * kStride + column] =
              inside ? row_of(row)[column] : uint16_t{0};
        }
      }
      load_rows<kColumns, kE / 8>(values, kValueStride, [&](int row, int column) {
        const int64_t cell = first + row;
        const bool inside = cell < p.columns && begin + column < head_size;
        return inside ? cache_head(p.values, cells.row(static_cast<uint32_t>(cell)), kv_head) +
                            begin + column
                      : nullptr;
      });
      commit_copies();
      wait_for_copies<0>();
      __syncthreads();
      const Bf16* own = left_address(weights, kStride);
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        uint32_t a[4];
        load_matrices(a, own + 16 * (first_step + k));
        add_rows<Bf16, kE>(out, a, values, kValueStride, first_step + k, l);
      }
    }
  }
  // Adds the warps' parts in order.
  static_assert(sizeof(values) >= kWarps * 16 * kE * sizeof(float));
  auto* parts = reinterpret_cast<float*>(values);
  __syncthreads();
#pragma unroll
  for (int n = 0; n < kE / 8; ++n)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int row = l.row + l.group + c / 2 * 8;
      parts[row * kE + 8 * n + 2 * l.place + c % 2] = out[n][c];
    }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 16 * kE / 2; i += kThreads) {
    const int row = 2 * i / kE, column = 2 * i % kE;
    if (!tokens.writes(row, p.cells.tokens) || begin + column >= head_size) continue;
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      sum.x += parts[(16 * w + row) * kE + column];
      sum.y += parts[(16 * w + row) * kE + column + 1];
    }
    auto* to = reinterpret_cast<Bf16*>(p.o.head(tokens.first + row, head)) + begin + column;
    Product<Bf16>::store(to, sum.x, sum.y);
  }
}

// Tiles of 64 cells follow each other as those of scores.
template <class P>
struct MixTiles {
  typename P::Weights weights[2];
  typename P::Operand values[2];
  int32_t positions[kRows], slots[kRows];
};

template <class P, int kE>
__device__ __forceinline__ void mix_many(const CachedMix<uint16_t>& p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<MixTiles<P>*>(memory);
  const Lane l;
  const auto head = static_cast<int>(blockIdx.y), begin = static_cast<int>(blockIdx.x) * kE,
             head_size = static_cast<int>(p.values.head_size),
             columns = static_cast<int>(p.columns);
  note_bad_cells(p.cells);
  const TileTokens<false> tokens(p.cells, shared.positions, shared.slots);
  const int64_t kv_head = head / (p.heads / p.values.kv_heads);
  const int own = static_cast<int>(threadIdx.x) / 8;
  const bool vectors = columns % 8 == 0 && reinterpret_cast<uintptr_t>(p.p) % 16 == 0;
  const auto copy = [&](int stage, const Sequence& sequence, int first) {
    const auto row_of = [&](int row) {
      const bool inside = (sequence.tokens >> row & 1) != 0;
      return inside ? p.p + ((int64_t{tokens.first} + row) * p.heads + head) * columns : nullptr;
    };
    auto& weights = shared.weights[stage];
    if (vectors) {
      const uint16_t* rows[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) rows[i] = row_of(own + 16 * i);
      copy_rows<kKeys>(weights, rows, first, columns);
    } else {
      for (int i = static_cast<int>(threadIdx.x); i < kRows * kKeys; i += kThreads) {
        const int row = i / kKeys, column = i % kKeys;
        const uint16_t* from = first + column < columns ? row_of(row) : nullptr;
        reinterpret_cast<uint16_t*>(weights.elements)[P::Weights::place(row, column)] =
            from != nullptr ? from[first + column] : uint16_t{0};
      }
    }
    const uint16_t* heads[4];
    find_heads(p.values, kv_head, SlotCells(p.cells, sequence.slot), first, columns, heads);
    copy_rows<kE>(shared.values[stage], heads, begin, head_size);
    commit_copies();
  };
  float out[kE / 8][4] = {};
  uint64_t left = tokens.sequences;
  if (left != 0) {
    Sequence sequence = take_sequence(shared.slots, left);
    copy(0, sequence, 0);
    for (int first = 0, stage = 0;; stage ^= 1) {
      first += kKeys;
      const bool is_last_tile = first >= columns, is_last = is_last_tile && left == 0;
      if (is_last_tile && !is_last) sequence = take_sequence(shared.slots, left), first = 0;
      wait_for_copies<0>();
      P::publish();
      __syncthreads();  // the tile is there, and the one before has been read
      if (!is_last) copy(stage ^ 1, sequence, first);
      P::add_values(shared.weights[stage], shared.values[stage], out, l);
      if (is_last) break;
    }
  }
  const HeadRows<Bf16> o{reinterpret_cast<Bf16*>(p.o.head(tokens.first, head)) + begin,
                         p.o.token_stride};
  store_rows<Bf16, kE>(o, 0, static_cast<int>(p.cells.tokens) - tokens.first, head_size - begin,
                       out, 1.0f, 1.0f, l);
}

template <int kE>
__global__ void __launch_bounds__(kThreads)
    many_mix_kernel(const __grid_constant__ CachedMix<uint16_t> p) {
  mix_many<WarpProducts<kE>, kE>(p);
}
template <int kE>
__global__ void __launch_bounds__(kThreads)
    many_mix_hopper_kernel(const __grid_constant__ CachedMix<uint16_t> p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  mix_many<WarpgroupProducts<kE>, kE>(p);
#else
  __trap();
#endif
}

unsigned blocks_of(int64_t extent, int64_t part) {
  return static_cast<unsigned>((extent + part - 1) / part);
}

template <class Shared, typename Call, typename... More>
cudaError_t launch_many(void (*kernel)(Call, More...),
                        dim3 grid,
                        cudaStream_t stream,
                        const Call& call,
                        More... more) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared));
  if (cudaError_t status =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      status != cudaSuccess)
    return status;
  kernel<<<grid, kThreads, kBytes, stream>>>(call, more...);
  return cudaGetLastError();
}

// Scores of many tokens: so many tiles a block that a GPU has all blocks at once, up to eight.
template <int kE>
cudaError_t launch_many_scores(const CachedScores<uint16_t>& call, cudaStream_t stream) {
  constexpr int64_t kBlocksAtOnce = 512;
  const int64_t tiles = blocks_of(call.columns, kScoreColumns),
                others = call.heads * blocks_of(call.cells.tokens, kRows);
  const auto tiles_of_block =
      static_cast<int>(std::clamp<int64_t>(tiles * others / kBlocksAtOnce, 1, 8));
  const dim3 grid(blocks_of(tiles, tiles_of_block), static_cast<unsigned>(call.heads),
                  blocks_of(call.cells.tokens, kRows));
  return has_warpgroups() ? launch_many<ScoreTiles<WarpgroupProducts<kE>>>(
                                many_scores_hopper_kernel<kE>, grid, stream, call, tiles_of_block)
                          : launch_many<ScoreTiles<WarpProducts<kE>>>(many_scores_kernel<kE>, grid,
                                                                      stream, call, tiles_of_block);
}

template <int kE>
cudaError_t launch_many_mix(const CachedMix<uint16_t>& call, cudaStream_t stream) {
  const dim3 grid(blocks_of(call.values.head_size, kE), static_cast<unsigned>(call.heads),
                  blocks_of(call.cells.tokens, kRows));
  return has_warpgroups()
             ? launch_many<MixTiles<WarpgroupProducts<kE>>>(many_mix_hopper_kernel<kE>, grid,
                                                            stream, call)
             : launch_many<MixTiles<WarpProducts<kE>>>(many_mix_kernel<kE>, grid, stream, call);
}

template <typename T>
bool suits(const CacheCells& cells,
           int64_t heads,
           const Cache<const uint16_t>& cache,
           const TokenHeads<T>& rows) {
  constexpr int64_t kMostBlocks = 65535;  // along y and z of a grid
  return cache.head_size % 8 == 0 && cache.head_size <= kMostHeadSize &&
         reinterpret_cast<uintptr_t>(cache.data) % 16 == 0 && lies_in_vectors(rows) &&
         heads <= kMostBlocks && cells.tokens <= kMostBlocks * kRows;
}

}  // namespace

bool suits_tensor_cores(const CachedScores<uint16_t>& call) {
  return suits(call.cells, call.heads, call.keys, call.q);
}
bool suits_tensor_cores(const CachedMix<uint16_t>& call) {
  return suits(call.cells, call.heads, call.values, call.o);
}

cudaError_t launch_cached_scores_tensor(const CachedScores<uint16_t>& call, cudaStream_t stream) {
  if (call.cells.tokens > kFewTokens) {
    if (call.keys.head_size > 256) return launch_many_scores<kMostHeadSize>(call, stream);
    return with_padded_head(call.keys.head_size, [&](auto padded) {
      return launch_many_scores<decltype(padded)::value>(call, stream);
    });
  }
  const dim3 grid(blocks_of(call.columns, kScoreColumns), static_cast<unsigned>(call.heads),
                  static_cast<unsigned>(call.cells.tokens));
  few_scores_kernel<<<grid, kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

cudaError_t launch_cached_mix_tensor(const CachedMix<uint16_t>& call, cudaStream_t stream) {
  if (call.cells.tokens > kFewTokens) {
    constexpr int64_t kMultiprocessors = 132;  // a large GPU's, each of which should have a block
    const int64_t wide_blocks =
        call.heads * blocks_of(call.cells.tokens, kRows) * blocks_of(call.values.head_size, 128);
    return call.values.head_size > 64 && wide_blocks >= kMultiprocessors
               ? launch_many_mix<128>(call, stream)
               : launch_many_mix<64>(call, stream);
  }
  constexpr int kE = 64;
  const dim3 grid(blocks_of(call.values.head_size, kE), static_cast<unsigned>(call.heads),
                  static_cast<unsigned>(call.cells.tokens));
  few_mix_kernel<kE><<<grid, kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

}  // namespace ridge::backends::cuda
