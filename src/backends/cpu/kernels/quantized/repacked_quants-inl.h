// SPDX-License-Identifier: Apache-2.0
// Scales and quants of repacked tiles of 16 rows, with rows of W in the lanes of kHalves vectors.
// Included by repacked_quants_avx2-inl.h and repacked_quants_avx512-inl.h, which define the vectors
// and their operations, where their instruction set is the target; it has no includes for that
// reason.

namespace ridge::backends::cpu {
namespace {

inline constexpr int kHalves = static_cast<int>(64 / sizeof(Bytes));

// The rows of one half of four columns of a tile.
inline Bytes load(const uint8_t (&group)[16][4], int half) {
  return load(group[16 / kHalves * half]);
}

// Bytes of Q4_K's scales (base/block_formats.h): the low six bits, or four bits and the top two of
// another byte.
inline Bytes low_six(Bytes bytes) { return masked(bytes, 0x3f); }
inline Bytes joined(Bytes low_four, Bytes top_two) {
  return either(masked(low_four, 0x0f), masked(moved_right(top_two, 2), 0x30));
}

inline Bytes low_nibbles(Bytes bytes) { return masked(bytes, 15); }
inline Bytes high_nibbles(Bytes bytes) { return low_nibbles(moved_right(bytes, 4)); }

// The bits of quants in `mask`: moved to the left, or to the right if `left` is negative.
inline Bytes moved_bits(Bytes bits, int left, int mask) {
  return masked(left >= 0 ? moved_left(bits, left) : moved_right(bits, -left), mask);
}

// The quants of the group-th four columns of those that scale s applies to.
template <typename Tile>
inline Bytes load_quants(const Tile& tile, int s, int group, int half = 0) {
  const Bytes both = load(tile.quants[s][group % 4], half);
  const Bytes low = group < 4 ? low_nibbles(both) : high_nibbles(both);
  if constexpr (requires { tile.high_bits; })
    return either(low, moved_bits(load(tile.high_bits[s], half), 4 - group, 16));
  return low;
}
inline Bytes load_quants(const TileQ8_0& tile, int s, int group, int half = 0) {
  return load(tile.quants[s][group], half);
}
inline Bytes load_quants(const TileQ4_K& tile, int s, int group, int half = 0) {
  const Bytes both = load(tile.quants[s / 2][group], half);
  return s % 2 == 0 ? low_nibbles(both) : high_nibbles(both);
}
inline Bytes load_quants(const TileQ6_K& tile, int s, int group, int half = 0) {
  const Bytes both = load(tile.low_bits[s][group / 2], half),
              low = group % 2 == 0 ? low_nibbles(both) : high_nibbles(both);
  return either(low, moved_bits(load(tile.high_bits[s], half), 4 - 2 * group, 48));
}

// Quants of four columns as int16: columns 0 and 2 of each row, and columns 1 and 3.
struct ColumnPairs {
  explicit ColumnPairs(Bytes quants) : even(low_bytes(quants)), odd(high_bytes(quants)) {}
  Bytes even, odd;
};

// The scales that the quants of a tile are multiplied by, and the mins that are added.
template <typename Tile>
struct Scales {
  explicit Scales(const Tile& of) : tile(of) {}
  Floats scale(int s, int half = 0) const { return floats_of_halves(tile.scales[s], half); }
  Floats min(int s, int half = 0) const { return floats_of_halves(tile.mins[s], half); }
  const Tile& tile;
};

// The six-bit scales of all sub-blocks are unpacked at once, as bytes.
template <>
struct Scales<TileQ4_K> {
  explicit Scales(const TileQ4_K& tile) {
    for (int half = 0; half < kHalves; ++half) {
      all[half] = floats_of_halves(tile.scales, half);
      all_min[half] = negative(floats_of_halves(tile.mins, half));
      const int at = 4 / kHalves * half;
      const Bytes first = load(tile.sub_scales[at]), second = load(tile.sub_scales[at + 4]),
                  third = load(tile.sub_scales[at + 8]);
      store(low_six(first), scales[at]);
      store(joined(third, first), scales[at + 4]);
      store(low_six(second), mins[at]);
      store(joined(moved_right(third, 4), second), mins[at + 4]);
    }
  }
  Floats scale(int s, int half = 0) const {
    return product(all[half], floats_of_bytes(scales[s], half));
  }
  Floats min(int s, int half = 0) const {
    return product(all_min[half], floats_of_bytes(mins[s], half));
  }

  Floats all[kHalves], all_min[kHalves];  // the super-block has them
  alignas(sizeof(Bytes)) uint8_t scales[8][16];
  alignas(sizeof(Bytes)) uint8_t mins[8][16];
};

template <>
struct Scales<TileQ6_K> {
  explicit Scales(const TileQ6_K& of) : tile(of) {
    for (int half = 0; half < kHalves; ++half) all[half] = floats_of_halves(of.scales, half);
  }
  Floats scale(int s, int half = 0) const {
    return product(all[half], floats_of_bytes(tile.sub_scales[s], half));
  }
  const TileQ6_K& tile;
  Floats all[kHalves];
};

// A zero point is an addition of -scale * zero point, which fp32 holds exactly.
template <HasZeros Tile>
struct Scales<Tile> {
  static constexpr int kGroups = static_cast<int>(std::extent_v<decltype(Tile::scales)>),
                       kParts = kScaleCount<Tile> / kGroups;  // a group has so many
  explicit Scales(const Tile& tile) {
    for (int g = 0; g < kGroups; ++g)
      for (int half = 0; half < kHalves; ++half) {
        scales[g][half] = floats_of_halves(tile.scales[g], half);
        mins[g][half] = negative(product(scales[g][half], floats_of_bytes(tile.zeros[g], half)));
      }
  }
  Floats scale(int s, int half = 0) const { return scales[s / kParts][half]; }
  Floats min(int s, int half = 0) const { return mins[s / kParts][half]; }

  Floats scales[kGroups][kHalves], mins[kGroups][kHalves];
};

}  // namespace
}  // namespace ridge::backends::cpu
