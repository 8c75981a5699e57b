// SPDX-License-Identifier: Apache-2.0
// Pointwise functions and copies of more elements than 32 bits index.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/kernels/copy/copy.h"
#include "backends/cuda/kernels/pointwise/pointwise.h"

namespace ridge::backends::cuda {
namespace {

constexpr int64_t kWidth = int64_t{1} << 15;
constexpr int64_t kRows = (int64_t{1} << 17) + 3;  // more than 2^32 elements
constexpr int64_t kElements = kRows * kWidth;
constexpr uint16_t kOne = 0x3f80, kTwo = 0x4000, kThree = 0x4040;  // in bf16

class GpuLargeTensor : public testing::Test {
 protected:
  void fill(uint16_t* data, uint16_t value, int64_t elements) {
    const std::vector<uint16_t> row(static_cast<size_t>(kWidth), value);
    for (int64_t at = 0; at < elements; at += kWidth)
      check(cudaMemcpy(data + at, row.data(), row.size() * 2, cudaMemcpyHostToDevice), "fill");
  }
  // How many of the elements differ from `value`, in all rows.
  int64_t differing(const uint16_t* data, uint16_t value) {
    device_.synchronize();
    std::vector<uint16_t> rows(static_cast<size_t>(kWidth) * 1024);
    int64_t count = 0;
    for (int64_t at = 0; at < kElements; at += std::ssize(rows)) {
      const int64_t part = std::min(std::ssize(rows), kElements - at);
      check(
          cudaMemcpy(rows.data(), data + at, static_cast<size_t>(part) * 2, cudaMemcpyDeviceToHost),
          "read");
      for (int64_t i = 0; i < part; ++i) count += rows[static_cast<size_t>(i)] != value;
    }
    return count;
  }

  Device device_;
  DeviceMemory memory_{kElements * 2, "a large tensor"};
  DeviceMemory row_{kWidth * 2, "a row"};
  uint16_t* all_ = reinterpret_cast<uint16_t*>(memory_.data());
  uint16_t* one_row_ = reinterpret_cast<uint16_t*>(row_.data());
};

TEST_F(GpuLargeTensor, PointwiseFunctionsReachEveryElement) {
  fill(all_, kOne, kElements);
  PointwiseCall dense{.function = Pointwise::kAdd,
                      .rank = 1,
                      .extents = {kElements},
                      .a = {all_, DType::kBF16, {1}},
                      .b = {all_, DType::kBF16, {1}},
                      .y = {all_, DType::kBF16, {1}}};
  check(launch_pointwise(dense, device_.stream()), "add");
  EXPECT_EQ(differing(all_, kTwo), 0);
  fill(one_row_, kOne, kWidth);
  PointwiseCall broadcast{.function = Pointwise::kAdd,
                          .rank = 2,
                          .extents = {kRows, kWidth},
                          .a = {all_, DType::kBF16, {kWidth, 1}},
                          .b = {one_row_, DType::kBF16, {0, 1}},
                          .y = {all_, DType::kBF16, {kWidth, 1}}};
  check(launch_pointwise(broadcast, device_.stream()), "add of a row");
  EXPECT_EQ(differing(all_, kThree), 0);
}

TEST_F(GpuLargeTensor, ACopyReachesEveryElement) {
  fill(one_row_, kTwo, kWidth);
  Copy<uint16_t, uint16_t> copy;
  copy.layout.rank = 2;
  copy.layout.extents[0] = kRows, copy.layout.extents[1] = kWidth;
  copy.layout.target_strides[0] = kWidth, copy.layout.target_strides[1] = 1;
  copy.layout.source_strides[0] = 0, copy.layout.source_strides[1] = 1;
  copy.source = one_row_, copy.target = all_;
  check(launch_copy(copy, device_.stream()), "copy");
  EXPECT_EQ(differing(all_, kTwo), 0);
}

}  // namespace
}  // namespace ridge::backends::cuda
