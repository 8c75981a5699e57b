// SPDX-License-Identifier: Apache-2.0
// Products and attention with fp32 operands in TF32 against the double reference; and attention at
// the head sizes that models have, in every arithmetic.
#include <gtest/gtest.h>

#include <memory>

#include "backends/op_check.h"
#include "backends/op_samples.h"

namespace ridge::backends {
namespace {

// The tensor cores read 10 bits behind the point and cut the rest off; attention does so to its
// probabilities as well.
constexpr Precision kTf32Steps{0x1p-10, 4};

Sample attention(const char* name,
                 int64_t tokens,
                 int64_t heads,
                 int64_t kv_heads,
                 int64_t head_size,
                 bool causal) {
  auto operand = [&](int64_t count) {
    return CaseInput{{DType::kF32, {tokens, count, head_size}}};
  };
  return {&ops::table().at("flash_attention"),
          {name,
           {operand(heads), operand(kv_heads), operand(kv_heads)},
           {{"sequence", tokens}, {"causal", causal}, {"window", int64_t{0}}, {"scale", 0.1}}}};
}

// The Hopper kernels' sizes, and what lies between; more keys than a tile holds; around a block's
// rows, and more than short sequences' kernels take.
std::vector<Sample> model_sizes() {
  return {attention("e64", 97, 2, 1, 64, true),      attention("e128", 140, 2, 1, 128, true),
          attention("e80", 70, 1, 1, 80, false),     attention("e256", 40, 1, 1, 256, true),
          attention("e64t1", 1, 2, 1, 64, true),     attention("e64t127", 127, 1, 1, 64, false),
          attention("e64t128", 128, 2, 1, 64, true), attention("e64t257", 257, 1, 1, 64, true),
          attention("e128t64", 64, 1, 1, 128, true), attention("e128t129", 129, 1, 1, 128, true)};
}

std::vector<Sample> samples() {
  std::vector<Sample> all = model_sizes();
  for (Sample& each : all_samples())
    if (each.op->name == "matmul" || each.op->name == "flash_attention")
      all.push_back(std::move(each));
  return all;
}

class GpuTf32 : public testing::TestWithParam<Sample> {
 protected:
  static Backend& backend() {
    static std::unique_ptr<Backend> instance =
        cuda::make_cuda_backend({true, false, false, false, ""});
    return *instance;
  }
};

TEST_P(GpuTf32, ValuesMatchTheReference) {
  const auto& [op, sample] = GetParam();
  EXPECT_EQ("", check_values(*op, sample, ops::table(), {}, backend(), kTf32Steps));
}

TEST_P(GpuTf32, GradientsMatchTheReference) {
  const auto& [op, sample] = GetParam();
  if (op->name != "flash_attention") GTEST_SKIP() << "a product's gradient is two products";
  EXPECT_EQ("", check_gradient(*op, sample, ops::table(), {}, backend(), kTf32Steps));
}

class GpuAttention : public testing::TestWithParam<Sample> {};

TEST_P(GpuAttention, MatchesTheReference) {
  const auto& [op, sample] = GetParam();
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Variant variant{Feed::kPlain, dtype, false, false};
    SCOPED_TRACE(variant.str());
    const Precision& precision = dtype == DType::kF32 ? kFloatArithmetic : kBf16Steps;
    EXPECT_EQ("", check_values(*op, sample, ops::table(), variant, tested_backend(), precision));
    EXPECT_EQ("", check_gradient(*op, sample, ops::table(), variant, tested_backend(), precision));
  }
}

INSTANTIATE_TEST_SUITE_P(ModelSizes, GpuAttention, testing::ValuesIn(model_sizes()), sample_name);
INSTANTIATE_TEST_SUITE_P(All, GpuTf32, testing::ValuesIn(samples()), sample_name);

}  // namespace
}  // namespace ridge::backends
