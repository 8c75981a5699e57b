// SPDX-License-Identifier: Apache-2.0
// The inner loops that quantized_gemv and quantized_gemm choose from by instruction set. Private to
// those two; each ISA's file defines its own. All but gemv_panels_* accept any row format for which
// supports_fast() holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/quantized/unpack.h"

namespace ridge::backends::cpu {

// Calls body(product, first row, tokens) for each task, in parallel. A task is one panel of rows
// and a range of tokens; all tasks have about the same cost. Tokens are cut, at multiples of
// kTokenCut, only if the panels alone would leave threads idle, since each cut unpacks the panel
// once more.
inline constexpr int64_t kTokenCut = 32;
template <typename Body>
void for_each_panel_task(std::span<const QuantizedProduct> products,
                         int64_t panel_rows,
                         int64_t tokens,
                         const Body& body) {
  constexpr int64_t kTasksPerThread = 8;
  const auto panels_of = [&](const QuantizedMatrix& weight) {
    return (weight.out + panel_rows - 1) / panel_rows;
  };
  int64_t panels = 0;
  for (const QuantizedProduct& product : products) panels += panels_of(product.weight);
  if (panels == 0 || tokens == 0) return;
  const int64_t parts = parts_for(panels * panel_rows * products[0].weight.in * tokens);
  const int64_t even = (kTasksPerThread * parts + panels - 1) / panels;
  const int64_t most = (tokens + kTokenCut - 1) / kTokenCut;
  const int64_t cuts = std::clamp<int64_t>(even, 1, most);
  for_each_range(panels * cuts, parts, [&](Range range) {
    int64_t first = 0;  // first task of the current product
    for (const QuantizedProduct& product : products) {
      const int64_t tasks = panels_of(product.weight) * cuts;
      const int64_t from = std::max(range.begin - first, int64_t{0});
      const int64_t to = std::min(range.end - first, tasks);
      for (int64_t task = from; task < to; ++task) {
        body(product, task / cuts * panel_rows, part_of(tokens, cuts, task % cuts, kTokenCut));
      }
      first += tasks;
    }
  });
}

// The rows of W that a thread reads, and the address that it reads after them, for prefetching.
// Null if unknown.
struct RowStream {
  Range rows;
  const std::byte* then = nullptr;
};

// The path of a stream's reads: its rows up to `end`, then `then`.
struct ReadPath {
  const std::byte* end = nullptr;
  const std::byte* then = nullptr;
  // The address that is read `distance` bytes after `from`.
  const std::byte* ahead_of(const void* from, int64_t distance) const {
    const auto* at = static_cast<const std::byte*>(from);
    return distance < end - at || then == nullptr ? at + distance : then + (distance - (end - at));
  }
};

// Computes y [N, out] for some of W's rows and all tokens of x.
struct RowsProduct {
  const QuantizedMatrix& weight;
  RowStream stream;
  const QuantizedActivations& x;
  StridedRows<float> y;
  bool accumulate = false;
};
using RowsTimesVectors = void (*)(const RowsProduct& call);

// One panel times a range of tokens: y[n, 0..rows) = or += the sum over the columns of the panel,
// which begin at `column`.
struct PanelProduct {
  const WordPanel* panel = nullptr;
  CodeFormat format;
  int64_t column = 0;
  int64_t depth = 0;
  int64_t rows = 0;  // 1..kPanelRows
  const QuantizedActivations* x = nullptr;
  Range tokens;
  StridedRows<float> y;  // at the panel's first row
  bool accumulate = false;
};
using PanelTimesVectors = void (*)(const PanelProduct& call);

// The addresses of the tokens' words, scales and sums for a panel's first column; all tokens have
// the same stride.
struct TokenRows {
  // For tokens from n on; `group` is the format's.
  TokenRows(const PanelProduct& call, int64_t group, int64_t n)
      : words(reinterpret_cast<const std::byte*>(call.x->words(n) + call.column)),
        scales(
            reinterpret_cast<const std::byte*>(call.x->scales(n) + call.column / kActivationBlock)),
        sums(reinterpret_cast<const std::byte*>(
            (group == 16 ? call.x->half_sums(n) : call.x->sums(n)) + call.column / group)),
        stride(call.x->row_bytes()) {}

  // The words of two columns, in one 32-bit word.
  int32_t two_words(int64_t token, int64_t k) const {
    return *reinterpret_cast<const int32_t*>(words + token * stride + 2 * k);
  }
  float scale(int64_t token, int64_t block) const {
    return reinterpret_cast<const float*>(scales + token * stride)[block];
  }
  float sum(int64_t token, int64_t group) const {
    return reinterpret_cast<const float*>(sums + token * stride)[group];
  }

  const std::byte* words;
  const std::byte* scales;
  const std::byte* sums;
  int64_t stride;
};
inline constexpr int64_t kPairWords = 2 * kPanelRows;  // words of the panel per two columns

// Plain loops for machines without AVX2. They compute the exact integer sums that the fast forms
// must match.
void gemv_portable(const RowsProduct& call);
void gemm_panel_portable(const PanelProduct& call);

void gemv_avx2(const RowsProduct& call);
void gemm_panel_avx2(const PanelProduct& call);

// For AVX-512 with VNNI.
bool has_vnni();
void gemm_panel_avx512(const PanelProduct& call);

// Weights in panels of rows (base/row_panels.h); rows are whole panels.
void gemv_panels_avx2(const RowsProduct& call);
void gemv_panels_avx512(const RowsProduct& call);

}  // namespace ridge::backends::cpu
