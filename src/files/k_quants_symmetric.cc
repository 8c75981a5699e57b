// SPDX-License-Identifier: Apache-2.0
// The search for symmetric grids. Sums use four fixed lanes: vectors for speed, one order for
// reproducible bits.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "files/k_quants.h"
#include "files/k_quants_scale.h"

namespace ridge::files {
namespace {

typedef float Lanes __attribute__((vector_size(16)));
constexpr int kLanes = 4;

Lanes load(const float* values) {
  Lanes lanes;
  std::memcpy(&lanes, values, sizeof(lanes));
  return lanes;
}

Lanes splat(float value) { return Lanes{value, value, value, value}; }

double total(Lanes lanes) {
  return (static_cast<double>(lanes[0]) + lanes[1]) + (static_cast<double>(lanes[2]) + lanes[3]);
}

// Rounds to the nearest integer in [low, high].
Lanes round_into(Lanes value, float low, float high) {
  value = value < splat(low) ? splat(low) : value;
  value = value > splat(high) ? splat(high) : value;
  return (value + splat(kRounder)) - splat(kRounder);
}

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
