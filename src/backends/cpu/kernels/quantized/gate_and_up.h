// SPDX-License-Identifier: Apache-2.0
// Products of 16 rows of gate and of up that stay in the caches of a core until their GLU is
// stored. Private to the GEMM path.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/quantized/matmul.h"

namespace ridge::backends::cpu {

template <int64_t kTokens>
class GateAndUp {
 public:
  static constexpr int64_t kRows = 16;

  // [tokens, 2 kRows]: the columns of gate, then of up.
  StridedRows<float> y() { return {products_[0], 2 * kRows}; }

  // Stores the columns from `row` on; those past the last row of the weights are left out.
  void store_glu(const QuantizedProduct& product, int64_t row, Range tokens) const {
    glu_on_thread({tokens.end - tokens.begin,
                   std::min(kRows, product.weight.out - row),
                   product.up.activation,
                   {products_[0], 2 * kRows},
                   {products_[0] + kRows, 2 * kRows},
                   {product.y[tokens.begin] + row, product.y.stride}});
  }

 private:
  alignas(64) float products_[kTokens][2 * kRows];
};

}  // namespace ridge::backends::cpu
