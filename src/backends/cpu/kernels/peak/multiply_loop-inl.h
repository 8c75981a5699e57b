// SPDX-License-Identifier: Apache-2.0
// The loop around a dozen independent instructions, in assembly: a compiler would drop
// multiplications whose results are not used, or hoist them. Private to the files named for an
// instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

// Calls each("0") .. each("11"): the registers of results. Two units with a latency of five cycles
// are kept busy by ten.
#define RIDGE_DOZEN(each)                                                                   \
  each("0") each("1") each("2") each("3") each("4") each("5") each("6") each("7") each("8") \
      each("9") each("10") each("11")

// Runs `body` (a dozen instructions on registers 0 to 11, factors in 14 and 15) `rounds` times.
// `width` is "ymm" or "zmm".
#define RIDGE_MULTIPLY_LOOP(width, bytes, load, clear, body, factors, rounds)                    \
  asm volatile(load " (%1), %%" width "14\n" load " " bytes "(%1), %%" width "15\n" RIDGE_DOZEN( \
                   clear) ".p2align 5\n1:\n" RIDGE_DOZEN(body) "dec %0\njnz 1b\nvzeroupper\n"    \
               : "+r"(rounds)                                                                    \
               : "r"(factors)                                                                    \
               : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
                 "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")

namespace ridge::backends::cpu {

inline constexpr int64_t kDozen = 12;

// Rounds of a dozen instructions.
inline int64_t dozens(int64_t instructions) { return (instructions + kDozen - 1) / kDozen; }

}  // namespace ridge::backends::cpu
