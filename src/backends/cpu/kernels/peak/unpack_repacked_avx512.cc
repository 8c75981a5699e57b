// SPDX-License-Identifier: Apache-2.0
// Unpacks tiles with 512-bit vectors: a row of W in each lane.
#include "backends/cpu/kernels/peak/unpack_repacked.h"
#include "backends/cpu/kernels/quantized/repacked_quants_avx512-inl.h"
#include "base/repacked_tiles.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx2,fma")
// GCC 12 warns about operands that the header leaves undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace ridge::backends::cpu {
namespace {

// Keeps a value without an instruction that uses it.
template <typename Vector>
inline void keep(Vector value) {
  asm volatile("" : : "v"(value));
}

template <typename Tile>
void unpack(const Tile* tiles, int64_t count) {
  for (int64_t p = 0; p < count; ++p) {
    const Tile& tile = tiles[p];
    const Scales<Tile> scales(tile);
#pragma GCC unroll 2
    for (int s = 0; s < kScaleCount<Tile>; ++s) {
#pragma GCC unroll 8
      for (int group = 0; group < Tile::kScaleColumns / 4; ++group)
        keep(load_quants(tile, s, group));
      keep(scales.scale(s));
      if constexpr (requires { tile.mins; }) keep(scales.min(s));
    }
  }
}

}  // namespace

void unpack_repacked_avx512(DType tiles, const std::byte* data, int64_t bytes) {
  with_tile_type(tiles, [&](auto type) {
    using Tile = typename decltype(type)::type;
    unpack(reinterpret_cast<const Tile*>(data), bytes / static_cast<int64_t>(sizeof(Tile)));
  });
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
