// SPDX-License-Identifier: Apache-2.0
// Tile registers made of plain arrays. They emulate the AMX instructions on any machine.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/bf16.h"

namespace ridge::backends::cpu {

// Eight registers of 16 rows of 64 bytes, as TILELOADD, TDPBF16PS and TILESTORED define them. The
// rounding of a pair's sum may differ from the hardware's (fused multiply-add).
struct ArrayTiles {
  struct Shapes {};
  alignas(64) static inline thread_local uint8_t registers[8][16][64];

  template <int kTile>
  static void zero() {
    std::memset(registers[kTile], 0, sizeof(registers[kTile]));
  }
  template <int kTile>
  static void load(const void* from, int64_t stride_bytes) {
    for (int row = 0; row < 16; ++row)
      std::memcpy(registers[kTile][row], static_cast<const char*>(from) + row * stride_bytes, 64);
  }
  template <int kTile>
  static void load_passing(const void* from, int64_t stride_bytes) {
    load<kTile>(from, stride_bytes);
  }
  template <int kTile>
  static void store(void* to, int64_t stride_bytes) {
    for (int row = 0; row < 16; ++row)
      std::memcpy(static_cast<char*>(to) + row * stride_bytes, registers[kTile][row], 64);
  }
  template <int kSums, int kActivations, int kWeights>
  static void multiply() {
    for (int m = 0; m < 16; ++m) {
      for (int k = 0; k < 16; ++k) {
        for (int n = 0; n < 16; ++n) {
          float sum;
          uint16_t a[2], b[2];
          std::memcpy(&sum, &registers[kSums][m][4 * n], 4);
          std::memcpy(a, &registers[kActivations][m][4 * k], 4);
          std::memcpy(b, &registers[kWeights][k][4 * n], 4);
          sum += bf16_to_float(a[0]) * bf16_to_float(b[0]);
          sum += bf16_to_float(a[1]) * bf16_to_float(b[1]);
          std::memcpy(&registers[kSums][m][4 * n], &sum, 4);
        }
      }
    }
  }
};

}  // namespace ridge::backends::cpu
