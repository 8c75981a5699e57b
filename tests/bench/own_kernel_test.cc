// SPDX-License-Identifier: Apache-2.0
// Kernels of a person's own, written in C++ here: they are held against the op in double, in each
// type of an output.
#include "bench/own_kernel.h"

#include <gtest/gtest.h>

#include "base/bf16.h"
#include "base/error.h"
#include "files/scratch.h"
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

// The op's kernel and the person's own, of which the faster has a speed-up over the other.
TEST(OwnKernel, IsTimedBesideTheOp) {
  const auto backend = train::cpu_backend(1);
  const OwnKernel mine = sum_in(DType::kBF16);
  TrialSetting setting;
  setting.selection = passes::Selection("baseline", "");
  setting.budget_ns = 1e6;
  const record::BenchRecord made = time_kernel(mine, setting, *backend, nullptr);
  EXPECT_EQ(made.kind, "op");
  EXPECT_EQ(made.name, "add");
  EXPECT_EQ(made.dtype, "bf16");
  EXPECT_EQ(made.formula, ops::table().at("add").formula);
  ASSERT_EQ(made.points.size(), 2u);
  EXPECT_EQ(made.points[0].form, "ridge");
  EXPECT_EQ(made.points[1].form, "mine");
  for (const record::BenchPoint& point : made.points) EXPECT_TRUE(point.is_measured());
  EXPECT_FALSE(made.points[0].speedup);
  EXPECT_DOUBLE_EQ(*made.points[1].speedup,
                   made.points[0].time.median / made.points[1].time.median);
  EXPECT_EQ(made.points[1].work.flops, 5 * 64);
}

TEST(OwnKernel, RefusesOpsThatUpdateAndOtherTypes) {
  OwnKernel mine{"mine", &ops::table().at("zero"), {{DType::kF32, {7}}}, {}};
  files::expect_error([&] { static_cast<void>(mine.outputs()); }, ExitCode::kUsage,
                      "[mine] expected an op that updates nothing in place, got zero");
  OwnKernel blocks{"mine",
                   &ops::table().at("embedding"),
                   {{DType::kQ8_0, {4, 32}}, {DType::kI32, {2}}},
                   {{"dtype", std::string("f32")}}};
  files::expect_error([&] { static_cast<void>(blocks.outputs()); }, ExitCode::kUsage,
                      "[mine] expected f32, bf16, f16 or i32, got q8_0[4,32]");
}

TEST(OwnKernel, IsMeasuredByTheErrorsOfItsType) {
  EXPECT_EQ(usual_error(DType::kBF16), 2e-2);
  EXPECT_EQ(usual_error(DType::kF16), 2e-3);
  EXPECT_EQ(usual_error(DType::kF32), 1e-4);
}

}  // namespace
}  // namespace ridge::bench
