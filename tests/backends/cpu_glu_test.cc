// SPDX-License-Identifier: Apache-2.0
// Gated activations on CPUs against the C library in double, and their gradients against finite
// differences.
#include "backends/cpu/kernels/kernels.h"

#include <numbers>

#include "backends/cpu_kernel_fixture.h"

namespace ridge::backends::cpu {
namespace {

RIDGE_CPU_KERNEL_SUITE(CpuGlu);

double activated(GluActivation activation, double x) {
  if (activation == GluActivation::kSilu) return x / (1.0 + std::exp(-x));
  return 0.5 * x *
         (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

constexpr GluActivation kActivations[] = {GluActivation::kSilu, GluActivation::kGeluTanh};

struct Shape {
  int64_t tokens, width;
};
const Shape kShapes[] = {{1, 1},  {2, 7},  {3, 8},  {2, 15},  {4, 16},    {3, 17},
                         {5, 31}, {2, 64}, {3, 97}, {7, 257}, {211, 193}, {64, 1024}};

template <typename T>
void check_forward(const Shape& shape, GluActivation activation) {
  const int64_t merged = 2 * shape.width + 3;
  auto x = random_values<T>(shape.tokens * merged, 1, 6.0);
  std::vector<T> y(shape.tokens * shape.width);
  Glu<T> call{shape.tokens,
              shape.width,
              activation,
              {x.data(), merged},
              {x.data() + shape.width, merged},
              {y.data(), shape.width}};
  glu(call);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    for (int64_t i = 0; i < shape.width; ++i) {
      const double gate = to_double(x[n * merged + i]);
      const double up = to_double(x[n * merged + shape.width + i]);
      const double want = activated(activation, gate) * up;
      const double u =
          activation == GluActivation::kSilu
              ? gate
              : std::sqrt(8.0 / std::numbers::pi) * (gate + 0.044715 * std::pow(gate, 3));
      expect_close(y[n * shape.width + i], want, 7e-7 + 2e-7 * std::abs(u), 0.0);
    }
  }
  auto again = y;
  glu(call);
  EXPECT_TRUE(same_bits(y, again));
  call.y = {x.data(), merged};
  glu(call);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    EXPECT_EQ(std::memcmp(&x[n * merged], &y[n * shape.width], shape.width * sizeof(T)), 0);
  }
}

TEST_P(CpuGlu, ForwardMatchesFormula) {
  for (const Shape& shape : kShapes) {
    for (GluActivation activation : kActivations) {
      check_forward<float>(shape, activation);
      check_forward<uint16_t>(shape, activation);
      check_forward<Float16>(shape, activation);
    }
  }
}

template <typename T>
void check_backward(const Shape& shape, GluActivation activation) {
  const int64_t merged = 2 * shape.width + 5;
  auto x = random_values<T>(shape.tokens * merged, 1, 5.0);
  auto dy = random_values<T>(shape.tokens * shape.width, 2);
  auto dx = random_values<T>(shape.tokens * merged, 3);
  const auto before = dx;
  GluBackward<T> call{shape.tokens,        shape.width,
                      activation,          {dy.data(), shape.width},
                      {x.data(), merged},  {x.data() + shape.width, merged},
                      {dx.data(), merged}, {dx.data() + shape.width, merged}};
  glu_backward(call);
  constexpr double kStep = 1e-5;
  for (int64_t n = 0; n < shape.tokens; ++n) {
    for (int64_t i = 0; i < shape.width; ++i) {
      const double gate = to_double(x[n * merged + i]);
      const double up = to_double(x[n * merged + shape.width + i]);
      const double given = to_double(dy[n * shape.width + i]);
      const double slope =
          (activated(activation, gate + kStep) - activated(activation, gate - kStep)) / (2 * kStep);
      expect_close(dx[n * merged + i], given * up * slope, 2e-6, 10.0);
      expect_close(dx[n * merged + shape.width + i], given * activated(activation, gate), 2e-6);
    }
    for (int64_t i = 2 * shape.width; i < merged; ++i) {
      ASSERT_EQ(dx[n * merged + i], before[n * merged + i]) << "wrote past the row";
    }
  }
  auto again = dx;
  glu_backward(call);
  EXPECT_TRUE(same_bits(dx, again));
  call.d_gate = {x.data(), merged};
  call.d_up = {x.data() + shape.width, merged};
  glu_backward(call);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    EXPECT_EQ(std::memcmp(&x[n * merged], &dx[n * merged], 2 * shape.width * sizeof(T)), 0);
  }
}

TEST_P(CpuGlu, BackwardMatchesFiniteDifferences) {
  for (const Shape& shape : kShapes) {
    for (GluActivation activation : kActivations) {
      check_backward<float>(shape, activation);
      check_backward<uint16_t>(shape, activation);
      check_backward<Float16>(shape, activation);
    }
  }
}

TEST_P(CpuGlu, FarOutItSaturates) {
  const std::vector<float> gate = {-1e4f, -200.0f, -90.0f, 90.0f, 200.0f, 1e4f, NAN};
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<float> y(gate.size());
  const auto n = static_cast<int64_t>(gate.size());
  for (GluActivation activation : kActivations) {
    glu<float>({1, n, activation, {gate.data(), n}, {up.data(), n}, {y.data(), n}});
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(y[i], 0.0f, 1e-30f);
    for (int i = 3; i < 6; ++i) EXPECT_FLOAT_EQ(y[i], gate[i]);
    EXPECT_TRUE(std::isnan(y[6]));
  }
}

}  // namespace
}  // namespace ridge::backends::cpu
