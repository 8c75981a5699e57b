// SPDX-License-Identifier: Apache-2.0
// GEMMs of quantized weights with bf16 tiles (AMX): the layout of the activations, and the GEMM.
// matmul.h describes all quantized GEMMs.
//
// Activations and unpacked weights are rounded to bf16 and summed in fp32 inside a tile. Tiles of
// 8-bit integers, twice as fast in themselves, are slower here: formats scale 16 or 32 columns at a
// time, which fill a quarter or a half of such a tile's depth, and the integers have to leave the
// tile after each group to be scaled (about 40 cycles in addition to the multiplication's 16).
// Also, bf16 keeps eight bits of each activation, not of the largest one in a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels/quantized/matmul.h"
#include "backends/cpu/kernels/tile_gemm/tile_shape.h"

namespace ridge::backends::cpu {

// x in bf16, tile by tile: [N / 16, D / 32, 16, 32]; the last tokens' tiles are padded with zeros.
// `in` is a multiple of 32.
struct ActivationTiles {
  int64_t tokens = 0;         // N
  int64_t in = 0;             // D
  std::byte* data = nullptr;  // aligned to 64 bytes

  int64_t token_tiles() const { return (tokens + kTileRows - 1) / kTileRows; }
  int64_t depth_tiles() const { return in / kTileDepth; }
  int64_t bytes() const { return 2 * token_tiles() * depth_tiles() * kTileElements; }
  uint16_t* tile(int64_t token_tile, int64_t depth_tile) const {
    return reinterpret_cast<uint16_t*>(data) +
           (token_tile * depth_tiles() + depth_tile) * kTileElements;
  }
};

// Both functions need AVX-512 BF16; the GEMM also needs AMX's bf16 tiles.
void round_activations(StridedRows<const float> x, const ActivationTiles& out);

// Bound: multiply-adds, 512 per cycle and core; W is unpacked once for all tokens, at about a
// quarter of the cost of multiplying it with 512 tokens.
void quantized_gemm_tiles(std::span<const QuantizedProduct> products, const ActivationTiles& x);

}  // namespace ridge::backends::cpu
