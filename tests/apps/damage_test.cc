// SPDX-License-Identifier: Apache-2.0
// A few cases of damage to each file that the program reads; damage_slow_test.cc has many.
#include "apps/damage_cases.h"

namespace ridge::apps {

const DamageRounds kRounds = {.files = 16, .tuning = 4};

}  // namespace ridge::apps
