// SPDX-License-Identifier: Apache-2.0
// The tanh GELU is found in whatever order its terms are multiplied out, and nothing else is.
#include "backends/bind/pointwise_formulas.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/kernels/pointwise/tile_program.h"

namespace ridge::backends {
namespace {

constexpr float kScale = 0.79788456f, kCubic = 0.044715f;

// x + c x x x, times k, tanh, + 1, times x / 2: nine operations.
PointwiseProgram nine() {
  return {{{Pointwise::kMul, 1, 0, 0, 0},
           {Pointwise::kMul, 2, 1, 0, 0},
           {Pointwise::kScale, 3, 2, 2, kCubic},
           {Pointwise::kAdd, 4, 0, 3, 0},
           {Pointwise::kScale, 5, 4, 4, kScale},
           {Pointwise::kTanh, 6, 5, 5, 0},
           {Pointwise::kAddScalar, 7, 6, 6, 1},
           {Pointwise::kScale, 8, 0, 0, 0.5f},
           {Pointwise::kMul, 9, 8, 7, 0}},
          {9},
          10};
}

// x (k + k c x^2), tanh, + 1, times x, halved: eight operations, of -y, and the negative kept too.
PointwiseProgram eight_of_a_register() {
  return {{{Pointwise::kNeg, 1, 0, 0, 0},
           {Pointwise::kSquare, 2, 1, 1, 0},
           {Pointwise::kScale, 3, 2, 2, kScale * kCubic},
           {Pointwise::kAddScalar, 4, 3, 3, kScale},
           {Pointwise::kMul, 5, 4, 1, 0},
           {Pointwise::kTanh, 6, 5, 5, 0},
           {Pointwise::kAddScalar, 7, 6, 6, 1},
           {Pointwise::kMul, 8, 1, 7, 0},
           {Pointwise::kScale, 9, 8, 8, 0.5f}},
          {9, 1},
          10};
}

TEST(PointwiseFormulas, FindTheTanhGelu) {
  const PointwiseProgram made = with_gelu_tanh(nine(), 1);
  ASSERT_EQ(made.instructions.size(), 1u);
  EXPECT_EQ(made.instructions[0].function, Pointwise::kGeluTanh);
  EXPECT_EQ(made.instructions[0].a, 0);
  EXPECT_EQ(made.instructions[0].target, 9);
  const PointwiseProgram of_register = with_gelu_tanh(eight_of_a_register(), 1);
  ASSERT_EQ(of_register.instructions.size(), 2u);
  EXPECT_EQ(of_register.instructions[0].function, Pointwise::kNeg);
  EXPECT_EQ(of_register.instructions[1].function, Pointwise::kGeluTanh);
  EXPECT_EQ(of_register.instructions[1].a, 1);
}

TEST(PointwiseFormulas, KeepTheValues) {
  std::vector<float> x(1000), before(1000), after(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = -6 + 0.012f * static_cast<float>(i);
  auto run = [&](const PointwiseProgram& program, std::vector<float>& y) {
    cpu::TileKernel(program, Shape{1000}, {{x.data(), DType::kF32, {1}}},
                    {{y.data(), DType::kF32, {1}}})
        .run();
  };
  run(nine(), before);
  run(with_gelu_tanh(nine(), 1), after);
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = evaluate(Pointwise::kGeluTanh, static_cast<double>(x[i]), 0, 0);
    EXPECT_NEAR(after[i], wanted, 1e-6 * (1 + std::abs(wanted))) << x[i];
    EXPECT_NEAR(before[i], after[i], 2e-6) << x[i];
  }
}

TEST(PointwiseFormulas, LeaveOthersAlone) {
  PointwiseProgram other = nine();
  other.instructions[2].parameter = 0.045f;
  EXPECT_EQ(with_gelu_tanh(other, 1).instructions.size(), 9u);
  other = nine();
  other.instructions[6].parameter = 2;
  EXPECT_EQ(with_gelu_tanh(other, 1).instructions.size(), 9u);
  other = nine();
  other.instructions[3].stored_as = DType::kBF16;  // rounded within
  EXPECT_EQ(with_gelu_tanh(other, 1).instructions.size(), 9u);
  other = nine();
  other.instructions[8].stored_as = DType::kBF16;  // rounded at the end
  EXPECT_EQ(with_gelu_tanh(other, 1).instructions.size(), 1u);
  other.outputs = {9, 6};  // the tanh is a result too
  EXPECT_EQ(with_gelu_tanh(other, 1).instructions.size(), 7u);
}

}  // namespace
}  // namespace ridge::backends
