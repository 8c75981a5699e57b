// SPDX-License-Identifier: Apache-2.0
// GEMMs with block-quantized weights against double-precision sums over the dequantized weights,
// for every format, instruction set and thread count.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/quantized/gemv_bf16.h"
#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "backends/quantized_samples.h"

namespace ridge::backends::cpu {
namespace {

struct Fast {
  ActivationForm form;
  QuantizedPath path;
  const char* name;

  // The kernel of such weights on the instruction set in use; null if there is none.
  const QuantizedKernel* kernel(DType weight) const {
    for (const QuantizedRow& row : quantized_rows())
      if (row.runs_on(vector_isa()) && row.layout == layout_of(weight) &&
          quant_format(weight).most <= row.most_quant && row.kernel->form == form &&
          row.kernel->path == path)
        return row.kernel;
    return nullptr;
  }
  void product(std::span<const QuantizedProduct> products,
               const QuantizedActivations& x,
               const QuantizedMatrix& next = {}) const {
    std::vector<QuantizedProduct> bound(products.begin(), products.end());
    for (QuantizedProduct& each : bound) each.kernel = kernel(each.weight.dtype);
    path == QuantizedPath::kGemv ? quantized_gemv(bound, x, next) : quantized_gemm(bound, x);
  }
};
constexpr Fast kGemm16 = {ActivationForm::kInt16, QuantizedPath::kGemm, "gemm in int16"},
               kGemm8 = {ActivationForm::kInt8, QuantizedPath::kGemm, "gemm in int8"},
               kGemv16 = {ActivationForm::kInt16, QuantizedPath::kGemv, "gemv in int16"},
               kGemvTwo = {ActivationForm::kTwoInt8, QuantizedPath::kGemv, "gemv in two int8"},
               kGemv8 = {ActivationForm::kInt8, QuantizedPath::kGemv, "gemv in int8"};

// The forms in which the instruction set multiplies such weights.
std::vector<Fast> fast_forms(DType weight) {
  std::vector<Fast> forms;
  for (const Fast& each : {kGemm16, kGemvTwo, kGemv16, kGemv8, kGemm8})
    if (each.kernel(weight) != nullptr) forms.push_back(each);
  return forms;
}
bool has_repacked_kernels() { return takes_repacked(vector_isa()); }

void expect_sums(const QuantizedActivations& x, int64_t n) {
  for (int64_t k = 0; k < x.in; ++k)
    EXPECT_LE(std::abs(Activations::quant(x, n, k)), x.is_int16() ? 127 * 254 : 127);
  for (int64_t g = 0; g < x.in / 16; ++g) {
    int sum = 0;
    for (int64_t k = 16 * g; k < 16 * g + 16; ++k) sum += Activations::quant(x, n, k);
    EXPECT_EQ(x.half_sums(n)[g], x.scales(n)[g / 2] * static_cast<float>(sum));
    if (x.parts() == 1) {
      EXPECT_EQ(x.half_quant_sums(n)[g], sum);
    }
  }
  for (int64_t b = 0; b < x.in / 32; ++b) {
    const float both = x.half_sums(n)[2 * b] + x.half_sums(n)[2 * b + 1];
    EXPECT_NEAR(x.sums(n)[b], both, 1e-6f * std::abs(both));
    if (x.parts() == 1) {
      EXPECT_EQ(x.quant_sums(n)[b], x.half_quant_sums(n)[2 * b] + x.half_quant_sums(n)[2 * b + 1]);
    }
  }
}

RIDGE_CPU_KERNEL_SUITE(CpuQuantized);

// Three blocks, whole groups of four, and a last group that begins within the one before it.
TEST_P(CpuQuantized, RoundsActivationsToNearest) {
  const int64_t tokens = 3;
  for (const int64_t in : {96, 128, 160, 1056}) {
    std::vector<float> values = random_values<float>(tokens * in, 5);
    for (int64_t k = 32; k < 64; ++k) values[static_cast<size_t>(k)] = 0;
    const Activations int16(values, tokens, in, ActivationForm::kInt16),
        two(values, tokens, in, ActivationForm::kTwoInt8),
        one(values, tokens, in, ActivationForm::kInt8);
    for (const Activations* a : {&int16, &two, &one}) {
      for (int64_t n = 0; n < tokens; ++n) {
        for (int64_t k = 0; k < in; ++k) {
          const float value = values[static_cast<size_t>(n * in + k)];
          // The last bits of a 16-bit quant are about as large as the error of its fp32 arithmetic.
          ASSERT_NEAR(a->rounded(n, k), value, 0.5001f * a->step(n, k) + 2e-7f * std::abs(value))
              << k << " of " << in;
          ASSERT_EQ(Activations::quant(int16.x, n, k),
                    254 * Activations::quant(two.x, n, k) + Activations::quant(two.x.part(1), n, k))
              << k << " of " << in;
        }
        for (int p = 0; p < a->x.parts(); ++p) expect_sums(a->x.part(p), n);
      }
    }
  }
}

// The reference uses the rounded activations, so only the error of fp32 products is left.
void expect_fast_products(const Weights& w, int64_t tokens, Bits bits) {
  const DType dtype = w.matrix.dtype;
  const int64_t out = w.matrix.out, in = w.matrix.in;
  std::vector<float> x = random_values<float>(tokens * in, 7);
  // Quants of -127 in the first part. In the second part, a block's quants after the first are -126
  // and -127.
  for (size_t i = 0; i < x.size() && bits != Bits::kRandom; ++i)
    x[i] = i % 32 == 0 ? -127.0f : -126.499f;
  for (const Fast& fast : fast_forms(dtype)) {
    if (fast.form == ActivationForm::kInt8 && bits != Bits::kRandom)
      std::fill(x.begin(), x.end(), -127.0f);
    const Activations a(x, tokens, in, fast.form);
    std::vector<float> rounded(x.size());
    for (int64_t n = 0; n < tokens; ++n)
      for (int64_t k = 0; k < in; ++k) rounded[static_cast<size_t>(n * in + k)] = a.rounded(n, k);
    const int64_t stride = out + 3;
    std::vector<float> y(static_cast<size_t>(tokens * stride), -7.0f);
    const QuantizedProduct call{w.matrix, {y.data(), stride}, false};
    fast.product({&call, 1}, a.x);
    for (int64_t n = 0; n < tokens; ++n) {
      for (int64_t r = 0; r < out; ++r) {
        const float* token = &rounded[static_cast<size_t>(n * in)];
        ASSERT_NEAR(y[static_cast<size_t>(n * stride + r)], dot(w.row(r), token, in),
                    fp32_slack(w.row(r), token, in))
            << name(dtype) << ' ' << fast.name << " out " << out << " in " << in << " N " << tokens
            << " at " << n << ", " << r;
      }
      for (int64_t r = out; r < stride; ++r) {
        ASSERT_EQ(y[static_cast<size_t>(n * stride + r)], -7.0f) << "written past the row";
      }
    }
  }
}

TEST_P(CpuQuantized, FastProductsOfEveryFormat) {
  for (DType dtype : kBlockTypes) {
    for (int64_t in : widths(dtype)) {
      for (int64_t out : {1, 15, 37}) {
        const Weights w(dtype, out, in, 3);
        for (int64_t tokens : {1, 2, 3, 4, 5, 9, 17})
          expect_fast_products(w, tokens, Bits::kRandom);
      }
    }
  }
}

TEST_P(CpuQuantized, FastProductsOfRepackedWeights) {
  if (!has_repacked_kernels()) GTEST_SKIP() << "needs AVX2";
  for (DType dtype : kRepackedTypes) {
    for (int64_t in : {64, 192, 256, 576, 1088, 1280, 2048}) {
      if (in % info(dtype).elements_per_block != 0) continue;
      for (int64_t out : {16, 48, 192}) {
        const RepackedWeights w(dtype, out, in, 3);
        for (int64_t tokens : {1, 2, 3, 4, 5, 9, 17})
          expect_fast_products(w, tokens, Bits::kRandom);
      }
    }
    for (Bits bits : {Bits::kOnes, Bits::kTop})
      expect_fast_products(RepackedWeights(dtype, 32, 768, 3, bits), 5, bits);
  }
}

// The repacked weight's result is added to the output, in one call with rows of blocks. A single
// token has the same bits.
TEST_P(CpuQuantized, RepackedWeightsMixWithBlocks) {
  if (!has_repacked_kernels()) GTEST_SKIP() << "needs AVX2";
  const int64_t tokens = 7, in = 1280, out = 528;
  const std::vector<float> x = random_values<float>(tokens * in, 29);
  for (const Fast& fast : fast_forms(DType::kQ5_1)) {
    const Activations a(x, tokens, in, fast.form);
    const Weights other(DType::kQ5_1, 19, in, 37);
    for (DType dtype : kRepackedTypes) {
      const RepackedWeights w(dtype, out, in, 31);
      if (fast.kernel(w.matrix.dtype) == nullptr) continue;
      std::vector<float> together(static_cast<size_t>(tokens * out), 0.5f), plain(together);
      std::vector<float> mixed(static_cast<size_t>(tokens * 19)), alone(mixed);
      const QuantizedProduct calls[] = {{other.matrix, {mixed.data(), 19}, false},
                                        {w.matrix, {together.data(), out}, true}};
      fast.product(std::span<const QuantizedProduct>(calls, 2), a.x);
      const QuantizedProduct lone{other.matrix, {alone.data(), 19}, false};
      fast.product({&lone, 1}, a.x);
      EXPECT_TRUE(same_bits(mixed, alone));
      for (int64_t n = 0; n < tokens; ++n) {
        QuantizedActivations one = a.x;
        one.tokens = 1;
        one.data += n * one.row_bytes();
        const QuantizedProduct call{w.matrix, {&plain[static_cast<size_t>(n * out)], out}, true};
        fast.product({&call, 1}, one);
      }
      EXPECT_TRUE(same_bits(together, plain)) << name(dtype);
    }
  }
}

// A row of the table that says so has the bits of the row for any number of tokens.
TEST_P(CpuQuantized, GemvOfRepackedWeightsHasTheBitsOfGemm) {
  const int64_t tokens = 13, in = 1280, out = 48;
  for (const QuantizedRow& row : quantized_rows()) {
    if (!row.has_bits_of_gemm || !row.runs_on(vector_isa())) continue;
    const Activations a(random_values<float>(tokens * in, 47), tokens, in, row.kernel->form);
    const Fast &gemv = row.activations == DType::kI8 ? kGemv8 : kGemv16,
               &gemm = row.activations == DType::kI8 ? kGemm8 : kGemm16;
    for (DType dtype : kRepackedTypes) {
      const RepackedWeights w(dtype, out, in, 53);
      if (gemv.kernel(w.matrix.dtype) == nullptr) continue;
      std::vector<float> from_gemm(static_cast<size_t>(tokens * out)), from_gemv(from_gemm);
      const QuantizedProduct gemm_call{w.matrix, {from_gemm.data(), out}},
          gemv_call{w.matrix, {from_gemv.data(), out}};
      gemm.product({&gemm_call, 1}, a.x);
      gemv.product({&gemv_call, 1}, a.x);
      EXPECT_TRUE(same_bits(from_gemm, from_gemv)) << name(dtype);
    }
  }
}

// A weight whose pieces are dealt to threads dynamically, and which is prefetched, has the same
// bits as its two halves, whose work is split evenly.
TEST_P(CpuQuantized, DealtPiecesGiveTheSameBits) {
  const int64_t tokens = 2, in = 2048, out = 8208;
  const std::vector<float> x = random_values<float>(tokens * in, 41);
  const auto expect_same = [&](const Weights& w) {
    const Fast& fast = kGemvTwo.kernel(w.matrix.dtype) == nullptr ? kGemv16 : kGemvTwo;
    const Activations a(x, tokens, in, fast.form);
    std::vector<float> dealt(static_cast<size_t>(tokens * out)), even(dealt);
    const QuantizedProduct whole{w.matrix, {dealt.data(), out}, false};
    fast.product({&whole, 1}, a.x, w.matrix);
    QuantizedMatrix top = w.matrix, rest = w.matrix;
    top.out = out / 32 * 16;
    rest.out = out - top.out;
    rest.data += storage_bytes(top.dtype, top.out * in);
    const QuantizedProduct halves[] = {{top, {even.data(), out}, false},
                                       {rest, {even.data() + top.out, out}, false}};
    fast.product(halves, a.x);
    EXPECT_TRUE(same_bits(dealt, even)) << name(w.matrix.dtype);
  };
  expect_same(Weights(DType::kQ8_0, out, in, 43));
  if (has_repacked_kernels())
    for (DType dtype : kRepackedTypes) expect_same(RepackedWeights(dtype, out, in, 43));
}

// Gate and up multiplied on their own, then their GLU.
std::vector<float> glu_of(const Fast& fast,
                          const QuantizedMatrix& gate,
                          const QuantizedMatrix& up,
                          GluActivation activation,
                          const QuantizedActivations& x) {
  std::vector<float> gates(static_cast<size_t>(x.tokens * gate.out)), ups(gates);
  const QuantizedProduct products[] = {{gate, {gates.data(), gate.out}},
                                       {up, {ups.data(), gate.out}}};
  fast.product(std::span<const QuantizedProduct>(products), x);
  glu_on_thread({x.tokens,
                 gate.out,
                 activation,
                 {gates.data(), gate.out},
                 {ups.data(), gate.out},
                 {gates.data(), gate.out}});
  return gates;
}

void expect_glu(const QuantizedMatrix& gate, const QuantizedMatrix& up, int64_t tokens) {
  const std::vector<float> x = random_values<float>(tokens * gate.in, 17);
  for (const Fast& fast : fast_forms(gate.dtype)) {
    const Activations a(x, tokens, gate.in, fast.form);
    for (GluActivation activation : {GluActivation::kSilu, GluActivation::kGeluTanh}) {
      const int64_t stride = gate.out + 3;
      std::vector<float> y(static_cast<size_t>(tokens * stride), -7.0f),
          scratch(static_cast<size_t>(tokens * gate.out));
      const QuantizedProduct call{
          gate, {y.data(), stride}, false, {up, activation, {scratch.data(), gate.out}}};
      fast.product({&call, 1}, a.x);
      const std::vector<float> want = glu_of(fast, gate, up, activation, a.x);
      for (int64_t n = 0; n < tokens; ++n)
        for (int64_t r = 0; r < stride; ++r)
          ASSERT_EQ(y[static_cast<size_t>(n * stride + r)],
                    r < gate.out ? want[static_cast<size_t>(n * gate.out + r)] : -7.0f)
              << name(gate.dtype) << ' ' << fast.name << " out " << gate.out << " N " << tokens
              << " at " << n << ", " << r;
    }
  }
}

TEST_P(CpuQuantized, GluHasTheBitsOfItsProducts) {
  for (int64_t tokens : {1, 3, 17, 300})
    for (int64_t out : {15, 37}) {
      const Weights gate(DType::kQ5_1, out, 1280, 3), up(DType::kQ5_1, out, 1280, 5);
      expect_glu(gate.matrix, up.matrix, tokens);
    }
  if (!has_repacked_kernels()) return;
  for (DType dtype : kRepackedTypes)
    for (int64_t tokens : {1, 3, 17, 300}) {
      const RepackedWeights gate(dtype, 48, 1280, 3), up(dtype, 48, 1280, 5);
      expect_glu(gate.matrix, up.matrix, tokens);
    }
  // A weight whose last rows are dealt to threads.
  const RepackedWeights gate(DType::kQ8_0, 8208, 2048, 7), up(DType::kQ8_0, 8208, 2048, 9);
  expect_glu(gate.matrix, up.matrix, 2);
}

// Outputs of 16 MiB and more bypass the caches, if their cache lines are written whole. Weights of
// more than 768 columns are multiplied in parts, which are added to the output.
TEST_P(CpuQuantized, LargeOutputsHaveTheBitsOfSmallOnes) {
  if (!has_repacked_kernels()) GTEST_SKIP() << "needs AVX2";
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  // With the last row block alone or in a pair, and on the GEMV path and the GEMM path.
  for (const auto& [in, tokens, extra] :
       {std::array<int64_t, 3>{64, 40, 16}, {1024, 40, 32}, {64, 12, 16}}) {
    const int64_t out = (16 << 20) / (4 * tokens) / 32 * 32 + 32 + extra, stride = out + 16;
    const RepackedWeights w(DType::kQ4_0, out, in, 3);
    const std::vector<float> x = random_values<float>(tokens * in, 19);
    std::unique_ptr<float, Free> y(static_cast<float*>(
        std::aligned_alloc(64, static_cast<size_t>(4 * (tokens * stride + 16)))));
    for (const Fast& fast : fast_forms(w.matrix.dtype)) {
      const Activations a(x, tokens, in, fast.form);
      const auto product = [&](float* to) {
        const QuantizedProduct call{w.matrix, {to, stride}};
        fast.product({&call, 1}, a.x);
        std::vector<float> rows;
        for (int64_t n = 0; n < tokens; ++n)
          rows.insert(rows.end(), to + n * stride, to + n * stride + out);
        return rows;
      };
      const QuantizedProduct whole{w.matrix, {y.get(), stride}},
          cut{w.matrix, {y.get() + 1, stride}};
      EXPECT_TRUE(is_streamed(whole, tokens));
      EXPECT_FALSE(is_streamed(cut, tokens));
      EXPECT_FALSE(is_streamed(whole, tokens / 2));
      const std::vector<float> streamed = product(y.get()), cached = product(y.get() + 1);
      EXPECT_TRUE(same_bits(streamed, cached)) << fast.name << " in " << in << " N " << tokens;
    }
  }
}

// The largest and the smallest quants times activations of -127 in each part: no 16-bit sum may
// saturate.
TEST_P(CpuQuantized, ExtremeQuantsDoNotSaturate) {
  for (DType dtype : kBlockTypes) {
    for (Bits bits : {Bits::kOnes, Bits::kTop})
      expect_fast_products(Weights(dtype, 18, 768, 3, bits), 5, bits);
  }
}

// Against unrounded activations: rounding moves each by at most half of its block's step.
TEST_P(CpuQuantized, FastErrorIsTheActivationsRounding) {
  const int64_t tokens = 5, out = 20, in = 768;
  const std::vector<float> x = random_values<float>(tokens * in, 11);
  for (const Fast& fast : fast_forms(DType::kQ4_1)) {
    const Activations a(x, tokens, in, fast.form);
    for (DType dtype : kBlockTypes) {
      if (fast.kernel(dtype) == nullptr) continue;
      const Weights w(dtype, out, in, 13);
      std::vector<float> y(static_cast<size_t>(tokens * out));
      const QuantizedProduct call{w.matrix, {y.data(), out}, false};
      fast.product({&call, 1}, a.x);
      for (int64_t n = 0; n < tokens; ++n) {
        for (int64_t r = 0; r < out; ++r) {
          const float* token = &x[static_cast<size_t>(n * in)];
          double bound = fp32_slack(w.row(r), token, in);
          for (int64_t k = 0; k < in; ++k) {
            bound += 0.5001 * std::abs(static_cast<double>(w.row(r)[k])) * a.step(n, k);
          }
          ASSERT_NEAR(y[static_cast<size_t>(n * out + r)], dot(w.row(r), token, in), bound);
        }
      }
    }
  }
}

TEST_P(CpuQuantized, ExactProductsOfEveryFormat) {
  std::vector<DType> dtypes(std::begin(kBlockTypes), std::end(kBlockTypes));
  for (DType plain : {DType::kF32, DType::kF16, DType::kBF16}) dtypes.push_back(plain);
  for (DType dtype : dtypes) {
    std::vector<int64_t> extents = widths(dtype);
    if (!is_block(dtype)) extents.insert(extents.end(), {1, 77, 1031});
    for (int64_t in : extents) {
      for (int64_t tokens : {1, 3, 13}) {
        const int64_t out = 37;
        const Weights w(dtype, out, in, 17);
        const std::vector<float> x = random_values<float>(tokens * in, 19);
        for (auto* product : {quantized_gemv_exact, quantized_gemm_exact}) {
          std::vector<float> y(static_cast<size_t>(tokens * out));
          const QuantizedProduct call{w.matrix, {y.data(), out}, false};
          product({&call, 1}, {x.data(), in}, tokens);
          for (int64_t n = 0; n < tokens; ++n) {
            for (int64_t r = 0; r < out; ++r) {
              const float* token = &x[static_cast<size_t>(n * in)];
              double terms = 0;
              for (int64_t k = 0; k < in; ++k) {
                terms += std::abs(static_cast<double>(w.row(r)[k]) * token[k]);
              }
              ASSERT_NEAR(y[static_cast<size_t>(n * out + r)], dot(w.row(r), token, in),
                          0x1p-24 * (static_cast<double>(in) / 4 + 8) * terms)
                  << name(dtype) << " in " << in << " N " << tokens;
            }
          }
        }
      }
    }
  }
}

// Several products in one call, added to the output, large enough for all threads. A single token
// and another thread count have the same bits.
TEST_P(CpuQuantized, BitsDependOnNothingElseInTheCall) {
  const int64_t tokens = 37, in = 1280;
  const std::vector<float> x = random_values<float>(tokens * in, 29);
  for (const Fast& fast : fast_forms(DType::kQ4_1)) {
    const Activations a(x, tokens, in, fast.form);
    for (DType dtype : kBlockTypes) {
      if (fast.kernel(dtype) == nullptr) continue;
      const Weights w(dtype, 530, in, 31), other(DType::kQ4_1, 19, in, 37);
      std::vector<float> together(static_cast<size_t>(tokens * 530), 0.5f);
      std::vector<float> mixed(static_cast<size_t>(tokens * 19));
      const QuantizedProduct calls[] = {{other.matrix, {mixed.data(), 19}, false},
                                        {w.matrix, {together.data(), 530}, true}};
      fast.product(std::span<const QuantizedProduct>(calls, 2), a.x);
      const int threads = omp_get_max_threads();
      omp_set_num_threads(2);
      for (int64_t n : {0, 1, 36}) {
        std::vector<float> alone(530, 0.5f);
        QuantizedActivations one = a.x;
        one.tokens = 1;
        one.data += n * one.row_bytes();
        const QuantizedProduct call{w.matrix, {alone.data(), 530}, true};
        fast.product({&call, 1}, one);
        ASSERT_EQ(std::memcmp(alone.data(), &together[static_cast<size_t>(n * 530)], 530 * 4), 0)
            << name(dtype) << ' ' << fast.name << " token " << n;
      }
      omp_set_num_threads(threads);
    }
  }
}

TEST_P(CpuQuantized, ExactBitsDependOnNothingElseInTheCall) {
  const int64_t tokens = 37, in = 1280, out = 530;
  const std::vector<float> x = random_values<float>(tokens * in, 29);
  const Weights w(DType::kQ5_K, out, in, 31);
  for (auto* product : {quantized_gemv_exact, quantized_gemm_exact}) {
    std::vector<float> together(static_cast<size_t>(tokens * out));
    const QuantizedProduct call{w.matrix, {together.data(), out}, false};
    product({&call, 1}, {x.data(), in}, tokens);
    const int threads = omp_get_max_threads();
    omp_set_num_threads(2);
    std::vector<float> alone(static_cast<size_t>(out));
    const QuantizedProduct one{w.matrix, {alone.data(), out}, false};
    product({&one, 1}, {&x[static_cast<size_t>(36 * in)], in}, 1);
    omp_set_num_threads(threads);
    EXPECT_EQ(std::memcmp(alone.data(), &together[static_cast<size_t>(36 * out)], alone.size() * 4),
              0);
  }
}

// Tokens of plain weights are multiplied four, three, two or one at a time.
TEST_P(CpuQuantized, ExactBitsOfPlainWeightsDependOnNoOtherToken) {
  const int64_t tokens = 7, out = 131;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for (int64_t in : {77, 1031}) {
      const Weights w(dtype, out, in, 31);
      const std::vector<float> x = random_values<float>(tokens * in, 29);
      std::vector<float> together(static_cast<size_t>(tokens * out), 0.5f);
      const QuantizedProduct all{w.matrix, {together.data(), out}, true};
      quantized_gemv_exact({&all, 1}, {x.data(), in}, tokens);
      for (int64_t count : {1, 2, 3}) {
        std::vector<float> few(static_cast<size_t>(count * out), 0.5f);
        const QuantizedProduct call{w.matrix, {few.data(), out}, true};
        quantized_gemv_exact({&call, 1}, {&x[static_cast<size_t>(2 * in)], in}, count);
        EXPECT_EQ(std::memcmp(few.data(), &together[static_cast<size_t>(2 * out)], few.size() * 4),
                  0)
            << name(dtype) << " in " << in << " N " << count;
      }
    }
}

template <typename Y>
void expect_bf16_gemv() {
  for (int64_t in : {1, 31, 32, 33, 64, 77, 1031, 5000})
    for (int64_t out : {1, 5, 67})
      for (int64_t tokens : {1, 2, 3, 4, 9}) {
        const int64_t x_stride = in + 2, y_stride = out + 3;
        const std::vector<uint16_t> w = random_values<uint16_t>(out * in, 3),
                                    x = random_values<uint16_t>(tokens * x_stride, 5);
        std::vector<Y> y(static_cast<size_t>(tokens * y_stride));
        gemv_bf16(
            GemvBf16<Y>{w.data(), out, in, {x.data(), x_stride}, {y.data(), y_stride}, tokens});
        for (int64_t n = 0; n < tokens; ++n)
          for (int64_t r = 0; r < y_stride; ++r) {
            const double found = to_double(y[static_cast<size_t>(n * y_stride + r)]);
            if (r >= out) {
              ASSERT_EQ(found, 0) << "wrote past the row";
              continue;
            }
            double want = 0, terms = 0;
            for (int64_t k = 0; k < in; ++k) {
              const double term = to_double(w[static_cast<size_t>(r * in + k)]) *
                                  to_double(x[static_cast<size_t>(n * x_stride + k)]);
              want += term, terms += std::abs(term);
            }
            const double rounding = std::is_same_v<Y, float> ? 0 : 0x1p-8 * std::abs(want);
            ASSERT_NEAR(found, want, rounding + 0x1p-24 * (static_cast<double>(in) / 4 + 8) * terms)
                << "in " << in << " out " << out << " N " << tokens;
          }
      }
}

TEST_P(CpuQuantized, ProductsOfBf16WithBf16) {
  expect_bf16_gemv<float>();
  expect_bf16_gemv<uint16_t>();
}

// A value that is not finite in the token `bad_token` affects only that token's results.
template <typename W>
void expect_contained(std::span<const DType> dtypes, int64_t out, int64_t bad_token) {
  const int64_t tokens = bad_token + 2, in = 512;
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x = random_values<float>(tokens * in, 41);
    x[static_cast<size_t>(bad_token * in + 300)] = bad;
    for (DType dtype : dtypes) {
      const W w(dtype, out, in, 43);
      for (const Fast& fast : fast_forms(w.matrix.dtype)) {
        const Activations a(x, tokens, in, fast.form);
        std::vector<float> y(static_cast<size_t>(tokens * out));
        const QuantizedProduct call{w.matrix, {y.data(), out}, false};
        fast.product({&call, 1}, a.x);
        for (size_t i = 0; i < y.size(); ++i)
          ASSERT_EQ(std::isfinite(y[i]), static_cast<int64_t>(i) / out != bad_token)
              << name(dtype) << i;
      }
    }
  }
}

TEST_P(CpuQuantized, NotANumberStaysInItsTokenOfRepackedWeights) {
  if (!has_repacked_kernels()) GTEST_SKIP() << "needs AVX2";
  expect_contained<RepackedWeights>(kRepackedTypes, 16, 1);
}

TEST_P(CpuQuantized, NotANumberStaysInItsToken) { expect_contained<Weights>(kBlockTypes, 18, 2); }

// A scale that is not finite affects its row of W, in every token. An addition to its exponent
// would make a number of it.
TEST_P(CpuQuantized, InfiniteScalesAreSeen) {
  const int64_t tokens = 9, in = 768, out = 32, bad_row = 21;
  const std::vector<float> x = random_values<float>(tokens * in, 61);
  const auto expect_seen = [&](const QuantizedMatrix& w, const Fast& fast) {
    const Activations a(x, tokens, in, fast.form);
    std::vector<float> y(static_cast<size_t>(tokens * out));
    const QuantizedProduct call{w, {y.data(), out}, false};
    fast.product({&call, 1}, a.x);
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(std::isfinite(y[i]), static_cast<int64_t>(i) % out != bad_row)
          << name(w.dtype) << ' ' << fast.name << ' ' << i;
  };
  for (uint16_t bad : {0x7c00, 0xfc00, 0x7e00}) {  // infinities and a NaN
    for (DType dtype : kBlockTypes) {
      Weights rows(dtype, out, in, 63);
      const size_t at = static_cast<size_t>(storage_bytes(dtype, bad_row * in)) +
                        static_cast<size_t>(info(dtype).bytes_per_block) +
                        static_cast<size_t>(half_offsets(dtype).scale);
      std::memcpy(&rows.bytes[at], &bad, 2);
      for (const Fast& fast : fast_forms(dtype)) expect_seen(rows.matrix, fast);
      const DType packed = repacked_dtype(dtype, {out, in});
      if (!has_repacked_kernels() || packed == dtype) continue;
      std::vector<std::byte> tiles(rows.bytes.size());
      repack_rows(packed, in, rows.bytes, tiles);
      for (const Fast& fast : fast_forms(packed))
        expect_seen({packed, out, in, tiles.data()}, fast);
    }
  }
}

TEST_P(CpuQuantized, TakesEmptyExtents) {
  const Weights w(DType::kQ4_0, 3, 64, 1);
  const QuantizedProduct call{w.matrix, {nullptr, 3}, false};
  for (const Fast& fast : fast_forms(DType::kQ4_0)) {
    const Activations a({}, 0, 64, fast.form);
    fast.product({&call, 1}, a.x);
    fast.product({}, a.x);
  }
  quantized_gemv_exact({}, {nullptr, 64}, 1);
  quantized_gemm_exact({&call, 1}, {nullptr, 64}, 0);
}

}  // namespace
}  // namespace ridge::backends::cpu
