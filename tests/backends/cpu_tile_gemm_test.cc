// SPDX-License-Identifier: Apache-2.0
// GEMMs of bf16 matrices by tiles against double-precision sums, with AMX registers if the machine
// has them, and with registers made of plain arrays on any machine with AVX-512's bf16.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/kernels/tile_gemm/tile_gemm-inl.h"
#include "backends/tile_registers.h"
#include "base/arena.h"
#include "base/bf16.h"
#include "base/random.h"
#include "base/shape.h"

namespace ridge::backends::cpu {
namespace {

class CpuTileGemm : public TileKernel {
 protected:
  void multiply(const TileGemm& call, int threads) {
    const Arena workspace(
        round_up(tile_gemm_workspace_bytes(call.m, call.n, call.k, threads), kAlignmentBytes),
        "workspace");
    std::fill_n(workspace.data(), workspace.bytes(), std::byte{0xff});  // NaN if not written
    if (has_amx_registers()) {
      tile_gemm(call, workspace.data(), threads);
    } else {
      tile_gemm_by<ArrayTiles>(call, workspace.data(), threads);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All,
                         CpuTileGemm,
                         testing::Values(Registers::kArrays, Registers::kAmx),
                         registers_name);

// A bf16 [rows, depth] matrix in either storage order. There is a gap between its rows (or
// columns), filled with NaN.
struct Matrix {
  Matrix(int64_t rows, int64_t depth, bool depth_inside, int64_t seed) {
    constexpr int64_t kGap = 3;
    const int64_t inner = depth_inside ? depth : rows, outer = depth_inside ? rows : depth;
    values.assign(static_cast<size_t>(outer * (inner + kGap)), 0x7fc0);
    at = {values.data(), depth_inside ? inner + kGap : 1, depth_inside ? 1 : inner + kGap};
    Random random(static_cast<uint64_t>(seed));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < depth; ++k)
        values[index(r, k)] = float_to_bf16(random.uniform() - 0.5f);
  }
  size_t index(int64_t row, int64_t depth) const {
    return static_cast<size_t>(row * at.row_step + depth * at.depth_step);
  }
  double operator()(int64_t row, int64_t depth) const {
    return static_cast<double>(bf16_to_float(values[index(row, depth)]));
  }
  std::vector<uint16_t> values;
  TileMatrix at;
};

// C in either type, with a gap after each row that must not be written.
struct Result {
  Result(int64_t m, int64_t n, bool narrow)
      : rows(m),
        columns(n),
        step(n + 5),
        is_bf16(narrow),
        bytes(static_cast<size_t>(m * step * (narrow ? 2 : 4))) {
    for (int64_t i = 0; i < m * step; ++i) set(i, kBefore);
  }
  void set(int64_t i, float value) {
    if (is_bf16) {
      reinterpret_cast<uint16_t*>(bytes.data())[i] = float_to_bf16(value);
    } else {
      reinterpret_cast<float*>(bytes.data())[i] = value;
    }
  }
  float at(int64_t row, int64_t column) const {
    const int64_t i = row * step + column;
    return is_bf16 ? bf16_to_float(reinterpret_cast<const uint16_t*>(bytes.data())[i])
                   : reinterpret_cast<const float*>(bytes.data())[i];
  }
  static constexpr float kBefore = 0.75f;
  int64_t rows, columns, step;
  bool is_bf16;
  std::vector<std::byte> bytes;
};

struct Case {
  int64_t m, n, k;
  bool a_inside, b_inside;  // the depth is contiguous
  bool c_is_bf16, accumulate;
};

TileGemm call_of(const Case& c, const Matrix& a, const Matrix& b, Result& result) {
  return {c.m, c.n, c.k, a.at, b.at, result.bytes.data(), result.step, c.c_is_bf16, c.accumulate};
}

void expect_product(const Case& c, const Matrix& a, const Matrix& b, const Result& result) {
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = c.accumulate ? static_cast<double>(Result::kBefore) : 0, size = std::abs(sum);
      for (int64_t k = 0; k < c.k; ++k) {
        sum += a(i, k) * b(j, k);
        size += std::abs(a(i, k) * b(j, k));
      }
      // fp32 sums in another order, then the rounding of the result.
      const double slack = 1e-6 * size + (c.c_is_bf16 ? 0x1p-8 * std::abs(sum) : 0);
      ASSERT_NEAR(static_cast<double>(result.at(i, j)), sum, slack)
          << c.m << "x" << c.n << "x" << c.k << " at " << i << ", " << j;
    }
    for (int64_t j = c.n; j < result.step; ++j)
      ASSERT_EQ(result.at(i, j), Result::kBefore) << "written past the row";
  }
}

TEST_P(CpuTileGemm, ProductsOfEveryLayout) {
  constexpr int64_t kSizes[][3] = {{1, 1, 1},   {16, 16, 32},  {17, 33, 31},   {32, 32, 64},
                                   {37, 64, 5}, {96, 40, 129}, {33, 70, 1300}, {300, 290, 65}};
  int64_t seed = 1;
  for (const auto& [m, n, k] : kSizes) {
    for (int bits = 0; bits < 16; ++bits) {
      const Case c{m, n, k, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
      const Matrix a(m, k, c.a_inside, ++seed), b(n, k, c.b_inside, ++seed);
      Result result(m, n, c.c_is_bf16);
      multiply(call_of(c, a, b, result), 2);
      expect_product(c, a, b, result);
    }
  }
}

TEST_P(CpuTileGemm, BitsDependOnNoThreads) {
  const Case c{130, 97, 1500, true, false, false, false};
  const Matrix a(c.m, c.k, c.a_inside, 3), b(c.n, c.k, c.b_inside, 4);
  Result one(c.m, c.n, false), five(c.m, c.n, false);
  multiply(call_of(c, a, b, one), 1);
  multiply(call_of(c, a, b, five), 5);
  EXPECT_EQ(one.bytes, five.bytes);
}

TEST_P(CpuTileGemm, NotANumberStaysInItsRow) {
  const Case c{40, 50, 70, true, true, false, false};
  Matrix a(c.m, c.k, c.a_inside, 5);
  const Matrix b(c.n, c.k, c.b_inside, 6);
  a.values[a.index(20, 69)] = 0x7fc0;
  Result result(c.m, c.n, false);
  multiply(call_of(c, a, b, result), 2);
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) ASSERT_EQ(std::isnan(result.at(i, j)), i == 20) << i;
}

}  // namespace
}  // namespace ridge::backends::cpu
