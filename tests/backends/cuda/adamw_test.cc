// SPDX-License-Identifier: Apache-2.0
// AdamW of several tensors in one launch has the same bits as one launch per tensor. The op_*_test
// files test its values.
#include "backends/cuda/kernels/adamw.h"

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/device_memory.h"
#include "backends/random_block.h"

namespace ridge::backends::cuda {
namespace {

// Parameters, gradients, first moments and second moments, one after the other.
struct Tensors {
  explicit Tensors(const std::vector<int64_t>& sizes) {
    for (int64_t n : sizes) elements += n;
    memory = std::make_unique<DeviceMemory>(4 * 4 * elements, "tensors");
    std::vector<std::byte> values = random_block(DType::kF32, 4 * 4 * elements, 7);
    // Second moments are positive, so their sign bits are cleared.
    for (int64_t i = 3 * elements; i < 4 * elements; ++i)
      values[static_cast<size_t>(4 * i + 3)] &= std::byte{0x7f};
    check(cudaMemcpy(memory->data(), values.data(), values.size(), cudaMemcpyHostToDevice),
          "copying");
    float* at = reinterpret_cast<float*>(memory->data());
    for (int64_t n : sizes) {
      list.push_back({.elements = n,
                      .parameter = at,
                      .gradient = at + elements,
                      .m = at + 2 * elements,
                      .v = at + 3 * elements,
                      .weight_decay = 0.1});
      at += n;
    }
  }
  std::vector<uint32_t> bits() const {
    std::vector<uint32_t> all(static_cast<size_t>(4 * elements));
    check(cudaMemcpy(all.data(), memory->data(), 4 * all.size(), cudaMemcpyDeviceToHost),
          "copying");
    return all;
  }
  int64_t elements = 0;
  std::unique_ptr<DeviceMemory> memory;
  std::vector<AdamwTensor> list;
};

TEST(GpuAdamw, ListEqualsOneAtATimeBitForBit) {
  const Device device;
  const std::vector<int64_t> sizes = {4, 4096, 16, 30'000, 1024, 512};
  const Tensors together(sizes), alone(sizes);
  const std::vector<uint32_t> before = together.bits();
  const DeviceMemory scalars(8, "scalars");
  const float values[] = {1e-2f, 3};
  check(cudaMemcpy(scalars.data(), values, sizeof values, cudaMemcpyHostToDevice), "copying");
  const auto* rate = reinterpret_cast<const float*>(scalars.data());
  const AdamwStep step{.learning_rate = rate, .step = rate + 1};
  check(launch_adamw(together.list, step, false, device.stream()), "adamw");
  for (const AdamwTensor& tensor : alone.list)
    check(launch_adamw(std::span(&tensor, 1), step, false, device.stream()), "adamw");
  device.synchronize();
  EXPECT_NE(together.bits(), before);
  EXPECT_EQ(together.bits(), alone.bits());
}

}  // namespace
}  // namespace ridge::backends::cuda
