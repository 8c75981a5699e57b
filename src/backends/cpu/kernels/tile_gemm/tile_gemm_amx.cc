// SPDX-License-Identifier: Apache-2.0
// GEMMs with AMX's tiles: converts operands to tiles and writes sums to C. tile_gemm-inl.h defines
// the order of the multiplications.
#include "backends/cpu/kernels/tile_gemm/amx_tiles-inl.h"
#include "backends/cpu/kernels/tile_gemm/tile_filling-inl.h"
#include "backends/cpu/kernels/tile_gemm/tile_gemm-inl.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512bf16,avx2,fma")
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

inline uint32_t mask_of(int64_t count, int64_t most) {
  const int64_t kept = std::clamp<int64_t>(count, 0, most);
  return static_cast<uint32_t>((uint64_t{1} << kept) - 1);
}

// The part of a matrix that a tile takes: from `at` on, at most this many rows and this much depth.
struct Corner {
  const uint16_t* at;
  int64_t rows, depth;
};

// Loads one row per register, with 32 elements of the depth side by side. kWhole: nothing is cut
// off.
template <bool kWhole>
inline void load_rows(const Corner& from, int64_t row_step, __m512i (&v)[16]) {
  const __mmask32 columns = mask_of(from.depth, kTileDepth);
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    const uint16_t* at = from.at + r * row_step;
    v[r] =
        kWhole ? _mm512_loadu_si512(at) : _mm512_maskz_loadu_epi16(r < from.rows ? columns : 0, at);
  }
}

// Loads two elements of the depth per register, as pairs of 16 rows side by side. The lines of the
// tile four tiles later are prefetched: a tile has more streams than a core's prefetcher detects.
template <bool kWhole>
inline void load_pairs(const Corner& from, int64_t depth_step, __m512i (&v)[16]) {
  const auto rows = static_cast<__mmask16>(mask_of(from.rows, kTileRows));
  const auto load = [&](int64_t k) {
    const uint16_t* at = from.at + k * depth_step;
    if (kWhole) __builtin_prefetch(at + 2 * kTileDepth * depth_step);
    return _mm512_cvtepu16_epi32(kWhole ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))
                                        : _mm256_maskz_loadu_epi16(k < from.depth ? rows : 0, at));
  };
#pragma GCC unroll 16
  for (int p = 0; p < 16; ++p)
    v[p] = _mm512_or_si512(load(2 * p), _mm512_slli_epi32(load(2 * p + 1), 16));
}

// kPairs: fill the form of the right operand. A matrix that is stored the other way is transposed.
template <bool kPairs, bool kLiesInPairs, bool kWhole>
void fill_tile(const Corner& from, int64_t step, uint16_t* to) {
  __m512i v[16];
  if constexpr (kLiesInPairs) {
    load_pairs<kWhole>(from, step, v);
  } else {
    load_rows<kWhole>(from, step, v);
  }
  if constexpr (kLiesInPairs != kPairs) transpose_words(v);
  store_tile(v, to);
}

template <bool kPairs, bool kLiesInPairs>
void fill(const TileMatrix& from, int64_t rows, int64_t depth, int64_t pair, uint16_t* to) {
  const int64_t step = kLiesInPairs ? from.depth_step : from.row_step;
  for (int64_t k = 0; k < depth; k += kTileDepth) {
    for (int64_t half = 0; half < 2; ++half, to += kTileElements) {
      const int64_t row = pair * kPairRows + half * kTileRows;
      const Corner at{from.data + row * from.row_step + k * from.depth_step, rows - row, depth - k};
      if (at.rows >= kTileRows && at.depth >= kTileDepth) {
        fill_tile<kPairs, kLiesInPairs, true>(at, step, to);
      } else {
        fill_tile<kPairs, kLiesInPairs, false>(at, step, to);
      }
    }
  }
}

inline __m512 sums_at(const float* sums, int64_t row, int64_t half) {
  constexpr int64_t kTile = kTileRows * kTileRows;
  return _mm512_load_ps(sums + (row / kTileRows * 2 + half) * kTile + row % kTileRows * kTileRows);
}

inline __m512 widened(__m256i bf16) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}

void write_bf16(const float* sums, int64_t row, uint16_t* to, __mmask32 columns, bool adds) {
  __m512 low = sums_at(sums, row, 0), high = sums_at(sums, row, 1);
  if (adds) {
    const __m512i before = _mm512_maskz_loadu_epi16(columns, to);
    low = _mm512_add_ps(low, widened(_mm512_castsi512_si256(before)));
    high = _mm512_add_ps(high, widened(_mm512_extracti64x4_epi64(before, 1)));
  }
  _mm512_mask_storeu_epi16(to, columns, rounded(low, high));
}

void write_f32(const float* sums, int64_t row, float* to, __mmask32 columns, bool adds) {
  for (int64_t half = 0; half < 2; ++half, to += kTileRows, columns >>= kTileRows) {
    const auto kept = static_cast<__mmask16>(columns);
    __m512 sum = sums_at(sums, row, half);
    if (adds) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(kept, to));
    _mm512_mask_storeu_ps(to, kept, sum);
  }
}

}  // namespace

void fill_rows(const TileMatrix& from, int64_t rows, int64_t depth, int64_t pair, uint16_t* to) {
  from.depth_step == 1 ? fill<false, false>(from, rows, depth, pair, to)
                       : fill<false, true>(from, rows, depth, pair, to);
}

void fill_pairs(const TileMatrix& from, int64_t rows, int64_t depth, int64_t pair, uint16_t* to) {
  from.depth_step == 1 ? fill<true, false>(from, rows, depth, pair, to)
                       : fill<true, true>(from, rows, depth, pair, to);
}

void write_rows(const TileBlock& block, int64_t count) {
  const TileGemm& call = *block.call;
  const __mmask32 columns = mask_of(call.n - block.column, kPairRows);
  int64_t row = block.next;
  const int64_t end = std::min(row + count, call.m - block.row);
  for (int64_t at = (block.row + row) * call.c_step + block.column; row < end;
       ++row, at += call.c_step) {
    if (call.c_is_bf16) {
      write_bf16(block.sums, row, reinterpret_cast<uint16_t*>(call.c) + at, columns,
                 call.accumulate);
    } else {
      write_f32(block.sums, row, reinterpret_cast<float*>(call.c) + at, columns, call.accumulate);
    }
  }
}

int64_t tile_gemm_workspace_bytes(int64_t m, int64_t n, int64_t k, int threads) {
  return TileGemmPlan(m, n, k, threads).bytes();
}

void tile_gemm(const TileGemm& call, std::byte* workspace, int threads) {
  AmxTiles::ask();
  tile_gemm_by<AmxTiles>(call, workspace, threads);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
