// SPDX-License-Identifier: Apache-2.0
// 16-bit GEMMs of many tokens: the split into tasks, the choice of the inner loop, and its portable
// form. The fast inner loops are in files named after their ISA.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantized/gemm.cc"
#include "backends/cpu/kernels/simd_targets.h"
// Highway re-includes this file for each target from here.
#include <hwy/foreach_target.h>
// The order of these matters to Highway.
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

PanelTimesVectors gemm_panel_of_target() {
#if HWY_TARGET == HWY_SCALAR
  return gemm_panel_portable;
#elif HWY_TARGET == HWY_AVX2
  return gemm_panel_avx2;
#else
  static const bool vnni = has_vnni();
  return vnni ? gemm_panel_avx512 : gemm_panel_avx2;
#endif
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

HWY_EXPORT(gemm_panel_of_target);

// Scales the exact integer sum of each group. It is the reference for the fast forms, and the form
// that machines without AVX2 run.
void gemm_panel_portable(const PanelProduct& call) {
  const int64_t group = call.format.group;
  for (int64_t n = call.tokens.begin; n < call.tokens.end; ++n) {
    const int16_t* x = call.x->words(n) + call.column;
    const float* scales = call.x->scales(n) + call.column / kActivationBlock;
    const float* sums = group == 16 ? call.x->half_sums(n) : call.x->sums(n);
    sums += call.column / group;
    for (int64_t r = 0; r < call.rows; ++r) {
      float total = 0;
      for (int64_t g = 0; g < call.depth / group; ++g) {
        int32_t dot = 0;
        for (int64_t k = g * group; k < (g + 1) * group; ++k)
          dot += call.panel->words[k / 2 * 2 * kPanelRows + 2 * r + k % 2] * x[k];
        const float scale = call.panel->scales[g * kPanelRows + r];
        total += scale * scales[g * group / kActivationBlock] * static_cast<float>(dot);
        if (call.format.has_min) total += call.panel->offsets[g * kPanelRows + r] * sums[g];
      }
      float& y = call.y[n][r];
      y = call.accumulate ? y + total : total;
    }
  }
}

namespace {

void multiply_panel(PanelTimesVectors kernel,
                    const QuantizedProduct& product,
                    int64_t row,
                    const QuantizedActivations& x,
                    Range tokens) {
  WordPanel panel;
  PanelProduct call;
  call.panel = &panel;
  call.x = &x;
  call.format = code_format(product.weight.dtype);
  call.rows = std::min(kPanelRows, product.weight.out - row);
  call.tokens = tokens;
  call.y = {product.y.data + row, product.y.stride};
  for (int64_t column = 0; column < x.in; column += kPanelDepth) {
    call.column = column;
    call.depth = std::min(kPanelDepth, x.in - column);
    unpack_words({product.weight, row, column, call.depth}, panel);
    call.accumulate = product.accumulate || column > 0;
    kernel(call);
  }
}

}  // namespace

void quantized_gemm(std::span<const QuantizedProduct> products, const QuantizedActivations& x) {
  RIDGE_CHECK(x.in_words(), "expected activations in words");
  for (const QuantizedProduct& product : products) {
    RIDGE_CHECK(product.weight.in == x.in && supports_fast(product.weight.dtype),
                "expected blocks of {} columns, got {} of {}", x.in, product.weight.in,
                name(product.weight.dtype));
  }
  const PanelTimesVectors kernel = HWY_DYNAMIC_DISPATCH(gemm_panel_of_target)();
  for_each_panel_task(products, kPanelRows, x.tokens,
                      [&](const QuantizedProduct& product, int64_t row, Range tokens) {
                        multiply_panel(kernel, product, row, x, tokens);
                      });
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
