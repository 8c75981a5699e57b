// SPDX-License-Identifier: Apache-2.0
// Products of weights in blocks by tiles of bf16 (AMX): the layouts of both operands and the form
// of the product. Which GEMMs there are and what else multiplies them: matmul.h.
//
// Activations and unpacked weights are rounded to bf16 and summed in fp32 inside a tile. Tiles of
// 8-bit numbers, twice as fast in themselves, lose to that here: formats scale 16 or 32 columns at
// a time, which fill a quarter or a half of such a tile's depth, and the integers have to leave the
// tile after each group to be scaled (about 40 cycles more than the product's 16). And bf16 keeps
// eight bits of each activation, not of the largest in a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels/quantized/matmul.h"
#include "backends/cpu/kernels/tile_gemm/tile_shape.h"

namespace ridge::backends::cpu {

// x in bf16, a tile after the other: [N / 16, D / 32, 16, 32]; the last tokens' tiles are filled
// up with zeros. `in` is a multiple of 32.
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

// Both need AVX-512 with BF16, the product also AMX's bf16 tiles.
void round_activations(StridedRows<const float> x, const ActivationTiles& out);

// Bound: multiply-adds, 512 a cycle and core; W is unpacked once for all tokens, at about a quarter
// of the cost of multiplying it with 512 of them.
void quantized_gemm_tiles(std::span<const QuantizedProduct> products, const ActivationTiles& x);

}  // namespace ridge::backends::cpu
