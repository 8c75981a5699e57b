// SPDX-License-Identifier: Apache-2.0
// Every extreme of each number.
#include "apps/number_cases.h"

namespace ridge::apps {
namespace {

constexpr size_t kEvery = 1;

TEST_F(NumberCases, Options) { try_all_options(kEvery); }
TEST_F(NumberCases, Configurations) { try_files(configurations(), kEvery); }
TEST_F(NumberCases, Hardware) { try_files(hardware(), kEvery); }
TEST_F(NumberCases, RunFolders) { try_files(run_folders(), kEvery); }
TEST_F(NumberCases, Rings) { try_files(rings(), kEvery); }
TEST_F(NumberCases, Traces) { try_files(traces(), kEvery); }
TEST_F(NumberCases, Indices) { try_files(indices(), kEvery); }
TEST_F(NumberCases, Tokenizers) { try_files(tokenizers(), kEvery); }
TEST_F(NumberCases, Models) { try_files(models(), kEvery); }

}  // namespace
}  // namespace ridge::apps
