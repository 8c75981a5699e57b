// SPDX-License-Identifier: Apache-2.0
// The plan of several ranks as text for a terminal and as JSON.
#pragma once

#include <string>

#include "record/rank_plan.h"
#include "report/terminal.h"

namespace ridge::report {

std::string rank_plan_text(const record::RankPlan& plan, const TerminalOptions& terminal);
std::string rank_plan_json(const record::RankPlan& plan);

}  // namespace ridge::report
