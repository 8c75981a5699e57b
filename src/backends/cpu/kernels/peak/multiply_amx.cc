// SPDX-License-Identifier: Apache-2.0
// Multiplications of AMX's tiles.
#include "backends/cpu/kernels/peak/multiply.h"
#include "backends/cpu/kernels/tile_gemm/amx_tiles-inl.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

// Four tiles of sums, two of each factor. An instruction takes 16 cycles and its result 52.
constexpr int64_t kSums = 4, kTileBytes = 1024;

void multiply_bf16(int64_t rounds) {
  for (int64_t i = 0; i < rounds; ++i) {
    AmxTiles::multiply<0, 4, 6>();
    AmxTiles::multiply<1, 4, 7>();
    AmxTiles::multiply<2, 5, 6>();
    AmxTiles::multiply<3, 5, 7>();
  }
}

void multiply_bytes(int64_t rounds) {
  for (int64_t i = 0; i < rounds; ++i)
    asm volatile(
        "tdpbusd %tmm6, %tmm4, %tmm0\n"
        "tdpbusd %tmm7, %tmm4, %tmm1\n"
        "tdpbusd %tmm6, %tmm5, %tmm2\n"
        "tdpbusd %tmm7, %tmm5, %tmm3\n");
}

}  // namespace

int64_t multiply_amx(Multiplier multiplier, const std::byte* factors, int64_t instructions) {
  RIDGE_CHECK(multiplier == Multiplier::kTileBf16 || multiplier == Multiplier::kTileInt8,
              "{} is not of AMX", info(multiplier).instruction);
  AmxTiles::ask();
  const AmxTiles::Shapes shapes;
  AmxTiles::zero<0>();
  AmxTiles::zero<1>();
  AmxTiles::zero<2>();
  AmxTiles::zero<3>();
  AmxTiles::load<4>(factors, 64);
  AmxTiles::load<5>(factors + kTileBytes, 64);
  AmxTiles::load<6>(factors + 2 * kTileBytes, 64);
  AmxTiles::load<7>(factors + 3 * kTileBytes, 64);
  const int64_t rounds = (instructions + kSums - 1) / kSums;
  if (multiplier == Multiplier::kTileBf16)
    multiply_bf16(rounds);
  else
    multiply_bytes(rounds);
  return kSums * rounds;
}

}  // namespace ridge::backends::cpu
