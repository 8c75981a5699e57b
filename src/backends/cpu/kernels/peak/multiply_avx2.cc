// SPDX-License-Identifier: Apache-2.0
// Multiplications of 256-bit vectors.
#include "backends/cpu/kernels/peak/multiply.h"
#include "backends/cpu/kernels/peak/multiply_loop-inl.h"
#include "base/error.h"

#define RIDGE_CLEAR(r) "vpxor %%xmm" r ", %%xmm" r ", %%xmm" r "\n"
#define RIDGE_FMA(r) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" r "\n"
#define RIDGE_WORDS(r) "vpmaddwd %%ymm14, %%ymm15, %%ymm" r "\n"
#define RIDGE_BYTES(r) "vpmaddubsw %%ymm14, %%ymm15, %%ymm" r "\n"
#define RIDGE_WORDS_ADDED(r) \
  "vpmaddwd %%ymm14, %%ymm15, %%ymm12\nvpaddd %%ymm12, %%ymm" r ", %%ymm" r "\n"
// Sums of 16 bits would overflow, so a second multiplication widens them.
#define RIDGE_BYTES_ADDED(r)               \
  "vpmaddubsw %%ymm14, %%ymm15, %%ymm12\n" \
  "vpmaddwd %%ymm14, %%ymm12, %%ymm12\nvpaddd %%ymm12, %%ymm" r ", %%ymm" r "\n"
#define RIDGE_LOOP(body) \
  RIDGE_MULTIPLY_LOOP("ymm", "32", "vmovdqa", RIDGE_CLEAR, body, factors, rounds)

namespace ridge::backends::cpu {

int64_t multiply_avx2(Multiplier multiplier, const std::byte* factors, int64_t instructions) {
  int64_t rounds = dozens(instructions);
  switch (multiplier) {
    case Multiplier::kFma256:
      RIDGE_LOOP(RIDGE_FMA);
      break;
    case Multiplier::kMaddInt16_256:
      RIDGE_LOOP(RIDGE_WORDS);
      break;
    default:
      RIDGE_CHECK(multiplier == Multiplier::kMaddInt8_256, "{} is not of AVX2",
                  info(multiplier).instruction);
      RIDGE_LOOP(RIDGE_BYTES);
  }
  return kDozen * dozens(instructions);
}

int64_t multiply_and_add_avx2(Multiplier multiplier,
                              const std::byte* factors,
                              int64_t instructions) {
  int64_t rounds = dozens(instructions);
  if (multiplier == Multiplier::kMaddInt16_256) {
    RIDGE_LOOP(RIDGE_WORDS_ADDED);
  } else {
    RIDGE_CHECK(multiplier == Multiplier::kMaddInt8_256, "{} adds by itself",
                info(multiplier).instruction);
    RIDGE_LOOP(RIDGE_BYTES_ADDED);
  }
  return kDozen * dozens(instructions);
}

}  // namespace ridge::backends::cpu
