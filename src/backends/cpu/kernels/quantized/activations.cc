// SPDX-License-Identifier: Apache-2.0
// Rounds activations to integers, block by block.
#include "backends/cpu/kernels/quantized/activations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantized/activations.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/quantized/activation_vectors-inl.h"
#if HWY_TARGET == HWY_AVX2
#include "backends/cpu/kernels/quantized/packed_blocks_avx2-inl.h"
#elif HWY_TARGET != HWY_SCALAR
#include "backends/cpu/kernels/quantized/packed_blocks_avx512-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

constexpr size_t kBlock = kActivationBlock;
static_assert(kBlock / 2 % kLanes == 0);

// The quants of a block, or of one part of it.
struct BlockQuants {
  alignas(64) int32_t quants[kBlock];
};

// Adding 1.5 * 2^23 rounds to nearest even and leaves the integer in the low 16 bits.
HWY_INLINE IntVector nearest(hn::Vec<Floats> values) {
  const auto bits = hn::BitCast(kInts, hn::Add(values, hn::Set(kFloats, 12582912.0f)));
  return hn::ShiftRight<16>(hn::ShiftLeft<16>(bits));
}

// The bits of the largest magnitude. Compares bits as integers, where an infinity exceeds every
// number and a NaN exceeds an infinity. `count` is whole blocks.
HWY_INLINE int32_t largest_magnitude(const float* x, int64_t count) {
  IntVector largest[2] = {hn::Zero(kInts), hn::Zero(kInts)};
  for (size_t i = 0; i < static_cast<size_t>(count); i += 2 * kLanes) {
    for (size_t half = 0; half < 2; ++half) {
      const auto bits = hn::BitCast(kInts, hn::LoadU(kFloats, x + i + half * kLanes));
      largest[half] = hn::Max(largest[half], hn::And(bits, hn::Set(kInts, 0x7fffffff)));
    }
  }
  return hn::GetLane(hn::MaxOfLanes(kInts, hn::Max(largest[0], largest[1])));
}

HWY_INLINE int32_t sum_of(const int32_t* quants, size_t count) {
  IntVector sum = hn::Zero(kInts);
  for (size_t i = 0; i < count; i += kLanes) sum = hn::Add(sum, hn::Load(kInts, quants + i));
  return hn::GetLane(hn::SumOfLanes(kInts, sum));
}

// Stores each four quants in the order 0, 2, 1, 3.
HWY_INLINE void store_int16(const BlockQuants& block, int16_t* to) {
  for (size_t i = 0; i < kBlock; ++i)
    to[i] = static_cast<int16_t>(block.quants[i / 4 * 4 + i % 2 * 2 + i / 2 % 2]);
}

HWY_INLINE void store_int8(const BlockQuants& block, int8_t* to) {
  for (size_t i = 0; i < kBlock; ++i) to[i] = static_cast<int8_t>(block.quants[i]);
}

// Stores a block's quants of one part.
HWY_INLINE void store_part(const BlockQuants& block,
                           float scale,
                           const QuantizedActivations& x,
                           int64_t n,
                           int64_t at) {
  const int32_t first = sum_of(block.quants, kBlock / 2),
                second = sum_of(block.quants + kBlock / 2, kBlock / 2);
  x.scales(n)[at] = scale;
  x.half_sums(n)[2 * at] = scale * static_cast<float>(first);
  x.half_sums(n)[2 * at + 1] = scale * static_cast<float>(second);
  x.sums(n)[at] = scale * static_cast<float>(first + second);
  if (x.parts() == 1) {
    x.quant_sums(n)[at] = first + second;
    x.half_quant_sums(n)[2 * at] = first;
    x.half_quant_sums(n)[2 * at + 1] = second;
  }
  x.is_int16() ? store_int16(block, x.int16_quants(n) + at * kActivationBlock)
               : store_int8(block, x.int8_quants(n) + at * kActivationBlock);
}

// Returns the first part of the quants and leaves the second part in `quants`.
HWY_INLINE IntVector take_first_part(IntVector& quants) {
  const auto part =
      nearest(hn::Mul(hn::ConvertTo(kFloats, quants), hn::Set(kFloats, 1.0f / kPartRatio)));
  quants = hn::Sub(quants, hn::Mul(part, hn::Set(kInts, kPartRatio)));
  return part;
}

HWY_INLINE BlockQuants take_first_part(BlockQuants& block) {
  BlockQuants first;
  for (size_t i = 0; i < kBlock; i += kLanes) {
    IntVector quants = hn::Load(kInts, block.quants + i);
    hn::Store(take_first_part(quants), kInts, first.quants + i);
    hn::Store(quants, kInts, block.quants + i);
  }
  return first;
}

float most_quant(ActivationForm form) {
  return form == ActivationForm::kInt8 ? 127 : 127 * kPartRatio;
}

// A row of numbers below this is treated as zero, since the inverse of its scale would overflow.
constexpr float kLeastTop = 0x1p-60f;
constexpr int kMantissaBits = 23;

// The bits of a row's largest magnitude, and the factor for the numbers of the block that has it.
struct RowScaling {
  int32_t top = 0;
  float inverse = 0;
};

// Stores the row's scale. `bits` are those of the row's largest magnitude.
HWY_INLINE RowScaling row_scaling(int32_t bits, const QuantizedActivations& out, int64_t n) {
  const float top = std::bit_cast<float>(bits), steps = most_quant(out.form);
  const bool is_finite = top <= std::numeric_limits<float>::max();
  const float row_scale = is_finite ? top / steps : std::numeric_limits<float>::quiet_NaN();
  for (int p = 0; p < out.parts(); ++p)
    out.part(p).row_scale(n) = row_scale * (1.0f / (int64_t{1} << kMostExponent));
  return {bits, is_finite && top > kLeastTop ? steps / top : 0.0f};
}

HWY_INLINE void quantize_block(const float* x,
                               const RowScaling& row,
                               const QuantizedActivations& out,
                               int64_t n,
                               int64_t at) {
  // The floor of the difference: the block's largest number may take the largest quant.
  const int32_t below =
      std::min((row.top - largest_magnitude(x, kActivationBlock)) >> kMantissaBits, kMostExponent);
  const auto power = [](int exponent) {
    return std::bit_cast<float>(kOneBits + (exponent << kMantissaBits));
  };
  const float inverse = row.inverse * power(below), scale = power(kMostExponent - below);
  BlockQuants block;
  for (size_t i = 0; i < kBlock; i += kLanes) {
    const auto scaled = hn::Mul(hn::LoadU(kFloats, x + i), hn::Set(kFloats, inverse));
    hn::Store(nearest(scaled), kInts, block.quants + i);
  }
  if (out.parts() == 2) {
    const BlockQuants first = take_first_part(block);
    store_part(first, scale * kPartRatio, out, n, at);
    return store_part(block, scale, out.part(1), n, at);
  }
  store_part(block, scale, out, n, at);
}

#if HWY_TARGET != HWY_SCALAR
// Four blocks at a time: their maxima and sums are reduced together, so that a block takes 5 ns on
// one EPYC core (Zen 4), and alone 26. The bits are those of quantize_block, but for the quants of
// rows that are not finite, whose scale is NaN.
constexpr int kGroup = kPackedGroup, kVectors = static_cast<int>(kBlock / kLanes);

// One part of a token. Stores of int8 may alias anything but local variables.
struct PartRow {
  PartRow(const QuantizedActivations& x, int64_t n)
      : int8_quants(x.int8_quants(n)),
        int16_quants(x.is_int16() ? x.int16_quants(n) : nullptr),
        quant_sums(x.parts() == 1 ? x.quant_sums(n) : nullptr),
        half_quant_sums(x.half_quant_sums(n)),
        scales(x.scales(n)),
        sums(x.sums(n)),
        half_sums(x.half_sums(n)) {}
  int8_t* int8_quants;
  int16_t* int16_quants;
  int32_t* quant_sums;
  int32_t* half_quant_sums;
  float* scales;
  float* sums;
  float* half_sums;
};

// Stores the quants of four blocks from block `at` on.
HWY_INLINE void store_group(const PackedBlock* blocks,
                            FourFloats scale,
                            const PartRow& x,
                            int64_t at) {
  const auto [first, second] = half_sums_of(blocks);
  const auto floats = [](auto v) { return hn::ConvertTo(kFourFloats, v); };
  float* half_sums = x.half_sums + 2 * at;
  hn::StoreU(scale, kFourFloats, x.scales + at);
  hn::StoreU(hn::Mul(hn::InterleaveLower(kFourFloats, scale, scale), floats(first)), kFourFloats,
             half_sums);
  hn::StoreU(hn::Mul(hn::InterleaveUpper(kFourFloats, scale, scale), floats(second)), kFourFloats,
             half_sums + 4);
  const auto sums =
      hn::Add(hn::ConcatEven(kFourInts, second, first), hn::ConcatOdd(kFourInts, second, first));
  hn::StoreU(hn::Mul(scale, floats(sums)), kFourFloats, x.sums + at);
  if (x.quant_sums != nullptr) {
    hn::StoreU(sums, kFourInts, x.quant_sums + at);
    hn::StoreU(first, kFourInts, x.half_quant_sums + 2 * at);
    hn::StoreU(second, kFourInts, x.half_quant_sums + 2 * at + 4);
  }
  const int64_t to = at * kActivationBlock;
  x.int16_quants != nullptr ? store_int16(blocks, x.int16_quants + to)
                            : store_int8(blocks, x.int8_quants + to);
}

// The bits of the largest magnitudes of four blocks.
HWY_INLINE FourInts largest_of_group(const float* x) {
  IntVector largest[kGroup];
  for (int b = 0; b < kGroup; ++b) {
    largest[b] = hn::Zero(kInts);
    for (size_t i = 0; i < kBlock; i += kLanes) {
      const auto bits = hn::BitCast(kInts, hn::LoadU(kFloats, x + b * kBlock + i));
      largest[b] = hn::Max(largest[b], hn::And(bits, hn::Set(kInts, 0x7fffffff)));
    }
  }
  return reduce_four(largest, [](auto a, auto b) { return hn::Max(a, b); });
}

// `top` is their largest_of_group.
template <int kParts>
HWY_INLINE void quantize_group(const float* x,
                               FourInts top,
                               const RowScaling& row,
                               const PartRow* parts,
                               int64_t at) {
  const auto four = [](int32_t value) { return hn::Set(kFourInts, value); };
  const auto below =
      hn::Min(hn::ShiftRight<kMantissaBits>(hn::Sub(four(row.top), top)), four(kMostExponent));
  const auto power = [&](auto exponent) {
    return hn::BitCast(kFourFloats,
                       hn::Add(hn::ShiftLeft<kMantissaBits>(exponent), four(kOneBits)));
  };
  const FourFloats scale = power(hn::Sub(four(kMostExponent), below));
  alignas(16) float inverses[kGroup];
  hn::Store(hn::Mul(hn::Set(kFourFloats, row.inverse), power(below)), kFourFloats, inverses);
  PackedBlock blocks[kParts][kGroup];
  for (int b = 0; b < kGroup; ++b) {
    IntVector quants[kVectors], first[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      const auto values = hn::LoadU(kFloats, x + b * kBlock + i * kLanes);
      quants[i] = nearest_quant(hn::Mul(values, hn::Set(kFloats, inverses[b])));
      if constexpr (kParts == 2) first[i] = take_first_part(quants[i]);
    }
    blocks[kParts - 1][b] = packed(quants);
    if constexpr (kParts == 2) blocks[0][b] = packed(first);
  }
  const FourFloats first_scale =
      kParts == 2 ? hn::Mul(scale, hn::Set(kFourFloats, kPartRatio)) : scale;
  store_group(blocks[0], first_scale, parts[0], at);
  if constexpr (kParts == 2) store_group(blocks[1], scale, parts[1], at);
}

// Groups of blocks; the last may begin within the one before it. Until a group is rounded, the
// largest magnitudes of its blocks are in the place of their scales.
template <int kParts>
void quantize_groups(const float* x, const QuantizedActivations& out, int64_t n) {
  const PartRow parts[] = {{out, n}, {out.part(kParts - 1), n}};
  auto* tops = reinterpret_cast<int32_t*>(parts[0].scales);
  const int64_t last = out.blocks() - kGroup;
  FourInts largest = hn::Zero(kFourInts), top = largest;
  for (int64_t b = 0; b < last + kGroup; b += kGroup) {
    const int64_t at = std::min(b, last);
    top = largest_of_group(x + at * kActivationBlock);
    largest = hn::Max(largest, top);
    hn::StoreU(top, kFourInts, tops + at);
  }
  const RowScaling row = row_scaling(hn::GetLane(hn::MaxOfLanes(kFourInts, largest)), out, n);
  for (int64_t b = 0; b < last; b += kGroup)
    quantize_group<kParts>(x + b * kActivationBlock, hn::LoadU(kFourInts, tops + b), row, parts, b);
  quantize_group<kParts>(x + last * kActivationBlock, top, row, parts, last);
}

#endif

void quantize_row(const float* x, const QuantizedActivations& out, int64_t n) {
  const int64_t blocks = out.blocks();
#if HWY_TARGET != HWY_SCALAR
  if (blocks >= kGroup)
    return (out.parts() == 1 ? quantize_groups<1> : quantize_groups<2>)(x, out, n);
#endif
  const RowScaling row = row_scaling(largest_magnitude(x, out.in), out, n);
  for (int64_t b = 0; b < blocks; ++b) quantize_block(x + b * kActivationBlock, row, out, n, b);
}

void quantize_rows(StridedRows<const float> x, const QuantizedActivations& out, Range range) {
  for (int64_t n = range.begin; n < range.end; ++n) quantize_row(x[n], out, n);
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
