// SPDX-License-Identifier: Apache-2.0
// flops_profile.json: FLOPs and MACs of each run, model and executed, in total, per parameter and
// per token; the share of the device's peak, with the peak and the convention named.
#pragma once

#include <string>

#include "record/lab_record.h"

namespace ridge::report {

std::string flops_profile(const record::LabRecord& lab);

}  // namespace ridge::report
