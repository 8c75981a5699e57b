// SPDX-License-Identifier: Apache-2.0
// Shared code of the tests of CPU kernels: each test runs for every instruction set of this machine
// and for several thread counts, on values drawn from a seed. The references are not here: each
// test has its own, in double.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "base/bf16.h"
#include "base/float16.h"
#include "base/random.h"

namespace ridge {
inline namespace base {
inline bool operator==(Float16 a, Float16 b) { return a.bits == b.bits; }
}  // namespace base
}  // namespace ridge

namespace ridge::backends::cpu {

using Isa = int64_t;  // one of Highway's target bits

// The instruction sets that kernels are built for and that the machine has. Scalar code is always
// one.
inline std::vector<Isa> tested_isas() {
  std::vector<Isa> found = {HWY_SCALAR};
  for (Isa isa : {HWY_AVX2, HWY_AVX3}) {
    if ((hwy::SupportedTargets() & isa) != 0) found.push_back(isa);
  }
  return found;
}

class CpuKernel : public testing::TestWithParam<std::tuple<Isa, int>> {
 protected:
  void SetUp() override {
    threads_before_ = omp_get_max_threads();
    hwy::SetSupportedTargetsForTest(std::get<0>(GetParam()));
    omp_set_num_threads(std::get<1>(GetParam()));
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    omp_set_num_threads(threads_before_);
  }

 private:
  int threads_before_ = 1;
};

inline std::string kernel_case_name(const testing::TestParamInfo<std::tuple<Isa, int>>& info) {
  return std::string(hwy::TargetName(std::get<0>(info.param))) + "_threads" +
         std::to_string(std::get<1>(info.param));
}

// Defines a suite that runs for each ISA, with one thread and with three on any machine, so that
// extents do not divide evenly.
#define RIDGE_CPU_KERNEL_SUITE(suite)                                                        \
  class suite : public CpuKernel {};                                                         \
  INSTANTIATE_TEST_SUITE_P(                                                                  \
      All, suite, testing::Combine(testing::ValuesIn(tested_isas()), testing::Values(1, 3)), \
      kernel_case_name)

inline double to_double(double value) { return value; }
inline double to_double(float value) { return value; }
inline double to_double(uint16_t bits) { return bf16_to_float(bits); }
inline double to_double(Float16 half) { return f16_to_float(half.bits); }
inline double to_double(int8_t code) { return code; }

template <typename T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    return float_to_bf16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, Float16>) {
    return {float_to_f16(static_cast<float>(value))};
  } else {
    return static_cast<T>(value);
  }
}

// n values in (-range, range).
template <typename T>
std::vector<T> random_values(int64_t n, uint32_t seed, double range = 2.0) {
  Random random(seed);
  std::vector<T> values(static_cast<size_t>(n));
  for (T& value : values) value = from_double<T>((2.0 * random.uniform() - 1.0) * range);
  return values;
}

// A store keeps 8 significant bits in bf16, 11 in fp16 and 24 in fp32, so rounding to nearest moves
// a value by at most 2^-8, 2^-11 or 2^-24 of itself.
template <typename T>
constexpr double storage_error() {
  return std::is_same_v<T, uint16_t> ? 0x1p-8 : std::is_same_v<T, Float16> ? 0x1p-11 : 0x1p-24;
}

// |got - want| <= one rounding of `want` to T, plus `slack` for fp32 arithmetic on numbers of size
// `size`.
template <typename T>
void expect_close(T got, double want, double slack, double size = 1.0) {
  const double bound = storage_error<T>() * std::abs(want) * 1.01 +
                       slack * (size + std::abs(want)) +
                       (std::is_same_v<T, uint16_t>  ? 1e-38
                        : std::is_same_v<T, Float16> ? 0x1p-25
                                                     : 0.0);
  ASSERT_LE(std::abs(to_double(got) - want), bound)
      << "got " << to_double(got) << ", want " << want;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace ridge::backends::cpu
