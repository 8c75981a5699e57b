// SPDX-License-Identifier: Apache-2.0
// Per-target: the products of cells-inl.h for quants of i8 in integer arithmetic. Queries and
// weights are rounded to 16 bits. Products of pairs are summed in 32 bits (pmaddwd, vpdpwssd),
// exactly: the queries' quants are small enough for a row, the weights' for the keys of a part.
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/cache/cached_attention.h"
#include "backends/cpu/kernels/cache/cells-inl.h"
#include "backends/cpu/kernels/cache/magnitude-inl.h"

#if defined(RIDGE_CPU_INT8_CELLS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_INT8_CELLS_INL_H_
#undef RIDGE_CPU_INT8_CELLS_INL_H_
#else
#define RIDGE_CPU_INT8_CELLS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Codes that a step multiplies.
inline constexpr int64_t kInt8Step = 16;

// Whether there are integer products at all; if so, for heads of whole steps.
template <typename C>
inline constexpr bool kMultipliesInt8 = sizeof(C) == 1 && HWY_TARGET != HWY_SCALAR;
template <typename C>
HWY_INLINE bool multiplies_int8(int64_t head_size) {
  return kMultipliesInt8<C> && head_size % kInt8Step == 0;
}

// A sum of products of the largest quants in each of the pairs of a row must stay below 2^31.
inline int32_t most_query_quant(int64_t head_size) {
  return static_cast<int32_t>(std::min<int64_t>(32767, INT32_MAX / (128 * head_size)));
}
inline constexpr int32_t kMostWeightQuant = 32767;
static_assert(int64_t{kMostWeightQuant} * 128 * kPartKeys <= INT32_MAX);

// Rounds x to quants of at most `most` and returns their scale: NaN if an x is not finite,
// 0 with quants of 0 if all are negligible. quants has room for whole octets.
HWY_INLINE float round_to_int16(const float* x,
                                int64_t count,
                                const Magnitude& magnitude,
                                int32_t most,
                                int16_t* quants) {
  const Octet d;
  const hn::Rebind<int16_t, Octet> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float largest = magnitude.largest(), range = static_cast<float>(most);
  if (!magnitude.is_finite() || largest < 0x1p-100f) {
    std::fill_n(quants, count, int16_t{0});
    return magnitude.is_finite() ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const VOctet factor = hn::Set(d, range / largest);
  for (int64_t i = 0; i < count; i += lanes) {
    const VOctet v = i + lanes <= count ? load_cells(x + i) : load_cells(x + i, count - i);
    hn::StoreU(hn::DemoteTo(d16, hn::NearestInt(hn::Mul(v, factor))), d16, quants + i);
  }
  return largest / range;
}

#if HWY_TARGET != HWY_SCALAR
using Int16s = hn::Repartition<int16_t, Octet>;
using Sums = hn::Repartition<int32_t, Octet>;
using Int8s = hn::Rebind<int8_t, Int16s>;
static_assert(hn::MaxLanes(Int8s()) == kInt8Step);

HWY_INLINE hn::Vec<Sums> add_products(hn::Vec<Int16s> a, hn::Vec<Int16s> b, hn::Vec<Sums> sum) {
  auto unused = hn::Zero(Sums());
  return hn::ReorderWidenMulAccumulate(Sums(), a, b, sum, unused);
}

// Adds the products of heads of q with two cells to a and b.
template <int kHeads>
HWY_INLINE void multiply_pair(StridedRows<const int16_t> q,
                              CellPair<int8_t> cells,
                              hn::Vec<Sums> (&a)[kHeads],
                              hn::Vec<Sums> (&b)[kHeads]) {
  const auto [first, second, size] = cells;
  const Int16s d16;
  const Int8s d8;
  for (int g = 0; g < kHeads; ++g) a[g] = b[g] = hn::Zero(Sums());
  for (int64_t i = 0; i < size; i += kInt8Step) {
    const auto k0 = hn::PromoteTo(d16, hn::LoadU(d8, first + i));
    const auto k1 = hn::PromoteTo(d16, hn::LoadU(d8, second + i));
    for (int g = 0; g < kHeads; ++g) {
      const auto x = hn::LoadU(d16, q[g] + i);
      a[g] = add_products(k0, x, a[g]);
      b[g] = add_products(k1, x, b[g]);
    }
  }
}

// As score_cells, with quants of q.
template <int kHeads>
HWY_NOINLINE void score_int8(CellRows<int8_t> cells,
                             GroupRows<const int16_t> q,
                             GroupRows<float> scores) {
  for_each_four(cells, [=](FourCells<int8_t> keys, int64_t h, int64_t j, auto) HWY_ATTR {
    const Sums d;
    const hn::Half<Octet> half;
    const int16_t* x = q.of(h);
    float* to = scores.of(h) + j;
    hn::Vec<Sums> a[kHeads], b[kHeads], halves[kHeads];
    multiply_pair<kHeads>({x, q.row}, {keys.at[0], keys.at[1], cells.size}, a, b);
    for (int g = 0; g < kHeads; ++g) halves[g] = add_halves(d, a[g], b[g]);
    multiply_pair<kHeads>({x, q.row}, {keys.at[2], keys.at[3], cells.size}, a, b);
    for (int g = 0; g < kHeads; ++g)
      hn::StoreU(hn::ConvertTo(half, sums_of_four(d, halves[g], add_halves(d, a[g], b[g]))), half,
                 to + g * scores.row);
  });
}

// Two weights in each 32-bit lane.
HWY_INLINE hn::Vec<Int16s> pair_of_weights(const int16_t* p, int64_t count) {
  int16_t both[2] = {p[0], 0};
  if (count > 1) both[1] = p[1];
  int32_t bits;
  std::memcpy(&bits, both, sizeof bits);
  return hn::BitCast(Int16s(), hn::Set(Sums(), bits));
}

// As mix_cells, with quants of weights.
template <int kHeads>
HWY_NOINLINE void mix_int8(CellRows<int8_t> cells,
                           GroupRows<const int16_t> p,
                           GroupRows<int32_t> sums) {
  for_each_four(cells, [&](const FourCells<int8_t>& values, int64_t h, int64_t j,
                           int64_t count) HWY_ATTR {
    const Int16s d16;
    const Int8s d8;
    const Sums d32;
    hn::Vec<Int16s> w01[kHeads], w23[kHeads];
    for (int g = 0; g < kHeads; ++g) {
      const int16_t* weights = p.of(h) + g * p.row + j;
      w01[g] = pair_of_weights(weights, count);
      w23[g] = count > 2 ? pair_of_weights(weights + 2, count - 2) : hn::Zero(d16);
    }
    int32_t* to = sums.of(h);
    for (int64_t i = 0; i < cells.size; i += kInt8Step) {
      const auto v0 = hn::LoadU(d8, values.at[0] + i), v1 = hn::LoadU(d8, values.at[1] + i);
      const auto v2 = hn::LoadU(d8, values.at[2] + i), v3 = hn::LoadU(d8, values.at[3] + i);
      const auto low01 = hn::PromoteTo(d16, hn::InterleaveLower(d8, v0, v1));
      const auto low23 = hn::PromoteTo(d16, hn::InterleaveLower(d8, v2, v3));
      const auto high01 = hn::PromoteTo(d16, hn::InterleaveUpper(d8, v0, v1));
      const auto high23 = hn::PromoteTo(d16, hn::InterleaveUpper(d8, v2, v3));
      for (int g = 0; g < kHeads; ++g) {
        int32_t* low = to + g * sums.row + i;
        int32_t* high = low + kInt8Step / 2;
        hn::StoreU(add_products(low23, w23[g], add_products(low01, w01[g], hn::LoadU(d32, low))),
                   d32, low);
        hn::StoreU(add_products(high23, w23[g], add_products(high01, w01[g], hn::LoadU(d32, high))),
                   d32, high);
      }
    }
  });
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
