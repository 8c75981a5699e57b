// SPDX-License-Identifier: Apache-2.0
// The table of multiplying instructions, and loops around a dozen independent ones, in assembly: a
// compiler would drop multiplications whose results are not used, or hoist them.
// multiply_amx.cc has the loops of tiles.
#include "backends/cpu/kernels/peak/multiply.h"

#include <array>

#include "base/error.h"

namespace ridge::backends::cpu {

// A 256-bit vector has 8 numbers of 32 bits. A tile instruction multiplies 16 x 16 sums of 32
// products in bf16, 64 in i8.
const MultiplierInfo& info(Multiplier multiplier) {
  static constexpr std::array<MultiplierInfo, kMultipliers> kInfo = {{
      {"vfmadd ymm", DType::kF32, 2 * 8, true},
      {"vfmadd zmm", DType::kF32, 2 * 16, true},
      {"vpmaddwd ymm", DType::kI16, 2 * 16, false},
      {"vpmaddwd zmm", DType::kI16, 2 * 32, false},
      {"vpdpwssd zmm", DType::kI16, 2 * 32, true},
      {"vpmaddubsw ymm", DType::kI8, 2 * 32, false},
      {"vpmaddubsw zmm", DType::kI8, 2 * 64, false},
      {"vpdpbusd zmm", DType::kI8, 2 * 64, true},
      {"vdpbf16ps zmm", DType::kBF16, 2 * 32, true},
      {"tdpbf16ps", DType::kBF16, 2 * 16 * 16 * 32, true},
      {"tdpbusd", DType::kI8, 2 * 16 * 16 * 64, true},
  }};
  return kInfo[static_cast<size_t>(multiplier)];
}

// `each` for the registers 0 to 11 of results. Ten keep two units busy that have a latency of five
// cycles.
#define RIDGE_DOZEN(each, op, w)                                                           \
  each(op, w, "0") each(op, w, "1") each(op, w, "2") each(op, w, "3") each(op, w, "4")     \
      each(op, w, "5") each(op, w, "6") each(op, w, "7") each(op, w, "8") each(op, w, "9") \
          each(op, w, "10") each(op, w, "11")

// One instruction `op` on registers of width `w`, "ymm" or "zmm": the factors are in 14 and 15, the
// result is r. The other forms add the products to r.
#define RIDGE_CLEARED(op, w, r) "vpxor %%xmm" r ", %%xmm" r ", %%xmm" r "\n"
#define RIDGE_PRODUCT(op, w, r) op " %%" w "14, %%" w "15, %%" w r "\n"
#define RIDGE_SUM_32(op, w, r) RIDGE_PRODUCT(op, w, "12") "vpaddd %%" w "12, %%" w r ", %%" w r "\n"
#define RIDGE_SUM_16(op, w, r) RIDGE_PRODUCT(op, w, "12") "vpaddw %%" w "12, %%" w r ", %%" w r "\n"
// Sums of 16 bits would overflow, so a second multiplication widens them.
#define RIDGE_WIDE_SUM(op, w, r) \
  RIDGE_PRODUCT(op, w, "12")     \
  "vpmaddwd %%" w "14, %%" w "12, %%" w "12\nvpaddd %%" w "12, %%" w r ", %%" w r "\n"

// Runs `form` on a dozen registers `rounds` times.
#define RIDGE_LOOP(form, op, w, load, bytes)                                                     \
  asm volatile(load " (%1), %%" w "14\n" load " " bytes "(%1), %%" w                             \
                    "15\n" RIDGE_DOZEN(RIDGE_CLEARED, op, w) ".p2align 5\n1:\n" RIDGE_DOZEN(     \
                        form, op, w) "dec %0\njnz 1b\nvzeroupper\n"                              \
               : "+r"(rounds)                                                                    \
               : "r"(factors)                                                                    \
               : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
                 "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")
#define RIDGE_YMM(form, op) RIDGE_LOOP(form, op, "ymm", "vmovdqa", "32")
#define RIDGE_ZMM(form, op) RIDGE_LOOP(form, op, "zmm", "vmovdqa64", "64")

namespace {

constexpr int64_t kDozen = 12;
int64_t dozens(int64_t instructions) { return (instructions + kDozen - 1) / kDozen; }

}  // namespace

int64_t multiply(Multiplier multiplier, const std::byte* factors, int64_t instructions) {
  int64_t rounds = dozens(instructions);
  switch (multiplier) {
    case Multiplier::kFma256:
      RIDGE_YMM(RIDGE_PRODUCT, "vfmadd231ps");
      break;
    case Multiplier::kFma512:
      RIDGE_ZMM(RIDGE_PRODUCT, "vfmadd231ps");
      break;
    case Multiplier::kMaddInt16_256:
      RIDGE_YMM(RIDGE_PRODUCT, "vpmaddwd");
      break;
    case Multiplier::kMaddInt16_512:
      RIDGE_ZMM(RIDGE_PRODUCT, "vpmaddwd");
      break;
    case Multiplier::kDotInt16_512:
      RIDGE_ZMM(RIDGE_PRODUCT, "vpdpwssd");
      break;
    case Multiplier::kMaddInt8_256:
      RIDGE_YMM(RIDGE_PRODUCT, "vpmaddubsw");
      break;
    case Multiplier::kMaddInt8_512:
      RIDGE_ZMM(RIDGE_PRODUCT, "vpmaddubsw");
      break;
    case Multiplier::kDotInt8_512:
      RIDGE_ZMM(RIDGE_PRODUCT, "vpdpbusd");
      break;
    case Multiplier::kDotBf16_512:
      RIDGE_ZMM(RIDGE_PRODUCT, "vdpbf16ps");
      break;
    case Multiplier::kTileBf16:
    case Multiplier::kTileInt8:
      return multiply_amx(multiplier, factors, instructions);
  }
  return kDozen * dozens(instructions);
}

int64_t multiply_and_add(Multiplier multiplier, const std::byte* factors, int64_t instructions) {
  int64_t rounds = dozens(instructions);
  switch (multiplier) {
    case Multiplier::kMaddInt16_256:
      RIDGE_YMM(RIDGE_SUM_32, "vpmaddwd");
      break;
    case Multiplier::kMaddInt16_512:
      RIDGE_ZMM(RIDGE_SUM_32, "vpmaddwd");
      break;
    case Multiplier::kMaddInt8_256:
      RIDGE_YMM(RIDGE_WIDE_SUM, "vpmaddubsw");
      break;
    default:
      RIDGE_CHECK(multiplier == Multiplier::kMaddInt8_512, "{} adds by itself",
                  info(multiplier).instruction);
      RIDGE_ZMM(RIDGE_SUM_16, "vpmaddubsw");
  }
  return kDozen * dozens(instructions);
}

}  // namespace ridge::backends::cpu
