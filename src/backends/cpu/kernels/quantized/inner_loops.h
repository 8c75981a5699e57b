// SPDX-License-Identifier: Apache-2.0
// The inner loops that the table of choose.h names, and what quantized_gemv and quantized_gemm
// share. The header is private to those. Each instruction set's file defines its own loops. All
// but *_panels_* accept blocks of any format.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/quantized/unpack.h"

namespace ridge::backends::cpu {

// Throws an Error unless each weight, and up, is in blocks of the columns of x, and a GLU is the
// only product.
void check_blocks(std::span<const QuantizedProduct> products, int64_t in);
// Checks the same, and that each has a kernel of this path for the form of x.
void check_rounded(std::span<const QuantizedProduct> products,
                   const QuantizedActivations& x,
                   QuantizedPath path);

inline bool is_glu(std::span<const QuantizedProduct> products) {
  return products.size() == 1 && products[0].is_glu();
}

// Whether a GEMM stores y past the caches: it does not fit in L3 with the weight, and its cache
// lines are written whole. 32 tokens of 262,144 rows took 19.1 ms through the caches, and 16.2.
bool is_streamed(const QuantizedProduct& product, int64_t tokens);

// Calls body(product, first row, tokens) for each task, in parallel. A task is one row block of
// rows and a range of at most `most_tokens` tokens; all tasks have about the same cost. A thread's
// tasks have the same tokens as long as there are row blocks, so that their activations stay in its
// L2. Tokens are cut at multiples of kTokenCut, also if the row blocks alone would leave threads
// idle; each cut unpacks the row block once more.
inline constexpr int64_t kTokenCut = 32;
template <typename Body>
void for_each_row_block_task(std::span<const QuantizedProduct> products,
                             int64_t block_rows,
                             int64_t tokens,
                             int64_t most_tokens,
                             const Body& body) {
  constexpr int64_t kTasksPerThread = 8;
  // A thread that another program delays leaves its later ranges to others.
  constexpr int64_t kRangesPerThread = 4;
  const auto blocks_of = [&](const QuantizedMatrix& weight) {
    return (weight.out + block_rows - 1) / block_rows;
  };
  int64_t row_blocks = 0;
  for (const QuantizedProduct& product : products) row_blocks += blocks_of(product.weight);
  if (row_blocks == 0 || tokens == 0) return;
  const int64_t threads = parts_for(row_blocks * block_rows * products[0].weight.in * tokens);
  const int64_t even = (kTasksPerThread * threads + row_blocks - 1) / row_blocks;
  const int64_t fitting = (tokens + most_tokens - 1) / most_tokens;
  const int64_t most = (tokens + kTokenCut - 1) / kTokenCut;
  const int64_t cuts = std::clamp<int64_t>(std::max(even, fitting), 1, most);
  const int64_t tasks = row_blocks * cuts;
  const int64_t ranges = threads == 1 ? 1 : std::min(threads * kRangesPerThread, tasks);
  for_each_range(tasks, ranges, [&](Range range) {
    for (int64_t task = range.begin; task < range.end; ++task) {
      int64_t row_block = task % row_blocks;
      auto product = products.begin();
      for (; row_block >= blocks_of(product->weight); ++product)
        row_block -= blocks_of(product->weight);
      body(*product, row_block * block_rows, part_of(tokens, cuts, task / row_blocks, kTokenCut));
    }
  });
}

// The rows of W that a thread reads, and the address that it reads after them, for prefetching.
// Null if unknown.
struct RowStream {
  Range rows;
  const std::byte* then = nullptr;
};

// The path of a stream's reads: its rows up to `end`, then `then`.
struct ReadPath {
  const std::byte* end = nullptr;
  const std::byte* then = nullptr;
  // The address that is read `distance` bytes after `from`.
  const std::byte* ahead_of(const void* from, int64_t distance) const {
    const auto* at = static_cast<const std::byte*>(from);
    return distance < end - at || then == nullptr ? at + distance : then + (distance - (end - at));
  }
};

// Computes y [N, out] for some of W's rows and all tokens of x.
struct RowsProduct {
  const QuantizedMatrix& weight;
  RowStream stream;
  const QuantizedActivations& x;
  StridedRows<float> y;
  bool accumulate = false;
  bool is_streamed = false;  // kernels for row blocks may store past the caches; the caller fences
};

inline constexpr int64_t kMostRowBlocks = 2;

// Weights may have a min or a zero next to a scale. A zero is the quant of the value 0; the sums
// of products begin at -zero times the sum of x's quants.
enum class Extra { kNone, kMin, kZero };

// One or more row blocks times a range of tokens: y[n, 0..rows) = or += the sum over the columns of
// the row blocks, which begin at `column`.
struct RowBlockProduct {
  const UnpackedRows* row_blocks = nullptr;  // in the form of x
  int64_t group = 32;                        // columns that share a scale
  bool has_min = false;                      // row blocks have offsets for it
  int zero = 0;                              // the quant of the value 0: of int8 it may not be 0
  int most_quant = 0;
  int64_t column = 0;
  int64_t depth = 0;
  int64_t rows = 0;  // all row blocks together
  const QuantizedActivations* x = nullptr;
  Range tokens;
  StridedRows<float> y;    // at the row block's first row
  int64_t token_of_y = 0;  // the token of y's first row
  bool accumulate = false;
  bool is_streamed = false;  // as in RowsProduct
  // The rows that are written in the end, by token: y, or the GLU. They are fetched early, for
  // each token's row is a cache line in another page and seldom in L2.
  StridedRows<float> result;
  // The bytes that each row block unpacks next. The multiplication prefetches them into L2 little
  // by little: a core has room for few requests.
  std::span<const std::byte> next[kMostRowBlocks] = {};

  float* y_of(int64_t token) const { return y[token - token_of_y]; }
};

// Calls multiply(first, count) for tiles of at most `most` of the call's tokens, of near-equal
// sizes.
template <typename Multiply>
void for_each_tile(const RowBlockProduct& call, int64_t most, const Multiply& multiply) {
  constexpr int64_t kLine = 64;
  const int64_t count = call.tokens.end - call.tokens.begin, tiles = (count + most - 1) / most;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    for (const std::span<const std::byte> next : call.next) {
      const Range bytes = part_of(static_cast<int64_t>(next.size()), tiles, tile, kLine);
      for (int64_t at = bytes.begin; at < bytes.end; at += kLine)
        __builtin_prefetch(next.data() + at, 0, 2);
    }
    const Range part = part_of(count, tiles, tile);
    multiply(call.tokens.begin + part.begin, part.end - part.begin);
  }
}

// The addresses of the tokens' quants, scales and sums for a row block's first column; all tokens
// have the same stride.
struct TokenRows {
  // For tokens from n on; `group` is the format's.
  TokenRows(const RowBlockProduct& call, int64_t group, int64_t n)
      : quants(reinterpret_cast<const std::byte*>(call.x->int8_quants(n)) +
               call.column * (call.x->is_int16() ? 2 : 1)),
        scales(
            reinterpret_cast<const std::byte*>(call.x->scales(n) + call.column / kActivationBlock)),
        sums(reinterpret_cast<const std::byte*>(
            (group == 16 ? call.x->half_sums(n) : call.x->sums(n)) + call.column / group)),
        quant_sums(reinterpret_cast<const std::byte*>(
            (group == 16 ? call.x->half_quant_sums(n) : call.x->quant_sums(n)) +
            call.column / group)),
        row_scales(reinterpret_cast<const std::byte*>(&call.x->row_scale(n))),
        stride(call.x->row_bytes()) {}

  // 32 bits, the i-th of the token: the int16 of two columns, or the int8 of four.
  int32_t bits(int64_t token, int64_t i) const {
    return *reinterpret_cast<const int32_t*>(quants + token * stride + 4 * i);
  }
  // The bits of the block's scale, a power of two.
  int32_t scale_bits(int64_t token, int64_t block) const {
    return reinterpret_cast<const int32_t*>(scales + token * stride)[block];
  }
  float sum(int64_t token, int64_t group) const {
    return reinterpret_cast<const float*>(sums + token * stride)[group];
  }
  int32_t quant_sum(int64_t token, int64_t group) const {
    return reinterpret_cast<const int32_t*>(quant_sums + token * stride)[group];
  }
  float row_scale(int64_t token) const {
    return *reinterpret_cast<const float*>(row_scales + token * stride);
  }

  const std::byte* quants;
  const std::byte* scales;
  const std::byte* sums;
  const std::byte* quant_sums;
  const std::byte* row_scales;
  int64_t stride;
};

// The integer sums of a tile's groups begin at -zero times the sum of x's quants if int8 weights
// have a zero. They are computed before the first group; a shift and a subtraction between the
// multiplications cost 5 to 8% of an int8 GEMM (AVX-512).
template <int kGroup, Extra kExtra, int kTokens>
struct SumStarts {
  SumStarts(const RowBlockProduct&, const TokenRows&) {}
};
template <int kGroup, int kTokens>
struct SumStarts<kGroup, Extra::kZero, kTokens> {
  SumStarts(const RowBlockProduct& call, const TokenRows& x) {
    for (int t = 0; t < kTokens; ++t)
      for (int64_t g = 0; g < call.depth / kGroup; ++g) of[t][g] = -call.zero * x.quant_sum(t, g);
  }
  int32_t of[kTokens][kRowBlockDepth / kGroup];
};

// A row block has two columns of int16, or four of int8, for each 32 bits of a token.
inline constexpr int64_t kStepBytes = 4 * kRowBlockRows;
inline constexpr int64_t kPairQuants = kStepBytes / 2;

// The first tile of a part of a repacked weight.
template <typename Tile>
const Tile* first_tile(const WeightPart& part) {
  return reinterpret_cast<const Tile*>(part.weight.data) +
         (part.row / kRowBlockRows * part.weight.in + part.column) / Tile::kColumns;
}

// Plain loops for machines without AVX2. They compute the exact integer sums that the fast forms
// must match.
void gemv_portable(const RowsProduct& call);
void gemm_portable(const RowBlockProduct& call);

// The tokens, or int8 vectors of tokens, of the tiles that registers hold, and the largest block
// of tokens.
inline constexpr int64_t kGemvTokensAvx2 = 4, kGemvVectorsAvx512 = 8;
inline constexpr int64_t kGemmTokensAvx2 = 6, kGemmTokensAvx512 = 7;
inline constexpr int64_t kMostTokenBlock = 256;

void gemv_avx2(const RowsProduct& call);
void unpack_repacked_avx2(const WeightPart& part, UnpackedRows& rows);
void unpack_repacked_int8_avx2(const WeightPart& part, UnpackedRows& rows);
void gemm_avx2(const RowBlockProduct& call);
void gemm_int8_avx2(const RowBlockProduct& call);  // quants up to kMostInt8Quant

// AVX2 adds two products of int8 in 16 bits, which hold those of quants up to this.
inline constexpr int kMostInt8Quant = 63;

// For AVX-512 with VNNI.
void unpack_repacked_avx512(const WeightPart& part, UnpackedRows& rows);
void unpack_repacked_int8_avx512(const WeightPart& part, UnpackedRows& rows);
void gemm_avx512(const RowBlockProduct& call);  // int16 or int8

// For repacked weights (base/repacked_tiles.h); rows are whole row blocks. With AVX2, x is in int16
// or int8 (quants up to kMostInt8Quant), with AVX-512 in one or two parts of int8.
void gemv_repacked_avx2(const RowsProduct& call);
void gemv_repacked_avx512(const RowsProduct& call);

}  // namespace ridge::backends::cpu
