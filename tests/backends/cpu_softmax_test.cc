// SPDX-License-Identifier: Apache-2.0
// Softmax on CPUs against its formula in double, and its gradient against finite differences.
#include "backends/cpu/kernels/kernels.h"

#include <limits>
#include <numeric>

#include "backends/cpu_kernel_fixture.h"

namespace ridge::backends::cpu {
namespace {

RIDGE_CPU_KERNEL_SUITE(CpuSoftmax);

std::vector<double> reference(const std::vector<double>& x) {
  const double highest = *std::max_element(x.begin(), x.end());
  std::vector<double> y;
  for (double value : x) y.push_back(std::exp(value - highest));
  const double sum = std::accumulate(y.begin(), y.end(), 0.0);
  for (double& value : y) value /= sum;
  return y;
}

struct Case {
  int64_t rows, columns, stride;
};

// Sizes below and above the buffered width of 4096 and the blocks of 2048.
const Case kCases[] = {{1, 1, 1},      {3, 7, 9},       {2, 16, 16},     {5, 17, 17},
                       {97, 127, 131}, {3, 4096, 4096}, {3, 4097, 4100}, {2, 9001, 9001}};

template <typename T>
void check_forward(const Case& one) {
  const int64_t size = one.rows * one.stride;
  auto x = random_values<T>(size, 1, 8.0);
  auto y = random_values<T>(size, 2);
  const auto before = y;
  Softmax<T> call{one.rows, one.columns, {x.data(), one.stride}, {y.data(), one.stride}};
  softmax(call);
  for (int64_t r = 0; r < one.rows; ++r) {
    std::vector<double> row;
    for (int64_t c = 0; c < one.columns; ++c) row.push_back(to_double(x[r * one.stride + c]));
    const auto want = reference(row);
    for (int64_t c = 0; c < one.columns; ++c) {
      // Arguments reach 50 and are rounded at that size, so the error is 50 * 2^-24 of a
      // probability.
      expect_close(y[r * one.stride + c], want[c], 6e-6, 0.0);
    }
    for (int64_t c = one.columns; c < one.stride; ++c) {
      ASSERT_EQ(y[r * one.stride + c], before[r * one.stride + c]) << "wrote past the row";
    }
  }
  auto again = y;
  softmax(call);
  EXPECT_TRUE(same_bits(y, again));
  auto in_place = x;
  call.x = {in_place.data(), one.stride};
  call.y = {in_place.data(), one.stride};
  softmax(call);
  for (int64_t r = 0; r < one.rows; ++r) {
    EXPECT_EQ(std::memcmp(&in_place[r * one.stride], &y[r * one.stride], one.columns * sizeof(T)),
              0);
  }
}

TEST_P(CpuSoftmax, ForwardMatchesFormula) {
  for (const Case& one : kCases) {
    check_forward<float>(one);
    check_forward<uint16_t>(one);
    check_forward<Float16>(one);
  }
}

template <typename T>
void check_backward(const Case& one) {
  const int64_t size = one.rows * one.stride;
  auto x = random_values<double>(size, 1, 4.0);
  auto dy = random_values<T>(size, 2);
  std::vector<T> y(size);
  auto dx = random_values<T>(size, 3);
  const int64_t every = std::max<int64_t>(1, one.columns / 7);
  for (int64_t r = 0; r < one.rows; ++r) {
    std::vector<double> row(x.begin() + r * one.stride, x.begin() + r * one.stride + one.columns);
    const auto probability = reference(row);
    for (int64_t c = 0; c < one.columns; ++c)
      y[r * one.stride + c] = from_double<T>(probability[c]);
  }
  SoftmaxBackward<T> call{one.rows,
                          one.columns,
                          {y.data(), one.stride},
                          {dy.data(), one.stride},
                          {dx.data(), one.stride}};
  softmax_backward(call);
  constexpr double kStep = 1e-5;
  for (int64_t r = 0; r < one.rows; ++r) {
    std::vector<double> row(x.begin() + r * one.stride, x.begin() + r * one.stride + one.columns);
    auto loss = [&] {
      double sum = 0.0;
      const auto p = reference(row);
      for (int64_t c = 0; c < one.columns; ++c) sum += p[c] * to_double(dy[r * one.stride + c]);
      return sum;
    };
    for (int64_t c = 0; c < one.columns; c += every) {
      const double before = row[c];
      row[c] = before + kStep;
      const double up = loss();
      row[c] = before - kStep;
      const double down = loss();
      row[c] = before;
      // The kernel's y is itself rounded to T, and the dot product inherits that error: up to 2^-8
      // of |dy| <= 2 in bf16, and 2^-11 in fp16.
      const double slack = std::is_same_v<T, float> ? 1e-6 : 4 * storage_error<T>();
      const double size_of_y = to_double(y[r * one.stride + c]);
      expect_close(dx[r * one.stride + c], (up - down) / (2 * kStep), slack, size_of_y + 1e-3);
    }
  }
  auto again = dx;
  softmax_backward(call);
  EXPECT_TRUE(same_bits(dx, again));
}

TEST_P(CpuSoftmax, BackwardMatchesFiniteDifferences) {
  for (const Case& one : kCases) {
    check_backward<float>(one);
    check_backward<uint16_t>(one);
    check_backward<Float16>(one);
  }
}

TEST_P(CpuSoftmax, ExtremeRows) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int64_t n : {5, 21, 5000}) {
    std::vector<float> x(n, -kInf), y(n, 7.0f);
    Softmax<float> call{1, n, {x.data(), n}, {y.data(), n}};
    softmax(call);
    for (float value : y) ASSERT_EQ(value, 0.0f) << "nothing but -infinity";
    x[n / 2] = -3e38f;
    softmax(call);
    EXPECT_EQ(y[n / 2], 1.0f);
    EXPECT_EQ(y[0], 0.0f);
    x[n - 1] = 3e38f;
    softmax(call);
    EXPECT_EQ(y[n / 2], 0.0f);
    EXPECT_EQ(y[n - 1], 1.0f);
    x[0] = NAN;
    softmax(call);
    EXPECT_TRUE(std::isnan(y[n - 1]));
  }
}

}  // namespace
}  // namespace ridge::backends::cpu
