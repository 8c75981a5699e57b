// SPDX-License-Identifier: Apache-2.0
// Writes computational_intensity.json: the FLOPs per byte of each run reported in detail and of
// each of its operations, compared with the machine's ridge point.
#pragma once

#include <string>

#include "record/lab_record.h"

namespace ridge::report {

std::string computational_intensity(const record::LabRecord& lab);

}  // namespace ridge::report
