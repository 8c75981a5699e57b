// SPDX-License-Identifier: Apache-2.0
// computational_intensity.json: FLOPs per byte of the runs reported in detail and of each of their
// operations, against the machine's ridge point.
#pragma once

#include <string>

#include "record/lab_record.h"

namespace ridge::report {

std::string computational_intensity(const record::LabRecord& lab);

}  // namespace ridge::report
