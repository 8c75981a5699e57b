// SPDX-License-Identifier: Apache-2.0
// Names of kernels as compilers mangle them, those with bf16 and those that nobody can read.
#include "base/demangled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace ridge {
namespace {

TEST(Demangled, ReadsNamesOfFunctions) {
  EXPECT_EQ(demangled("_ZN5ridge4spinIfEEvPT_i"), "void ridge::spin<float>(float*, int)");
  EXPECT_EQ(demangled("_ZN5aiter6kernelIDF16bLi2EEEvPT_"), "void aiter::kernel<bf16, 2>(bf16*)");
  EXPECT_EQ(demangled("void at::native::kernel<4>()"), "void at::native::kernel<4>()");
  EXPECT_EQ(demangled(""), "");
}

TEST(Demangled, WritesTheOwnNameOfOthers) {
  EXPECT_EQ(demangled("_ZN3sgl3actITnPFT_E"), "sgl::act<ITnPFT_E>");
  EXPECT_EQ(demangled("_ZN2ck12_GLOBAL__N_14convIT"), "ck::conv<IT>");
  EXPECT_EQ(demangled("_Z"), "_Z");
  EXPECT_EQ(demangled("_ZN99999999999999999999999a"), "_ZN99999999999999999999999a");
}

// Each level would have the one before twice.
TEST(Demangled, DoesNotGrowWithoutBound) {
  std::string name = "_Z1fI1AIiE";
  for (int i = 0; i < 60; ++i) name += fmt::format("1AIS{}_S{}_E", i, i);
  EXPECT_LT(demangled(name + "Evv").size(), 2 * name.size());
}

}  // namespace
}  // namespace ridge
