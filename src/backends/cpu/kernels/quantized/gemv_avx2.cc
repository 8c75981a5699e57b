// SPDX-License-Identifier: Apache-2.0
// The GEMV path for AVX2: rows of W are read one after another, and each block is unpacked in
// registers. gemm_avx2.cc has the GEMM path, gemv_repacked_avx2.cc that for repacked
// tiles.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "base/bf16.h"
#include "base/block_formats.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

// All halves as floats, 256 KiB, of which scales touch few: one load instead of a move between
// register files, a conversion and a shuffle for each block.
const float* half_table() {
  static const std::vector<float> table = [] {
    std::vector<float> floats(1 << 16);
    for (size_t i = 0; i < floats.size(); ++i) floats[i] = f16_to_float(static_cast<uint16_t>(i));
    return floats;
  }();
  return table.data();
}

inline __m256i load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

// How far ahead of its reads a row is prefetched, into L2: L1 allows too few outstanding misses to
// hide memory latency. On one core with Q8_0 rows of 680 bytes: into L1, 1 to 4 KiB ahead, 10 to 11
// GB/s; into L2, 2 KiB ahead 11, 4 KiB 22, 8 KiB 27.
inline constexpr int64_t kFetchBytes = 8192;

// One vector of quants of the activations.
struct Token {
  const int8_t* quants;
  const float* scales;     // per 32
  const float* sums;       // per 32
  const float* half_sums;  // per 16

  __m256i block(int64_t b) const { return load(quants + b * kActivationBlock); }
};

inline __m256 broadcast(const float* from) { return _mm256_broadcast_ss(from); }
// The value in the first lane, zeros in the others.
inline __m256 first_lane(const float* from) { return _mm256_zextps128_ps256(_mm_load_ss(from)); }

inline __m256i pair_sums(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

inline __m256i nibbles(const uint8_t* quants) {
  const __m256i both =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(quants)));
  const __m256i shifted = _mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
  return _mm256_and_si256(shifted, _mm256_set1_epi8(15));
}

// 16 in each byte whose bit is set: byte i / 8 of the word goes to byte i, which tests bit i % 8.
inline __m256i fifth_bits(const uint8_t* high_bits) {
  int32_t word;
  std::memcpy(&word, high_bits, 4);
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(word),
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
  return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

inline __m256i quants_of(const BlockQ4_0& block) { return nibbles(block.quants); }
inline __m256i quants_of(const BlockQ4_1& block) { return nibbles(block.quants); }
inline __m256i quants_of(const BlockQ5_0& block) {
  return _mm256_or_si256(nibbles(block.quants), fifth_bits(block.high_bits));
}
inline __m256i quants_of(const BlockQ5_1& block) {
  return _mm256_or_si256(nibbles(block.quants), fifth_bits(block.high_bits));
}
inline __m256i quants_of(const BlockQ8_0& block) { return load(block.quants); }

// The offset in x_i = scale (quant - offset); Q8_0's quants are signed.
template <typename Block>
constexpr float kOffset = std::is_same_v<Block, BlockQ4_0>   ? 8
                          : std::is_same_v<Block, BlockQ5_0> ? 16
                                                             : 0;
template <typename Block>
constexpr bool kHasMin = std::is_same_v<Block, BlockQ4_1> || std::is_same_v<Block, BlockQ5_1>;

// Adds one block of 32 elements of one row to each token's total.
template <typename Block, int kTokens>
requires(block_elements<Block>() == kBlockElements) inline void add_block(const Block& block,
                                                                          const float* halves,
                                                                          const Token* tokens,
                                                                          int64_t b,
                                                                          __m256* totals) {
  const __m256i quants = quants_of(block);
  const __m256 scale = broadcast(halves + block.scale);
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
    const __m256i x = tokens[t].block(b);
    __m256i pairs;
    if constexpr (std::is_same_v<Block, BlockQ8_0>) {
      // Magnitudes are the unsigned operand, and x gets the weights' signs: at most 2 * 128 * 127.
      pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(quants), _mm256_sign_epi8(x, quants));
    } else {
      pairs = _mm256_maddubs_epi16(quants, x);
    }
    const __m256 both = _mm256_mul_ps(scale, broadcast(tokens[t].scales + b));
    totals[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(pair_sums(pairs)), both, totals[t]);
    if constexpr (kHasMin<Block>) {
      totals[t] =
          _mm256_fmadd_ps(broadcast(halves + block.min), first_lane(tokens[t].sums + b), totals[t]);
    } else if constexpr (kOffset<Block> != 0) {
      const __m256 sum =
          _mm256_mul_ps(first_lane(tokens[t].sums + b), _mm256_set1_ps(kOffset<Block>));
      totals[t] = _mm256_fnmadd_ps(scale, sum, totals[t]);
    }
  }
}

template <HasZeros Block, int kTokens>
inline void add_block(const Block& block,
                      const float* halves,
                      const Token* tokens,
                      int64_t b,
                      __m256* totals) {
  constexpr int kParts = Block::kElements / kBlockElements;
#pragma GCC unroll 4
  for (int part = 0; part < kParts; ++part) {
    const int group = part * kBlockElements / Block::kGroup;
    const __m256i quants = nibbles(block.quants + 16 * part);
    const float* half = halves + block.scales[group];
    const __m256 scale = broadcast(half),
                 min = _mm256_set1_ps(*half * -static_cast<float>(block.zeros[group]));
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      const int64_t at = b * kParts + part;
      const __m256i pairs = _mm256_maddubs_epi16(quants, tokens[t].block(at));
      const __m256 both = _mm256_mul_ps(scale, broadcast(tokens[t].scales + at));
      totals[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(pair_sums(pairs)), both, totals[t]);
      totals[t] = _mm256_fmadd_ps(min, first_lane(tokens[t].sums + at), totals[t]);
    }
  }
}

// The scales and mins of eight sub-blocks, 6 bits each, as bytes.
struct EightScales {
  uint64_t scales, mins;
};
inline EightScales unpack_k_scales(const uint8_t* packed) {
  uint32_t word[3];
  std::memcpy(word, packed, 12);
  const uint64_t high_scales = (word[2] & 0x0f0f0f0f) | ((word[0] >> 2) & 0x30303030);
  const uint64_t high_mins = ((word[2] >> 4) & 0x0f0f0f0f) | ((word[1] >> 2) & 0x30303030);
  return {(word[0] & 0x3f3f3f3f) | high_scales << 32, (word[1] & 0x3f3f3f3f) | high_mins << 32};
}

inline __m256 bytes_to_floats(uint64_t bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
}

// Moves bit kBit of each byte to bit 4.
template <int kBit>
inline __m256i bit_to_16(__m256i bits) {
  const __m256i moved = kBit < 4 ? _mm256_slli_epi16(bits, kBit < 4 ? 4 - kBit : 0)
                                 : _mm256_srli_epi16(bits, kBit - 4);
  return _mm256_and_si256(moved, _mm256_set1_epi8(16));
}

// 64 elements of Q4_K or Q5_K; `scales` [8] holds each sub-block's scale times the token's.
template <int kPair, typename Block, int kTokens>
inline void add_pair(const Block& block,
                     const Token* tokens,
                     int64_t b,
                     const float (*scales)[8],
                     __m256* totals) {
  const __m256i both = load(block.quants + 32 * kPair), low_mask = _mm256_set1_epi8(15);
  __m256i low = _mm256_and_si256(both, low_mask);
  __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), low_mask);
  if constexpr (std::is_same_v<Block, BlockQ5_K>) {
    const __m256i bits = load(block.high_bits);
    low = _mm256_or_si256(low, bit_to_16<2 * kPair>(bits));
    high = _mm256_or_si256(high, bit_to_16<2 * kPair + 1>(bits));
  }
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
    const int64_t first = 8 * b + 2 * kPair;
    const __m256i a = pair_sums(_mm256_maddubs_epi16(low, tokens[t].block(first)));
    const __m256i c = pair_sums(_mm256_maddubs_epi16(high, tokens[t].block(first + 1)));
    totals[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(a), broadcast(scales[t] + 2 * kPair), totals[t]);
    totals[t] =
        _mm256_fmadd_ps(_mm256_cvtepi32_ps(c), broadcast(scales[t] + 2 * kPair + 1), totals[t]);
  }
}

template <typename Block, int kTokens>
requires(std::is_same_v<Block, BlockQ4_K> ||
         std::is_same_v<Block, BlockQ5_K>) inline void add_block(const Block& block,
                                                                 const float* halves,
                                                                 const Token* tokens,
                                                                 int64_t b,
                                                                 __m256* totals) {
  const EightScales packed = unpack_k_scales(block.scales);
  const __m256 scale =
      _mm256_mul_ps(bytes_to_floats(packed.scales), broadcast(halves + block.scale));
  const __m256 min = _mm256_mul_ps(bytes_to_floats(packed.mins), broadcast(halves + block.min));
  alignas(32) float scales[kTokens][8];
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
    _mm256_store_ps(scales[t], _mm256_mul_ps(scale, _mm256_loadu_ps(tokens[t].scales + 8 * b)));
    totals[t] = _mm256_fnmadd_ps(min, _mm256_loadu_ps(tokens[t].sums + 8 * b), totals[t]);
  }
  add_pair<0, Block, kTokens>(block, tokens, b, scales, totals);
  add_pair<1, Block, kTokens>(block, tokens, b, scales, totals);
  add_pair<2, Block, kTokens>(block, tokens, b, scales, totals);
  add_pair<3, Block, kTokens>(block, tokens, b, scales, totals);
}
// Group kGroup (32 elements) of half kHalf of a Q6_K block. The 16-bit sums are multiplied by the
// 8-bit scales of the two sub-blocks, where other formats multiply by 1.
template <int kHalf, int kGroup, int kTokens>
inline void add_group(const BlockQ6_K& block,
                      __m128i sub_scales,
                      const Token* tokens,
                      int64_t b,
                      const float (*scales)[8],
                      __m256* totals) {
  const __m256i low_bits = load(block.low_bits + 64 * kHalf + 32 * (kGroup % 2));
  const __m256i high_bits = load(block.high_bits + 32 * kHalf);
  const __m256i low = _mm256_and_si256(kGroup < 2 ? low_bits : _mm256_srli_epi16(low_bits, 4),
                                       _mm256_set1_epi8(15));
  constexpr int kShift = 4 - 2 * kGroup;
  const __m256i moved = kShift >= 0 ? _mm256_slli_epi16(high_bits, kShift < 0 ? 0 : kShift)
                                    : _mm256_srli_epi16(high_bits, kShift < 0 ? -kShift : 0);
  const __m256i quants = _mm256_or_si256(low, _mm256_and_si256(moved, _mm256_set1_epi8(48)));
  constexpr int kPart = 4 * kHalf + kGroup;
  constexpr int64_t kSpread = 0x0101010101010101 * (2 * kPart);
  const __m256i weights = _mm256_cvtepi8_epi16(
      _mm_shuffle_epi8(sub_scales, _mm_set_epi64x(kSpread + 0x0101010101010101, kSpread)));
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
    const __m256i pairs = _mm256_maddubs_epi16(quants, tokens[t].block(8 * b + kPart));
    const __m256 dots = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, weights));
    totals[t] = _mm256_fmadd_ps(dots, broadcast(scales[t] + kPart), totals[t]);
  }
}

inline __m256 signed_bytes_to_floats(__m128i bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

template <typename Block, int kTokens>
requires std::is_same_v<Block, BlockQ6_K>
inline void add_block(const Block& block,
                      const float* halves,
                      const Token* tokens,
                      int64_t b,
                      __m256* totals) {
  const __m128i sub_scales = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block.scales));
  const __m256 scale = broadcast(halves + block.scale);
  const __m256 offset = _mm256_mul_ps(scale, _mm256_set1_ps(-32.0f));
  const __m256 first = _mm256_mul_ps(signed_bytes_to_floats(sub_scales), offset);
  const __m256 second =
      _mm256_mul_ps(signed_bytes_to_floats(_mm_srli_si128(sub_scales, 8)), offset);
  alignas(32) float scales[kTokens][8];
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
    _mm256_store_ps(scales[t], _mm256_mul_ps(scale, _mm256_loadu_ps(tokens[t].scales + 8 * b)));
    const float* sums = tokens[t].half_sums + 16 * b;
    totals[t] = _mm256_fmadd_ps(first, _mm256_loadu_ps(sums), totals[t]);
    totals[t] = _mm256_fmadd_ps(second, _mm256_loadu_ps(sums + 8), totals[t]);
  }
  add_group<0, 0, kTokens>(block, sub_scales, tokens, b, scales, totals);
  add_group<0, 1, kTokens>(block, sub_scales, tokens, b, scales, totals);
  add_group<0, 2, kTokens>(block, sub_scales, tokens, b, scales, totals);
  add_group<0, 3, kTokens>(block, sub_scales, tokens, b, scales, totals);
  add_group<1, 0, kTokens>(block, sub_scales, tokens, b, scales, totals);
  add_group<1, 1, kTokens>(block, sub_scales, tokens, b, scales, totals);
  add_group<1, 2, kTokens>(block, sub_scales, tokens, b, scales, totals);
  add_group<1, 3, kTokens>(block, sub_scales, tokens, b, scales, totals);
}

inline void fetch_ahead(const void* from, int64_t bytes, const ReadPath& path) {
  const std::byte* ahead = path.ahead_of(from, kFetchBytes);
  for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(ahead + line, 0, 2);
}

inline float sum_of_lanes(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// kRows rows. Even and odd blocks have separate totals, so that an addition need not wait for the
// one before it.
template <typename Block, int kRows, int kTokens>
inline void multiply_rows(const Block* blocks,
                          int64_t blocks_per_row,
                          const float* halves,
                          const Token* tokens,
                          float (*y)[kTokens]) {
  __m256 totals[2][kRows][kTokens];
  for (auto& parity : totals) {
    for (auto& row : parity) {
      for (__m256& total : row) total = _mm256_setzero_ps();
    }
  }
  int64_t b = 0;
  for (; b + 2 <= blocks_per_row; b += 2) {
#pragma GCC unroll 2
    for (int parity = 0; parity < 2; ++parity) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        add_block<Block, kTokens>(blocks[r * blocks_per_row + b + parity], halves, tokens,
                                  b + parity, totals[parity][r]);
      }
    }
  }
  if (b < blocks_per_row) {
    for (int r = 0; r < kRows; ++r) {
      add_block<Block, kTokens>(blocks[r * blocks_per_row + b], halves, tokens, b, totals[0][r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) {
      y[r][t] = sum_of_lanes(_mm256_add_ps(totals[0][r][t], totals[1][r][t]));
    }
  }
}

// Shared by all rows of a call. The products of a token's parts are summed.
struct RowsCall : RowsProduct {
  const float* halves;  // half_table()
  ReadPath path;

  Token vector(int64_t v) const {
    const QuantizedActivations part = x.part(x.part_of(v));
    const int64_t n = x.token_of(v);
    return {part.int8_quants(n), part.scales(n), part.sums(n), part.half_sums(n)};
  }
  // Stores or adds the sum of a row. `behind`: the sum is of later columns, so it is added.
  void add(int64_t v, int64_t row, float dot, bool behind = false) const {
    float& to = y[x.token_of(v)][row];
    dot *= x.row_scale(x.token_of(v));
    to = accumulate || behind || x.part_of(v) != 0 ? to + dot : dot;
  }
};

// kRows rows from `row` on, kVectors vectors from `first` on.
template <typename Block, int kRows, int kVectors>
inline void multiply_store(const RowsCall& call, int64_t row, const Token* vectors, int64_t first) {
  const int64_t blocks_per_row = call.weight.in / block_elements<Block>();
  const Block* blocks = reinterpret_cast<const Block*>(call.weight.data) + row * blocks_per_row;
  float dots[kRows][kVectors];
  if (first == 0)
    fetch_ahead(blocks, kRows * blocks_per_row * static_cast<int64_t>(sizeof(Block)), call.path);
  multiply_rows<Block, kRows, kVectors>(blocks, blocks_per_row, call.halves, vectors, dots);
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) call.add(first + v, row + r, dots[r][v]);
}

// Some rows and up to four vectors, which share the unpacking of a block. A single vector takes two
// rows at once, so that enough additions are in flight.
template <typename Block>
void multiply_vectors(const RowsCall& call, Range rows, int64_t first) {
  const int64_t count = std::min<int64_t>(call.x.vectors() - first, 4);
  Token vectors[4] = {};
  for (int64_t v = 0; v < count; ++v) vectors[v] = call.vector(first + v);
  int64_t row = rows.begin;
  if (count == 1) {
    for (; row + 2 <= rows.end; row += 2) multiply_store<Block, 2, 1>(call, row, vectors, first);
  }
  for (; row < rows.end; ++row) {
    switch (count) {
      case 1:
        multiply_store<Block, 1, 1>(call, row, vectors, first);
        break;
      case 2:
        multiply_store<Block, 1, 2>(call, row, vectors, first);
        break;
      case 3:
        multiply_store<Block, 1, 3>(call, row, vectors, first);
        break;
      default:
        multiply_store<Block, 1, 4>(call, row, vectors, first);
    }
  }
}

// With more than four vectors, rows are read again while they are still in L1.
template <typename Block>
void multiply_all(const RowsCall& call, Range rows) {
  constexpr int64_t kRowsAtOnce = 16;
  const int64_t step = call.x.vectors() <= 4 ? rows.end - rows.begin : kRowsAtOnce;
  for (int64_t row = rows.begin; row < rows.end; row += step)
    for (int64_t first = 0; first < call.x.vectors(); first += 4)
      multiply_vectors<Block>(call, {row, std::min(row + step, rows.end)}, first);
}

template <typename Block>
void multiply_range(const RowsProduct& call) {
  const int64_t row_bytes = storage_bytes(call.weight.dtype, call.weight.in);
  const Range rows = call.stream.rows;
  const ReadPath path{call.weight.data + rows.end * row_bytes, call.stream.then};
  multiply_all<Block>({call, half_table(), path}, rows);
}

// Formats without a specialized form (Q2_K, Q3_K): unpacked to quants in L1, in groups of 16.
void multiply_unpacked(const RowsCall& call, Range rows) {
  const QuantizedMatrix& weight = call.weight;
  alignas(32) uint8_t quants[kSuperBlockElements];
  float scales[16], offsets[16];
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t b = 0; b < weight.in / kSuperBlockElements; ++b) {
      unpack_quants({weight, row, b * kSuperBlockElements, kSuperBlockElements},
                    {quants, scales, offsets});
      for (int64_t v = 0; v < call.x.vectors(); ++v) {
        const Token x = call.vector(v);
        const float* sums = x.half_sums + 16 * b;
        __m256 total = _mm256_mul_ps(_mm256_loadu_ps(offsets), _mm256_loadu_ps(sums));
        total = _mm256_fmadd_ps(_mm256_loadu_ps(offsets + 8), _mm256_loadu_ps(sums + 8), total);
        for (int64_t part = 0; part < 8; ++part) {
          const __m256i values = x.block(8 * b + part);
          const __m256i dots = pair_sums(_mm256_maddubs_epi16(load(quants + 32 * part), values));
          const __m256 scale = _mm256_set_m128(_mm_broadcast_ss(scales + 2 * part + 1),
                                               _mm_broadcast_ss(scales + 2 * part));
          const __m256 both = _mm256_mul_ps(scale, broadcast(x.scales + 8 * b + part));
          total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), both, total);
        }
        call.add(v, row, sum_of_lanes(total), b > 0);
      }
    }
  }
}

}  // namespace

// Bound: memory for one token. Per block of 32 and vector, about 7 vector instructions (Q8_0) to 13
// (Q5_0); at four per cycle that is 1.8 to 3.3 cycles for 34 and 22 bytes.
void gemv_avx2(const RowsProduct& call) {
  switch (call.weight.dtype) {
    case DType::kQ4_0:
      return multiply_range<BlockQ4_0>(call);
    case DType::kQ4_1:
      return multiply_range<BlockQ4_1>(call);
    case DType::kQ5_0:
      return multiply_range<BlockQ5_0>(call);
    case DType::kQ5_1:
      return multiply_range<BlockQ5_1>(call);
    case DType::kQ8_0:
      return multiply_range<BlockQ8_0>(call);
    case DType::kQ4_K:
      return multiply_range<BlockQ4_K>(call);
    case DType::kQ5_K:
      return multiply_range<BlockQ5_K>(call);
    case DType::kQ6_K:
      return multiply_range<BlockQ6_K>(call);
    case DType::kQ4_G32:
      return multiply_range<BlockQ4_G32>(call);
    case DType::kQ4_G128:
      return multiply_range<BlockQ4_G128>(call);
    default:
      return multiply_unpacked({call, nullptr, {}}, call.stream.rows);
  }
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
