// SPDX-License-Identifier: Apache-2.0
// Many cases of damage to each file that the program reads, and to the ceilings that it keeps.
#include "apps/damage_cases.h"

namespace ridge::apps {
namespace {

constexpr uint32_t kRounds = 300;

TEST_F(DamageCases, Configurations) { try_files(configurations(), kRounds); }
TEST_F(DamageCases, Hardware) { try_files(hardware(), kRounds); }
TEST_F(DamageCases, RunFolders) { try_files(run_folders(), kRounds); }
TEST_F(DamageCases, Indices) { try_files(indices(), kRounds); }
TEST_F(DamageCases, Tokenizers) { try_files(tokenizers(), kRounds); }
TEST_F(DamageCases, Models) { try_files(models(), kRounds); }
TEST_F(DamageCases, Tuning) { try_tuning(kRounds / 10); }
TEST_F(DamageCases, Ceilings) { try_ceilings(); }

}  // namespace
}  // namespace ridge::apps
