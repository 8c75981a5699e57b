// SPDX-License-Identifier: Apache-2.0
// Shared code of the tests of tile kernels. Each test runs with AMX registers if the machine has
// them, and with registers made of plain arrays on any machine with AVX-512's bf16.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "backends/array_tiles.h"

namespace ridge::backends::cpu {

enum class Registers { kArrays, kAmx };

class TileKernel : public testing::TestWithParam<Registers> {
 protected:
  void SetUp() override {
    if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "this machine has no AVX-512 BF16";
    if (has_amx_registers() && !__builtin_cpu_supports("amx-bf16"))
      GTEST_SKIP() << "this machine has no AMX";
  }
  static bool has_amx_registers() { return GetParam() == Registers::kAmx; }
};

inline std::string registers_name(const testing::TestParamInfo<Registers>& each) {
  return each.param == Registers::kAmx ? "amx" : "arrays";
}

}  // namespace ridge::backends::cpu
