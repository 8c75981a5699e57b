// SPDX-License-Identifier: Apache-2.0
// The table of quantized GEMMs, with every number of tokens at which the kernel changes and its
// reason.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantized/choose.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include <hwy/highway.h>

#include <algorithm>
#include <array>

#include "backends/cpu/kernels/quantized/choose.h"
#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "backends/cpu/kernels/quantized/tiles.h"
#include "base/fragment_tiles.h"
#include "base/repacked_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Highway's target says it, because querying the processor's features takes microseconds in a
// virtual machine.
QuantizedIsa isa_of_target() {
#if HWY_TARGET == HWY_SCALAR
  return QuantizedIsa::kScalar;
#elif HWY_TARGET == HWY_AVX2
  return QuantizedIsa::kAvx2;
#else
  static const bool vnni = has_vnni();
  return vnni ? QuantizedIsa::kAvx512 : QuantizedIsa::kAvx2;
#endif
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

HWY_EXPORT(isa_of_target);
QuantizedIsa vector_isa() { return HWY_DYNAMIC_DISPATCH(isa_of_target)(); }

namespace {

using enum QuantizedIsa;
using enum WeightLayout;
using enum QuantizedPath;
using enum ActivationForm;
using Kernel = QuantizedKernel;

// The int16, or int8, activations of so many tokens and kRowBlockDepth columns take half of an L2
// of 512 KiB.
constexpr int64_t kBlock16 = 160, kBlock8 = 256;
static_assert(kBlock16 % kTokenCut == 0 && kBlock8 % kTokenCut == 0);
static_assert(std::max(kBlock16, kBlock8) == kMostTokenBlock);

// The tile of a kernel.
struct Tile {
  int64_t rows, vectors;
};

// A kernel of the GEMV path.
constexpr Kernel gemv(std::string_view file,
                      ActivationForm form,
                      Tile tile,
                      void (*loop)(const RowsProduct&)) {
  return {file, kGemv, form, tile.rows, tile.vectors, 0, loop};
}

// A kernel of the GEMM path.
constexpr Kernel gemm(std::string_view file,
                      ActivationForm form,
                      Tile tile,
                      void (*unpack)(const WeightPart&, UnpackedRows&),
                      void (*loop)(const RowBlockProduct&)) {
  const int64_t block = form == kInt16 ? kBlock16 : kBlock8;
  return {file, kGemm, form, tile.rows, tile.vectors, block, nullptr, unpack, loop};
}

constexpr Kernel kExactGemv = {"exact", kGemvExact}, kExactGemm = {"exact", kGemmExact};
constexpr Kernel kTiles = {"gemm_amx", kGemmTiles, kBf16Tiles, 32, 32};

namespace portable {
constexpr Kernel kGemv16 = gemv("portable", kTwoInt8, {1, 1}, gemv_portable),
                 kGemv8 = gemv("portable", kInt8, {1, 1}, gemv_portable),
                 kGemm16 = gemm("portable", kInt16, {16, 1}, unpack_int16, gemm_portable),
                 kGemm8 = gemm("portable", kInt8, {16, 1}, unpack_int8, gemm_portable);
}  // namespace portable

namespace avx2 {
constexpr int64_t kGemvTile = kGemvTokensAvx2, kGemmTile = kGemmTokensAvx2;
constexpr Kernel kGemv16 = gemv("gemv_avx2", kTwoInt8, {1, 4}, gemv_avx2),
                 kGemv8 = gemv("gemv_avx2", kInt8, {1, 4}, gemv_avx2),
                 kGemm16 = gemm("gemm_avx2", kInt16, {16, kGemmTile}, unpack_int16, gemm_avx2),
                 kGemm8 = gemm("gemm_avx2", kInt8, {16, kGemmTile}, unpack_int8, gemm_int8_avx2);
constexpr Kernel
    kRepackedGemv16 = gemv("gemv_repacked_avx2", kInt16, {16, kGemvTile}, gemv_repacked_avx2),
    kRepackedGemv8 = gemv("gemv_repacked_avx2", kInt8, {16, kGemvTile}, gemv_repacked_avx2),
    kRepackedGemm16 = gemm("gemm_avx2", kInt16, {16, kGemmTile}, unpack_repacked_avx2, gemm_avx2),
    kRepackedGemm8 =
        gemm("gemm_avx2", kInt8, {16, kGemmTile}, unpack_repacked_int8_avx2, gemm_int8_avx2);
}  // namespace avx2

namespace avx512 {
constexpr int64_t kGemvTile = kGemvVectorsAvx512, kGemmTile = kGemmTokensAvx512;
constexpr Kernel kGemm16 = gemm("gemm_avx512", kInt16, {32, kGemmTile}, unpack_int16, gemm_avx512),
                 kGemm8 = gemm("gemm_avx512", kInt8, {32, kGemmTile}, unpack_int8, gemm_avx512);
constexpr Kernel
    kRepackedGemv16 = gemv("gemv_repacked_avx512", kTwoInt8, {16, kGemvTile}, gemv_repacked_avx512),
    kRepackedGemv8 = gemv("gemv_repacked_avx512", kInt8, {16, kGemvTile}, gemv_repacked_avx512),
    kRepackedGemm16 =
        gemm("gemm_avx512", kInt16, {32, kGemmTile}, unpack_repacked_avx512, gemm_avx512),
    kRepackedGemm8 =
        gemm("gemm_avx512", kInt8, {32, kGemmTile}, unpack_repacked_int8_avx512, gemm_avx512);
}  // namespace avx512

constexpr auto kNone = OtherWeights::kNone, kPlainToo = OtherWeights::kPlain,
               kAll = OtherWeights::kBlocks;
constexpr DType kF32 = DType::kF32, kI16 = DType::kI16, kI8 = DType::kI8, kBF16 = DType::kBF16;
// AVX2 adds products of int8 in 16 bits, which hold quants of up to 6 bits.
constexpr int kSixBits = kMostInt8Quant;

// Up to 4 tokens, a GEMM is bound by memory, also if it unpacks W in registers again for them; with
// more, it pays to unpack W once for all. Repacked weights are unpacked faster, so that this lasts
// longer:
//   AVX2     8 tokens in int16, 12 in int8. Formats differ: with 16 tokens, unpacking in memory
//            takes 1.05 times as long for Q4_1 and 0.8 times for Q6_K.
//   AVX-512  32 vectors of int8, one a token, or two in 16 bits: those of 576 columns take 28 KB of
//            L1, and 48 vectors at once took twice the time of 32. All weights of a launch share
//            the vectors, so this needs all of them repacked.
// The first row that serves a problem counts.
constexpr QuantizedRow kRows[] = {
    // sets of instructions, layout of W, other weights, activations, tokens, kernel, largest quant,
    // whether its bits are those of the GEMM path
    {kScalar, kAmx, kPlain, kAll, kF32, 4, &kExactGemv},
    {kScalar, kAmx, kPlain, kAll, kF32, kAnyTokens, &kExactGemm},
    {kScalar, kAmx, kBlocks, kAll, kF32, 4, &kExactGemv},
    {kScalar, kAmx, kBlocks, kAll, kF32, kAnyTokens, &kExactGemm},

    {kScalar, kScalar, kBlocks, kAll, kI16, 4, &portable::kGemv16},
    {kScalar, kScalar, kBlocks, kAll, kI16, kAnyTokens, &portable::kGemm16},
    {kScalar, kScalar, kBlocks, kAll, kI8, 4, &portable::kGemv8},
    {kScalar, kScalar, kBlocks, kAll, kI8, kAnyTokens, &portable::kGemm8},

    {kAvx2, kAvx2, kRepacked, kPlainToo, kI16, 8, &avx2::kRepackedGemv16, kAnyQuant, true},
    {kAvx2, kAvx2, kRepacked, kAll, kI16, 4, &avx2::kRepackedGemv16},
    {kAvx2, kAvx2, kRepacked, kAll, kI16, kAnyTokens, &avx2::kRepackedGemm16},
    {kAvx2, kAvx2, kRepacked, kPlainToo, kI8, 12, &avx2::kRepackedGemv8, kSixBits, true},
    {kAvx2, kAvx2, kRepacked, kAll, kI8, 4, &avx2::kRepackedGemv8, kSixBits},
    {kAvx2, kAvx2, kRepacked, kAll, kI8, kAnyTokens, &avx2::kRepackedGemm8, kSixBits},
    {kAvx2, kAvx2, kBlocks, kPlainToo, kI16, 4, &avx2::kGemv16},
    {kAvx2, kAvx2, kBlocks, kAll, kI16, kAnyTokens, &avx2::kGemm16},
    {kAvx2, kAvx2, kBlocks, kAll, kI8, 4, &avx2::kGemv8, kSixBits},
    {kAvx2, kAvx2, kBlocks, kAll, kI8, kAnyTokens, &avx2::kGemm8, kSixBits},

    {kAvx512, kAmx, kRepacked, kNone, kI16, 16, &avx512::kRepackedGemv16},
    {kAvx512, kAmx, kRepacked, kAll, kI16, 4, &avx512::kRepackedGemv16},
    {kAvx512, kAmx, kRepacked, kAll, kI16, kAnyTokens, &avx512::kRepackedGemm16},
    {kAvx512, kAmx, kRepacked, kNone, kI8, 32, &avx512::kRepackedGemv8},
    {kAvx512, kAmx, kRepacked, kAll, kI8, 4, &avx512::kRepackedGemv8},
    {kAvx512, kAmx, kRepacked, kAll, kI8, kAnyTokens, &avx512::kRepackedGemm8},
    {kAvx512, kAmx, kBlocks, kAll, kI16, 4, &avx2::kGemv16},
    {kAvx512, kAmx, kBlocks, kAll, kI16, kAnyTokens, &avx512::kGemm16},
    {kAvx512, kAmx, kBlocks, kAll, kI8, 4, &avx2::kGemv8},
    {kAvx512, kAmx, kBlocks, kAll, kI8, kAnyTokens, &avx512::kGemm8},

    {kAmx, kAmx, kRepacked, kAll, kBF16, kAnyTokens, &kTiles},
    {kAmx, kAmx, kBlocks, kAll, kBF16, kAnyTokens, &kTiles},
};

// With AMX tiles, prompts are rounded to bf16, which keeps 8 bits of each number. For decoded
// tokens, 8 bits per block are in line with that, and half as many multiplications save 10% of a
// token's time. Up to 32 tokens are in int8, for tiles would unpack the weights for them: 5
// sequences of SmolLM2 made 356 tokens/s with tiles and make 1,100, 16 made 817 and 1,145.
struct Rounding {
  QuantizedIsa first, last;
  int64_t most_tokens;
  int64_t most_bits;  // for which the user asks
  DType activations;
};
constexpr Rounding kRoundings[] = {
    {kAmx, kAmx, 32, 16, kI8},
    {kAmx, kAmx, kAnyTokens, 16, kBF16},
    {kAvx2, kAvx512, kAnyTokens, 8, kI8},
    {kScalar, kAvx512, kAnyTokens, 16, kI16},
};

bool serves(const QuantizedRow& row, QuantizedIsa isa, DType weight, DType activations) {
  return row.runs_on(isa) && row.layout == layout_of(weight) && row.activations == activations &&
         quant_format(weight).most <= row.most_quant;
}

}  // namespace

std::string_view name(QuantizedIsa isa) {
  constexpr std::array<std::string_view, 4> kNames = {"scalar", "avx2", "avx512", "amx"};
  return kNames[static_cast<size_t>(isa)];
}

WeightLayout layout_of(DType weight) {
  return is_repacked(weight) ? kRepacked : is_block(weight) ? kBlocks : kPlain;
}

OtherWeights other_weights(DType weight, std::span<const DType> launch) {
  OtherWeights others = OtherWeights::kNone;
  for (DType each : launch)
    if (layout_of(each) != layout_of(weight))
      others = std::max(others, layout_of(each) == kPlain ? kPlainToo : kAll);
  return others;
}

int64_t activation_bytes(ActivationForm form, int64_t tokens, int64_t in) {
  if (form == kFloat32) return 0;
  if (form == kBf16Tiles) return ActivationTiles{tokens, in, nullptr}.bytes();
  return QuantizedActivations{tokens, in, nullptr, form}.bytes();
}

std::span<const QuantizedRow> quantized_rows() { return kRows; }

const QuantizedKernel* choose(const QuantizedProblem& problem) {
  if (is_fragments(problem.weight)) return nullptr;  // the order of a GPU's tensor cores
  const bool is_plain = layout_of(problem.weight) == kPlain;
  if (is_plain && problem.weight != kF32 && problem.weight != DType::kF16 &&
      problem.weight != kBF16)
    return nullptr;
  const DType activations = is_plain ? kF32 : problem.activations;
  for (const QuantizedRow& row : kRows)
    if (serves(row, problem.isa, problem.weight, activations) && problem.others <= row.others &&
        problem.tokens <= row.most_tokens &&
        (!problem.batch_invariant || row.has_bits_of_gemm || row.most_tokens == kAnyTokens))
      return row.kernel;
  return nullptr;
}

int64_t most_gemv_tokens(DType plain_weight) {
  int64_t most = 0;
  for (const QuantizedRow& row : kRows)
    if (serves(row, kScalar, plain_weight, kF32) && row.kernel->is_gemv())
      most = std::max(most, row.most_tokens);
  return most;
}

bool takes_repacked(QuantizedIsa isa) {
  return std::any_of(std::begin(kRows), std::end(kRows), [&](const QuantizedRow& row) {
    return row.layout == kRepacked && row.runs_on(isa);
  });
}

DType rounded_activations(QuantizedIsa isa,
                          int64_t tokens,
                          int64_t bits,
                          std::span<const DType> weights) {
  const auto has_kernels = [&](DType activations) {
    return std::all_of(weights.begin(), weights.end(), [&](DType weight) {
      return choose({weight, tokens, activations, isa}) != nullptr;
    });
  };
  for (const Rounding& row : kRoundings)
    if (row.first <= isa && isa <= row.last && tokens <= row.most_tokens && bits <= row.most_bits &&
        has_kernels(row.activations))
      return row.activations;
  return kF32;
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
