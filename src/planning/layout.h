// SPDX-License-Identifier: Apache-2.0
// The devices of a training plan: the state that each of them holds, their links and their price.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/data_parallel_plan.h"
#include "record/plan_record.h"

namespace ridge::planning {

// Throws usage Errors for numbers out of range and for unknown names.
void expect_sane(const record::PlanLayout& layout);

// Bytes of a parameter. Gradients have the type of GEMMs, but fp32 where they are summed over
// micro-batches.
cost::StateTypes state_types(const record::PlanLayout& layout, bool bf16_gemms, bool accumulates);
// The stages to try, lowest first: the chosen one, or all.
std::vector<cost::Zero> stages(const record::PlanLayout& layout);
record::Expense expense(const record::PlanLayout& layout,
                        const record::PlannedHardware& hardware,
                        double days);

// The sheets that hold `bytes` and have more memory than `capacity_bytes`, smallest first.
std::vector<std::string> larger_hardware(int64_t capacity_bytes, double bytes);

}  // namespace ridge::planning
