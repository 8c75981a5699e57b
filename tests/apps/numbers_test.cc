// SPDX-License-Identifier: Apache-2.0
// A few extremes of each number; numbers_slow_test.cc tries all.
#include "apps/number_cases.h"

namespace ridge::apps {
namespace {

constexpr size_t kEvery = 9;

TEST_F(NumberCases, Options) { try_all_options(kEvery); }
TEST_F(NumberCases, Configurations) { try_files(configurations(), kEvery); }
TEST_F(NumberCases, Hardware) { try_files(hardware(), kEvery); }
// Hundreds of numbers, which three commands read.
TEST_F(NumberCases, RunFolders) { try_files(run_folders(), 5 * kEvery); }
TEST_F(NumberCases, Rings) { try_files(rings(), kEvery); }
TEST_F(NumberCases, Traces) { try_files(traces(), kEvery); }
TEST_F(NumberCases, Indices) { try_files(indices(), kEvery); }
TEST_F(NumberCases, Tokenizers) { try_files(tokenizers(), kEvery); }
// tests/models tries all extremes of the numbers in GGUF files, without the program.
TEST_F(NumberCases, Models) { try_files(models(), 4 * kEvery); }

}  // namespace
}  // namespace ridge::apps
