// SPDX-License-Identifier: Apache-2.0
// Rounds activations to 8 or 16 bits, block by block.
#include "backends/cpu/kernels/quantized_activations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantized_activations.cc"
#include "backends/cpu/kernels/simd_targets.h"
// Highway re-includes this file for each target from here.
#include <hwy/foreach_target.h>
// The order of these matters to Highway.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cpu/kernels/partition.h"
#include "base/bf16.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

HWY_INLINE float widened(float value) { return value; }
HWY_INLINE float widened(uint16_t bits) { return bf16_to_float(bits); }

// Adding 1.5 * 2^23 rounds to nearest even and leaves the integer in the low byte of the bits.
constexpr float kMagic = 12582912.0f;
HWY_INLINE int8_t low_byte(float shifted) {
  return static_cast<int8_t>(std::bit_cast<int32_t>(shifted) & 0xff);
}

// Where a block's part goes.
struct BlockPart {
  BlockPart(const QuantizedActivations& x, int64_t n, int64_t block)
      : codes(x.codes(n) + block * kActivationBlock),
        scale(x.scales(n) + block),
        sum(x.sums(n) + block),
        halves(x.half_sums(n) + 2 * block) {}

  // The codes are the integers nearest to values times `inverse`, in units of `unit`.
  HWY_INLINE void store(const float* values, float inverse, float unit) const {
    int32_t sums[2] = {0, 0};
    for (int half = 0; half < 2; ++half) {
      int32_t total = 0;
      for (int i = 16 * half; i < 16 * half + 16; ++i) {
        const int32_t code = low_byte(values[i] * inverse + kMagic);
        codes[i] = static_cast<int8_t>(code);
        total += code;
      }
      sums[half] = total;
    }
    *scale = unit;
    halves[0] = unit * static_cast<float>(sums[0]);
    halves[1] = unit * static_cast<float>(sums[1]);
    *sum = unit * static_cast<float>(sums[0] + sums[1]);
  }

  int8_t* codes;
  float *scale, *sum, *halves;
};

// Plain loops of 32, which the compiler vectorizes. The largest magnitude is found on the bits as
// integers, where an infinity exceeds every number and a NaN an infinity.
template <typename T>
HWY_INLINE void quantize_block(const T* x,
                               const QuantizedActivations& out,
                               int64_t n,
                               int64_t block) {
  float values[kActivationBlock];
  int32_t largest = 0;
  for (int i = 0; i < kActivationBlock; ++i) {
    values[i] = widened(x[i]);
    const int32_t magnitude = std::bit_cast<int32_t>(values[i]) & 0x7fffffff;
    largest = std::max(largest, magnitude);
  }
  const float top = std::bit_cast<float>(largest);
  // A block of numbers below 2^-120 is as good as zero, and its inverse would overflow.
  const float inverse = top > 0x1p-120f ? 127.0f / top : 0.0f;
  const float unit = top * (1.0f / 127.0f);
  const BlockPart first(out, n, block);
  first.store(values, inverse, unit);
  if (out.parts == 1) return;
  for (int i = 0; i < kActivationBlock; ++i)
    values[i] = values[i] * inverse - static_cast<float>(first.codes[i]);
  const BlockPart second(out.part(1), n, block);
  second.store(values, kPartRatio, unit * (1.0f / kPartRatio));
}

template <typename T>
HWY_INLINE void quantize_rows(Rows<const T> x, const QuantizedActivations& out, Range range) {
  for (int64_t n = range.begin; n < range.end; ++n)
    for (int64_t b = 0; b < out.blocks(); ++b)
      quantize_block(x[n] + b * kActivationBlock, out, n, b);
}

void quantize_rows_f32(Rows<const float> x, const QuantizedActivations& out, Range range) {
  quantize_rows(x, out, range);
}
void quantize_rows_bf16(Rows<const uint16_t> x, const QuantizedActivations& out, Range range) {
  quantize_rows(x, out, range);
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

HWY_EXPORT(quantize_rows_f32);
HWY_EXPORT(quantize_rows_bf16);

void quantize_range(Rows<const float> x, const QuantizedActivations& out, Range range) {
  HWY_DYNAMIC_DISPATCH(quantize_rows_f32)(x, out, range);
}
void quantize_range(Rows<const uint16_t> x, const QuantizedActivations& out, Range range) {
  HWY_DYNAMIC_DISPATCH(quantize_rows_bf16)(x, out, range);
}

}  // namespace

template <typename T>
void quantize_activations(Rows<const T> x, const QuantizedActivations& out) {
  const int64_t bytes = out.tokens * out.in * static_cast<int64_t>(sizeof(T));
  for_each_range(out.tokens, parts_for(bytes), [&](int64_t begin, int64_t end) {
    quantize_range(x, out, Range{begin, end});
  });
}

template void quantize_activations(Rows<const float>, const QuantizedActivations&);
template void quantize_activations(Rows<const uint16_t>, const QuantizedActivations&);

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
