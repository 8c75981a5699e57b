// SPDX-License-Identifier: Apache-2.0
// Multiplications of 512-bit vectors.
#include "backends/cpu/kernels/peak/multiply.h"
#include "backends/cpu/kernels/peak/multiply_loop-inl.h"
#include "base/error.h"

#define RIDGE_CLEAR(r) "vpxor %%xmm" r ", %%xmm" r ", %%xmm" r "\n"
#define RIDGE_FMA(r) "vfmadd231ps %%zmm14, %%zmm15, %%zmm" r "\n"
#define RIDGE_WORDS(r) "vpmaddwd %%zmm14, %%zmm15, %%zmm" r "\n"
#define RIDGE_BYTES(r) "vpmaddubsw %%zmm14, %%zmm15, %%zmm" r "\n"
#define RIDGE_DOT_WORDS(r) "vpdpwssd %%zmm14, %%zmm15, %%zmm" r "\n"
#define RIDGE_DOT_BYTES(r) "vpdpbusd %%zmm14, %%zmm15, %%zmm" r "\n"
#define RIDGE_DOT_BF16(r) "vdpbf16ps %%zmm14, %%zmm15, %%zmm" r "\n"
#define RIDGE_WORDS_ADDED(r) \
  "vpmaddwd %%zmm14, %%zmm15, %%zmm12\nvpaddd %%zmm12, %%zmm" r ", %%zmm" r "\n"
#define RIDGE_BYTES_ADDED(r) \
  "vpmaddubsw %%zmm14, %%zmm15, %%zmm12\nvpaddw %%zmm12, %%zmm" r ", %%zmm" r "\n"
#define RIDGE_LOOP(body) \
  RIDGE_MULTIPLY_LOOP("zmm", "64", "vmovdqa64", RIDGE_CLEAR, body, factors, rounds)

namespace ridge::backends::cpu {

int64_t multiply_avx512(Multiplier multiplier, const std::byte* factors, int64_t instructions) {
  int64_t rounds = dozens(instructions);
  switch (multiplier) {
    case Multiplier::kFma512:
      RIDGE_LOOP(RIDGE_FMA);
      break;
    case Multiplier::kMaddInt16_512:
      RIDGE_LOOP(RIDGE_WORDS);
      break;
    case Multiplier::kMaddInt8_512:
      RIDGE_LOOP(RIDGE_BYTES);
      break;
    case Multiplier::kDotInt16_512:
      RIDGE_LOOP(RIDGE_DOT_WORDS);
      break;
    case Multiplier::kDotInt8_512:
      RIDGE_LOOP(RIDGE_DOT_BYTES);
      break;
    default:
      RIDGE_CHECK(multiplier == Multiplier::kDotBf16_512, "{} is not of AVX-512",
                  info(multiplier).instruction);
      RIDGE_LOOP(RIDGE_DOT_BF16);
  }
  return kDozen * dozens(instructions);
}

int64_t multiply_and_add_avx512(Multiplier multiplier,
                                const std::byte* factors,
                                int64_t instructions) {
  int64_t rounds = dozens(instructions);
  if (multiplier == Multiplier::kMaddInt16_512) {
    RIDGE_LOOP(RIDGE_WORDS_ADDED);
  } else {
    RIDGE_CHECK(multiplier == Multiplier::kMaddInt8_512, "{} adds by itself",
                info(multiplier).instruction);
    RIDGE_LOOP(RIDGE_BYTES_ADDED);
  }
  return kDozen * dozens(instructions);
}

}  // namespace ridge::backends::cpu
