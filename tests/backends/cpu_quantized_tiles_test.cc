// SPDX-License-Identifier: Apache-2.0
// GEMMs by bf16 tiles against double-precision sums over the rounded operands, with AMX registers
// if the machine has them, and with registers made of plain arrays. The latter check the layouts
// and the order of the product against the instructions' definition on any machine with AVX-512's
// bf16.
#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "backends/cpu/kernels/quantized/tiles-inl.h"
#include "backends/quantized_samples.h"
#include "backends/tile_registers.h"

namespace ridge::backends::cpu {
namespace {

struct Tiles {
  Tiles(const std::vector<float>& values, int64_t tokens, int64_t in) : x{tokens, in, nullptr} {
    const size_t bytes = static_cast<size_t>(std::max<int64_t>(x.bytes(), 64));
    storage.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
    x.data = storage.get();
    std::memset(x.data, 0xff, bytes);  // NaN in all elements that are not written
    round_activations(StridedRows<const float>{values.data(), in}, x);
  }
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  ActivationTiles x;
  std::unique_ptr<std::byte, Free> storage;
};

void array_product(std::span<const QuantizedProduct> products, const ActivationTiles& x) {
  for (const QuantizedProduct& product : products) {
    if (product.is_glu())
      for (int64_t row = 0; row < product.weight.out; row += kTileRows)
        multiply_glu_rows<ArrayTiles>(product, row, x, {0, x.tokens});
    else
      for (int64_t row = 0; row < product.weight.out; row += kWeightTilesRows)
        multiply_rows<ArrayTiles>(product, row, x, {0, x.tokens});
  }
}

class CpuQuantizedTiles : public TileKernel {
 protected:
  void multiply(const QuantizedProduct& product, const ActivationTiles& x) {
    (has_amx_registers() ? quantized_gemm_tiles : array_product)({&product, 1}, x);
  }
};
INSTANTIATE_TEST_SUITE_P(All,
                         CpuQuantizedTiles,
                         testing::Values(Registers::kArrays, Registers::kAmx),
                         registers_name);

std::vector<float> rounded_to_bf16(std::vector<float> values) {
  for (float& value : values) value = bf16_to_float(float_to_bf16(value));
  return values;
}

// A weight close to a tie of bf16 rounding moves by 2^-8 of itself if fp32 rounds it to the other
// side than dequantize. This is rare, so each output is allowed one such weight in its row, the one
// with the largest product.
double slack(const float* w, const float* x, int64_t n) {
  double most = 0;
  for (int64_t k = 0; k < n; ++k)
    most = std::max(most, std::abs(static_cast<double>(w[k]) * static_cast<double>(x[k])));
  return fp32_slack(w, x, n) + 0x1p-8 * most;
}

TEST_P(CpuQuantizedTiles, ProductsOfEveryFormat) {
  for (DType dtype : kBlockTypes) {
    std::vector<int64_t> ins = widths(dtype);
    for (int64_t in : ins) {
      for (int64_t out : {1, 16, 37}) {
        const Weights w(dtype, out, in, 3);
        const std::vector<float> weights = rounded_to_bf16(w.floats);
        for (int64_t tokens : {1, 5, 16, 33, 64}) {
          const std::vector<float> x = random_values<float>(tokens * in, 7);
          const std::vector<float> tokens_rounded = rounded_to_bf16(x);
          const Tiles tiles(x, tokens, in);
          const int64_t stride = out + 3;
          std::vector<float> y(static_cast<size_t>(tokens * stride), -7.0f);
          for (bool accumulate : {false, true}) {
            multiply({w.matrix, {y.data(), stride}, accumulate}, tiles.x);
            for (int64_t n = 0; n < tokens; ++n) {
              for (int64_t r = 0; r < out; ++r) {
                const float* row = &weights[static_cast<size_t>(r * in)];
                const float* token = &tokens_rounded[static_cast<size_t>(n * in)];
                const double times = accumulate ? 2 : 1;
                ASSERT_NEAR(y[static_cast<size_t>(n * stride + r)], times * dot(row, token, in),
                            times * slack(row, token, in))
                    << name(dtype) << " out " << out << " in " << in << " N " << tokens << " at "
                    << n << ", " << r;
              }
              for (int64_t r = out; r < stride; ++r)
                ASSERT_EQ(y[static_cast<size_t>(n * stride + r)], -7.0f) << "written past the row";
            }
          }
        }
      }
    }
  }
}

TEST_P(CpuQuantizedTiles, GluHasTheBitsOfItsProducts) {
  for (int64_t out : {16, 37})
    for (int64_t tokens : {1, 33, 70}) {
      const int64_t in = 1280, stride = out + 3;
      const Weights gate(DType::kQ4_K, out, in, 3), up(DType::kQ4_K, out, in, 5);
      const Tiles tiles(random_values<float>(tokens * in, 7), tokens, in);
      std::vector<float> gates(static_cast<size_t>(tokens * stride), -7.0f), ups(gates), y(gates);
      multiply({gate.matrix, {gates.data(), stride}}, tiles.x);
      multiply({up.matrix, {ups.data(), stride}}, tiles.x);
      glu<float>({tokens,
                  out,
                  GluActivation::kSilu,
                  {gates.data(), stride},
                  {ups.data(), stride},
                  {gates.data(), stride}});
      multiply({gate.matrix, {y.data(), stride}, false, {up.matrix, GluActivation::kSilu, {}}},
               tiles.x);
      EXPECT_TRUE(same_bits(y, gates)) << "out " << out << " N " << tokens;
    }
}

// Repacked tiles produce the same tiles as their rows, bit for bit.
TEST_P(CpuQuantizedTiles, RepackedWeightsMakeTheTilesOfTheirRows) {
  for (DType dtype : kRepackedTypes) {
    for (int64_t out : {16, 32, 48}) {
      const int64_t in = 1280;
      const RepackedWeights packed(dtype, out, in, 51);
      QuantizedMatrix rows = packed.matrix;
      rows.dtype = dtype;
      rows.data = packed.bytes.data();
      for (int64_t row = 0; row < out; row += kTileRows) {
        for (const auto& [column, depth] : {std::pair<int64_t, int64_t>{0, 768}, {768, 512}}) {
          auto want = std::make_unique<WeightTiles>(), got = std::make_unique<WeightTiles>();
          const int64_t tile = row / kTileRows % 2;
          for (WeightTiles* each : {want.get(), got.get()}) each->depth_tiles = depth / kTileDepth;
          unpack_tiles({rows, row, column, depth}, tile, *want);
          unpack_tiles({packed.matrix, row, column, depth}, tile, *got);
          ASSERT_EQ(std::memcmp(got->tile(tile, 0), want->tile(tile, 0),
                                static_cast<size_t>(2 * want->depth_tiles * kTileElements)),
                    0)
              << name(dtype) << " out " << out << " row " << row << " column " << column;
        }
      }
    }
  }
}

// A single token, whose tiles are cut off, has the same bits as among others.
TEST_P(CpuQuantizedTiles, BitsDependOnNothingElseInTheCall) {
  const int64_t tokens = 37, in = 1280, out = 50;
  const std::vector<float> x = random_values<float>(tokens * in, 29);
  const Tiles together(x, tokens, in);
  for (DType dtype : {DType::kQ4_0, DType::kQ6_K}) {
    const Weights w(dtype, out, in, 31);
    std::vector<float> all(static_cast<size_t>(tokens * out), 0.5f);
    multiply({w.matrix, {all.data(), out}, true}, together.x);
    for (int64_t n : {0, 20, 36}) {
      const auto first = x.begin() + n * in;
      const Tiles one(std::vector<float>(first, first + in), 1, in);
      std::vector<float> alone(static_cast<size_t>(out), 0.5f);
      multiply({w.matrix, {alone.data(), out}, true}, one.x);
      ASSERT_EQ(std::memcmp(alone.data(), &all[static_cast<size_t>(n * out)], alone.size() * 4), 0);
    }
  }
}

TEST_P(CpuQuantizedTiles, NotANumberStaysInItsToken) {
  const int64_t tokens = 4, in = 512, out = 18;
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x = random_values<float>(tokens * in, 41);
    x[static_cast<size_t>(2 * in + 300)] = bad;
    const Tiles tiles(x, tokens, in);
    const Weights w(DType::kQ4_K, out, in, 43);
    std::vector<float> y(static_cast<size_t>(tokens * out));
    multiply({w.matrix, {y.data(), out}, false}, tiles.x);
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(std::isfinite(y[i]), static_cast<int64_t>(i) / out != 2) << i;
  }
}

TEST_P(CpuQuantizedTiles, TakesEmptyExtents) {
  const Weights w(DType::kQ4_0, 3, 64, 1);
  const Tiles tiles({}, 0, 64);
  multiply({w.matrix, {nullptr, 3}, false}, tiles.x);
}

}  // namespace
}  // namespace ridge::backends::cpu
