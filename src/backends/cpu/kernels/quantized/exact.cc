// SPDX-License-Identifier: Apache-2.0
// GEMMs of quantized weights and fp32 activations: blocks are unpacked to floats in L1 and
// multiplied there; rows of plain types are multiplied as they are read, if tokens are few.
// Activations are not rounded; gemv.cc and gemm.cc have the GEMMs that round
// them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantized/exact.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include <algorithm>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "backends/cpu/kernels/quantized/plain_rows-inl.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "base/error.h"

// Compiled once, not per target, so it has its own guard.
#ifndef RIDGE_CPU_QUANTIZED_EXACT_TASK_
#define RIDGE_CPU_QUANTIZED_EXACT_TASK_
namespace ridge::backends::cpu {

// 4 KiB of a row as floats; a multiple of 256, so that no block is cut.
inline constexpr int64_t kExactRowDepth = 1024;
// 16 rows of this many columns are 16 KiB: half of L1; the tokens' rows stream through.
inline constexpr int64_t kExactDepth = 256;

}  // namespace ridge::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Mapping: rows in static ranges over threads, each unpacked once for all tokens. Bound: memory,
// the bytes of W; for formats of 4 and 5 bits, unpacking takes about as long.
HWY_INLINE void gemv_block_rows(const QuantizedProduct& product,
                                Range rows,
                                StridedRows<const float> x,
                                int64_t tokens) {
  const QuantizedMatrix& weight = product.weight;
  alignas(64) float part[kExactRowDepth];
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t column = 0; column < weight.in; column += kExactRowDepth) {
      const int64_t depth = std::min(kExactRowDepth, weight.in - column);
      unpack_floats({weight, row, column, depth}, part);
      for (int64_t n = 0; n < tokens; ++n) {
        const float* token = x[n] + column;
        const float dot = sum_lanes(depth, [&](auto lanes_part, int64_t i, V32& total) HWY_ATTR {
          total = hn::MulAdd(load(lanes_part, part + i), load(lanes_part, token + i), total);
        });
        float& y = product.y[n][row];
        y = product.accumulate || column > 0 ? y + dot : dot;
      }
    }
  }
}

void gemv_exact_rows(const QuantizedProduct& product,
                     Range rows,
                     StridedRows<const float> x,
                     int64_t tokens) {
  const QuantizedMatrix& weight = product.weight;
  const auto multiply = [&]<typename W>(const W* data) HWY_ATTR {
    const PlainProduct<W, float, float> plain{data, weight.in, x, product.y, product.accumulate};
    plain_rows(plain, rows, tokens);
  };
  switch (weight.dtype) {
    case DType::kF32:
      return multiply(reinterpret_cast<const float*>(weight.data));
    case DType::kF16:
      return multiply(reinterpret_cast<const Float16*>(weight.data));
    case DType::kBF16:
      return multiply(reinterpret_cast<const uint16_t*>(weight.data));
    default:
      return gemv_block_rows(product, rows, x, tokens);
  }
}

using Sixteen = HWY_CAPPED(float, 16);

// y of `rows` <= 16 rows and kTokens tokens; `unpacked` is [depth, 16].
template <int kTokens>
HWY_INLINE void multiply_unpacked(const float* unpacked,
                                  int64_t depth,
                                  StridedRows<const float> x,
                                  int64_t rows,
                                  StridedRows<float> y,
                                  bool accumulate) {
  const Sixteen d;
  constexpr int kVectors = static_cast<int>(kRowBlockRows / hn::MaxLanes(Sixteen()));
  hn::Vec<Sixteen> total[kVectors][kTokens];
  for (int v = 0; v < kVectors; ++v) {
    for (int t = 0; t < kTokens; ++t) total[v][t] = hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    hn::Vec<Sixteen> w[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      w[v] = hn::Load(d, unpacked + k * kRowBlockRows + v * (kRowBlockRows / kVectors));
    }
    for (int t = 0; t < kTokens; ++t) {
      const auto value = hn::Set(d, x[t][k]);
      for (int v = 0; v < kVectors; ++v) total[v][t] = hn::MulAdd(w[v], value, total[v][t]);
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    alignas(64) float row[kRowBlockRows];
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(total[v][t], d, row + v * (kRowBlockRows / kVectors));
    }
    for (int64_t r = 0; r < rows; ++r) y[t][r] = accumulate ? y[t][r] + row[r] : row[r];
  }
}

HWY_INLINE void unpack_float_rows(const QuantizedMatrix& weight,
                                  int64_t row,
                                  int64_t column,
                                  int64_t depth,
                                  float* unpacked) {
  alignas(64) float part[kExactDepth];
  for (int64_t r = 0; r < kRowBlockRows; ++r) {
    if (row + r < weight.out) {
      unpack_floats({weight, row + r, column, depth}, part);
    } else {
      std::fill_n(part, depth, 0.0f);
    }
    for (int64_t k = 0; k < depth; ++k) unpacked[k * kRowBlockRows + r] = part[k];
  }
}

// Mapping: a task is 16 rows of W and a range of tokens; the rows are unpacked once for all of the
// tokens. Bound: fp32 multiply-adds.
void gemm_exact_task(const QuantizedProduct& product,
                     int64_t row,
                     StridedRows<const float> x,
                     Range tokens) {
  constexpr int kTokens = hn::MaxLanes(Sixteen()) == 8 ? 6 : 12;  // 12 sums in 16 or 32 registers
  const QuantizedMatrix& weight = product.weight;
  const int64_t rows = std::min(kRowBlockRows, weight.out - row);
  alignas(64) float unpacked[kRowBlockRows * kExactDepth];
  for (int64_t column = 0; column < weight.in; column += kExactDepth) {
    const int64_t depth = std::min(kExactDepth, weight.in - column);
    unpack_float_rows(weight, row, column, depth, unpacked);
    const bool accumulate = product.accumulate || column > 0;
    int64_t n = tokens.begin;
    const auto x_at = [&](int64_t at) {
      return StridedRows<const float>{x[at] + column, x.stride};
    };
    const auto y_at = [&](int64_t at) {
      return StridedRows<float>{product.y[at] + row, product.y.stride};
    };
    for (; n + kTokens <= tokens.end; n += kTokens) {
      multiply_unpacked<kTokens>(unpacked, depth, x_at(n), rows, y_at(n), accumulate);
    }
    for (; n < tokens.end; ++n) {
      multiply_unpacked<1>(unpacked, depth, x_at(n), rows, y_at(n), accumulate);
    }
  }
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

void check(std::span<const QuantizedProduct> products) {
  for (const QuantizedProduct& product : products) {
    RIDGE_CHECK(product.weight.in == products[0].weight.in, "expected {} columns, got {}",
                products[0].weight.in, product.weight.in);
  }
}

}  // namespace

HWY_EXPORT(gemv_exact_rows);
void quantized_gemv_exact(std::span<const QuantizedProduct> products,
                          StridedRows<const float> x,
                          int64_t tokens) {
  check(products);
  int64_t bytes = 0;
  for (const QuantizedProduct& product : products) {
    bytes += storage_bytes(product.weight.dtype, product.weight.out * product.weight.in);
  }
  const int64_t parts = parts_for(bytes);
  for_each_part(parts, [&](int64_t index) {
    for (const QuantizedProduct& product : products) {
      const Range rows = part_of(product.weight.out, parts, index);
      HWY_DYNAMIC_DISPATCH(gemv_exact_rows)(product, rows, x, tokens);
    }
  });
}

HWY_EXPORT(gemm_exact_task);
void quantized_gemm_exact(std::span<const QuantizedProduct> products,
                          StridedRows<const float> x,
                          int64_t tokens) {
  check(products);
  for_each_row_block_task(products, kRowBlockRows, tokens, tokens,
                          [&](const QuantizedProduct& product, int64_t row, Range range) {
                            HWY_DYNAMIC_DISPATCH(gemm_exact_task)(product, row, x, range);
                          });
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
