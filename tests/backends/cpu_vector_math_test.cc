// SPDX-License-Identifier: Apache-2.0
// The kernels' exp, log, sigmoid and tanh against the C library's in double: the bounds stated in
// their headers, and special values.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu_vector_math_test.cc"
#include "backends/cpu/kernels/simd_targets.h"
// Highway re-includes this file for each target from here.
#include <hwy/foreach_target.h>
// Highway requires this order of includes.
#include <hwy/highway.h>

#include <limits>

#include "backends/cpu/kernels/vector_math-inl.h"
#include "backends/cpu_kernel_fixture.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

void exp_of(const float* x, int64_t n, float* y) {
  for_lanes(n, [&](auto part, int64_t i) HWY_ATTR { store(part, exp(load(part, x + i)), y + i); });
}
void exp2_of_negative_of(const float* x, int64_t n, float* y) {
  for_lanes(n, [&](auto part, int64_t i)
                   HWY_ATTR { store(part, exp2_of_negative(load(part, x + i)), y + i); });
}
void exp2_floored_of(const float* x, int64_t n, float* y) {
  for_lanes(n, [&](auto part, int64_t i)
                   HWY_ATTR { store(part, exp2_floored(load(part, x + i)), y + i); });
}
void log_of_positive_of(const float* x, int64_t n, float* y) {
  for_lanes(n, [&](auto part, int64_t i)
                   HWY_ATTR { store(part, log_of_positive(load(part, x + i)), y + i); });
}
void sigmoid_of(const float* x, int64_t n, float* y) {
  for_lanes(n,
            [&](auto part, int64_t i) HWY_ATTR { store(part, sigmoid(load(part, x + i)), y + i); });
}
void sigmoid_of_power_of(const float* x, int64_t n, float* y) {
  for_lanes(n, [&](auto part, int64_t i)
                   HWY_ATTR { store(part, sigmoid_of_power(load(part, x + i)), y + i); });
}
void tanh_of(const float* x, int64_t n, float* y) {
  for_lanes(n, [&](auto part, int64_t i) HWY_ATTR { store(part, tanh(load(part, x + i)), y + i); });
}
void to_bf16_of(const float* x, int64_t n, uint16_t* y) {
  for_lanes(n, [&](auto part, int64_t i) HWY_ATTR { store(part, load(part, x + i), y + i); });
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

HWY_EXPORT(exp_of);
HWY_EXPORT(exp2_of_negative_of);
HWY_EXPORT(exp2_floored_of);
HWY_EXPORT(log_of_positive_of);
HWY_EXPORT(sigmoid_of);
HWY_EXPORT(sigmoid_of_power_of);
HWY_EXPORT(tanh_of);
HWY_EXPORT(to_bf16_of);

RIDGE_CPU_KERNEL_SUITE(CpuVectorMath);

// Evenly spaced over [low, high]; the odd number of points leaves a partial vector.
std::vector<float> sweep(double low, double high) {
  constexpr int kPoints = 200003;
  std::vector<float> x;
  for (int i = 0; i < kPoints; ++i) {
    x.push_back(static_cast<float>(low + (high - low) * i / (kPoints - 1)));
  }
  return x;
}

TEST_P(CpuVectorMath, ExpWithinItsBound) {
  const auto x = sweep(-87.3, 88.0);
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(exp_of)(x.data(), static_cast<int64_t>(x.size()), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    ASSERT_LE(std::abs(y[i] - want), want * (2.5e-7 + 1.4e-8 * std::abs(x[i]))) << "exp " << x[i];
  }
}

TEST_P(CpuVectorMath, Exp2WithinItsBound) {
  const auto z = sweep(-126.0, 0.5);
  std::vector<float> y(z.size()), floored(z.size());
  HWY_DYNAMIC_DISPATCH(exp2_of_negative_of)(z.data(), static_cast<int64_t>(z.size()), y.data());
  HWY_DYNAMIC_DISPATCH(exp2_floored_of)(z.data(), static_cast<int64_t>(z.size()), floored.data());
  for (size_t i = 0; i < z.size(); ++i) {
    const double want = std::exp2(static_cast<double>(z[i]));
    ASSERT_LE(std::abs(y[i] - want), want * 2e-7) << "exp2 " << z[i];
  }
  EXPECT_TRUE(same_bits(y, floored));
}

TEST_P(CpuVectorMath, LogWithinItsBound) {
  for (const auto& x : {sweep(0.5, 2.0), sweep(1.0, 1e5), sweep(2e-38, 1.0), sweep(1.0, 3.4e38)}) {
    std::vector<float> y(x.size());
    HWY_DYNAMIC_DISPATCH(log_of_positive_of)(x.data(), static_cast<int64_t>(x.size()), y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::log(static_cast<double>(x[i]));
      ASSERT_LE(std::abs(y[i] - want), std::abs(want) * 2e-7) << "log " << x[i];
    }
  }
  const std::vector<float> special = {0.0f, NAN, 1.0f};
  std::vector<float> y(special.size());
  HWY_DYNAMIC_DISPATCH(log_of_positive_of)(special.data(), 3, y.data());
  EXPECT_EQ(y[0], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 0);
}

TEST_P(CpuVectorMath, SigmoidWithinItsBound) {
  const auto x = sweep(-87.0, 100.0);
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(sigmoid_of)(x.data(), static_cast<int64_t>(x.size()), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = 1.0 / (1.0 + std::exp(-static_cast<double>(x[i])));
    ASSERT_LE(std::abs(y[i] - want), want * (5e-7 + 1.4e-8 * std::abs(x[i]))) << "sigmoid " << x[i];
  }
}

// The scalar form multiplies by ln 2, whose rounding the exponent magnifies.
TEST_P(CpuVectorMath, SigmoidOfPowerWithinItsBound) {
  const auto z = sweep(-140.0, 124.9);
  std::vector<float> y(z.size());
  HWY_DYNAMIC_DISPATCH(sigmoid_of_power_of)(z.data(), static_cast<int64_t>(z.size()), y.data());
  for (size_t i = 0; i < z.size(); ++i) {
    const double want = 1.0 / (1.0 + std::exp2(static_cast<double>(z[i])));
    ASSERT_LE(std::abs(y[i] - want), want * (5e-7 + 6e-8 * std::abs(z[i]))) << "2^" << z[i];
  }
}

TEST_P(CpuVectorMath, TanhWithinItsBound) {
  for (const auto& x : {sweep(-0.7, 0.7), sweep(-12.0, 12.0), sweep(-1e-6, 1e-6)}) {
    std::vector<float> y(x.size());
    HWY_DYNAMIC_DISPATCH(tanh_of)(x.data(), static_cast<int64_t>(x.size()), y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::tanh(static_cast<double>(x[i]));
      ASSERT_LE(std::abs(y[i] - want), std::abs(want) * 5e-7) << "tanh " << x[i];
    }
  }
}

TEST_P(CpuVectorMath, SpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {-kInf, -1e30f, -100.0f, -0.0f, 0.0f, 88.4f, 1e30f, kInf, NAN};
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(exp_of)(x.data(), n, y.data());
  const std::vector<float> want_exp = {0, 0, 0, 1, 1, kInf, kInf, kInf};
  for (size_t i = 0; i < want_exp.size(); ++i) EXPECT_EQ(y[i], want_exp[i]) << x[i];
  EXPECT_TRUE(std::isnan(y[8]));
  const std::vector<float> z = {-kInf, -1e30f, -127.0f, -126.0f, -1.0f, -0.0f, 0.0f, 1.0f, NAN};
  HWY_DYNAMIC_DISPATCH(exp2_of_negative_of)(z.data(), n, y.data());
  const std::vector<float> want_exp2 = {0, 0, 0, 0x1p-126f, 0.5f, 1, 1, 2};
  for (size_t i = 0; i < want_exp2.size(); ++i) EXPECT_EQ(y[i], want_exp2[i]) << z[i];
  EXPECT_TRUE(std::isnan(y[8]));
  HWY_DYNAMIC_DISPATCH(exp2_floored_of)(z.data(), n, y.data());
  for (size_t i = 0; i < want_exp2.size(); ++i) EXPECT_NEAR(y[i], want_exp2[i], 0x1p-126f) << z[i];
  EXPECT_TRUE(std::isnan(y[8]));
  HWY_DYNAMIC_DISPATCH(sigmoid_of)(x.data(), n, y.data());
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(y[i], 0.0f, 2e-38f) << x[i];
  for (size_t i = 3; i < 5; ++i) EXPECT_NEAR(y[i], 0.5f, 1e-7f) << x[i];
  for (size_t i = 5; i < 8; ++i) EXPECT_NEAR(y[i], 1.0f, 1e-7f) << x[i];
  EXPECT_TRUE(std::isnan(y[8]));
  HWY_DYNAMIC_DISPATCH(sigmoid_of_power_of)(x.data(), n, y.data());
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(y[i], 1.0f, 1e-7f) << x[i];
  for (size_t i = 3; i < 5; ++i) EXPECT_NEAR(y[i], 0.5f, 1e-7f) << x[i];
  EXPECT_NEAR(y[5], std::exp2(-88.4f), 1e-5f * std::exp2(-88.4f));
  for (size_t i = 6; i < 8; ++i) EXPECT_NEAR(y[i], 0.0f, 3e-38f) << x[i];
  EXPECT_TRUE(std::isnan(y[8]));
  HWY_DYNAMIC_DISPATCH(tanh_of)(x.data(), n, y.data());
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(y[i], -1.0f) << x[i];
  for (size_t i = 3; i < 5; ++i) EXPECT_EQ(y[i], 0.0f) << x[i];
  for (size_t i = 5; i < 8; ++i) EXPECT_EQ(y[i], 1.0f) << x[i];
  EXPECT_TRUE(std::isnan(y[8]));
}

TEST_P(CpuVectorMath, Bf16RoundingIsTheScalarOne) {
  std::vector<float> x;
  Random random(7);
  for (int i = 0; i < 100003; ++i)
    x.push_back(std::bit_cast<float>(random.next()));  // includes NaNs
  for (uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7f800001u, 0x7f800000u, 0x7f7fffffu,
                        0x3f808000u, 0x3f818000u, 0x00000001u, 0x80007fffu}) {
    x.push_back(std::bit_cast<float>(bits));
  }
  std::vector<uint16_t> y(x.size());
  HWY_DYNAMIC_DISPATCH(to_bf16_of)(x.data(), static_cast<int64_t>(x.size()), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i], float_to_bf16(x[i])) << std::hex << std::bit_cast<uint32_t>(x[i]);
  }
}

}  // namespace
}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
