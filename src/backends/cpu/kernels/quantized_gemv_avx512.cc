// SPDX-License-Identifier: Apache-2.0
// 8-bit products of few tokens for AVX-512 with VNNI, of Q4_0 and Q8_0: several blocks of a row in
// one register. Other formats, whose unpacking would gain less, stay with quantized_gemv_avx2.cc.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/quantized_kernels.h"
#include "base/block_formats.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")
// GCC 12 takes the header's deliberately undefined operands for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

namespace ridge::backends::cpu {
namespace {

// As in quantized_gemv_avx2.cc, which measured it.
inline constexpr int64_t kFetchBytes = 8192;

// Asks for the lines of the next kBytes, of which the last may be half theirs, and steps over them.
// A few at a time, between products: all of some rows at once are more misses than a core has under
// way, and the products wait for them.
template <size_t kBytes>
inline const char* fetch_lines(const char* ahead) {
#pragma GCC unroll 8
  for (size_t line = 0; line < kBytes; line += 64) __builtin_prefetch(ahead + line, 0, 2);
  return ahead + kBytes;
}

// What a token brings to the blocks of a row that share a register: codes in the order in which
// those unpack, the activations' scale of each lane, and the sums to begin with, which take the
// codes' offset off: sum (c - o) x = sum c x - o sum x.
struct alignas(64) GroupOperand {
  __m512i codes[2];  // Q8_0 has one
  __m512 scales;
  __m512i begin;
};

// Four blocks of Q4_0: a block's 16 bytes are a quarter of the register, so its low and its high
// nibbles are sums of the same four lanes.
struct FourQ4_0 {
  using Block = BlockQ4_0;
  static constexpr int64_t kBlocks = 4;
  static constexpr int kOffset = 8;

  static void place(const int8_t* x, int64_t block, GroupOperand& out) {
    std::memcpy(reinterpret_cast<int8_t*>(&out.codes[0]) + 16 * block, x, 16);
    std::memcpy(reinterpret_cast<int8_t*>(&out.codes[1]) + 16 * block, x + 16, 16);
  }
  static __m512i quants(const Block* blocks, int64_t count) {
    const auto at = [&](int64_t b) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks[b].quants));
    };
    __m512i q = _mm512_broadcast_i32x4(at(0));
    if (count > 1) q = _mm512_mask_broadcast_i32x4(q, 0x00f0, at(1));
    if (count > 2) q = _mm512_mask_broadcast_i32x4(q, 0x0f00, at(2));
    if (count > 3) q = _mm512_mask_broadcast_i32x4(q, 0xf000, at(3));
    return q;
  }
  static __m512i dots(__m512i quants, const GroupOperand& x) {
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i low = _mm512_and_si512(quants, mask);
    const __m512i high = _mm512_and_si512(_mm512_srli_epi16(quants, 4), mask);
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(x.begin, low, x.codes[0]), high, x.codes[1]);
  }
};

// Two blocks of Q8_0, whose top bits are flipped to make the codes unsigned.
struct TwoQ8_0 {
  using Block = BlockQ8_0;
  static constexpr int64_t kBlocks = 2;
  static constexpr int kOffset = 128;

  static void place(const int8_t* x, int64_t block, GroupOperand& out) {
    std::memcpy(reinterpret_cast<int8_t*>(&out.codes[0]) + 32 * block, x, 32);
  }
  static __m512i quants(const Block* blocks, int64_t count) {
    const auto at = [&](int64_t b) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(blocks[b].quants));
    };
    const __m512i first = _mm512_castsi256_si512(at(0));
    return _mm512_inserti64x4(first, at(count > 1 ? 1 : 0), 1);
  }
  static __m512i dots(__m512i quants, const GroupOperand& x) {
    const __m512i codes = _mm512_xor_si512(quants, _mm512_set1_epi8(-128));
    return _mm512_dpbusd_epi32(x.begin, codes, x.codes[0]);
  }
};

// The words of 64 bytes of blocks that hold the scales, each in its block's lanes.
template <typename Form>
inline __m512i scale_words() {
  constexpr int64_t kLanes = 16 / Form::kBlocks;
  constexpr int64_t kWords = static_cast<int64_t>(sizeof(typename Form::Block)) / 2;
  alignas(64) int16_t words[32] = {};
  for (int64_t lane = 0; lane < 16; ++lane)
    words[lane] = static_cast<int16_t>(lane / kLanes * kWords);
  return _mm512_load_si512(words);
}

// `count` blocks, the last group of a row cut short; its operand is zeros past them.
template <typename Form>
inline __m512 weight_scales(const typename Form::Block* blocks, int64_t count, __m512i words) {
  constexpr uint64_t kBytes = sizeof(typename Form::Block);
  const __m512i bytes =
      count == Form::kBlocks
          ? _mm512_loadu_si512(blocks)
          : _mm512_maskz_loadu_epi8((uint64_t{1} << (kBytes * static_cast<uint64_t>(count))) - 1,
                                    blocks);
  return _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi16(words, bytes)));
}

template <typename Form>
void place_token(const QuantizedActivations& x, int64_t token, GroupOperand* out) {
  constexpr int64_t kLanes = 16 / Form::kBlocks;
  std::memset(
      static_cast<void*>(out), 0,
      static_cast<size_t>((x.blocks() + Form::kBlocks - 1) / Form::kBlocks) * sizeof(GroupOperand));
  for (int64_t b = 0; b < x.blocks(); ++b) {
    GroupOperand& group = out[b / Form::kBlocks];
    const int64_t lane = b % Form::kBlocks * kLanes;
    const int8_t* codes = x.codes(token) + b * kActivationBlock;
    Form::place(codes, b % Form::kBlocks, group);
    int32_t sum = 0;
    for (int64_t i = 0; i < kActivationBlock; ++i) sum += codes[i];
    reinterpret_cast<int32_t*>(&group.begin)[lane] = -Form::kOffset * sum;
    for (int64_t i = 0; i < kLanes; ++i)
      reinterpret_cast<float*>(&group.scales)[lane + i] = x.scales(token)[b];
  }
}

// Adds one group of kRows rows and kTokens tokens to their totals.
template <typename Form, int kRows, int kTokens>
inline void add_group(const typename Form::Block* blocks,
                      int64_t row_blocks,
                      int64_t count,
                      __m512i words,
                      const GroupOperand* const* x,
                      int64_t group,
                      __m512 (&totals)[kRows][kTokens]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const typename Form::Block* at = blocks + r * row_blocks + group * Form::kBlocks;
    const __m512 scales = weight_scales<Form>(at, count, words);
    const __m512i quants = Form::quants(at, count);
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      const GroupOperand& operand = x[t][group];
      const __m512 dots = _mm512_cvtepi32_ps(Form::dots(quants, operand));
      totals[r][t] = _mm512_fmadd_ps(dots, _mm512_mul_ps(scales, operand.scales), totals[r][t]);
    }
  }
}

template <typename Form, int kRows, int kTokens>
void multiply_rows(const QuantizedMatrix& weight,
                   int64_t row,
                   const GroupOperand* const* x,
                   float* const* y,
                   bool accumulate) {
  using Block = typename Form::Block;
  const int64_t row_blocks = weight.in / kBlockElements;
  const Block* blocks = reinterpret_cast<const Block*>(weight.data) + row * row_blocks;
  const char* ahead = reinterpret_cast<const char*>(blocks) + kFetchBytes;
  const __m512i words = scale_words<Form>();
  __m512 totals[kRows][kTokens];
  for (auto& of_row : totals)
    for (__m512& total : of_row) total = _mm512_setzero_ps();
  const int64_t groups = row_blocks / Form::kBlocks, rest = row_blocks % Form::kBlocks;
  for (int64_t g = 0; g < groups; ++g) {
    ahead = fetch_lines<kRows * Form::kBlocks * sizeof(Block)>(ahead);
    add_group<Form, kRows, kTokens>(blocks, row_blocks, Form::kBlocks, words, x, g, totals);
  }
  if (rest > 0) add_group<Form, kRows, kTokens>(blocks, row_blocks, rest, words, x, groups, totals);
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) {
      const float sum = _mm512_reduce_add_ps(totals[r][t]);
      float& to = y[t][row + r];
      to = accumulate ? to + sum : sum;
    }
  }
}

// The operands of up to four tokens lie on the stack: a row of 8192 columns of Q4_0 or 4096 of
// Q8_0.
inline constexpr int64_t kMostGroups = 64;

template <typename Form>
bool takes(int64_t in) {
  return in <= kMostGroups * Form::kBlocks * kBlockElements;
}

// One token alone takes four rows, so that enough additions are under way.
template <typename Form>
void multiply_range(const QuantizedMatrix& weight,
                    Range rows,
                    const QuantizedActivations& x,
                    Rows<float> y,
                    bool accumulate) {
  GroupOperand operands[4][kMostGroups];
  const GroupOperand* const from[] = {operands[0], operands[1], operands[2], operands[3]};
  for (int64_t n = 0; n < x.tokens; n += 4) {
    const int64_t count = x.tokens - n < 4 ? x.tokens - n : 4;
    float* to[4] = {};
    for (int64_t t = 0; t < count; ++t) {
      place_token<Form>(x, n + t, operands[t]);
      to[t] = y[n + t];
    }
    int64_t row = rows.begin;
    if (count == 1)
      for (; row + 4 <= rows.end; row += 4)
        multiply_rows<Form, 4, 1>(weight, row, from, to, accumulate);
    for (; row < rows.end; ++row) {
      switch (count) {
        case 1:
          multiply_rows<Form, 1, 1>(weight, row, from, to, accumulate);
          break;
        case 2:
          multiply_rows<Form, 1, 2>(weight, row, from, to, accumulate);
          break;
        case 3:
          multiply_rows<Form, 1, 3>(weight, row, from, to, accumulate);
          break;
        default:
          multiply_rows<Form, 1, 4>(weight, row, from, to, accumulate);
      }
    }
  }
}

}  // namespace

// Bound: memory for one token. Two instructions of 512 bits a cycle: 72 bytes of Q4_0 in 14
// instructions, 68 of Q8_0 in 9.
void gemv_avx512(const QuantizedMatrix& weight,
                 Range rows,
                 const QuantizedActivations& x,
                 Rows<float> y,
                 bool accumulate) {
  if (weight.dtype == DType::kQ4_0 && takes<FourQ4_0>(weight.in))
    return multiply_range<FourQ4_0>(weight, rows, x, y, accumulate);
  if (weight.dtype == DType::kQ8_0 && takes<TwoQ8_0>(weight.in))
    return multiply_range<TwoQ8_0>(weight, rows, x, y, accumulate);
  gemv_avx2(weight, rows, x, y, accumulate);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
