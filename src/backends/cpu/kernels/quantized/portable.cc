// SPDX-License-Identifier: Apache-2.0
// The portable inner loops, which machines without AVX2 run. They compute the exact integer sums
// that the fast loops must match.
#include <algorithm>

#include "backends/cpu/kernels/quantized/inner_loops.h"

namespace ridge::backends::cpu {

void gemv_portable(const RowsProduct& call) {
  const QuantizedMatrix& weight = call.weight;
  const QuantizedActivations& x = call.x;
  const StridedRows<float> y = call.y;
  const bool accumulate = call.accumulate;
  const Range rows = call.stream.rows;
  constexpr int64_t kStep = 256;  // whole blocks of any format
  const int64_t group = quant_format(weight.dtype).group;
  uint8_t quants[kStep];
  float scales[kStep / 16], offsets[kStep / 16];
  for (int64_t v = 0; v < x.vectors(); ++v) {
    const int64_t n = x.token_of(v);
    const QuantizedActivations vector = x.part(x.part_of(v));
    const float* sums = group == 16 ? vector.half_sums(n) : vector.sums(n);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      float total = 0;
      for (int64_t column = 0; column < x.in; column += kStep) {
        const int64_t depth = std::min(kStep, x.in - column);
        unpack_quants({weight, row, column, depth}, {quants, scales, offsets});
        for (int64_t g = 0; g < depth / group; ++g) {
          const int8_t* part = vector.int8_quants(n) + column + g * group;
          int32_t dot = 0;
          for (int64_t i = 0; i < group; ++i) dot += quants[g * group + i] * part[i];
          const float scale = vector.scales(n)[(column + g * group) / kActivationBlock];
          total += scales[g] * scale * static_cast<float>(dot);
          total += offsets[g] * sums[column / group + g];
        }
      }
      total *= x.row_scale(n);
      const bool adds = accumulate || x.part_of(v) != 0;
      y[n][row] = adds ? y[n][row] + total : total;
    }
  }
}

// Scales the exact integer sum of each group.
void gemm_portable(const RowBlockProduct& call) {
  const int64_t group = call.group;
  const bool is_int16 = call.x->is_int16();
  for (int64_t n = call.tokens.begin; n < call.tokens.end; ++n) {
    const int16_t* x16 = call.x->int16_quants(n) + call.column;
    const int8_t* x8 = call.x->int8_quants(n) + call.column;
    const float* scales = call.x->scales(n) + call.column / kActivationBlock;
    const float* sums = group == 16 ? call.x->half_sums(n) : call.x->sums(n);
    sums += call.column / group;
    for (int64_t r = 0; r < call.rows; ++r) {
      float total = 0;
      for (int64_t g = 0; g < call.depth / group; ++g) {
        int32_t dot = 0;
        for (int64_t k = g * group; k < (g + 1) * group; ++k)
          dot += is_int16
                     ? call.row_blocks->int16_quants[k / 2 * kPairQuants + 2 * r + k % 2] * x16[k]
                     : (call.row_blocks->uint8_quants[k / 4 * kStepBytes + 4 * r + k % 4] -
                        call.zero) *
                           x8[k];
        const float scale = call.row_blocks->scales[g * kRowBlockRows + r];
        total += scale * scales[g * group / kActivationBlock] * static_cast<float>(dot);
        if (call.has_min) total += call.row_blocks->offsets[g * kRowBlockRows + r] * sums[g];
      }
      float& y = call.y_of(n)[r];
      total *= call.x->row_scale(n);
      y = call.accumulate ? y + total : total;
    }
  }
}

}  // namespace ridge::backends::cpu
