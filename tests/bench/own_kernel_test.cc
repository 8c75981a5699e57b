// SPDX-License-Identifier: Apache-2.0
// Kernels of a person's own, written in C++ here: they are held against the op in double, in each
// type of an output.
#include "bench/own_kernel.h"

#include <gtest/gtest.h>

#include "base/bf16.h"
#include "ops/registry.h"
#include "train/small_run.h"

namespace ridge::bench {
namespace {

using Tensors = std::span<const backends::KernelTensor>;

// The sum of two tensors of 16 bits, plus `more`.
template <float (*read)(uint16_t), uint16_t (*rounded)(float)>
std::function<void(Tensors)> adder(float more) {
  return [more](Tensors t) {
    const int64_t count = t[0].shape[0] * t[0].shape[1];
    const auto* a = static_cast<const uint16_t*>(t[0].data);
    const auto* b = static_cast<const uint16_t*>(t[1].data);
    auto* sum = static_cast<uint16_t*>(t[2].data);
    for (int64_t i = 0; i < count; ++i) sum[i] = rounded(read(a[i]) + read(b[i]) + more);
  };
}

OwnKernel sum_in(DType dtype, float more = 0) {
  OwnKernel made{"mine", &ops::table().at("add"), {{dtype, {5, 64}}, {dtype, {5, 64}}}, {}};
  made.code.launch = dtype == DType::kBF16 ? adder<bf16_to_float, float_to_bf16>(more)
                                           : adder<f16_to_float, float_to_f16>(more);
  return made;
}

TEST(OwnKernel, IsHeldAgainstTheOpInItsOwnType) {
  const auto backend = train::cpu_backend(1);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    EXPECT_EQ(sum_in(dtype).outputs(), (std::vector<Type>{{dtype, {5, 64}}}));
    EXPECT_LT(kernel_error(sum_in(dtype), *backend), usual_error(dtype)) << name(dtype);
    EXPECT_GT(kernel_error(sum_in(dtype, 0.5f), *backend), usual_error(dtype)) << name(dtype);
  }
}

// Ids are those of rows that the table has.
TEST(OwnKernel, FindsTheRowsOfATable) {
  constexpr int64_t kRows = 50, kColumns = 8, kIds = 200;
  OwnKernel mine{"rows",
                 &ops::table().at("embedding"),
                 {{DType::kF32, {kRows, kColumns}}, {DType::kI32, {kIds}}},
                 {}};
  int64_t outside = 0, most = 0;
  mine.code.launch = [&](Tensors t) {
    const auto* table = static_cast<const float*>(t[0].data);
    const auto* ids = static_cast<const int32_t*>(t[1].data);
    auto* rows = static_cast<float*>(t[2].data);
    for (int64_t i = 0; i < kIds; ++i) {
      const bool is_row = ids[i] >= 0 && ids[i] < kRows;
      outside += !is_row;
      most = std::max<int64_t>(most, ids[i]);
      for (int64_t d = 0; d < kColumns; ++d)
        rows[i * kColumns + d] = is_row ? table[ids[i] * kColumns + d] : 0;
    }
  };
  EXPECT_EQ(kernel_error(mine, *train::cpu_backend(1)), 0);
  EXPECT_EQ(outside, 0);
  EXPECT_GT(most, kRows / 2);
}

}  // namespace
}  // namespace ridge::bench
