// SPDX-License-Identifier: Apache-2.0
// Products and lookups of quantized weights in fragment tiles against sums in double precision, on
// odd sizes.
#include "backends/cuda/kernels/gemm/fragment_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/device_memory.h"
#include "base/bf16.h"
#include "base/fragment_tiles.h"
#include "base/random.h"

namespace ridge::backends::cuda {
namespace {

struct Format {
  DType blocks, tiles;
  FragmentFormat format;
};
constexpr Format kFormats[] = {{DType::kQ4_K, DType::kQ4_Kx8, FragmentFormat::kQ4_K},
                               {DType::kQ6_K, DType::kQ6_Kx8, FragmentFormat::kQ6_K},
                               {DType::kQ5_K, DType::kQ5_Kx8, FragmentFormat::kQ5_K},
                               {DType::kQ8_0, DType::kQ8_0x8, FragmentFormat::kQ8_0},
                               {DType::kQ4_0, DType::kQ4_0x8, FragmentFormat::kQ4_0},
                               {DType::kQ4_1, DType::kQ4_1x8, FragmentFormat::kQ4_1},
                               {DType::kQ5_0, DType::kQ5_0x8, FragmentFormat::kQ5_0},
                               {DType::kQ5_1, DType::kQ5_1x8, FragmentFormat::kQ5_1},
                               {DType::kQ4_G32, DType::kQ4_G32x8, FragmentFormat::kQ4_G32},
                               {DType::kQ4_G128, DType::kQ4_G128x8, FragmentFormat::kQ4_G128}};

template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& data)
      : memory_(static_cast<int64_t>(data.size() * sizeof(T)), "a test"), size_(data.size()) {
    check(cudaMemcpy(memory_.data(), data.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
          "copying");
    // The copy returns once the data is staged, and the stream of the product does not wait for it.
    check(cudaDeviceSynchronize(), "copying");
  }
  T* get() const { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<T> read() const {
    std::vector<T> data(size_);
    check(cudaMemcpy(data.data(), memory_.data(), size_ * sizeof(T), cudaMemcpyDeviceToHost),
          "copying");
    return data;
  }

 private:
  DeviceMemory memory_;
  size_t size_;
};

bool has_min(DType dtype) {
  return dtype == DType::kQ4_1 || dtype == DType::kQ5_1 || dtype == DType::kQ4_K ||
         dtype == DType::kQ5_K;
}

// A weight of random bits, with scales of about 1/500 and mins of both signs.
struct Weight {
  Weight(const Format& format, int64_t rows, int64_t in, uint32_t seed)
      : values(static_cast<size_t>(rows * in)),
        blocks(static_cast<size_t>(storage_bytes(format.blocks, rows * in))) {
    Random random(seed);
    for (std::byte& byte : blocks) byte = static_cast<std::byte>(256 * random.uniform());
    const auto block = static_cast<size_t>(info(format.blocks).bytes_per_block);
    for (size_t at = 0; at < blocks.size(); at += block) {
      const auto put = [&](size_t offset, float value) {
        const uint16_t bits = float_to_f16(value);
        std::memcpy(&blocks[at + offset], &bits, sizeof bits);
      };
      put(format.blocks == DType::kQ6_K ? offsetof(BlockQ6_K, scale) : 0,
          0.002f * (random.uniform() - 0.3f));
      if (has_min(format.blocks)) put(2, 0.01f * (random.uniform() - 0.3f));
      if (format.blocks == DType::kQ4_G32) put(2, 0.002f * (random.uniform() - 0.3f));
      const size_t zeros = format.blocks == DType::kQ4_G32 ? 4 : 2;
      if (format.blocks == DType::kQ4_G32 || format.blocks == DType::kQ4_G128)
        for (size_t i = zeros; i < zeros + 2; ++i)
          blocks[at + i] = static_cast<std::byte>(17 * random.uniform());
    }
    dequantize(format.blocks, blocks, values);
    std::vector<std::byte> packed(blocks.size());
    pack_fragments(format.tiles, in, blocks, packed);
    tiles.resize(packed.size());
    std::memcpy(tiles.data(), packed.data(), packed.size());
  }
  std::vector<float> values;
  std::vector<std::byte> blocks;
  std::vector<uint8_t> tiles;
};

std::vector<uint16_t> some_rows(int64_t count, uint32_t seed) {
  Random random(seed);
  std::vector<uint16_t> bits(static_cast<size_t>(count));
  for (uint16_t& each : bits) each = float_to_bf16(2 * random.uniform() - 0.8f);
  return bits;
}

double product(const Weight& weight, int64_t row, const std::vector<double>& x) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    sum += static_cast<double>(weight.values[static_cast<size_t>(row) * x.size() + i]) * x[i];
  return sum;
}

// With the significand of fp16.
double rounded_to_f16(double value) {
  int exponent = 0;
  const double significand = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(significand, 11)), exponent - 11);
}

// Row n of x, normed with the weight if there is one, as the kernel stages it.
std::vector<double> staged(const std::vector<uint16_t>& x,
                           const std::vector<float>& norm,
                           size_t n,
                           size_t in) {
  std::vector<double> row(in);
  double squares = 0;
  for (size_t i = 0; i < in; ++i) {
    row[i] = bf16_to_float(x[n * in + i]);
    squares += row[i] * row[i];
  }
  if (norm.empty()) return row;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(in) + 1e-5);
  for (size_t i = 0; i < in; ++i)
    row[i] = scale * rounded_to_f16(row[i] * static_cast<double>(norm[i]));
  return row;
}

struct Sizes {
  int64_t tokens, rows, in;
};

// Errors of sums in fp32, and of weights rounded to 11 bits where products with a scale take more;
// elements of x are below 2.5.
double allowed_of_product(const Format& format, const Weight& weight, const Sizes& s) {
  const bool is_exact = format.blocks == DType::kQ4_K || format.blocks == DType::kQ5_K;
  double most = 0;
  for (float value : weight.values) most = std::max(most, std::abs(static_cast<double>(value)));
  return (1e-5 + (is_exact ? 0 : 2.5 * most / 4096)) * std::sqrt(static_cast<double>(s.in));
}

void expect_product(const Format& format, const Sizes& s, bool norms, bool gated) {
  SCOPED_TRACE(testing::Message() << name(format.tiles) << " " << s.tokens << " x " << s.in << " x "
                                  << s.rows << " norms " << norms << " gated " << gated);
  const Device device;
  const Weight weight(format, s.rows, s.in, 3);
  const std::vector<uint16_t> x = some_rows(s.tokens * s.in, 5);
  const int64_t width = gated ? s.rows / 2 : s.rows;
  const std::vector<uint16_t> residual = some_rows(s.tokens * width, 7);
  std::vector<float> norm;
  for (int64_t i = 0; norms && i < s.in; ++i) norm.push_back(0.5f + static_cast<float>(i % 7) / 8);
  const OnDevice<uint16_t> x_there(x), residual_there(residual);
  const OnDevice<uint8_t> tiles(weight.tiles);
  const OnDevice<float> norm_there(norms ? norm : std::vector<float>(1)),
      y_there(std::vector<float>(static_cast<size_t>(s.tokens * width), NAN));
  FragmentGemm call;
  SkinnyGemm& p = call.product;
  p.tokens = s.tokens, p.in = s.in, p.weight_rows = s.rows;
  p.x = {x_there.get(), s.in};
  if (norms) p.norm = norm_there.get();
  p.eps = 1e-5f;
  if (gated) p.activation = GemmActivation::kSilu;
  p.residual = {residual_there.get(), width};
  p.y = y_there.get(), p.y_stride = width, p.y_is_f32 = true;
  call.weight = tiles.get();
  call.format = format.format;
  ASSERT_TRUE(takes_fragment_gemm(call));
  const DeviceMemory workspace(fragment_gemm_workspace_bytes(call), "a test");
  call.workspace = workspace.data();
  std::vector<float> first;
  for (int run = 0; run < 2; ++run) {
    check(launch_fragment_gemm(call, device.stream()), "launching");
    check(cudaStreamSynchronize(device.stream()), "running");
    const std::vector<float> y = y_there.read();
    if (run == 0) first = y;
    ASSERT_EQ(0, std::memcmp(first.data(), y.data(), y.size() * sizeof(float)));
  }
  const double of_product = allowed_of_product(format, weight, s) * (norms ? 4 : 1);
  for (int64_t n = 0; n < s.tokens; ++n) {
    const std::vector<double> row =
        staged(x, norm, static_cast<size_t>(n), static_cast<size_t>(s.in));
    for (int64_t f = 0; f < width; ++f) {
      double want = product(weight, f, row);
      double allowed = of_product;
      if (gated) {
        const double gate = want / (1 + std::exp(-want)), up = product(weight, width + f, row);
        want = gate * up;
        allowed *= 1 + 1.1 * std::abs(up) + std::abs(gate);
      }
      want += static_cast<double>(bf16_to_float(residual[static_cast<size_t>(n * width + f)]));
      ASSERT_NEAR(static_cast<double>(first[static_cast<size_t>(n * width + f)]), want,
                  allowed + 1e-5 * std::abs(want))
          << "token " << n << " row " << f;
    }
  }
}

TEST(GpuFragments, FewRowsAreMultiplied) {
  for (const Format& format : kFormats)
    for (const Sizes& s : {Sizes{1, 8, 256},
                           {1, 4104, 512},
                           {2, 2120, 1024},
                           {3, 40, 2816},
                           {5, 24, 4096},
                           {8, 1000, 768},
                           {7, 16, 11008},
                           {4, 40000, 256}})
      expect_product(format, s, false, false);
}

TEST(GpuFragments, FewRowsAreNormedAndGated) {
  for (const Format& format : kFormats) {
    expect_product(format, {1, 48, 4096}, true, false);
    expect_product(format, {3, 4240, 2048}, true, true);
    expect_product(format, {1, 32, 11008}, true, true);
    expect_product(format, {8, 16, 512}, false, true);
  }
}

// Clusters of one to eight blocks, batches of whole units and of parts, and rows in two launches;
// more than 16 rows, and more than 64.
TEST(GpuFragments, MoreRowsAreMultiplied) {
  for (const Format& format : kFormats)
    for (const Sizes& s : {Sizes{9, 8, 256},
                           {16, 136, 4096},
                           {11, 4120, 512},
                           {16, 4176, 2816},
                           {13, 48, 11008},
                           {10, 264, 1024},
                           {16, 30000, 256},
                           {17, 72, 512},
                           {32, 1000, 768},
                           {64, 272, 11008},
                           {40, 4112, 4096},
                           {65, 48, 768},
                           {120, 264, 1024},
                           {16, 72, 22016},
                           {8, 72, 22016}}) {
      expect_product(format, s, false, false);
      if (s.rows % 16 == 0) expect_product(format, s, false, true);
    }
}

TEST(GpuFragments, TokensOfAnySizeAreMultiplied) {
  constexpr int64_t kTokens = 3, kRows = 16, kIn = 512;
  const Device device;
  const Weight weight(kFormats[0], kRows, kIn, 11);
  // Every 256 columns have a size of their own, from 1e-30 to 1e30; the last token is 0.
  std::vector<uint16_t> x = some_rows(kTokens * kIn, 13);
  for (size_t i = 0; i < x.size(); ++i) {
    const double scale = i < 256 ? 1e-30 : i < 512 ? 1e-28 : i < 768 ? 1e30 : i < 1024 ? 1e28 : 0;
    x[i] = float_to_bf16(static_cast<float>(scale * static_cast<double>(bf16_to_float(x[i]))));
  }
  const OnDevice<uint16_t> x_there(x);
  const OnDevice<uint8_t> tiles(weight.tiles);
  const OnDevice<float> y_there(std::vector<float>(kTokens * kRows, NAN));
  FragmentGemm call;
  call.product.tokens = kTokens, call.product.in = kIn, call.product.weight_rows = kRows;
  call.product.x = {x_there.get(), kIn};
  call.product.y = y_there.get(), call.product.y_stride = kRows, call.product.y_is_f32 = true;
  call.weight = tiles.get(), call.format = kFormats[0].format;
  check(launch_fragment_gemm(call, device.stream()), "launching");
  check(cudaStreamSynchronize(device.stream()), "running");
  const std::vector<float> y = y_there.read();
  for (int64_t n = 0; n < kTokens; ++n) {
    const std::vector<double> row = staged(x, {}, static_cast<size_t>(n), kIn);
    const double size = n == 0 ? 1e-28 : n == 1 ? 1e30 : 0;
    for (int64_t f = 0; f < kRows; ++f)
      ASSERT_NEAR(static_cast<double>(y[static_cast<size_t>(n * kRows + f)]),
                  product(weight, f, row), 1e-3 * size)
          << n << " " << f;
  }
}

TEST(GpuFragments, AreUnpackedAndLookedUp) {
  constexpr int64_t kRows = 24, kIn = 768;
  const Device device;
  for (const Format& format : kFormats) {
    const Weight weight(format, kRows, kIn, 9);
    const OnDevice<uint8_t> tiles(weight.tiles);
    const OnDevice<uint16_t> unpacked(std::vector<uint16_t>(kRows * kIn));
    check(launch_unpack_fragments({kRows, kIn, tiles.get(), format.format, unpacked.get()},
                                  device.stream()),
          "launching");
    const std::vector<int32_t> ids = {23, -1, 0, 9};
    const OnDevice<int32_t> ids_there(ids);
    const OnDevice<float> looked_up(std::vector<float>(ids.size() * kIn, NAN));
    Watched<FragmentEmbedding<float>> lookup;
    lookup.tokens = std::ssize(ids), lookup.width = kIn, lookup.vocabulary = kRows;
    lookup.table = tiles.get(), lookup.format = format.format;
    lookup.ids = ids_there.get(), lookup.y = {looked_up.get(), kIn};
    check(launch_fragment_embedding(lookup, device.stream()), "launching");
    check(cudaStreamSynchronize(device.stream()), "running");
    const std::vector<uint16_t> matrix = unpacked.read();
    for (size_t i = 0; i < matrix.size(); ++i)
      ASSERT_EQ(bf16_to_float(matrix[i]), bf16_to_float(float_to_bf16(weight.values[i])))
          << name(format.tiles) << " " << i;
    const std::vector<float> rows = looked_up.read();
    for (size_t n = 0; n < ids.size(); ++n)
      for (size_t i = 0; i < kIn; ++i)
        ASSERT_EQ(rows[n * kIn + i],
                  ids[n] < 0 ? 0.0f : weight.values[static_cast<size_t>(ids[n]) * kIn + i])
            << name(format.tiles) << " " << n << " " << i;
  }
}

}  // namespace
}  // namespace ridge::backends::cuda
