// SPDX-License-Identifier: Apache-2.0
// RMS norm on CPUs against its formula in double, and its gradient against finite differences.
#include "backends/cpu/kernels/kernels.h"

#include "backends/cpu_kernel_fixture.h"

namespace ridge::backends::cpu {
namespace {

RIDGE_CPU_KERNEL_SUITE(CpuRmsNorm);

struct Shape {
  int64_t tokens, width, stride;
};

// Around the vector widths 8 and 16, four vectors, primes, and one that is large enough for several
// threads.
const Shape kShapes[] = {{1, 1, 1},     {3, 7, 7},     {2, 8, 9},      {5, 15, 40},
                         {4, 16, 16},   {3, 17, 17},   {2, 63, 64},    {2, 65, 65},
                         {7, 127, 130}, {3, 640, 640}, {97, 331, 400}, {301, 512, 512}};

double reference_rstd(const double* x, int64_t width, double eps) {
  double squares = 0.0;
  for (int64_t i = 0; i < width; ++i) squares += x[i] * x[i];
  return 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
}

template <typename T>
std::vector<double> row_of(const std::vector<T>& x, int64_t row, const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(shape.width));
  for (int64_t i = 0; i < shape.width; ++i) values[i] = to_double(x[row * shape.stride + i]);
  return values;
}

template <typename T>
void check_forward(const Shape& shape, float offset) {
  constexpr float kEps = 1e-5f;
  const int64_t size = shape.tokens * shape.stride;
  auto x = random_values<T>(size, 1);
  auto residual = random_values<T>(size, 2);
  auto weight = random_values<float>(shape.width, 3);
  auto y = random_values<T>(size, 4);
  auto sum = y, normed_sum = y;
  const auto untouched = y;
  std::vector<float> rstd(shape.tokens), rstd_sum(shape.tokens);

  RmsNorm<T> call{shape.tokens, shape.width, {x.data(), shape.stride}, weight.data(),
                  kEps,         offset,      {y.data(), shape.stride}, rstd.data()};
  rms_norm(call);
  RmsNorm<T> with_sum = call;
  with_sum.y = {normed_sum.data(), shape.stride};
  with_sum.rstd = rstd_sum.data();
  add_rms_norm<T>({with_sum, {residual.data(), shape.stride}, {sum.data(), shape.stride}});

  for (int64_t n = 0; n < shape.tokens; ++n) {
    const auto row = row_of(x, n, shape);
    const auto more = row_of(residual, n, shape);
    const auto stored = row_of(sum, n, shape);
    const double scale = reference_rstd(row.data(), shape.width, kEps);
    const double scale_sum = reference_rstd(stored.data(), shape.width, kEps);
    expect_close(rstd[n], scale, 1e-6);
    expect_close(rstd_sum[n], scale_sum, 1e-6);
    for (int64_t i = 0; i < shape.width; ++i) {
      const int64_t at = n * shape.stride + i;
      const double w = offset + weight[i];
      expect_close(y[at], row[i] * scale * w, 2e-6);
      expect_close(sum[at], row[i] + more[i], 1e-7);
      expect_close(normed_sum[at], stored[i] * scale_sum * w, 2e-6);
    }
    for (int64_t i = shape.width; i < shape.stride; ++i) {
      ASSERT_EQ(y[n * shape.stride + i], untouched[n * shape.stride + i]) << "wrote past the row";
    }
  }
  auto again = y;
  rms_norm(call);
  EXPECT_TRUE(same_bits(y, again));
}

TEST_P(CpuRmsNorm, ForwardMatchesFormula) {
  for (const Shape& shape : kShapes) {
    for (float offset : {0.0f, 1.0f}) {
      check_forward<float>(shape, offset);
      check_forward<uint16_t>(shape, offset);
      check_forward<Float16>(shape, offset);
    }
  }
}

TEST_P(CpuRmsNorm, InPlaceGivesTheSameBits) {
  const int64_t tokens = 5, width = 77;
  auto x = random_values<float>(tokens * width, 1);
  auto residual = random_values<float>(tokens * width, 2);
  auto weight = random_values<float>(width, 3);
  std::vector<float> y(x.size()), sum(x.size());
  RmsNorm<float> call{tokens, width, {x.data(), width}, weight.data(),
                      1e-6f,  0.0f,  {y.data(), width}, nullptr};
  add_rms_norm<float>({call, {residual.data(), width}, {sum.data(), width}});
  const auto want = y;
  auto x_copy = x;
  call.x = {x_copy.data(), width};
  call.y = {y.data(), width};
  add_rms_norm<float>({call, {residual.data(), width}, {x_copy.data(), width}});
  EXPECT_TRUE(same_bits(x_copy, sum));
  EXPECT_TRUE(same_bits(y, want));
  call.x = {x.data(), width};
  rms_norm(call);
  const auto plain = y;
  call.y = {x.data(), width};
  rms_norm(call);
  EXPECT_TRUE(same_bits(x, plain));
}

// The sum over tokens [first, end) of dy y, whose derivatives the backward kernel should return.
double weighted_output(const std::vector<double>& x,
                       const std::vector<double>& weight,
                       const std::vector<double>& dy,
                       int64_t first,
                       int64_t end,
                       double eps,
                       double offset) {
  const auto width = static_cast<int64_t>(weight.size());
  double total = 0.0;
  for (int64_t n = first; n < end; ++n) {
    const double scale = reference_rstd(&x[n * width], width, eps);
    for (int64_t i = 0; i < width; ++i) {
      total += dy[n * width + i] * x[n * width + i] * scale * (offset + weight[i]);
    }
  }
  return total;
}

template <typename T>
void check_backward(const Shape& shape, float offset, bool with_residual) {
  constexpr float kEps = 1e-5f;
  const int64_t size = shape.tokens * shape.stride;
  auto x = random_values<T>(size, 1);
  auto dy = random_values<T>(size, 2);
  auto more = random_values<T>(size, 5);
  auto weight = random_values<float>(shape.width, 3);
  std::vector<double> x_ref, dy_ref, weight_ref(weight.begin(), weight.end());
  std::vector<float> rstd;
  for (int64_t n = 0; n < shape.tokens; ++n) {
    const auto row = row_of(x, n, shape);
    const auto given = row_of(dy, n, shape);
    rstd.push_back(static_cast<float>(reference_rstd(row.data(), shape.width, kEps)));
    x_ref.insert(x_ref.end(), row.begin(), row.end());
    dy_ref.insert(dy_ref.end(), given.begin(), given.end());
  }
  std::vector<T> dx(size);
  std::vector<float> d_weight(shape.width, -7.0f);
  std::vector<float> workspace(
      rms_norm_backward_workspace_bytes(shape.tokens, shape.width) / sizeof(float), NAN);
  RmsNormBackward<T> call{shape.tokens,
                          shape.width,
                          {dy.data(), shape.stride},
                          {x.data(), shape.stride},
                          weight.data(),
                          offset,
                          rstd.data(),
                          {},
                          {dx.data(), shape.stride},
                          d_weight.data(),
                          workspace.data()};
  if (with_residual) call.d_residual = {more.data(), shape.stride};
  rms_norm_backward(call);

  auto loss = [&](int64_t first, int64_t end) {
    return weighted_output(x_ref, weight_ref, dy_ref, first, end, kEps, offset);
  };
  constexpr double kStep = 1e-5;
  // Central differences of each row's own sum: the error is about kStep^2 and 1e-16 / kStep, far
  // below that of fp32.
  for (int64_t n = 0; n < shape.tokens; n += std::max<int64_t>(1, shape.tokens / 5)) {
    for (int64_t i = 0; i < shape.width; i += std::max<int64_t>(1, shape.width / 9)) {
      double& at = x_ref[n * shape.width + i];
      const double before = at;
      at = before + kStep;
      const double up = loss(n, n + 1);
      at = before - kStep;
      const double down = loss(n, n + 1);
      at = before;
      const double extra = with_residual ? to_double(more[n * shape.stride + i]) : 0.0;
      expect_close(dx[n * shape.stride + i], (up - down) / (2 * kStep) + extra, 3e-6, 10.0);
    }
  }
  for (int64_t i = 0; i < shape.width; i += std::max<int64_t>(1, shape.width / 9)) {
    const double before = weight_ref[i];
    weight_ref[i] = before + kStep;
    const double up = loss(0, shape.tokens);
    weight_ref[i] = before - kStep;
    const double down = loss(0, shape.tokens);
    weight_ref[i] = before;
    expect_close(d_weight[i], (up - down) / (2 * kStep), 2e-6,
                 10.0 * std::sqrt(static_cast<double>(shape.tokens)));
  }
  auto again = dx;
  auto d_weight_again = d_weight;
  rms_norm_backward(call);
  EXPECT_TRUE(same_bits(dx, again));
  EXPECT_TRUE(same_bits(d_weight, d_weight_again));
}

TEST_P(CpuRmsNorm, BackwardMatchesFiniteDifferences) {
  for (const Shape& shape : kShapes) {
    for (bool with_residual : {false, true}) {
      check_backward<float>(shape, 0.0f, with_residual);
      check_backward<uint16_t>(shape, 1.0f, with_residual);
      check_backward<Float16>(shape, 1.0f, with_residual);
    }
  }
}

TEST_P(CpuRmsNorm, NoTokensGiveZeroWeightGradient) {
  std::vector<float> weight(9, 1.0f), d_weight(9, 5.0f);
  std::vector<float> workspace(rms_norm_backward_workspace_bytes(0, 9) / sizeof(float));
  RmsNormBackward<float> call;
  call.width = 9;
  call.weight = weight.data();
  call.d_weight = d_weight.data();
  call.workspace = workspace.data();
  rms_norm_backward(call);
  for (float value : d_weight) EXPECT_EQ(value, 0.0f);
}

}  // namespace
}  // namespace ridge::backends::cpu
