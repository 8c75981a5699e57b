// SPDX-License-Identifier: Apache-2.0
// The searches for affine and symmetric grids. Sums use four fixed lanes: vectors for speed, one
// order for reproducible bits.
#include "files/k_quants.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bf16.h"

namespace ridge::files {
namespace {

typedef float Lanes __attribute__((vector_size(16)));
constexpr int kLanes = 4;

// The grid widths tried go from one level narrower to one level wider than the range, in steps of a
// quarter of a level. Half that step takes 1.5 times as long and lowers the error by at most 0.1%
// (Q2_K).
constexpr int kWidthSteps = 4;
constexpr float kWidthStep = 0.25f;
// Iterations that alternate between choosing the sub-blocks' scales and solving for the
// super-block's scale. The second lowers the error by up to 0.2%, the third by up to 0.1%.
constexpr int kSuperRounds = 3;
// A sub-block with a smaller range is constant within the precision of half scales.
constexpr float kTinyRange = 1e-30f;
constexpr uint16_t kHalfInfinity = 0x7c00;

Lanes load(const float* values) {
  Lanes lanes;
  std::memcpy(&lanes, values, sizeof(lanes));
  return lanes;
}

Lanes splat(float value) { return Lanes{value, value, value, value}; }

double total(Lanes lanes) {
  return (static_cast<double>(lanes[0]) + lanes[1]) + (static_cast<double>(lanes[2]) + lanes[3]);
}

// Rounds to the nearest integer in [low, high] by adding and subtracting 1.5 x 2^23.
Lanes round_into(Lanes value, float low, float high) {
  value = value < splat(low) ? splat(low) : value;
  value = value > splat(high) ? splat(high) : value;
  return (value + splat(12582912.0f)) - splat(12582912.0f);
}

float inverse(float value) { return value != 0 ? 1 / value : 0; }

float as_half(double value) { return f16_to_float(float_to_f16(static_cast<float>(value))); }

// The nearest half that is not smaller in magnitude, so that the largest sub-block's scale stays
// representable. This matters for subnormal halves, such as the scales of weights near 0.001.
float half_beyond(float value) {
  const uint16_t bits = float_to_f16(value);
  const float half = f16_to_float(bits);
  return std::fabs(half) < std::fabs(value) ? f16_to_float(static_cast<uint16_t>(bits + 1)) : half;
}

// The fit returned if the scale is out of the range of half precision: its scale is infinity.
template <typename Fit>
Fit unreachable_scale() {
  Fit fit{};
  fit.scale = kHalfInfinity;
  return fit;
}

// ---------------------------------------------------------------- x = scale * q - min

struct Affine {
  float scale = 0;
  float min = 0;
};

struct AffineSums {
  double q = 0, qq = 0, xq = 0;
};

AffineSums affine_sums(const float* x, int n, Affine fit, float max_quant) {
  const Lanes inverse_scale = splat(inverse(fit.scale)), min = splat(fit.min);
  Lanes q_sum{}, qq_sum{}, xq_sum{};
  for (int i = 0; i < n; i += kLanes) {
    const Lanes value = load(x + i);
    const Lanes q = round_into((value + min) * inverse_scale, 0, max_quant);
    q_sum += q;
    qq_sum += q * q;
    xq_sum += value * q;
  }
  return {total(q_sum), total(qq_sum), total(xq_sum)};
}

// The scale and the min >= 0 that minimise the squared error for the given integers; scale 0 if
// there are none.
Affine solve_affine(const AffineSums& sums, double n, double x_sum) {
  const double determinant = n * sums.qq - sums.q * sums.q;
  if (determinant > 0) {
    const double scale = (n * sums.xq - x_sum * sums.q) / determinant;
    const double offset = (sums.qq * x_sum - sums.q * sums.xq) / determinant;
    if (offset <= 0) return {static_cast<float>(std::max(scale, 0.0)), static_cast<float>(-offset)};
  }
  if (sums.qq <= 0) return {};
  return {static_cast<float>(std::max(sums.xq / sums.qq, 0.0)), 0};
}

double affine_error(const float* x, int n, Affine fit, float max_quant) {
  const Lanes inverse_scale = splat(inverse(fit.scale)), scale = splat(fit.scale),
              min = splat(fit.min);
  Lanes error{};
  for (int i = 0; i < n; i += kLanes) {
    const Lanes value = load(x + i);
    const Lanes q = round_into((value + min) * inverse_scale, 0, max_quant);
    const Lanes gap = value - (scale * q - min);
    error += gap * gap;
  }
  return total(error);
}

Affine fit_sub_block(const float* x, int n, float max_quant) {
  const float low = std::min(0.0f, *std::min_element(x, x + n)), high = *std::max_element(x, x + n);
  if (high - low < kTinyRange) return {0, -low};
  double x_sum = 0;
  for (int i = 0; i < n; ++i) x_sum += x[i];
  Affine best{(high - low) / max_quant, -low};
  double best_error = affine_error(x, n, best, max_quant);
  for (int step = -kWidthSteps; step <= kWidthSteps; ++step) {
    Affine fit{(high - low) / (max_quant + kWidthStep * static_cast<float>(step)), -low};
    for (int round = 0; round < 2 && fit.scale > 0; ++round)
      fit = solve_affine(affine_sums(x, n, fit, max_quant), n, x_sum);
    const double error = affine_error(x, n, fit, max_quant);
    if (fit.scale > 0 && error < best_error) {
      best = fit;
      best_error = error;
    }
  }
  return best;
}

struct AffineScales {
  std::array<int, 16> scales{}, mins{};
  double error = 0;
};

// Chooses each sub-block's integers for scale and min, given the super-block's scale and min: the
// best of the nearest integers and their neighbours.
AffineScales choose_scales(const float* x,
                           const AffineGrid& grid,
                           const std::array<Affine, 16>& wanted,
                           Affine super) {
  AffineScales chosen;
  for (int s = 0; s * grid.sub_elements < kSuperBlockElements; ++s) {
    const auto nearest = [&](float value, float unit) {
      const float steps = std::min(value * inverse(unit), static_cast<float>(grid.max_scale));
      return static_cast<int>(std::lround(steps));
    };
    const int scale_at = nearest(wanted[s].scale, super.scale),
              min_at = nearest(wanted[s].min, super.min);
    double best_error = -1;
    for (int scale = std::max(scale_at - 1, 0); scale <= std::min(scale_at + 1, grid.max_scale);
         ++scale) {
      for (int min = std::max(min_at - 1, 0); min <= std::min(min_at + 1, grid.max_scale); ++min) {
        const Affine fit{super.scale * static_cast<float>(scale),
                         super.min * static_cast<float>(min)};
        const double error = affine_error(x + s * grid.sub_elements, grid.sub_elements, fit,
                                          static_cast<float>(grid.max_quant));
        if (best_error >= 0 && !(error < best_error)) continue;
        best_error = error;
        chosen.scales[s] = scale;
        chosen.mins[s] = min;
      }
    }
    chosen.error += best_error;
  }
  return chosen;
}

// Least squares for the super-block's scale and min over all its values, with the chosen integers:
// x = scale a - min b, where a_i = scales * q_i and b_i = mins.
Affine solve_super(const float* x,
                   const AffineGrid& grid,
                   const AffineScales& chosen,
                   Affine super) {
  double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
  for (int s = 0; s * grid.sub_elements < kSuperBlockElements; ++s) {
    const float* values = x + s * grid.sub_elements;
    const Affine fit{super.scale * static_cast<float>(chosen.scales[s]),
                     super.min * static_cast<float>(chosen.mins[s])};
    const AffineSums sums =
        affine_sums(values, grid.sub_elements, fit, static_cast<float>(grid.max_quant));
    double x_sum = 0;
    for (int i = 0; i < grid.sub_elements; ++i) x_sum += values[i];
    const double scale = chosen.scales[s], min = chosen.mins[s];
    aa += scale * scale * sums.qq;
    ab += scale * min * sums.q;
    bb += min * min * grid.sub_elements;
    xa += scale * sums.xq;
    xb += min * x_sum;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant > 0) {
    const Affine solved{as_half((xa * bb - xb * ab) / determinant),
                        as_half((xa * ab - xb * aa) / determinant)};
    if (solved.scale > 0 && solved.min >= 0 && std::isfinite(solved.scale + solved.min))
      return solved;
  }
  const float scale = aa > 0 ? as_half((xa + super.min * ab) / aa) : 0;  // keeps the min
  return scale > 0 && std::isfinite(scale) ? Affine{scale, super.min} : super;
}

void store_quants(const float* x, const AffineGrid& grid, AffineFit& fit) {
  const float super_scale = f16_to_float(fit.scale), super_min = f16_to_float(fit.min);
  for (int i = 0; i < kSuperBlockElements; ++i) {
    const int s = i / grid.sub_elements;
    const float scale = super_scale * fit.scales[s], min = super_min * fit.mins[s];
    const float steps =
        std::clamp((x[i] + min) * inverse(scale), 0.0f, static_cast<float>(grid.max_quant));
    fit.quants[i] = static_cast<uint8_t>(std::nearbyint(steps));
  }
}

// ---------------------------------------------------------------- x = scale * q

struct SymmetricSums {
  double qq = 0, xq = 0;
};

SymmetricSums symmetric_sums(const float* x, float scale, int levels) {
  const Lanes inverse_scale = splat(inverse(scale));
  const auto low = static_cast<float>(-levels), high = static_cast<float>(levels - 1);
  Lanes qq_sum{}, xq_sum{};
  for (int i = 0; i < 16; i += kLanes) {
    const Lanes value = load(x + i);
    const Lanes q = round_into(value * inverse_scale, low, high);
    qq_sum += q * q;
    xq_sum += value * q;
  }
  return {total(qq_sum), total(xq_sum)};
}

// The squared error less the sum of x squared, which is the same for all candidates. It is the
// error at the given scale, not at the solved one.
double relative_error(const SymmetricSums& sums, double scale) {
  return scale * scale * sums.qq - 2 * scale * sums.xq;
}

float peak_of(const float* values, int n) {
  float peak = 0;
  for (int i = 0; i < n; ++i)
    if (std::fabs(values[i]) > std::fabs(peak)) peak = values[i];
  return peak;
}

// The peak is mapped to the side of the grid that has one more level, so the scale may be negative.
float fit_symmetric_sub_block(const float* x, int levels) {
  const float peak = peak_of(x, 16);
  if (std::fabs(peak) < kTinyRange) return 0;
  float best = -peak / static_cast<float>(levels);
  double best_error = relative_error(symmetric_sums(x, best, levels), best);
  for (int step = -kWidthSteps; step <= kWidthSteps; ++step) {
    float scale = -peak / (static_cast<float>(levels) + kWidthStep * static_cast<float>(step));
    for (int round = 0; round < 2; ++round) {
      const SymmetricSums sums = symmetric_sums(x, scale, levels);
      if (sums.qq > 0) scale = static_cast<float>(sums.xq / sums.qq);
    }
    const double error = relative_error(symmetric_sums(x, scale, levels), scale);
    if (error < best_error) {
      best = scale;
      best_error = error;
    }
  }
  return best;
}

struct SymmetricScales {
  std::array<int, 16> scales{};
  double error = 0;
};

SymmetricScales choose_scales(const float* x,
                              const SymmetricGrid& grid,
                              const std::array<float, 16>& wanted,
                              float super) {
  SymmetricScales chosen;
  const int low = -grid.max_scale, high = grid.max_scale - 1;
  for (int s = 0; s < 16; ++s) {
    const float steps =
        std::clamp(wanted[s] * inverse(super), static_cast<float>(low), static_cast<float>(high));
    const int nearest = static_cast<int>(std::lround(steps));
    double best_error = 1;  // scale 0 has error 0, so a positive error is never the best
    for (int scale = std::max(nearest - 1, low); scale <= std::min(nearest + 1, high); ++scale) {
      const float step = super * static_cast<float>(scale);
      const double error = relative_error(symmetric_sums(x + 16 * s, step, grid.levels), step);
      if (best_error <= 0 && !(error < best_error)) continue;
      best_error = error;
      chosen.scales[s] = scale;
    }
    chosen.error += best_error;
  }
  return chosen;
}

float solve_super(const float* x,
                  const SymmetricGrid& grid,
                  const SymmetricScales& chosen,
                  float super) {
  double aa = 0, xa = 0;  // a_i = scales * q_i
  for (int s = 0; s < 16; ++s) {
    const double scale = chosen.scales[s];
    const SymmetricSums sums =
        symmetric_sums(x + 16 * s, super * static_cast<float>(chosen.scales[s]), grid.levels);
    aa += scale * scale * sums.qq;
    xa += scale * sums.xq;
  }
  const float scale = aa > 0 ? as_half(xa / aa) : super;
  return std::isfinite(scale) ? scale : super;
}

}  // namespace

AffineFit fit_affine(const float* values, const AffineGrid& grid) {
  std::array<Affine, 16> wanted{};
  Affine peak{};
  for (int s = 0; s * grid.sub_elements < kSuperBlockElements; ++s) {
    wanted[s] = fit_sub_block(values + s * grid.sub_elements, grid.sub_elements,
                              static_cast<float>(grid.max_quant));
    peak.scale = std::max(peak.scale, wanted[s].scale);
    peak.min = std::max(peak.min, wanted[s].min);
  }
  const auto max_scale = static_cast<float>(grid.max_scale);
  Affine super{half_beyond(peak.scale / max_scale), half_beyond(peak.min / max_scale)};
  if (!std::isfinite(super.scale) || !std::isfinite(super.min))
    return unreachable_scale<AffineFit>();
  AffineScales chosen = choose_scales(values, grid, wanted, super);
  for (int round = 0; round < kSuperRounds; ++round) {
    const Affine solved = solve_super(values, grid, chosen, super);
    const AffineScales again = choose_scales(values, grid, wanted, solved);
    if (!(again.error < chosen.error)) break;
    super = solved;
    chosen = again;
  }
  AffineFit fit{};
  fit.scale = float_to_f16(super.scale);
  fit.min = float_to_f16(super.min);
  std::copy(chosen.scales.begin(), chosen.scales.end(), fit.scales.begin());
  std::copy(chosen.mins.begin(), chosen.mins.end(), fit.mins.begin());
  store_quants(values, grid, fit);
  return fit;
}

SymmetricFit fit_symmetric(const float* values, const SymmetricGrid& grid) {
  std::array<float, 16> wanted{};
  for (int s = 0; s < 16; ++s) wanted[s] = fit_symmetric_sub_block(values + 16 * s, grid.levels);
  float super = half_beyond(-peak_of(wanted.data(), 16) / static_cast<float>(grid.max_scale));
  if (!std::isfinite(super)) return unreachable_scale<SymmetricFit>();
  SymmetricScales chosen = choose_scales(values, grid, wanted, super);
  for (int round = 0; round < kSuperRounds; ++round) {
    const float solved = solve_super(values, grid, chosen, super);
    const SymmetricScales again = choose_scales(values, grid, wanted, solved);
    if (!(again.error < chosen.error)) break;
    super = solved;
    chosen = again;
  }
  SymmetricFit fit{};
  fit.scale = float_to_f16(super);
  std::copy(chosen.scales.begin(), chosen.scales.end(), fit.scales.begin());
  for (int i = 0; i < kSuperBlockElements; ++i) {
    const float scale = super * static_cast<float>(fit.scales[i / 16]);
    const float steps = std::clamp(values[i] * inverse(scale), static_cast<float>(-grid.levels),
                                   static_cast<float>(grid.levels - 1));
    fit.quants[i] = static_cast<int8_t>(std::nearbyint(steps));
  }
  return fit;
}

}  // namespace ridge::files
