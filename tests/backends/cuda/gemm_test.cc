// SPDX-License-Identifier: Apache-2.0
// The algorithms that the library proposes for a GEMM that runs concurrently with others. Each of
// them must compute the same product.
#include "backends/cuda/gemm.h"

#include <gtest/gtest.h>

#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/device_memory.h"
#include "backends/random_block.h"
#include "base/bf16.h"

namespace ridge::backends::cuda {
namespace {

// C and both operands in rows.
GemmShape rows(int64_t m, int64_t n, int64_t k) {
  GemmShape g;
  g.m = m, g.n = n, g.k = k;
  g.a_m = k, g.a_k = 1, g.b_k = n, g.b_n = 1, g.c_m = n, g.c_n = 1;
  g.input = DType::kBF16;
  g.output = DType::kF32;
  return g;
}

TEST(GpuGemm, ProposalsForAPartOfTheGpuGoBeforeThoseForAll) {
  const Device device;
  const GemmShape shape = rows(1024, 512, 1024);
  const int half = device.facts().multiprocessors / 2;
  const GemmProblem whole(shape, {}, 256), part(shape, {}, 256, half);
  EXPECT_NE(whole.key(), part.key());
  constexpr int kMost = 8;
  const std::vector<GemmAlgorithm> first = part.candidates(1), all = part.candidates(kMost);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(all.front(), first.front());
  EXPECT_GT(all.size(), kMost) << "those for all of the GPU are missing";
  EXPECT_EQ(part.candidates(1), first);
  EXPECT_LE(whole.candidates(kMost).size(), kMost);
}

TEST(GpuGemm, EachProposalForAPartOfTheGpuComputesTheProduct) {
  const Device device;
  constexpr int64_t kM = 96, kN = 72, kK = 160;
  const GemmProblem part(rows(kM, kN, kK), {}, 256, device.facts().multiprocessors / 2);
  const std::vector<std::byte> a = random_block(DType::kBF16, 2 * kM * kK, 1),
                               b = random_block(DType::kBF16, 2 * kK * kN, 2);
  const DeviceMemory a_there(2 * kM * kK, "a"), b_there(2 * kK * kN, "b"),
      c_there(4 * kM * kN, "c"), workspace(kGemmWorkspaceBytes, "workspace");
  check(cudaMemcpy(a_there.data(), a.data(), a.size(), cudaMemcpyHostToDevice), "copying");
  check(cudaMemcpy(b_there.data(), b.data(), b.size(), cudaMemcpyHostToDevice), "copying");
  auto element = [](const std::vector<std::byte>& block, int64_t at) {
    return static_cast<double>(bf16_to_float(reinterpret_cast<const uint16_t*>(block.data())[at]));
  };
  std::vector<float> c(kM * kN);
  for (const GemmAlgorithm& each : part.candidates(12)) {
    if (!part.accepts(each)) continue;
    part.launch(each, a_there.data(), b_there.data(), c_there.data(), workspace.data(),
                device.stream());
    device.synchronize();
    check(cudaMemcpy(c.data(), c_there.data(), 4 * c.size(), cudaMemcpyDeviceToHost), "copying");
    for (int64_t row = 0; row < kM; ++row)
      for (int64_t column = 0; column < kN; ++column) {
        double want = 0;
        for (int64_t i = 0; i < kK; ++i)
          want += element(a, row * kK + i) * element(b, i * kN + column);
        ASSERT_NEAR(static_cast<double>(c[static_cast<size_t>(row * kN + column)]), want, 1e-4)
            << row << ", " << column;
      }
  }
}

}  // namespace
}  // namespace ridge::backends::cuda
