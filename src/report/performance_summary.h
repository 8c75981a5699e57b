// SPDX-License-Identifier: Apache-2.0
// Writes performance_summary.json: every run of a lab with its times, rates, memory and losses, the
// operations of the runs reported in detail, and the advice. `ridge diff` and `ridge explain` read
// this file back.
#pragma once

#include <string>

#include "record/lab_record.h"

namespace ridge::report {

std::string performance_summary(const record::LabRecord& lab);

}  // namespace ridge::report
