// SPDX-License-Identifier: Apache-2.0
// Writes the JSON files of a lab. kernels.json has a header of its own.
#pragma once

#include <string>

#include "record/lab_record.h"

namespace ridge::report {

// performance_summary.json: every run with its times, rates, memory and losses, the operations of
// the runs reported in detail, and the advice. `ridge diff` and `ridge explain` read it back.
std::string performance_summary(const record::LabRecord& lab);
// flops_profile.json: FLOPs and MACs of each run, of the model and as executed, in total, per
// parameter and per token, and the share of the device's peak with the peak and the convention.
std::string flops_profile(const record::LabRecord& lab);
// computational_intensity.json: the FLOPs per byte of each run reported in detail and of each of
// its operations, compared with the machine's ridge point.
std::string computational_intensity(const record::LabRecord& lab);
// memory.json: the live memory by class while each node runs, its peak, and planned memory next to
// the memory that the system reported.
std::string memory_json(const record::LabRecord& lab);

}  // namespace ridge::report
