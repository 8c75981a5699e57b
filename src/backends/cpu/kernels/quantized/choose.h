// SPDX-License-Identifier: Apache-2.0
// The one place that decides how a quantized GEMM runs. choose() looks a weight's layout, the
// number of tokens, the type of the activations and the instruction set up in the table of
// choose.cc, whose row names the kernel: the form of the activations, the inner loop, its tile and
// its workspace. The passes, the binding, calibration and `ridge explain --op quantized_matmul`
// read the same table; kernels only run what was chosen.
//
// Example: Q6_K and 9 tokens on AVX2. pack_weights repacks Q6_K there and quantize_activations
// rounds to 16 bits, so the rows of "avx2, repacked, i16" count: the first ends at 8 tokens, the
// last has any number, which is gemm_avx2.cc with int16 activations.
//
// A new instruction set is one file with its inner loops, and rows that name them.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "backends/cpu/kernels/quantized/activations.h"
#include "base/dtype.h"

namespace ridge::backends::cpu {

struct UnpackedRows;
struct RowBlockProduct;
struct RowsProduct;
struct WeightPart;

// AVX-512 means that with VNNI; without VNNI, a machine runs the kernels of AVX2.
enum class QuantizedIsa : uint8_t { kScalar, kAvx2, kAvx512, kAmx };
std::string_view name(QuantizedIsa isa);
// The best set of this machine that is no more than AVX-512; isa.h adds AMX.
QuantizedIsa vector_isa();
// Whether the processor has the products of int8 and int16 of AVX-512 VNNI.
bool has_vnni();

// How a weight lies in memory: f32, f16 or bf16; blocks in the file's order; or blocks that
// pack_weights repacked (base/repacked_tiles.h).
enum class WeightLayout : uint8_t { kPlain, kBlocks, kRepacked };
WeightLayout layout_of(DType weight);

// The weights of other layouts in the same launch, each value including those before it: none,
// plain ones, or blocks in the other order of blocks. All rounded weights of a launch share the
// activations.
enum class OtherWeights : uint8_t { kNone, kPlain, kBlocks };
OtherWeights other_weights(DType weight, std::span<const DType> launch);

// The GEMV paths read a weight once for a few tokens and are bound by memory; the GEMM paths
// unpack some of its rows for many tokens. The exact paths keep fp32 activations.
enum class QuantizedPath : uint8_t { kGemvExact, kGemmExact, kGemv, kGemm, kGemmTiles };

// The kernel that runs a weight. Its functions are declared in inner_loops.h.
struct QuantizedKernel {
  std::string_view file;  // in kernels/quantized/, without its ending
  QuantizedPath path = QuantizedPath::kGemvExact;
  ActivationForm form = ActivationForm::kFloat32;
  // The tile that registers hold: rows of the weight, and int8 or int16 vectors of tokens. 0 where
  // it depends on the weight's type and the length of a vector.
  int64_t rows = 0;
  int64_t vectors = 0;
  // The tokens for which the GEMM path unpacks rows once.
  int64_t token_block = 0;
  void (*gemv)(const RowsProduct& call) = nullptr;
  void (*unpack)(const WeightPart& part, UnpackedRows& rows) = nullptr;
  void (*gemm)(const RowBlockProduct& call) = nullptr;

  bool is_gemv() const { return path == QuantizedPath::kGemvExact || path == QuantizedPath::kGemv; }
};

// The workspace of x [tokens, in] in this form; 0 for fp32.
int64_t activation_bytes(ActivationForm form, int64_t tokens, int64_t in);

inline constexpr int64_t kAnyTokens = std::numeric_limits<int64_t>::max();

inline constexpr int kAnyQuant = 255;

// A row of the table. It serves weights whose launch has these or fewer other weights.
struct QuantizedRow {
  QuantizedIsa first, last;
  WeightLayout layout;
  OtherWeights others;
  DType activations;
  int64_t most_tokens;
  const QuantizedKernel* kernel;
  int most_quant = kAnyQuant;  // the largest quant of the formats that it multiplies
  // Whether its bits are those of the GEMM path, so that batch-invariant calls use it too.
  bool has_bits_of_gemm = false;

  bool runs_on(QuantizedIsa isa) const { return first <= isa && isa <= last; }
};
std::span<const QuantizedRow> quantized_rows();

struct QuantizedProblem {
  DType weight;
  int64_t tokens = 0;
  DType activations = DType::kF32;  // f32, i16, i8 or bf16; plain weights take f32 whatever it is
  QuantizedIsa isa = QuantizedIsa::kScalar;
  OtherWeights others = OtherWeights::kNone;
  bool batch_invariant = false;  // the bits of a token must not depend on the number of tokens
};
// The kernel of the first row that serves the problem; null if there is none.
const QuantizedKernel* choose(const QuantizedProblem& problem);

// The most tokens that the GEMV path multiplies with a plain weight.
int64_t most_gemv_tokens(DType plain_weight);

// Whether the instruction set multiplies repacked weights, which is faster than rows of blocks,
// and some int8 activations, which is faster than int16.
bool takes_repacked(QuantizedIsa isa);

// The type to which quantize_activations rounds the activations of a launch, where the user asks
// for `bits`, 8 or 16.
DType rounded_activations(QuantizedIsa isa,
                          int64_t tokens,
                          int64_t bits,
                          std::span<const DType> weights = {});

}  // namespace ridge::backends::cpu
