// SPDX-License-Identifier: Apache-2.0
// A few cases of damage to each file that the program reads; damage_slow_test.cc has many.
#include "apps/damage_cases.h"

namespace ridge::apps {
namespace {

constexpr uint32_t kRounds = 16;

TEST_F(DamageCases, Configurations) { try_files(configurations(), kRounds); }
TEST_F(DamageCases, Hardware) { try_files(hardware(), kRounds); }
TEST_F(DamageCases, RunFolders) { try_files(run_folders(), kRounds); }
TEST_F(DamageCases, Indices) { try_files(indices(), kRounds); }
TEST_F(DamageCases, Tokenizers) { try_files(tokenizers(), kRounds); }
TEST_F(DamageCases, Models) { try_files(models(), kRounds); }
TEST_F(DamageCases, Tuning) { try_tuning(kRounds / 4); }

}  // namespace
}  // namespace ridge::apps
