// SPDX-License-Identifier: Apache-2.0
// Tests the ladder's GEMM on tensor cores, which takes bf16; ladder_gemm's cases test the others.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/device_memory.h"
#include "backends/random_block.h"
#include "base/bf16.h"
#include "courses/cuda/kernels/ladder.h"

namespace ridge::courses {
namespace {

using backends::random_block;
using backends::cuda::check;
using backends::cuda::Device;
using backends::cuda::DeviceMemory;

TEST(GpuLadderGemm, TensorCoresMultiplyTilesThatAreNotFull) {
  const Device device;
  constexpr int64_t kN = 131, kK = 70, kM = 150;
  const std::vector<std::byte> a = random_block(DType::kBF16, 2 * kN * kK, 1),
                               b = random_block(DType::kBF16, 2 * kK * kM, 2);
  const DeviceMemory a_there(2 * kN * kK, "a"), b_there(2 * kK * kM, "b"),
      c_there(2 * kN * kM, "c");
  check(cudaMemcpy(a_there.data(), a.data(), a.size(), cudaMemcpyHostToDevice), "copying");
  check(cudaMemcpy(b_there.data(), b.data(), b.size(), cudaMemcpyHostToDevice), "copying");
  const auto bits = [](const DeviceMemory& memory) {
    return reinterpret_cast<uint16_t*>(memory.data());
  };
  const LadderGemm<uint16_t> gemm{
      LadderKernel::kTensorCores, kN, kK, kM, bits(a_there), bits(b_there), bits(c_there)};
  check(launch_ladder<uint16_t>(gemm, device.stream()), "multiplying");
  device.synchronize();
  std::vector<uint16_t> c(kN * kM);
  check(cudaMemcpy(c.data(), c_there.data(), 2 * c.size(), cudaMemcpyDeviceToHost), "copying");
  const auto element = [](const std::vector<std::byte>& block, int64_t at) {
    return static_cast<double>(bf16_to_float(reinterpret_cast<const uint16_t*>(block.data())[at]));
  };
  for (int64_t i = 0; i < kN; ++i)
    for (int64_t j = 0; j < kM; ++j) {
      double want = 0, size = 0;
      for (int64_t k = 0; k < kK; ++k) {
        const double product = element(a, i * kK + k) * element(b, k * kM + j);
        want += product, size += std::abs(product);
      }
      // One rounding to bf16, of 8 bits, and sums in fp32.
      ASSERT_NEAR(static_cast<double>(bf16_to_float(c[static_cast<size_t>(i * kM + j)])), want,
                  std::abs(want) * 0x1p-8 + size * 1e-6)
          << i << ", " << j;
    }
}

}  // namespace
}  // namespace ridge::courses
