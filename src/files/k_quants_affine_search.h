// SPDX-License-Identifier: Apache-2.0
// The search for affine grids, eight sub-blocks at a time: each lane of a vector is one sub-block.
// Each sum over a sub-block has four parts, one for every fourth value, and a fixed order.
// k_quants_affine.cc includes this file once for each instruction set, in a namespace of its own;
// it has no include guard and includes nothing.

constexpr int kLanes = 8;
constexpr int kParts = 4;  // a sum is added up in so many parts

typedef float Lanes __attribute__((vector_size(32)));
typedef int32_t Ints __attribute__((vector_size(32)));

// Eight doubles, and the results of comparing them, in two vectors each.
typedef double FourDoubles __attribute__((vector_size(32)));
typedef int64_t FourLongs __attribute__((vector_size(32)));
typedef float FourFloats __attribute__((vector_size(16)));
typedef int32_t FourInts __attribute__((vector_size(16)));
struct Doubles {
  FourDoubles low, high;
  double operator[](int lane) const { return lane < 4 ? low[lane] : high[lane - 4]; }
};
struct Longs {
  FourLongs low, high;
};

// x = scale * q - min, for each lane.
struct Affine {
  Lanes scale, min;
};

struct AffineSums {
  Doubles q, qq, xq;
};

RIDGE_INLINE Lanes splat(float value) { return value - Lanes{}; }
RIDGE_INLINE Doubles splat(double value) { return {value - FourDoubles{}, value - FourDoubles{}}; }

RIDGE_PAIRWISE(+, Doubles, Doubles)
RIDGE_PAIRWISE(-, Doubles, Doubles)
RIDGE_PAIRWISE(*, Doubles, Doubles)
RIDGE_PAIRWISE(/, Doubles, Doubles)
RIDGE_PAIRWISE(<, Doubles, Longs)
RIDGE_PAIRWISE(<=, Doubles, Longs)
RIDGE_PAIRWISE(&, Longs, Longs)
RIDGE_PAIRWISE(|, Longs, Longs)

RIDGE_INLINE Doubles choose(const Longs& mask, const Doubles& a, const Doubles& b) {
  return {mask.low ? a.low : b.low, mask.high ? a.high : b.high};
}

RIDGE_INLINE Doubles as_doubles(const Lanes& lanes) {
  FourFloats halves[2];
  std::memcpy(halves, &lanes, sizeof halves);
  return {__builtin_convertvector(halves[0], FourDoubles),
          __builtin_convertvector(halves[1], FourDoubles)};
}
RIDGE_INLINE Lanes as_floats(const Doubles& values) {
  const FourFloats halves[2] = {__builtin_convertvector(values.low, FourFloats),
                                __builtin_convertvector(values.high, FourFloats)};
  Lanes lanes;
  std::memcpy(&lanes, halves, sizeof lanes);
  return lanes;
}
RIDGE_INLINE Longs as_longs(const Ints& mask) {
  FourInts halves[2];
  std::memcpy(halves, &mask, sizeof halves);
  return {__builtin_convertvector(halves[0], FourLongs),
          __builtin_convertvector(halves[1], FourLongs)};
}
RIDGE_INLINE Ints as_ints(const Longs& mask) {
  const FourInts halves[2] = {__builtin_convertvector(mask.low, FourInts),
                              __builtin_convertvector(mask.high, FourInts)};
  Ints lanes;
  std::memcpy(&lanes, halves, sizeof lanes);
  return lanes;
}

RIDGE_INLINE Lanes inverse(const Lanes& value) {
  return value != splat(0.0f) ? splat(1.0f) / value : splat(0.0f);
}

RIDGE_INLINE Doubles total(const Lanes* parts) {
  return (as_doubles(parts[0]) + as_doubles(parts[1])) +
         (as_doubles(parts[2]) + as_doubles(parts[3]));
}

// Rounds to the nearest integer in [0, high].
RIDGE_INLINE Lanes round_into(const Lanes& value, float high) {
  const Lanes raised = value < splat(0.0f) ? splat(0.0f) : value;
  const Lanes clamped = raised > splat(high) ? splat(high) : raised;
  return (clamped + splat(kRounder)) - splat(kRounder);
}

// The integer nearest to value / unit, at most `high`, halves upwards; value >= 0.
RIDGE_INLINE Lanes nearest(const Lanes& value, float unit, float high) {
  Lanes steps = value * splat(files::inverse(unit));
  steps = splat(high) < steps ? splat(high) : steps;
  const Lanes floor = __builtin_convertvector(__builtin_convertvector(steps, Ints), Lanes);
  return steps - floor >= splat(0.5f) ? floor + splat(1.0f) : floor;
}

// Eight sub-blocks of kElements values.
template <int kElements>
struct SubBlocks {
  Lanes x[kElements];
  Doubles x_sum;
  float max_quant;
};

template <int kElements>
RIDGE_INLINE void gather(const float* values, float max_quant, SubBlocks<kElements>& blocks) {
  blocks.max_quant = max_quant;
  blocks.x_sum = splat(0.0);
  for (int i = 0; i < kElements; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) blocks.x[i][lane] = values[lane * kElements + i];
    blocks.x_sum = blocks.x_sum + as_doubles(blocks.x[i]);
  }
}

template <int kElements>
RIDGE_INLINE AffineSums affine_sums(const SubBlocks<kElements>& blocks, const Affine& fit) {
  const Lanes inverse_scale = inverse(fit.scale);
  Lanes q_sum[kParts]{}, qq_sum[kParts]{}, xq_sum[kParts]{};
  for (int part = 0; part < kParts; ++part)
    for (int i = part; i < kElements; i += kParts) {
      const Lanes q = round_into((blocks.x[i] + fit.min) * inverse_scale, blocks.max_quant);
      q_sum[part] += q;
      qq_sum[part] += q * q;
      xq_sum[part] += blocks.x[i] * q;
    }
  return {total(q_sum), total(qq_sum), total(xq_sum)};
}

// The squared error of each sub-block.
template <int kElements>
RIDGE_INLINE Doubles affine_error(const SubBlocks<kElements>& blocks, const Affine& fit) {
  const Lanes inverse_scale = inverse(fit.scale);
  Lanes error[kParts]{};
  for (int part = 0; part < kParts; ++part)
    for (int i = part; i < kElements; i += kParts) {
      const Lanes q = round_into((blocks.x[i] + fit.min) * inverse_scale, blocks.max_quant);
      const Lanes gap = blocks.x[i] - (fit.scale * q - fit.min);
      error[part] += gap * gap;
    }
  return total(error);
}

// The scale and the min >= 0 that minimise the squared error for the given integers; scale 0 if
// there are none.
RIDGE_INLINE Affine solve_affine(const AffineSums& sums, double n, const Doubles& x_sum) {
  const Doubles zero = splat(0.0), determinant = splat(n) * sums.qq - sums.q * sums.q,
                scale = (splat(n) * sums.xq - x_sum * sums.q) / determinant,
                offset = (sums.qq * x_sum - sums.q * sums.xq) / determinant,
                ratio = choose(sums.qq <= zero, zero, sums.xq / sums.qq);
  const Longs is_free = (zero < determinant) & (offset <= zero);
  const Doubles best = choose(is_free, scale, ratio), min = choose(is_free, offset, zero);
  return {as_floats(choose(best < zero, zero, best)), -as_floats(min)};
}

// The best scale and min of each sub-block, before their scales are rounded.
template <int kElements>
RIDGE_INLINE Affine fit_sub_blocks(const SubBlocks<kElements>& blocks) {
  Lanes low{}, high = blocks.x[0];
  for (const Lanes& x : blocks.x) {
    low = x < low ? x : low;
    high = high < x ? x : high;
  }
  const Lanes range = high - low;
  Affine best{range / splat(blocks.max_quant), -low};
  Doubles best_error = affine_error(blocks, best);
  for (int step = -kWidthSteps; step <= kWidthSteps; ++step) {
    Affine fit{range / splat(blocks.max_quant + kWidthStep * static_cast<float>(step)), -low};
    for (int round = 0; round < 2; ++round) {
      const Affine solved = solve_affine(affine_sums(blocks, fit), kElements, blocks.x_sum);
      const Ints goes_on = fit.scale > splat(0.0f);
      fit.scale = goes_on ? solved.scale : fit.scale;
      fit.min = goes_on ? solved.min : fit.min;
    }
    const Doubles error = affine_error(blocks, fit);
    const Longs is_better = as_longs(fit.scale > splat(0.0f)) & (error < best_error);
    best_error = choose(is_better, error, best_error);
    const Ints is_taken = as_ints(is_better);
    best.scale = is_taken ? fit.scale : best.scale;
    best.min = is_taken ? fit.min : best.min;
  }
  const Ints is_constant = range < splat(kTinyRange);
  best.scale = is_constant ? splat(0.0f) : best.scale;
  return best;
}

struct SuperScale {
  float scale = 0;
  float min = 0;
};

// The integers of eight sub-blocks for scale and min, as floats, and their error.
struct ScaleChoice {
  Lanes scales, mins;
  Doubles error;
};

// Chooses each sub-block's integers, given the super-block's scale and min: the best of the nearest
// integers and their neighbours.
template <int kElements>
RIDGE_INLINE ScaleChoice choose_scales(const SubBlocks<kElements>& blocks,
                                       const Affine& wanted,
                                       const SuperScale& super,
                                       float max_scale) {
  const Lanes scale_at = nearest(wanted.scale, super.scale, max_scale),
              min_at = nearest(wanted.min, super.min, max_scale);
  ScaleChoice best{Lanes{}, Lanes{}, splat(-1.0)};
  for (int i = -1; i <= 1; ++i)
    for (int j = -1; j <= 1; ++j) {
      const Lanes scales = scale_at + splat(static_cast<float>(i)),
                  mins = min_at + splat(static_cast<float>(j));
      const Doubles error = affine_error(blocks, {super.scale * scales, super.min * mins});
      const Ints is_in_range = (scales >= splat(0.0f)) & (scales <= splat(max_scale)) &
                               (mins >= splat(0.0f)) & (mins <= splat(max_scale));
      const Longs is_better =
          as_longs(is_in_range) & ((best.error < splat(0.0)) | (error < best.error));
      best.error = choose(is_better, error, best.error);
      const Ints is_taken = as_ints(is_better);
      best.scales = is_taken ? scales : best.scales;
      best.mins = is_taken ? mins : best.mins;
    }
  return best;
}

// Chooses the integers of all sub-blocks. Returns the whole error.
template <int kElements, int kGroups>
RIDGE_INLINE double choose_all(const SubBlocks<kElements> (&blocks)[kGroups],
                               const Affine (&wanted)[kGroups],
                               const SuperScale& super,
                               float max_scale,
                               ScaleChoice (&chosen)[kGroups]) {
  double error = 0;
  for (int g = 0; g < kGroups; ++g) {
    chosen[g] = choose_scales(blocks[g], wanted[g], super, max_scale);
    for (int lane = 0; lane < kLanes; ++lane) error += chosen[g].error[lane];
  }
  return error;
}

// The sums of least squares for x = scale a - min b, where a_i = scales * q_i and b_i = mins.
struct SuperSums {
  double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
};

template <int kElements>
RIDGE_INLINE void add_sums(const SubBlocks<kElements>& blocks,
                           const ScaleChoice& chosen,
                           const SuperScale& super,
                           SuperSums& to) {
  const AffineSums sums =
      affine_sums(blocks, {super.scale * chosen.scales, super.min * chosen.mins});
  for (int lane = 0; lane < kLanes; ++lane) {
    const double scale = chosen.scales[lane], min = chosen.mins[lane];
    to.aa += scale * scale * sums.qq[lane];
    to.ab += scale * min * sums.q[lane];
    to.bb += min * min * kElements;
    to.xa += scale * sums.xq[lane];
    to.xb += min * blocks.x_sum[lane];
  }
}

// The super-block's scale and min over all its values, with the integers that gave the sums.
SuperScale solve_super(const SuperSums& sums, const SuperScale& super) {
  const double determinant = sums.aa * sums.bb - sums.ab * sums.ab;
  if (determinant > 0) {
    const SuperScale solved{as_half((sums.xa * sums.bb - sums.xb * sums.ab) / determinant),
                            as_half((sums.xa * sums.ab - sums.xb * sums.aa) / determinant)};
    if (solved.scale > 0 && solved.min >= 0 && std::isfinite(solved.scale + solved.min))
      return solved;
  }
  // Keeps the min.
  const float scale = sums.aa > 0 ? as_half((sums.xa + super.min * sums.ab) / sums.aa) : 0;
  return scale > 0 && std::isfinite(scale) ? SuperScale{scale, super.min} : super;
}

template <int kElements>
RIDGE_INLINE void store(const SubBlocks<kElements>& blocks,
                        const ScaleChoice& chosen,
                        const SuperScale& super,
                        int first,
                        AffineFit& fit) {
  const Lanes inverse_scale = inverse(super.scale * chosen.scales), min = super.min * chosen.mins;
  for (int lane = 0; lane < kLanes; ++lane) {
    fit.scales[first + lane] = static_cast<uint8_t>(chosen.scales[lane]);
    fit.mins[first + lane] = static_cast<uint8_t>(chosen.mins[lane]);
  }
  for (int i = 0; i < kElements; ++i) {
    const Lanes q = round_into((blocks.x[i] + min) * inverse_scale, blocks.max_quant);
    for (int lane = 0; lane < kLanes; ++lane)
      fit.quants[(first + lane) * kElements + i] = static_cast<uint8_t>(q[lane]);
  }
}

template <int kElements>
RIDGE_INLINE AffineFit search(const float* values, const AffineGrid& grid) {
  constexpr int kGroups = kSuperBlockElements / (kLanes * kElements);
  SubBlocks<kElements> blocks[kGroups];
  Affine wanted[kGroups];
  SuperScale peak;
  for (int g = 0; g < kGroups; ++g) {
    gather(values + g * kLanes * kElements, static_cast<float>(grid.max_quant), blocks[g]);
    wanted[g] = fit_sub_blocks(blocks[g]);
    for (int lane = 0; lane < kLanes; ++lane) {
      peak.scale = std::max(peak.scale, wanted[g].scale[lane]);
      peak.min = std::max(peak.min, wanted[g].min[lane]);
    }
  }
  const auto max_scale = static_cast<float>(grid.max_scale);
  SuperScale super{half_beyond(peak.scale / max_scale), half_beyond(peak.min / max_scale)};
  if (!std::isfinite(super.scale) || !std::isfinite(super.min))
    return unreachable_scale<AffineFit>();
  ScaleChoice chosen[kGroups], again[kGroups];
  double error = choose_all(blocks, wanted, super, max_scale, chosen);
  for (int round = 0; round < kSuperRounds; ++round) {
    SuperSums sums;
    for (int g = 0; g < kGroups; ++g) add_sums(blocks[g], chosen[g], super, sums);
    const SuperScale solved = solve_super(sums, super);
    const double error_again = choose_all(blocks, wanted, solved, max_scale, again);
    if (!(error_again < error)) break;
    super = solved;
    error = error_again;
    for (int g = 0; g < kGroups; ++g) chosen[g] = again[g];
  }
  AffineFit result{};
  result.scale = float_to_f16(super.scale);
  result.min = float_to_f16(super.min);
  for (int g = 0; g < kGroups; ++g) store(blocks[g], chosen[g], super, g * kLanes, result);
  return result;
}

AffineFit fit(const float* values, const AffineGrid& grid) {
  return grid.sub_elements == 16 ? search<16>(values, grid) : search<32>(values, grid);
}
