// SPDX-License-Identifier: Apache-2.0
// Per-target: the tiles of flash_attention/tiles-inl.h in 16-bit integers, which CPUs multiply
// twice as fast as fp32. Each row has its own scale; sums of products are
// exact:
//   q k   A row is as long as 32767 quants, so the sum is at most 2^30 (Cauchy-Schwarz).
//   p v   A row of v has its largest value at 32767. The weights of a tile's keys, times the scales
//         of their values, add up to 32767, so the sum is at most 2^30.
// Quants of an i8 cache are taken as they are. All scales depend on one row alone, so a token's
// bits do not depend on what shares its tile.
#if defined(RIDGE_CPU_INT16_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_INT16_TILES_INL_H_
#undef RIDGE_CPU_INT16_TILES_INL_H_
#else
#define RIDGE_CPU_INT16_TILES_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/flash_attention/tiles-inl.h"
#include "backends/cpu/kernels/quantized/matmul.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Whether this machine multiplies int16 faster than fp32. AVX-512 without VNNI needs two
// instructions for what fp32 does in one of the same rate.
HWY_INLINE bool has_fast_int16() {
#if HWY_TARGET == HWY_SCALAR
  return false;
#elif HWY_TARGET <= HWY_AVX3
  return has_vnni();
#else
  return true;
#endif
}

#if HWY_TARGET != HWY_SCALAR

using WideSums = hn::Rebind<int32_t, Wide>;
using WideInt16s = hn::Repartition<int16_t, WideSums>;

inline constexpr float kMostInt16 = 32767.0f, kInt16Step = 1 / kMostInt16;
// Below it, a row's quants are 0.
inline constexpr float kNegligible = 0x1p-100f;
inline constexpr float kNotFinite = std::numeric_limits<float>::quiet_NaN();

// Says what of a row is at 32767: its length or its largest value.
enum class RowScale { kLength, kLargest };

// The largest magnitude of a row; NaN if a value is not finite.
template <typename T>
HWY_INLINE float largest_of(const T* row, int64_t size) {
  const Octet d;
  const hn::Rebind<int32_t, Octet> d32;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // In the order of their bits, infinity and NaN come after all numbers.
  auto most = hn::Zero(d32);
  for (int64_t e = 0; e < size; e += lanes)
    most = hn::Max(most, hn::BitCast(d32, hn::Abs(load(d, row + e))));
  const float largest = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(d32, most)));
  return largest <= std::numeric_limits<float>::max() ? largest : kNotFinite;
}

// The length of a row; NaN if a value is not finite.
template <typename T>
HWY_INLINE float length_of(const T* row, int64_t size) {
  const Octet d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto squares = hn::Zero(d);
  for (int64_t e = 0; e < size; e += lanes) {
    const auto x = load(d, row + e);
    squares = hn::MulAdd(x, x, squares);
  }
  const float square = hn::GetLane(hn::SumOfLanes(d, squares));
  if (square > 1e-30f && square < 1e30f) return std::sqrt(square);
  // Squares leave the range of fp32; then the most that the length can be.
  return largest_of(row, size) * std::sqrt(static_cast<float>(size));
}

// Quants of x factor, for |x factor| <= 32767: adding 1.5 * 2^23 rounds to an integer, whose low 16
// bits are those of the sum.
template <class D>
HWY_INLINE hn::Vec<hn::Repartition<int16_t, D>> rounded_pair(D d,
                                                             hn::Vec<D> low,
                                                             hn::Vec<D> high,
                                                             hn::Vec<D> factor) {
  const hn::Repartition<int16_t, D> d16;
  const auto magic = hn::Set(d, 12582912.0f);
  return hn::ConcatEven(d16, hn::BitCast(d16, hn::MulAdd(high, factor, magic)),
                        hn::BitCast(d16, hn::MulAdd(low, factor, magic)));
}

// Rounds a row of `size` values, whole vectors, times `factor`, to quants.
template <class D, typename T>
HWY_INLINE void round_row(D d, const T* x, int64_t size, float factor, int16_t* quants) {
  const hn::Repartition<int16_t, D> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, factor);
  int64_t e = 0;
  for (; e + 2 * lanes <= size; e += 2 * lanes)
    hn::StoreU(rounded_pair(d, load(d, x + e), load(d, x + e + lanes), by), d16, quants + e);
  if (e < size) {
    const hn::Half<decltype(d16)> half;
    hn::StoreU(hn::LowerHalf(half, rounded_pair(d, load(d, x + e), hn::Zero(d), by)), half,
               quants + e);
  }
}

// Rounds the rows of `from` to quants [padded_rows, head_size], with zeros from from.rows on; row
// r's scale is row_scales[r], times `factor`: NaN if a value is not finite, 0 if all are
// negligible.
template <RowScale kScale, typename T>
HWY_NOINLINE void round_rows(const HeadRows<T>& from,
                             float factor,
                             int16_t* quants,
                             float* row_scales) {
  const int64_t size = from.head_size;
  for (int64_t row = 0; row < from.rows; ++row, quants += size) {
    const T* x = from.data + row * from.stride;
    if constexpr (sizeof(T) == 1) {
      const hn::Rebind<int8_t, Octet> d8;
      const hn::Rebind<int16_t, Octet> d16;
      row_scales[row] = factor * from.scale(row);
      for (int64_t e = 0; e < size; e += static_cast<int64_t>(hn::Lanes(d8)))
        hn::StoreU(hn::PromoteTo(d16, hn::LoadU(d8, x + e)), d16, quants + e);
    } else {
      const float most = kScale == RowScale::kLength ? length_of(x, size) : largest_of(x, size);
      const bool is_some = most >= kNegligible;
      row_scales[row] = is_some ? factor * most * kInt16Step : most < kNegligible ? 0 : kNotFinite;
      if (is_some)
        round_row(Octet(), x, size, kMostInt16 / most, quants);
      else
        std::fill_n(quants, size, int16_t{0});
    }
  }
  std::fill_n(quants, (from.padded_rows - from.rows) * size, int16_t{0});
  std::fill_n(row_scales + from.rows, from.padded_rows - from.rows, 0.0f);
}

// Quants [rows, size] as pairs of columns, transposed: to[size / 2, kKeyTile, 2]. `rows` is a
// multiple of 4, `size` of 8.
HWY_NOINLINE void transpose_pairs(const int16_t* quants, int64_t rows, int64_t size, int16_t* to) {
  const HWY_CAPPED(int16_t, 8) d16;
  const hn::Repartition<uint32_t, decltype(d16)> d;
  for (int64_t row = 0; row < rows; row += 4) {
    for (int64_t e = 0; e < size; e += 8) {
      const auto row_at = [&](int64_t i) HWY_ATTR {
        return hn::BitCast(d, hn::LoadU(d16, quants + (row + i) * size + e));
      };
      const auto r0 = row_at(0), r1 = row_at(1), r2 = row_at(2), r3 = row_at(3);
      put_transposed(d, r0, r1, r2, r3, [&](int64_t i, auto column) HWY_ATTR {
        hn::StoreU(hn::BitCast(d16, column), d16, to + (e + 2 * i) * kKeyTile + 2 * row);
      });
    }
  }
}

// Quants [rows, size] as pairs of rows in column blocks of 64 columns, padded to padded_head_size:
// block p is [kKeyTile / 2, width, 2]. `rows` is even.
HWY_NOINLINE void interleave_rows(const int16_t* quants, int64_t rows, int64_t size, int16_t* to) {
  const HWY_CAPPED(int16_t, 8) d;
  const int64_t columns = padded_head_size(size);
  for (int64_t start = 0, block = 0; start < columns; start += kBlockColumns, ++block) {
    const int64_t width = column_block_width(columns, block), valid = std::min(width, size - start);
    for (int64_t row = 0; row < rows; row += 2) {
      const int16_t* from = quants + row * size + start;
      int16_t* pairs = to + column_block_offset(block) + row * width;
      for (int64_t e = 0; e < valid; e += 8) {
        const auto even = hn::LoadU(d, from + e), odd = hn::LoadU(d, from + size + e);
        hn::StoreU(hn::InterleaveLower(d, even, odd), d, pairs + 2 * e);
        hn::StoreU(hn::InterleaveUpper(d, even, odd), d, pairs + 2 * e + 8);
      }
      std::fill(pairs + 2 * valid, pairs + 2 * width, int16_t{0});
    }
  }
}

// sum + the products of a and b, added in pairs. GCC would reassociate a chain of these sums into a
// tree, which takes more registers than there are; asm keeps it as written. Highway 1.0 does not
// know vpdpwssd, which adds both products at once.
HWY_INLINE hn::Vec<WideSums> add_products(hn::Vec<WideInt16s> a,
                                          hn::Vec<WideInt16s> b,
                                          hn::Vec<WideSums> sum) {
#if HWY_TARGET <= HWY_AVX3
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
#else
  auto unused = hn::Zero(WideSums());
  sum = hn::ReorderWidenMulAccumulate(WideSums(), a, b, sum, unused);
  asm("" : "+x"(sum.raw));
#endif
  return sum;
}

// The sums of products of kRows rows of a [rows, 2 pairs] and kVectors vectors of columns of b
// [pairs, columns, 2], in registers: finish(row, vector, sums).
template <int kRows, int kVectors, typename Finish>
HWY_INLINE void int16_in_registers(StridedRows<const int16_t> a,
                                   StridedRows<const int16_t> b,
                                   int64_t pairs,
                                   const Finish& finish) {
  const WideSums d;
  const WideInt16s d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d16));
  hn::Vec<WideSums> sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int64_t k = 0; k < pairs; ++k) {
    hn::Vec<WideInt16s> right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d16, b[k] + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, a[r] + 2 * k, sizeof pair);
      const auto left = hn::BitCast(d16, hn::Set(d, pair));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = add_products(left, right[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) finish(r, v, sum[r][v]);
  }
}

// scores[row, column] = q_scales[row] k_scales[column] q k.
struct Int16Scores {
  StridedRows<const int16_t> queries;  // [rows, head size]
  StridedRows<const int16_t> keys;     // [head size / 2, columns, 2]
  const float* query_scales;
  const float* key_scales;
  int64_t head_size;
  StridedRows<float> scores;

  template <int kRows, int kVectors>
  HWY_INLINE void tile(int64_t row, int64_t column) const {
    const Wide d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    int16_in_registers<kRows, kVectors>(
        {queries[row], queries.stride}, {keys.data + 2 * column, keys.stride}, head_size / 2,
        [&](int64_t r, int64_t v, auto sum) HWY_ATTR {
          const int64_t at = column + v * lanes;
          const auto row_scale =
              hn::Mul(hn::Set(d, query_scales[row + r]), hn::LoadU(d, key_scales + at));
          hn::StoreU(hn::Mul(hn::ConvertTo(d, sum), row_scale), d, scores[row + r] + at);
        });
  }
};

// outputs[row, column] += row_scales[row] p v.
struct Int16Mix {
  StridedRows<const int16_t> weights;  // [rows, keys]
  StridedRows<const int16_t> values;   // [keys / 2, columns, 2]
  const float* row_scales;
  int64_t keys;
  StridedRows<float> outputs;

  template <int kRows, int kVectors>
  HWY_INLINE void tile(int64_t row, int64_t column) const {
    const Wide d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    int16_in_registers<kRows, kVectors>(
        {weights[row], weights.stride}, {values.data + 2 * column, values.stride}, keys / 2,
        [&](int64_t r, int64_t v, auto sum) HWY_ATTR {
          float* to = outputs[row + r] + column + v * lanes;
          hn::StoreU(
              hn::MulAdd(hn::ConvertTo(d, sum), hn::Set(d, row_scales[row + r]), hn::LoadU(d, to)),
              d, to);
        });
  }
};

// Converts one row's `range` of scores to weights 2^(score - maximum), adds them to its sum, and
// rounds them, times the scales of their values, to quants. Returns their scale.
HWY_INLINE float weigh_to_int16(const SoftmaxRows& state,
                                int64_t row,
                                TileRange range,
                                const float* value_scales,
                                int16_t* quants) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float* scores = state.scores + row * kKeyTile;
  float* sums = state.sums + row * kScoreBlock;
  const auto shift = hn::Set(d, state.maxima[row]);
  auto sum = hn::LoadU(d, sums), all = hn::Zero(d);
  for (int64_t j = range.first; j < range.last; j += lanes) {
    const auto weight = exp2_vector(d, hn::Sub(hn::LoadU(d, scores + j), shift));
    sum = hn::Add(sum, weight);
    const auto scaled = hn::Mul(weight, hn::LoadU(d, value_scales + j));
    all = hn::Add(all, hn::Abs(scaled));
    hn::StoreU(scaled, d, scores + j);
  }
  hn::StoreU(sum, d, sums);
  const float total = hn::GetLane(hn::SumOfLanes(d, all));
  if (!(total >= kNegligible && total <= std::numeric_limits<float>::max())) {
    std::fill(quants + range.first, quants + range.last, int16_t{0});
    return total < kNegligible ? 0 : kNotFinite;
  }
  round_row(d, scores + range.first, range.size(), kMostInt16 / total, quants + range.first);
  return total * kInt16Step;
}

// A tile of one head's queries, and one of keys and values, as quants with the scales of their
// rows.
struct Int16Tiles {
  const int16_t* queries;  // [rows, head size]
  const int16_t* keys;     // transposed pairs
  const int16_t* values;   // column blocks of pairs
  const float* query_scales;
  const float* key_scales;
  const float* value_scales;
  int64_t head_size;
  int16_t* weights;      // scratch [kQueryTile, kKeyTile]
  float* weight_scales;  // scratch [kQueryTile]
};

// As attend_row_block for PackedTiles.
template <typename Seen>
HWY_INLINE void attend_row_block(const Int16Tiles& tiles,
                                 const ScoreRowBlock& row_block,
                                 const Seen& seen,
                                 const SoftmaxRows& state) {
  const TileRange rows = row_block.rows, columns = row_block.columns;
  const int64_t size = tiles.head_size, first = columns.first;
  compute(Int16Scores{{tiles.queries + rows.first * size, size},
                      {tiles.keys + 2 * first, 2 * kKeyTile},
                      tiles.query_scales + rows.first,
                      tiles.key_scales + first,
                      size,
                      {state.scores + rows.first * kKeyTile + first, kKeyTile}},
          rows.size(), columns.size());
  // Two sweeps, as for fp32.
  for (int64_t row = rows.first; row < rows.last; ++row)
    raise_maximum(state, row, columns, intersect(seen(row), columns));
  for (int64_t row = rows.first; row < rows.last; ++row)
    tiles.weight_scales[row] =
        weigh_to_int16(state, row, columns, tiles.value_scales, tiles.weights + row * kKeyTile);
  const int64_t padded = padded_head_size(size);
  for (int64_t start = 0, block = 0; start < padded; start += kBlockColumns, ++block) {
    const int64_t width = column_block_width(padded, block);
    compute(Int16Mix{{tiles.weights + rows.first * kKeyTile + first, kKeyTile},
                     {tiles.values + column_block_offset(block) + first * width, 2 * width},
                     tiles.weight_scales + rows.first,
                     columns.size(),
                     {state.outputs + rows.first * state.columns + start, state.columns}},
            rows.size(), width);
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
