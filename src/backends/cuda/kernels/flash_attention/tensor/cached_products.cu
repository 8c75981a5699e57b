// SPDX-License-Identifier: Apache-2.0
// cached_scores and cached_mix in bf16 on mma.sync: attention over a KV cache with the matrix of
// scores in memory, as batched GEMMs per sequence and head.
//
// Mapping, many tokens: a block owns 64 tokens of a head, a warp 16 of them; the block multiplies
// them with the cells of each sequence among them in turn. Few tokens: a block owns the tokens of
// one sequence among 16, and its warps share the columns. Bound: few tokens memory, the keys or
// values once per KV head; many tokens 2 E FLOPs per score at the rate of mma.sync.
#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/cache/kv_cache.cuh"
#include "backends/cuda/kernels/flash_attention/tensor/cached_tile.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace tensor;

constexpr int64_t kFewTokens = 64;
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

template <bool kFew>
__global__ void __launch_bounds__(kThreads)
    cached_scores_tensor_kernel(const __grid_constant__ CachedScores<uint16_t> p) {
  using Tokens = TileTokens<kFew>;
  constexpr int kStride = kDepth + kPad, kStagedStride = kScoreColumns + kPad;
  constexpr int kTiles = kFew ? 2 : kScoreColumns / 8;  // accumulators of 8 columns in a warp
  __shared__ __align__(16) Bf16 queries[Tokens::kOwn * kStride];
  __shared__ __align__(16) Bf16 keys[kScoreColumns * kStride];
  __shared__ __align__(16) Bf16 staged[Tokens::kOwn * kStagedStride];
  __shared__ int32_t positions[kRows], slots[kRows];
  const Lane l;
  const auto head = static_cast<int>(blockIdx.y);
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kScoreColumns;
  note_bad_cells(p.cells);
  const Tokens tokens(p.cells, positions, slots);
  const int own_row = kFew ? 0 : l.row, own_column = kFew ? l.row : 0;
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
      const Bf16* own = left_address(queries + own_row * kStride, kStride);
      const Bf16* streamed = right_address(keys + own_column * kStride, kStride);
      const int steps = (min(head_size - depth, kDepth) + 15) / 16;
      for (int step = 0; step < steps; ++step)
        add_products(s, own + 16 * step, streamed + 16 * step, kStride);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = own_row + l.group + 8 * r;
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

// kE: elements of a head that a block computes.
template <bool kFew, int kE>
__global__ void __launch_bounds__(kThreads)
    cached_mix_tensor_kernel(const __grid_constant__ CachedMix<uint16_t> p) {
  using Tokens = TileTokens<kFew>;
  constexpr int kColumns = kFew ? 256 : 64;  // cells in shared memory at a time
  constexpr int kStride = kColumns + kPad, kValueStride = kE + kPad;
  constexpr int kSteps = kColumns / 16 / (kFew ? kWarps : 1);  // per warp
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
  const int own_row = kFew ? 0 : l.row;
  const int first_step = kFew ? static_cast<int>(threadIdx.x) / 32 * kSteps : 0;
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
      const Bf16* own = left_address(weights + own_row * kStride, kStride);
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        const int step = first_step + k;
        uint32_t a[4];
        load_matrices(a, own + 16 * step);
#pragma unroll
        for (int n = 0; n < kE / 8; n += 2) {
          uint32_t b[4];
          Product<Bf16>::right_columns(b, values, kValueStride, step, 8 * n, l);
          Product<Bf16>::run(out[n], a, b[0], b[1]);
          Product<Bf16>::run(out[n + 1], a, b[2], b[3]);
        }
      }
    }
  }
  if constexpr (kFew) {  // adds the warps' parts in order
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
  } else {
    const HeadRows<Bf16> o{reinterpret_cast<Bf16*>(p.o.head(tokens.first, head)) + begin,
                           p.o.token_stride};
    store_rows<Bf16, kE>(o, 0, static_cast<int>(p.cells.tokens) - tokens.first, head_size - begin,
                         out, 1.0f, 1.0f, l);
  }
}

template <bool kFew>
unsigned token_blocks(int64_t tokens) {
  return static_cast<unsigned>(kFew ? tokens : (tokens + kRows - 1) / kRows);
}

unsigned blocks_of(int64_t extent, int64_t part) {
  return static_cast<unsigned>((extent + part - 1) / part);
}

template <bool kFew>
cudaError_t launch(const CachedScores<uint16_t>& call, cudaStream_t stream) {
  const dim3 grid(blocks_of(call.columns, kScoreColumns), static_cast<unsigned>(call.heads),
                  token_blocks<kFew>(call.cells.tokens));
  cached_scores_tensor_kernel<kFew><<<grid, kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

template <bool kFew, int kE>
cudaError_t launch(const CachedMix<uint16_t>& call, cudaStream_t stream) {
  const dim3 grid(blocks_of(call.values.head_size, kE), static_cast<unsigned>(call.heads),
                  token_blocks<kFew>(call.cells.tokens));
  cached_mix_tensor_kernel<kFew, kE><<<grid, kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

template <typename T>
bool suits(const CacheCells& cells,
           int64_t heads,
           const Cache<const uint16_t>& cache,
           const TokenHeads<T>& rows) {
  constexpr int64_t kMostBlocks = 65535;  // along y and z of a grid
  return cache.head_size % 8 == 0 && reinterpret_cast<uintptr_t>(cache.data) % 16 == 0 &&
         lies_in_vectors(rows) && heads <= kMostBlocks && cells.tokens <= kMostBlocks * kRows;
}

}  // namespace

bool suits_tensor_cores(const CachedScores<uint16_t>& call) {
  return suits(call.cells, call.heads, call.keys, call.q);
}
bool suits_tensor_cores(const CachedMix<uint16_t>& call) {
  return suits(call.cells, call.heads, call.values, call.o);
}

cudaError_t launch_cached_scores_tensor(const CachedScores<uint16_t>& call, cudaStream_t stream) {
  return call.cells.tokens <= kFewTokens ? launch<true>(call, stream) : launch<false>(call, stream);
}

cudaError_t launch_cached_mix_tensor(const CachedMix<uint16_t>& call, cudaStream_t stream) {
  if (call.cells.tokens <= kFewTokens) return launch<true, 64>(call, stream);
  return call.values.head_size <= 64 ? launch<false, 64>(call, stream)
                                     : launch<false, 128>(call, stream);
}

}  // namespace ridge::backends::cuda
