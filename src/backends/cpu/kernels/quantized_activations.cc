// SPDX-License-Identifier: Apache-2.0
// Rounds activations, block by block.
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
#include <cstring>

#include "backends/cpu/kernels/partition.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Adding 1.5 * 2^23 rounds to nearest even and leaves the integer in the low 16 bits.
constexpr float kMagic = 12582912.0f;

constexpr int kHalf = kActivationBlock / 2;

// Each four codes as 0, 2, 1, 3.
HWY_INLINE void store_words(const int32_t* codes, int16_t* to) {
  int16_t words[kActivationBlock];
  for (int i = 0; i < kActivationBlock; ++i) words[i] = static_cast<int16_t>(codes[i]);
  uint64_t fours[kActivationBlock / 4];
  std::memcpy(fours, words, sizeof fours);
  for (uint64_t& four : fours)
    four = (four & 0xffff00000000ffffu) | (four & 0xffff0000u) << 16 | (four >> 16 & 0xffff0000u);
  std::memcpy(to, fours, sizeof fours);
}

// A block's codes of one part, in units of `unit`.
HWY_INLINE void store_codes(const int32_t* codes,
                            float unit,
                            const QuantizedActivations& x,
                            int64_t n,
                            int64_t block) {
  int32_t sums[2] = {0, 0};
  for (int i = 0; i < kHalf; ++i) sums[0] += codes[i];
  for (int i = kHalf; i < kActivationBlock; ++i) sums[1] += codes[i];
  x.scales(n)[block] = unit;
  x.half_sums(n)[2 * block] = unit * static_cast<float>(sums[0]);
  x.half_sums(n)[2 * block + 1] = unit * static_cast<float>(sums[1]);
  x.sums(n)[block] = unit * static_cast<float>(sums[0] + sums[1]);
  if (x.in_words())
    store_words(codes, x.words(n) + block * kActivationBlock);
  else
    for (int i = 0; i < kActivationBlock; ++i)
      x.codes(n)[block * kActivationBlock + i] = static_cast<int8_t>(codes[i]);
}

HWY_INLINE int32_t nearest(float value) {
  return static_cast<int16_t>(std::bit_cast<int32_t>(value + kMagic) & 0xffff);
}

// Plain loops of 32, which the compiler vectorizes. The largest magnitude is found on the bits as
// integers, where an infinity exceeds every number and a NaN an infinity.
HWY_INLINE void quantize_block(const float* x,
                               const QuantizedActivations& out,
                               int64_t n,
                               int64_t block) {
  int32_t largest = 0;
  for (int i = 0; i < kActivationBlock; ++i) {
    const int32_t magnitude = std::bit_cast<int32_t>(x[i]) & 0x7fffffff;
    largest = std::max(largest, magnitude);
  }
  const float top = std::bit_cast<float>(largest);
  const float steps = out.form == Codes::kByte ? 127 : 127 * kPartRatio;
  // A block of numbers below 2^-110 is as good as zero, and its inverse would overflow.
  const float inverse = top > 0x1p-110f ? steps / top : 0.0f;
  const float unit = top / steps;
  int32_t codes[kActivationBlock];
  for (int i = 0; i < kActivationBlock; ++i) codes[i] = nearest(x[i] * inverse);
  if (out.parts() == 1) return store_codes(codes, unit, out, n, block);
  int32_t coarse[kActivationBlock];
  for (int i = 0; i < kActivationBlock; ++i) {
    coarse[i] = nearest(static_cast<float>(codes[i]) * (1.0f / kPartRatio));
    codes[i] -= kPartRatio * coarse[i];
  }
  store_codes(coarse, unit * kPartRatio, out, n, block);
  store_codes(codes, unit, out.part(1), n, block);
}

void quantize_rows(Rows<const float> x, const QuantizedActivations& out, Range range) {
  for (int64_t n = range.begin; n < range.end; ++n)
    for (int64_t b = 0; b < out.blocks(); ++b)
      quantize_block(x[n] + b * kActivationBlock, out, n, b);
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

HWY_EXPORT(quantize_rows);

void quantize_activations(Rows<const float> x, const QuantizedActivations& out) {
  const int64_t bytes = out.tokens * out.in * static_cast<int64_t>(sizeof(float));
  for_each_range(out.tokens, parts_for(bytes), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(quantize_rows)(x, out, Range{begin, end});
  });
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
