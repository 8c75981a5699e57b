// SPDX-License-Identifier: Apache-2.0
// Every extreme of each number.
#include "apps/number_cases.h"

namespace ridge::apps {
namespace {

constexpr size_t kEvery = 1;

TEST_F(NumberCases, Options) { try_all_options(kEvery); }
TEST_F(NumberCases, Configurations) { try_configurations(kEvery); }
TEST_F(NumberCases, Hardware) { try_hardware(kEvery); }
TEST_F(NumberCases, RunFolders) { try_run_folders(kEvery); }
TEST_F(NumberCases, Indices) { try_indices(kEvery); }
TEST_F(NumberCases, Tokenizers) { try_tokenizers(kEvery); }

}  // namespace
}  // namespace ridge::apps
