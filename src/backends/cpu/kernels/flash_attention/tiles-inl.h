// SPDX-License-Identifier: Apache-2.0
// Tile operations of flash attention (forward, backward and over a KV cache), compiled per ISA:
// packing operands, GEMMs, exponentials. Each caller chooses the order of its tiles. Included again
// for each target of Highway's foreach_target.h.
//
// Tiles in scratch are fp32. Column blocks hold a tile of at most 64 rows as blocks of 64 columns
// (the last one narrower): block p is [rows, width] with its own row stride, so that a GEMM reads
// consecutive cache lines. Operands are always packed before a GEMM: their token stride, often a
// power of two of 4 KiB and more, maps all rows of a tile to the same few L1 sets.
#if defined(RIDGE_FLASH_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_FLASH_ATTENTION_INL_H_
#undef RIDGE_FLASH_ATTENTION_INL_H_
#else
#define RIDGE_FLASH_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backends/cpu/kernels/flash_attention/plan.h"
#include "base/bf16.h"
#include "base/float16.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Score blocks are 16 wide, so longer vectors would not help.
using Wide = HWY_CAPPED(float, 16);
// Head sizes are multiples of 8, so loads and stores of operands need no mask and touch no
// neighboring bytes.
using Octet = HWY_CAPPED(float, 8);
using Quad = HWY_CAPPED(float, 4);

inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;
// A row's maximum before any visible score. It is finite, so that masked scores (minus infinity)
// still have weight 0 relative to it.
inline constexpr float kNoMaximum = std::numeric_limits<float>::lowest();

inline constexpr int64_t kBlockColumns = 64;
inline constexpr int64_t kTileRows = 64;
static_assert(kKeyTile == kTileRows && kQueryTile == kTileRows);

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const uint16_t* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
}

// As narrow_f16 and widen_f16 of vector_io-inl.h, for any number of lanes.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const Float16* from) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, f16_to_float(from->bits));
#else
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d,
                       hn::BitCast(half, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from))));
#endif
}

template <class D>
HWY_INLINE void store(hn::Vec<D> value, D, Float16* to) {
#if HWY_TARGET == HWY_SCALAR
  to->bits = float_to_f16(hn::GetLane(value));
#else
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::BitCast(d16, hn::DemoteTo(half, value)), d16, reinterpret_cast<uint16_t*>(to));
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const int8_t* from) {
  const hn::Rebind<int8_t, D> d8;
  const hn::Rebind<int32_t, D> d32;
  return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, from)));
}

template <class D>
HWY_INLINE void store(hn::Vec<D> value, D d, float* to) {
  hn::StoreU(value, d, to);
}

// Rounds to nearest even; NaN stays NaN.
template <class D>
HWY_INLINE void store(hn::Vec<D> value, D, uint16_t* to) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  const hn::Rebind<int32_t, D> di32;
  const auto bits = hn::BitCast(d32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffu))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40u));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(value));
  const auto half = hn::IfThenElse(is_nan, quiet, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, half)), d16, to);
}

// 2^x for x <= 127 with an error of at most 1.5 ulp; 0 below -126.5; NaN stays NaN, except in the
// scalar fallback. x = n + f with |f| <= 1/2; adding 1.5 * 2^23 leaves n in the low bits, biased to
// be the exponent field of 2^n. 2^f is a polynomial, minimax in relative error with its constant
// fixed to 1 (3.5e-9), so that 2^0 is exact.
template <class D>
HWY_INLINE hn::Vec<D> exp2_vector(D d, hn::Vec<D> x) {
  const hn::Rebind<uint32_t, D> d32;
  const auto magic = hn::Set(d, 12582912.0f + 127.0f);
  // x86's max returns its second argument if one is NaN.
  const auto clamped = hn::Max(hn::Set(d, -127.0f), x);
  const auto shifted = hn::Add(clamped, magic);
  const auto f = hn::Sub(clamped, hn::Sub(shifted, magic));
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(d32, shifted)));
  auto poly =
      hn::MulAdd(f, hn::Set(d, 0.00015463086643234621f), hn::Set(d, 0.00134023249760355191f));
  poly = hn::MulAdd(f, poly, hn::Set(d, 0.00961805339662384141f));
  poly = hn::MulAdd(f, poly, hn::Set(d, 0.0555032343537064658f));
  poly = hn::MulAdd(f, poly, hn::Set(d, 0.240226509340977164f));
  poly = hn::MulAdd(f, poly, hn::Set(d, 0.693147208067020686f));
  poly = hn::MulAdd(f, poly, hn::Set(d, 1.0f));
  return hn::Mul(poly, power);
}

HWY_INLINE int64_t padded_head_size(int64_t head_size) { return round_up(head_size, kScoreBlock); }

// The width of block `block` of a tile with `columns` columns, and the offset where it starts.
HWY_INLINE int64_t column_block_width(int64_t columns, int64_t block) {
  return std::min(kBlockColumns, columns - block * kBlockColumns);
}
HWY_INLINE int64_t column_block_offset(int64_t block) { return block * kBlockColumns * kTileRows; }

// Rows of one head of an operand to pack, with zeros up to `padded_rows`.
template <typename T>
struct HeadRows {
  const T* data;
  int64_t stride;
  int64_t rows;
  int64_t padded_rows;
  int64_t head_size;
  const float* scales = nullptr;  // rows of i8 quants have them
  // Each row is multiplied by its scale.
  float scale(int64_t row) const {
    if constexpr (sizeof(T) == 1) return scales[row];
    return 1.0f;
  }
};

// Packs `from`, times `factor`, into column blocks from row `first_row` on, padded to
// padded_head_size columns.
template <typename T>
HWY_NOINLINE void pack_column_blocks(const HeadRows<T>& from,
                                     float factor,
                                     float* column_blocks,
                                     int64_t first_row = 0) {
  const Octet d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t columns = padded_head_size(from.head_size);
  for (int64_t start = 0, block = 0; start < columns; start += kBlockColumns, ++block) {
    const int64_t width = column_block_width(columns, block);
    const int64_t valid = std::min(width, from.head_size - start);
    float* to = column_blocks + column_block_offset(block) + first_row * width;
    for (int64_t row = 0; row < from.rows; ++row, to += width) {
      const T* source = from.data + row * from.stride + start;
      const auto scale = hn::Set(d, factor * from.scale(row));
      int64_t e = 0;
      for (; e < valid; e += lanes) hn::StoreU(hn::Mul(scale, load(d, source + e)), d, to + e);
      for (; e < width; ++e) to[e] = 0.0f;
    }
    std::fill(to, to + (from.padded_rows - from.rows) * width, 0.0f);
  }
}

#if HWY_TARGET != HWY_SCALAR
// Calls put(i, column) for the columns of four rows of four elements.
template <class D, class V, typename Put>
HWY_INLINE void put_transposed(D d, V r0, V r1, V r2, V r3, const Put& put) {
  const hn::Repartition<uint64_t, D> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  put(0, hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)));
  put(1, hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)));
  put(2, hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)));
  put(3, hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)));
}
#endif

// Packs the rows of `from` as columns: to[e, row] with row stride kBlockColumns.
template <typename T>
HWY_NOINLINE void pack_transposed(const HeadRows<T>& from, float* to) {
  const int64_t stride = from.stride, head_size = from.head_size;
  int64_t row = 0;
#if HWY_TARGET != HWY_SCALAR
  const Quad d;
  for (; row + 4 <= from.rows; row += 4) {
    const T* source = from.data + row * stride;
    for (int64_t e = 0; e < head_size; e += 4) {
      const auto row_at = [&](int64_t i) HWY_ATTR {
        const auto v = load(d, source + i * stride + e);
        if constexpr (sizeof(T) == 1) return hn::Mul(v, hn::Set(d, from.scale(row + i)));
        return v;
      };
      const auto r0 = row_at(0), r1 = row_at(1), r2 = row_at(2), r3 = row_at(3);
      put_transposed(d, r0, r1, r2, r3, [&](int64_t i, auto column) HWY_ATTR {
        hn::StoreU(column, d, to + (e + i) * kBlockColumns + row);
      });
    }
  }
#endif
  const hn::CappedTag<float, 1> one;
  for (; row < from.padded_rows; ++row) {
    for (int64_t e = 0; e < head_size; ++e) {
      to[e * kBlockColumns + row] =
          row < from.rows ? hn::GetLane(load(one, from.data + row * stride + e)) * from.scale(row)
                          : 0.0f;
    }
  }
}

// The left operand of a GEMM: element (row, k) is data[row * stride + k], or data[k * stride +
// row] when transposed. Its elements are broadcast one by one, so either order costs the same.
template <bool kTransposed>
struct Left {
  const float* data;
  int64_t stride;
};

// Registers: 6 rows x 4 vectors are 24 accumulators, which with 4 vectors of b and a broadcast fit
// the 32 registers of AVX-512; 6 x 2 take 15 of the 16 of older ISAs. Both have more independent
// chains than FMA latency x pipes (8) and fewer loads than FMAs.
inline constexpr int kRegisterRows = 6;
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kRegisterVectors = 4;
#else
inline constexpr int kRegisterVectors = 2;
#endif

// c[kRows, kVectors] = (accumulate ? c : 0) + a[kRows, depth] b[depth, kVectors], in registers; k
// ascends.
template <int kRows, int kVectors, bool kTransposed>
HWY_INLINE void product_in_registers(Left<kTransposed> a,
                                     StridedRows<const float> b,
                                     StridedRows<float> c,
                                     int64_t depth,
                                     bool accumulate) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<Wide> sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = accumulate ? hn::LoadU(d, c[r] + v * lanes) : hn::Zero(d);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    hn::Vec<Wide> right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b[k] + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto left =
          hn::Set(d, kTransposed ? a.data[k * a.stride + r] : a.data[r * a.stride + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, c[r] + v * lanes);
  }
}

// Computes all rows of kVectors vectors of columns from `column` on.
template <int kVectors, typename Product>
HWY_NOINLINE void product_of_columns(const Product& product, int64_t rows, int64_t column) {
  int64_t row = 0;
  for (; row + kRegisterRows <= rows; row += kRegisterRows)
    product.template tile<kRegisterRows, kVectors>(row, column);
  switch (rows - row) {
    case 5:
      return product.template tile<5, kVectors>(row, column);
    case 4:
      return product.template tile<4, kVectors>(row, column);
    case 3:
      return product.template tile<3, kVectors>(row, column);
    case 2:
      return product.template tile<2, kVectors>(row, column);
    case 1:
      return product.template tile<1, kVectors>(row, column);
    default:
      return;
  }
}

// Computes [rows, columns] of a GEMM, whose tile<kRows, kVectors>(row, column) computes so many
// rows and vectors of columns in registers; columns is a multiple of 16.
template <typename Product>
HWY_INLINE void compute(const Product& product, int64_t rows, int64_t columns) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  const int64_t step = kRegisterVectors * lanes;
  int64_t column = 0;
  for (; column + step <= columns; column += step)
    product_of_columns<kRegisterVectors>(product, rows, column);
  if constexpr (kRegisterVectors > 2) {
    switch ((columns - column) / lanes) {
      case 3:
        return product_of_columns<3>(product, rows, column);
      case 2:
        return product_of_columns<2>(product, rows, column);
      case 1:
        return product_of_columns<1>(product, rows, column);
      default:
        return;
    }
  }
}

// c = (accumulate ? c : 0) + a[rows, depth] b[depth, columns].
template <bool kTransposed>
struct FloatProduct {
  Left<kTransposed> a;
  StridedRows<const float> b;
  StridedRows<float> c;
  int64_t depth;
  bool accumulate;

  template <int kRows, int kVectors>
  HWY_INLINE void tile(int64_t row, int64_t column) const {
    const float* left = a.data + row * (kTransposed ? 1 : a.stride);
    product_in_registers<kRows, kVectors>(Left<kTransposed>{left, a.stride},
                                          {b.data + column, b.stride}, {c[row] + column, c.stride},
                                          depth, accumulate);
  }
};

// A tile's rows of one head, in column blocks.
struct ColumnBlocks {
  const float* data;
  int64_t head_size;
};

// Scores: c[rows, columns] = a b over the head size, with a in column blocks from row `row` on and
// b transposed from column `column` on. The depth is cut at column blocks, so that 64 x 64 of b are
// in use at a time.
HWY_INLINE void product_of_column_blocks(ColumnBlocks left,
                                         const float* transposed,
                                         TileRange rows,
                                         TileRange columns,
                                         float* scores) {
  const int64_t head_size = left.head_size, padded = padded_head_size(head_size);
  for (int64_t start = 0, block = 0; start < head_size; start += kBlockColumns, ++block) {
    const int64_t width = column_block_width(padded, block);
    const Left<false> a{left.data + column_block_offset(block) + rows.first * width, width};
    compute(FloatProduct<false>{a,
                                {transposed + start * kBlockColumns + columns.first, kBlockColumns},
                                {scores + rows.first * kKeyTile + columns.first, kKeyTile},
                                std::min(kBlockColumns, head_size - start),
                                start > 0},
            rows.size(), columns.size());
  }
}

// c[rows, head size] += a b, where a is the (transposed) tile of weights and b is in column blocks;
// c has row stride padded_head_size. `a` starts at the first row of c and at row depth.first of b.
template <bool kTransposed>
HWY_INLINE void add_product_with_column_blocks(Left<kTransposed> a,
                                               ColumnBlocks b,
                                               int64_t rows,
                                               TileRange depth,
                                               float* c) {
  const int64_t padded = padded_head_size(b.head_size);
  for (int64_t start = 0, block = 0; start < padded; start += kBlockColumns, ++block) {
    const int64_t width = column_block_width(padded, block);
    compute(FloatProduct<kTransposed>{a,
                                      {b.data + column_block_offset(block) + depth.first * width,
                                       width},
                                      {c + start, padded},
                                      depth.size(),
                                      true},
            rows, width);
  }
}

// Writes `rows` rows of `from` (row stride padded_head_size), times `factor`, to an operand.
template <typename T>
HWY_NOINLINE void unpack_rows(const float* from,
                              int64_t rows,
                              int64_t head_size,
                              float factor,
                              StridedRows<T> to) {
  const Octet d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, factor);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t e = 0; e < head_size; e += lanes) {
      store(hn::Mul(scale, hn::LoadU(d, from + e)), d, to[row] + e);
    }
    from += padded_head_size(head_size);
  }
}

// The state of some rows of one head while keys are streamed.
struct SoftmaxRows {
  float* scores;   // row stride kKeyTile
  float* maxima;   // they are of scores in base-2 units
  float* sums;     // row stride kScoreBlock, one partial sum per lane
  float* outputs;  // row stride `columns`
  int64_t columns;
};

// Masks one row's `range` of scores, raises its running maximum and rescales earlier sums and
// outputs to it.
HWY_INLINE void raise_maximum(const SoftmaxRows& state,
                              int64_t row,
                              TileRange range,
                              TileRange visible) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float* scores = state.scores + row * kKeyTile;
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto maximum = lowest;
  if (visible == range) {
    for (int64_t j = range.first; j < range.last; j += lanes) {
      maximum = hn::Max(maximum, hn::LoadU(d, scores + j));
    }
  } else {
    const auto first = hn::Set(d, static_cast<float>(visible.first));
    const auto last = hn::Set(d, static_cast<float>(visible.last));
    for (int64_t j = range.first; j < range.last; j += lanes) {
      const auto column = hn::Iota(d, static_cast<float>(j));
      const auto seen = hn::And(hn::Ge(column, first), hn::Lt(column, last));
      const auto score = hn::IfThenElse(seen, hn::LoadU(d, scores + j), lowest);
      hn::StoreU(score, d, scores + j);
      maximum = hn::Max(maximum, score);
    }
  }
  const float old_maximum = state.maxima[row];
  const float new_maximum = hn::GetLane(hn::MaxOfLanes(d, maximum));
  if (!(new_maximum > old_maximum)) return;
  state.maxima[row] = new_maximum;
  if (old_maximum == kNoMaximum) return;  // nothing summed yet
  const auto shrink = exp2_vector(d, hn::Set(d, old_maximum - new_maximum));
  float* sums = state.sums + row * kScoreBlock;
  hn::StoreU(hn::Mul(shrink, hn::LoadU(d, sums)), d, sums);
  float* output = state.outputs + row * state.columns;
  for (int64_t e = 0; e < state.columns; e += lanes) {
    hn::StoreU(hn::Mul(shrink, hn::LoadU(d, output + e)), d, output + e);
  }
}

// Converts one row's `range` of scores to weights 2^(score - maximum) and adds them to its sum.
HWY_INLINE void weigh_scores(const SoftmaxRows& state, int64_t row, TileRange range) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float* scores = state.scores + row * kKeyTile;
  float* sums = state.sums + row * kScoreBlock;
  const auto shift = hn::Set(d, state.maxima[row]);
  auto sum = hn::LoadU(d, sums);
  for (int64_t j = range.first; j < range.last; j += lanes) {
    const auto weight = exp2_vector(d, hn::Sub(hn::LoadU(d, scores + j), shift));
    hn::StoreU(weight, d, scores + j);
    sum = hn::Add(sum, weight);
  }
  hn::StoreU(sum, d, sums);
}

// The state of the scratch's rows from `row` on.
HWY_INLINE SoftmaxRows softmax_rows(const AttentionScratch& at, float* scratch, int64_t row) {
  return {scratch + at.scores, scratch + at.maxima + row, scratch + at.sums + row * kScoreBlock,
          scratch + at.outputs + row * at.columns, at.columns};
}

// Sets the state of rows before any key.
HWY_INLINE void clear_rows(const SoftmaxRows& state, int64_t rows) {
  std::fill_n(state.outputs, rows * state.columns, 0.0f);
  std::fill_n(state.sums, rows * kScoreBlock, 0.0f);
  std::fill_n(state.maxima, rows, kNoMaximum);
}

// Writes one row's output; returns the sum of its weights.
template <typename T>
HWY_INLINE float finish_row(const SoftmaxRows& state, int64_t row, int64_t head_size, T* to) {
  const Wide d;
  const float sum = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, state.sums + row * kScoreBlock)));
  unpack_rows<T>(state.outputs + row * state.columns, 1, head_size, 1.0f / sum, {to, 0});
  return sum;
}

// A tile of one head's queries, and one of keys and values.
struct PackedTiles {
  const float* queries;  // column blocks
  const float* keys;     // transposed
  const float* values;   // column blocks
  int64_t head_size;
};

// A row block's queries attend to its keys; row r attends to seen(r).
template <typename Seen>
HWY_INLINE void attend_row_block(const PackedTiles& tiles,
                                 const ScoreRowBlock& row_block,
                                 const Seen& seen,
                                 const SoftmaxRows& state) {
  const TileRange rows = row_block.rows, columns = row_block.columns;
  product_of_column_blocks({tiles.queries, tiles.head_size}, tiles.keys, rows, columns,
                           state.scores);
  // Two sweeps, each over independent rows; a single sweep would chain maximum, exponential and
  // sum.
  for (int64_t row = rows.first; row < rows.last; ++row)
    raise_maximum(state, row, columns, intersect(seen(row), columns));
  for (int64_t row = rows.first; row < rows.last; ++row) weigh_scores(state, row, columns);
  const Left<false> weights{state.scores + rows.first * kKeyTile + columns.first, kKeyTile};
  add_product_with_column_blocks(weights, {tiles.values, tiles.head_size}, rows.size(), columns,
                                 state.outputs + rows.first * state.columns);
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
