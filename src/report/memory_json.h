// SPDX-License-Identifier: Apache-2.0
// Writes memory.json: the live memory by class while each node runs, its peak, and planned memory
// next to the memory that the system reported.
#pragma once

#include <string>

#include "record/lab_record.h"

namespace ridge::report {

std::string memory_json(const record::LabRecord& lab);

}  // namespace ridge::report
