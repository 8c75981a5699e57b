// SPDX-License-Identifier: Apache-2.0
// Many cases of damage to each file that the program reads, and to the ceilings that it keeps.
#include "apps/damage_cases.h"

namespace ridge::apps {

const DamageRounds kRounds = {.files = 300, .tuning = 30};

namespace {

TEST_F(DamageCases, Ceilings) { try_ceilings(); }

}  // namespace
}  // namespace ridge::apps
