// SPDX-License-Identifier: Apache-2.0
// Writes flops_profile.json: FLOPs and MACs of each run, of the model and as executed, in total,
// per parameter and per token. It also holds the share of the device's peak and states the peak and
// the convention.
#pragma once

#include <string>

#include "record/lab_record.h"

namespace ridge::report {

std::string flops_profile(const record::LabRecord& lab);

}  // namespace ridge::report
