// SPDX-License-Identifier: Apache-2.0
// The search behind K-quants: for 256 values, the integers and two levels of scales that keep the
// squared error small. Internal to files/; it knows numbers of levels, not where bits lie.
//
// Method, for each sub-block: try several grid widths around the range; round to the grid; solve
// least squares for scale (and offset) with those integers; round again and solve again; keep the
// best. Then the sub-blocks' scales are rounded to multiples of the super-block's scale, each tried
// one step up and down with the integers chosen anew, and the super-block's scale itself is solved
// by least squares over all 256.
#pragma once

#include <array>
#include <cstdint>

#include "base/block_formats.h"

namespace ridge::files {

// x_i = scale * scales[i / sub] * quants[i] - min * mins[i / sub], all integers from 0.
struct AffineGrid {
  int sub_elements;  // 16 or 32
  int max_quant;
  int max_scale;  // of scales and mins
};
struct AffineFit {
  uint16_t scale = 0;  // half bits
  uint16_t min = 0;    // half bits
  std::array<uint8_t, 16> scales{};
  std::array<uint8_t, 16> mins{};
  std::array<uint8_t, kSuperBlockElements> quants{};
};

// x_i = scale * scales[i / 16] * quants[i]; quants in
// [-levels, levels), scales in [-max_scale, max_scale).
struct SymmetricGrid {
  int levels;
  int max_scale;
};
struct SymmetricFit {
  uint16_t scale = 0;  // half bits
  std::array<int8_t, 16> scales{};
  std::array<int8_t, kSuperBlockElements> quants{};
};

// `values` holds kSuperBlockElements floats of magnitude up to 1e9. `scale` is infinity when the
// values exceed what half precision reaches; the caller checks.
AffineFit fit_affine(const float* values, const AffineGrid& grid);
SymmetricFit fit_symmetric(const float* values, const SymmetricGrid& grid);

}  // namespace ridge::files
