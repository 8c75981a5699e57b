// SPDX-License-Identifier: Apache-2.0
// Loops that do nothing but multiply numbers in registers, one per instruction: what any GEMM of
// their type stays below. No model runs them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace ridge::backends::cpu {

enum class Multiplier : uint8_t {
  kFma256,  // f32
  kFma512,
  kMaddInt16_256,  // i16: adjacent products are added in pairs
  kMaddInt16_512,
  kDotInt16_512,  // i16, VNNI: adds pairs to 32-bit sums
  kMaddInt8_256,  // i8: adds pairs, in 16 bits
  kMaddInt8_512,
  kDotInt8_512,  // i8, VNNI: adds fours to 32-bit sums
  kDotBf16_512,  // bf16: adds pairs to fp32 sums
  kTileBf16,     // bf16, AMX
  kTileInt8,     // i8, AMX
};
inline constexpr int kMultipliers = 11;

struct MultiplierInfo {
  const char* instruction;  // "vpmaddwd ymm"
  DType dtype;              // the factors have it
  int64_t ops;              // an instruction has so many; 2 a MAC, though some leave out additions
  bool accumulates;         // whether it also adds its products to sums
};
const MultiplierInfo& info(Multiplier multiplier);

// Bytes that the loops load as factors: small numbers of the type, aligned to 64 bytes.
inline constexpr int64_t kFactorBytes = 8 << 10;

// Each runs about `instructions` instructions and returns their exact number. The first only
// multiplies; the second also adds the products to sums, for instructions that do not do so.
int64_t multiply(Multiplier multiplier, const std::byte* factors, int64_t instructions);
int64_t multiply_and_add(Multiplier multiplier, const std::byte* factors, int64_t instructions);
// The first for tiles.
int64_t multiply_amx(Multiplier multiplier, const std::byte* factors, int64_t instructions);

}  // namespace ridge::backends::cpu
