// SPDX-License-Identifier: Apache-2.0
// 8-bit products of few tokens: the split of rows over threads, the choice of the inner loop, and
// its portable form. The fast inner loops lie in files named for their ISA.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantized_gemv.cc"
#include "backends/cpu/kernels/simd_targets.h"
// Highway re-includes this file for each target from here.
#include <hwy/foreach_target.h>
// The order of these matters to Highway.
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/kernels/quantized_kernels.h"
#include "base/error.h"
#include "base/row_panels.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Chosen by target, because asking the processor what it has takes microseconds in a virtual
// machine.
RowsTimesVectors gemv_of_target() {
#if HWY_TARGET == HWY_SCALAR
  return gemv_portable;
#else
  return gemv_avx2;
#endif
}

bool target_takes_panels() {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_AVX2
  return false;
#else
  static const bool vnni = has_vnni();
  return vnni;
#endif
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

HWY_EXPORT(gemv_of_target);
HWY_EXPORT(target_takes_panels);

bool takes_panels() { return HWY_DYNAMIC_DISPATCH(target_takes_panels)(); }

void gemv_portable(const QuantizedMatrix& weight,
                   Range rows,
                   const QuantizedActivations& x,
                   Rows<float> y,
                   bool accumulate) {
  constexpr int64_t kStep = 256;  // whole blocks of any format
  const int64_t group = code_format(weight.dtype).group;
  uint8_t codes[kStep];
  float scales[kStep / 16], offsets[kStep / 16];
  for (int64_t n = 0; n < x.tokens; ++n) {
    const float* sums = group == 16 ? x.half_sums(n) : x.sums(n);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      float total = 0;
      for (int64_t column = 0; column < x.in; column += kStep) {
        const int64_t depth = std::min(kStep, x.in - column);
        unpack_codes(weight, row, column, depth, codes, scales, offsets);
        for (int64_t g = 0; g < depth / group; ++g) {
          const int8_t* part = x.codes(n) + column + g * group;
          int32_t dot = 0;
          for (int64_t i = 0; i < group; ++i) dot += codes[g * group + i] * part[i];
          const float scale = x.scales(n)[(column + g * group) / kActivationBlock];
          total += scales[g] * scale * static_cast<float>(dot);
          total += offsets[g] * sums[column / group + g];
        }
      }
      y[n][row] = accumulate ? y[n][row] + total : total;
    }
  }
}

// Each thread takes its share of every product's rows, so that products of several dtypes stay
// even.
void quantized_gemv(std::span<const QuantizedProduct> products, const QuantizedActivations& x) {
  int64_t bytes = 0;
  for (const QuantizedProduct& product : products) {
    const QuantizedMatrix& weight = product.weight;
    RIDGE_CHECK(weight.in == x.in && supports_fast(weight.dtype),
                "expected blocks of {} columns, got {} of {}", x.in, weight.in, name(weight.dtype));
    bytes += storage_bytes(weight.dtype, weight.out * weight.in);
  }
  constexpr int64_t kGranule = 4;  // rows of blocks that inner loops take at once
  const int64_t parts = parts_for(bytes);
  const RowsTimesVectors kernel = HWY_DYNAMIC_DISPATCH(gemv_of_target)();
  for_each_part(parts, [&](int64_t index) {
    for (const QuantizedProduct& product : products) {
      const bool in_panels = is_panels(product.weight.dtype);
      const Range rows =
          part_of(product.weight.out, parts, index, in_panels ? kPanelRows : kGranule);
      if (rows.begin < rows.end) {
        (in_panels ? gemv_panels_avx512 : kernel)(product.weight, rows, x, product.y,
                                                  product.accumulate);
      }
    }
  });
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
