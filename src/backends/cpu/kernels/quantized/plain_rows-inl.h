// SPDX-License-Identifier: Apache-2.0
// Per-target: rows of a weight of a plain type (fp32, fp16, bf16) times a few vectors, widened to
// fp32 in registers.
#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/quantized/matmul.h"
#include "backends/cpu/kernels/vector_io-inl.h"

#if defined(RIDGE_CPU_QUANTIZED_PLAIN_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_QUANTIZED_PLAIN_ROWS_INL_H_
#undef RIDGE_CPU_QUANTIZED_PLAIN_ROWS_INL_H_
#else
#define RIDGE_CPU_QUANTIZED_PLAIN_ROWS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// The elements of two vectors. Which of them holds which element depends on the types of both
// operands, so that equal positions of two operands lie in equal lanes.
struct TwoVectors {
  V32 first, second;
};

// Whether two operands are both bf16. Then 32 bits hold two elements, and widening either takes one
// instruction. Scalar code has no vectors of two.
template <typename W, typename X>
inline constexpr bool kPairs =
    std::is_same_v<W, uint16_t>&& std::is_same_v<X, uint16_t>&& HWY_TARGET != HWY_SCALAR;

template <bool kPaired, typename T>
HWY_INLINE TwoVectors load_two(const T* from) {
  if constexpr (kPaired) {
    const U32 d;
    const auto pairs = hn::BitCast(d, hn::LoadU(hn::Repartition<uint16_t, U32>(), from));
    return {hn::BitCast(F32(), hn::ShiftLeft<16>(pairs)),
            hn::BitCast(F32(), hn::And(pairs, hn::Set(d, 0xffff0000u)))};
  } else {
    return {load(Whole(), from), load(Whole(), from + lanes())};
  }
}

// y = x w^T, or with `accumulate` y += x w^T, from a row of the weight on and from a token on.
template <typename W, typename X, typename Y>
struct PlainProduct {
  const W* weight;
  int64_t in;
  StridedRows<const X> x;
  StridedRows<Y> y;
  bool accumulate;

  HWY_INLINE PlainProduct from(int64_t row, int64_t token) const {
    return {weight + row * in, in, {x[token], x.stride}, {y[token] + row, y.stride}, accumulate};
  }
};

// kRows rows of the weight times kTokens tokens. The order of sums depends on neither.
template <int kRows, int kTokens, typename W, typename X, typename Y>
HWY_INLINE void multiply_rows(const PlainProduct<W, X, Y>& product) {
  const auto [w, in, x, y, accumulate] = product;
  constexpr bool kPaired = kPairs<W, X>;
  V32 first[kRows][kTokens], second[kRows][kTokens];
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) first[r][t] = second[r][t] = hn::Zero(F32());
  }
  const int64_t step = lanes();
  int64_t k = 0;
  for (; k + 2 * step <= in; k += 2 * step) {
    TwoVectors token[kTokens];
    for (int t = 0; t < kTokens; ++t) token[t] = load_two<kPaired>(x[t] + k);
    for (int r = 0; r < kRows; ++r) {
      const TwoVectors row = load_two<kPaired>(w + r * in + k);
      for (int t = 0; t < kTokens; ++t) {
        first[r][t] = hn::MulAdd(row.first, token[t].first, first[r][t]);
        second[r][t] = hn::MulAdd(row.second, token[t].second, second[r][t]);
      }
    }
  }
  const auto rest = [&](auto part) HWY_ATTR {
    for (int r = 0; r < kRows; ++r) {
      const V32 row = load(part, w + r * in + k);
      for (int t = 0; t < kTokens; ++t) {
        first[r][t] = hn::MulAdd(row, load(part, x[t] + k), first[r][t]);
      }
    }
  };
  if (k + step <= in) {
    rest(Whole());
    k += step;
  }
  if (k < in) rest(Partial{in - k});
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) {
      const float sum = hn::GetLane(hn::SumOfLanes(F32(), hn::Add(first[r][t], second[r][t])));
      if constexpr (std::is_same_v<Y, float>) {
        y[t][r] = accumulate ? y[t][r] + sum : sum;
      } else {
        y[t][r] = float_to_bf16(accumulate ? bf16_to_float(y[t][r]) + sum : sum);
      }
    }
  }
}

template <int kRows, int kTokens, typename W, typename X, typename Y>
HWY_INLINE void multiply_range(const PlainProduct<W, X, Y>& product, Range rows) {
  int64_t row = rows.begin;
  for (; row + kRows <= rows.end; row += kRows) {
    multiply_rows<kRows, kTokens>(product.from(row, 0));
  }
  for (; row < rows.end; ++row) multiply_rows<1, kTokens>(product.from(row, 0));
}

// Rows longer than this are read several at a time. A shorter one is read alone, so that a thread's
// reads are one stream, which the processor prefetches past the row's end. Timed from memory on two
// cores of an AMD EPYC (Zen 4), fp32: rows of 1.5 to 3 KiB at 60 GB/s alone and 27 to 34 four at a
// time, of 8 KiB 54 and 47, of 32 KiB 42 and 58.
constexpr int64_t kLoneRowBytes = 16 << 10;

// Computes y[n, row] for the rows of a weight [out, in] in the range, four tokens at a time. Bound:
// memory, the bytes of W.
template <typename W, typename X, typename Y>
HWY_INLINE void plain_rows(const PlainProduct<W, X, Y>& product, Range rows, int64_t tokens) {
  constexpr int64_t kAtOnce = 4;
  const bool alone = bytes_of<W>(product.in) <= kLoneRowBytes;
  for (int64_t n = 0; n < tokens; n += kAtOnce) {
    const PlainProduct<W, X, Y> part = product.from(0, n);
    switch (HWY_MIN(tokens - n, kAtOnce)) {
      case 1:
        if (alone) {
          multiply_range<1, 1>(part, rows);
        } else {
          multiply_range<4, 1>(part, rows);
        }
        break;
      case 2:
        if (alone) {
          multiply_range<1, 2>(part, rows);
        } else {
          multiply_range<2, 2>(part, rows);
        }
        break;
      case 3:
        multiply_range<1, 3>(part, rows);
        break;
      default:
        multiply_range<1, 4>(part, rows);
        break;
    }
  }
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
