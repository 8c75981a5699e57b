// SPDX-License-Identifier: Apache-2.0
// Rounds activations to integers, block by block.
#include "backends/cpu/kernels/quantized/activations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantized/activations.cc"
#include "backends/cpu/kernels/simd_targets.h"
// Highway re-includes this file for each target from here.
#include <hwy/foreach_target.h>
// The order of these matters to Highway.
#include <hwy/highway.h>

#include <bit>

#include "backends/cpu/kernels/partition.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

const HWY_CAPPED(float, 16) kFloats;
using Floats = decltype(kFloats);
const hn::RebindToSigned<Floats> kInts;
using IntVector = hn::Vec<decltype(kInts)>;
constexpr size_t kLanes = hn::MaxLanes(kFloats);
constexpr size_t kBlock = kActivationBlock;
static_assert(kBlock / 2 % kLanes == 0);

// The codes of a block, or of one part of it.
struct BlockCodes {
  alignas(64) int32_t codes[kBlock];
};

// Adding 1.5 * 2^23 rounds to nearest even and leaves the integer in the low 16 bits.
HWY_INLINE IntVector nearest(hn::Vec<Floats> values) {
  const auto bits = hn::BitCast(kInts, hn::Add(values, hn::Set(kFloats, 12582912.0f)));
  return hn::ShiftRight<16>(hn::ShiftLeft<16>(bits));
}

// Compares bits as integers, where an infinity exceeds every number and a NaN exceeds an infinity.
HWY_INLINE float largest_magnitude(const float* x) {
  IntVector largest = hn::Zero(kInts);
  for (size_t i = 0; i < kBlock; i += kLanes) {
    const auto bits = hn::BitCast(kInts, hn::LoadU(kFloats, x + i));
    largest = hn::Max(largest, hn::And(bits, hn::Set(kInts, 0x7fffffff)));
  }
  return std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(kInts, largest)));
}

HWY_INLINE int32_t sum_of(const int32_t* codes, size_t count) {
  IntVector sum = hn::Zero(kInts);
  for (size_t i = 0; i < count; i += kLanes) sum = hn::Add(sum, hn::Load(kInts, codes + i));
  return hn::GetLane(hn::SumOfLanes(kInts, sum));
}

// Stores each group of four codes in the order 0, 2, 1, 3.
HWY_INLINE void store_words(const BlockCodes& block, int16_t* to) {
  const hn::Rebind<int16_t, Floats> words;
  if constexpr (kLanes >= 4) {
    alignas(64) static constexpr int32_t kOrder[16] = {0, 2,  1, 3,  4,  6,  5,  7,
                                                       8, 10, 9, 11, 12, 14, 13, 15};
    const auto order = hn::SetTableIndices(kInts, kOrder);
    for (size_t i = 0; i < kBlock; i += kLanes) {
      const auto codes = hn::TableLookupLanes(hn::Load(kInts, block.codes + i), order);
      hn::StoreU(hn::DemoteTo(words, codes), words, to + i);
    }
  } else {
    for (size_t i = 0; i < kBlock; ++i)
      to[i] = static_cast<int16_t>(block.codes[i / 4 * 4 + i % 2 * 2 + i / 2 % 2]);
  }
}

HWY_INLINE void store_bytes(const BlockCodes& block, int8_t* to) {
  const hn::Rebind<int8_t, Floats> bytes;
  for (size_t i = 0; i < kBlock; i += kLanes)
    hn::StoreU(hn::DemoteTo(bytes, hn::Load(kInts, block.codes + i)), bytes, to + i);
}

// Stores a block's codes of one part, in units of `unit`.
HWY_INLINE void store_part(const BlockCodes& block,
                           float unit,
                           const QuantizedActivations& x,
                           int64_t n,
                           int64_t at) {
  const int32_t first = sum_of(block.codes, kBlock / 2),
                second = sum_of(block.codes + kBlock / 2, kBlock / 2);
  x.scales(n)[at] = unit;
  x.half_sums(n)[2 * at] = unit * static_cast<float>(first);
  x.half_sums(n)[2 * at + 1] = unit * static_cast<float>(second);
  x.sums(n)[at] = unit * static_cast<float>(first + second);
  if (x.in_words()) {
    x.code_sums(n)[2 * at] = first;
    x.code_sums(n)[2 * at + 1] = second;
    store_words(block, x.words(n) + at * kActivationBlock);
  } else {
    store_bytes(block, x.codes(n) + at * kActivationBlock);
  }
}

// Returns the first part of the codes and leaves the second part in `block`.
HWY_INLINE BlockCodes take_first_part(BlockCodes& block) {
  BlockCodes first;
  for (size_t i = 0; i < kBlock; i += kLanes) {
    const auto codes = hn::Load(kInts, block.codes + i);
    const auto part =
        nearest(hn::Mul(hn::ConvertTo(kFloats, codes), hn::Set(kFloats, 1.0f / kPartRatio)));
    hn::Store(part, kInts, first.codes + i);
    hn::Store(hn::Sub(codes, hn::Mul(part, hn::Set(kInts, kPartRatio))), kInts, block.codes + i);
  }
  return first;
}

HWY_INLINE void quantize_block(const float* x,
                               const QuantizedActivations& out,
                               int64_t n,
                               int64_t at) {
  const float top = largest_magnitude(x);
  const float steps = out.form == Codes::kByte ? 127 : 127 * kPartRatio;
  // A block of numbers below 2^-110 is treated as zero, since its inverse would overflow.
  const float inverse = top > 0x1p-110f ? steps / top : 0.0f;
  const float unit = top / steps;
  BlockCodes block;
  for (size_t i = 0; i < kBlock; i += kLanes) {
    const auto scaled = hn::Mul(hn::LoadU(kFloats, x + i), hn::Set(kFloats, inverse));
    hn::Store(nearest(scaled), kInts, block.codes + i);
  }
  if (out.parts() == 2) {
    const BlockCodes first = take_first_part(block);
    store_part(first, unit * kPartRatio, out, n, at);
    return store_part(block, unit, out.part(1), n, at);
  }
  store_part(block, unit, out, n, at);
}

void quantize_rows(StridedRows<const float> x, const QuantizedActivations& out, Range range) {
  for (int64_t n = range.begin; n < range.end; ++n)
    for (int64_t b = 0; b < out.blocks(); ++b)
      quantize_block(x[n] + b * kActivationBlock, out, n, b);
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

HWY_EXPORT(quantize_rows);

void quantize_activations(StridedRows<const float> x, const QuantizedActivations& out) {
  for_each_range(out.tokens, parts_for(bytes_of<float>(out.tokens * out.in)), [&](Range range) {
    HWY_DYNAMIC_DISPATCH(quantize_rows)(x, out, range);
  });
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
