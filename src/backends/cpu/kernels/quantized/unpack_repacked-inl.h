// SPDX-License-Identifier: Apache-2.0
// Unpacks repacked tiles of 16 rows to int16 or uint8 for the GEMM path. Included by the files that
// an instruction set names, after their repacked_quants header; so it has no includes.

namespace ridge::backends::cpu {
namespace {

// The columns of scale s: columns 0 and 2 of each four, then columns 1 and 3.
template <typename Tile>
inline void unpack_int16(const Tile& tile, int s, UnpackedRows& to, int64_t at) {
  constexpr int kLanes16 = kPairQuants / kHalves;
  int16_t* int16_to = to.int16_quants + at * Tile::kScaleColumns * kRowBlockRows;
#pragma GCC unroll 8
  for (int group = 0; group < Tile::kScaleColumns / 4; ++group, int16_to += 2 * kPairQuants) {
#pragma GCC unroll 2
    for (int half = 0; half < kHalves; ++half) {
      const ColumnPairs pairs(load_quants(tile, s, group, half));
      store(less(pairs.even, Tile::kOffset), int16_to + kLanes16 * half);
      store(less(pairs.odd, Tile::kOffset), int16_to + kPairQuants + kLanes16 * half);
    }
  }
}

template <typename Tile>
inline void unpack_int8(const Tile& tile, int s, UnpackedRows& to, int64_t at) {
  uint8_t* uint8_to = to.uint8_quants + at * Tile::kScaleColumns * kRowBlockRows;
#pragma GCC unroll 8
  for (int group = 0; group < Tile::kScaleColumns / 4; ++group, uint8_to += kStepBytes)
#pragma GCC unroll 2
    for (int half = 0; half < kHalves; ++half)
      store(load_quants(tile, s, group, half), uint8_to + kStepBytes / kHalves * half);
}

template <bool kIsInt8, typename Tile>
void unpack(const Tile* tile, int64_t depth, UnpackedRows& to) {
  int64_t at = 0;  // index of the scale
  Floats zero_or_nan[kHalves];
  for (Floats& each : zero_or_nan) each = zero();
  for (int64_t column = 0; column < depth; column += Tile::kColumns, ++tile) {
    const Scales<Tile> scales(*tile);
    for (int s = 0; s < kScaleCount<Tile>; ++s, ++at) {
      if constexpr (kIsInt8)
        unpack_int8(*tile, s, to, at);
      else
        unpack_int16(*tile, s, to, at);
      for (int half = 0; half < kHalves; ++half) {
        const int64_t lane = at * kRowBlockRows + kRowBlockRows / kHalves * half;
        const Floats scale = scales.scale(s, half);
        zero_or_nan[half] = product_and_sum(scale, zero(), zero_or_nan[half]);
        store(scale, to.scales + lane);
        if constexpr (kTileAdds<Tile>) store(scales.min(s, half), to.offsets + lane);
      }
    }
  }
  for (int half = 0; half < kHalves; ++half)
    store(zero_or_nan[half], to.zero_or_nan + kRowBlockRows / kHalves * half);
}

template <bool kIsInt8>
void unpack_part(const WeightPart& part, UnpackedRows& rows) {
  with_tile_type(part.weight.dtype, [&](auto type) {
    using Tile = typename decltype(type)::type;
    unpack<kIsInt8>(first_tile<Tile>(part), part.depth, rows);
  });
}

// Keeps a value without an instruction that uses it.
template <typename Vector>
inline void keep(Vector value) {
  asm volatile("" : : "v"(value));
}

// Unpacks tiles as kernels do before they multiply, and stores nothing.
void unpack_alone(DType tiles, const std::byte* data, int64_t bytes) {
  with_tile_type(tiles, [&](auto type) {
    using Tile = typename decltype(type)::type;
    const Tile* first = reinterpret_cast<const Tile*>(data);
    for (const Tile& tile : std::span(first, static_cast<size_t>(bytes) / sizeof(Tile))) {
      const Scales<Tile> scales(tile);
#pragma GCC unroll 2
      for (int s = 0; s < kScaleCount<Tile>; ++s) {
#pragma GCC unroll 2
        for (int half = 0; half < kHalves; ++half) {
#pragma GCC unroll 8
          for (int group = 0; group < Tile::kScaleColumns / 4; ++group)
            keep(load_quants(tile, s, group, half));
          keep(scales.scale(s, half));
          if constexpr (kTileAdds<Tile>) keep(scales.min(s, half));
        }
      }
    }
  });
}

}  // namespace
}  // namespace ridge::backends::cpu
