// SPDX-License-Identifier: Apache-2.0
// Reductions on CPUs against sums in double.
#include "backends/cpu/kernels/kernels.h"

#include <limits>

#include "backends/cpu_kernel_fixture.h"

namespace ridge::backends::cpu {
namespace {

RIDGE_CPU_KERNEL_SUITE(CpuReduce);

struct Shape {
  int64_t rows, columns, stride;
};
const Shape kShapes[] = {{1, 1, 1},         {3, 7, 7},     {2, 16, 20},    {5, 17, 17},
                         {9, 65, 65},       {4, 127, 128}, {1003, 97, 97}, {6, 5000, 5001},
                         {101, 4097, 4097}, {33, 1, 2},    {2, 3, 3}};

template <typename In, typename Out>
void check_rows(const Shape& shape) {
  const auto x = random_values<In>(shape.rows * shape.stride, 1);
  for (Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
    std::vector<Out> y(shape.rows);
    ReduceRows<In, Out> call{
        shape.rows, shape.columns, reduction, {x.data(), shape.stride}, y.data()};
    reduce_rows(call);
    for (int64_t r = 0; r < shape.rows; ++r) {
      double want = reduction == Reduction::kMax ? -std::numeric_limits<double>::infinity() : 0.0;
      double size = 0.0;  // the terms add up to it in magnitude
      for (int64_t c = 0; c < shape.columns; ++c) {
        const double value = to_double(x[r * shape.stride + c]);
        if (reduction == Reduction::kMax) {
          want = std::max(want, value);
        } else {
          want += value;
          size += std::abs(value);
        }
      }
      // Scalar code keeps four running sums, so up to 1250 roundings.
      expect_close(y[r], want, 3e-6, size);
      if (reduction == Reduction::kMax) {
        ASSERT_EQ(to_double(y[r]), to_double(from_double<Out>(want)));
      }
    }
    auto again = y;
    reduce_rows(call);
    EXPECT_TRUE(same_bits(y, again));
  }
}

template <typename In, typename Out>
void check_columns(const Shape& shape) {
  const auto x = random_values<In>(shape.rows * shape.stride, 1);
  std::vector<Out> y(shape.columns);
  std::vector<float> workspace(
      sum_columns_workspace_bytes(shape.rows, shape.columns) / sizeof(float), NAN);
  SumColumns<In, Out> call{
      shape.rows, shape.columns, {x.data(), shape.stride}, y.data(), workspace.data()};
  sum_columns(call);
  for (int64_t c = 0; c < shape.columns; ++c) {
    double want = 0.0, size = 0.0;
    for (int64_t r = 0; r < shape.rows; ++r) {
      want += to_double(x[r * shape.stride + c]);
      size += std::abs(to_double(x[r * shape.stride + c]));
    }
    expect_close(y[c], want, 3e-7, size);
  }
  auto again = y;
  sum_columns(call);
  EXPECT_TRUE(same_bits(y, again));
}

TEST_P(CpuReduce, RowsMatchDouble) {
  for (const Shape& shape : kShapes) {
    check_rows<float, float>(shape);
    check_rows<float, uint16_t>(shape);
    check_rows<uint16_t, float>(shape);
    check_rows<uint16_t, uint16_t>(shape);
  }
}

TEST_P(CpuReduce, ColumnsMatchDouble) {
  for (const Shape& shape : kShapes) {
    check_columns<float, float>(shape);
    check_columns<float, uint16_t>(shape);
    check_columns<uint16_t, float>(shape);
    check_columns<uint16_t, uint16_t>(shape);
  }
}

TEST_P(CpuReduce, MaxOfNegativesAndSpecials) {
  std::vector<float> x(37, -5.0f);
  float y = 0.0f;
  reduce_rows<float, float>({1, 37, Reduction::kMax, {x.data(), 37}, &y});
  EXPECT_EQ(y, -5.0f);
  x[36] = -1.0f;  // in the partial vector
  x[3] = NAN;
  reduce_rows<float, float>({1, 37, Reduction::kMax, {x.data(), 37}, &y});
  EXPECT_EQ(y, -1.0f);
}

TEST_P(CpuReduce, SumSquaresIsTheSameForAnyThreads) {
  for (int64_t n : {1, 17, 16384, 16385, 300007}) {
    const auto x = random_values<float>(n, 1);
    const auto x16 = random_values<uint16_t>(n, 1);
    std::vector<double> workspace(sum_squares_workspace_bytes(n) / sizeof(double));
    double want = 0.0, want16 = 0.0;
    for (float value : x) want += static_cast<double>(value) * value;
    for (uint16_t value : x16) want16 += to_double(value) * to_double(value);
    const double got = sum_squares(x.data(), n, workspace.data());
    EXPECT_NEAR(got, want, 2e-7 * want);
    // Squares of 8-bit significands end in ...001, so that the roundings of their sum have the same
    // sign.
    EXPECT_NEAR(sum_squares(x16.data(), n, workspace.data()), want16, 5e-7 * want16);
    omp_set_num_threads(omp_get_max_threads() + 1);
    EXPECT_EQ(sum_squares(x.data(), n, workspace.data()), got);
    omp_set_num_threads(omp_get_max_threads() - 1);
  }
}

}  // namespace
}  // namespace ridge::backends::cpu
