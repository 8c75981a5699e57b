// SPDX-License-Identifier: Apache-2.0
// The search behind K-quants: for 256 values, it finds the integers and the two levels of scales
// that keep the squared error small. Internal to files/. It works with numbers of levels;
// quantize.cc packs the bits.
//
// For each sub-block it tries several grid widths around the range: it rounds to the grid, solves
// least squares for the scale (and offset) with those integers, rounds and solves again, and keeps
// the best. Then it rounds the sub-blocks' scales to multiples of the super-block's scale, tries
// each one step up and down with the integers chosen anew, and solves for the super-block's scale
// itself by least squares over all 256 values.
#pragma once

#include <array>
#include <cstdint>

#include "base/block_formats.h"

namespace ridge::files {

// x_i = scale * scales[i / sub_elements] * quants[i] - min * mins[i / sub_elements], where all
// integers are >= 0.
struct AffineGrid {
  int sub_elements;  // 16 or 32
  int max_quant;
  int max_scale;  // scales and mins are no larger
};
struct AffineFit {
  uint16_t scale;  // half bits
  uint16_t min;    // half bits
  std::array<uint8_t, 16> scales{};
  std::array<uint8_t, 16> mins{};
  std::array<uint8_t, kSuperBlockElements> quants{};
};

// x_i = scale * scales[i / 16] * quants[i], with quants in [-levels, levels) and scales in
// [-max_scale, max_scale).
struct SymmetricGrid {
  int levels;
  int max_scale;
};
struct SymmetricFit {
  uint16_t scale;  // half bits
  std::array<int8_t, 16> scales{};
  std::array<int8_t, kSuperBlockElements> quants{};
};

// `values` holds kSuperBlockElements floats of magnitude up to 1e9. `scale` is infinity if the
// values exceed the range of half precision; the caller checks.
AffineFit fit_affine(const float* values, const AffineGrid& grid);
SymmetricFit fit_symmetric(const float* values, const SymmetricGrid& grid);

}  // namespace ridge::files
