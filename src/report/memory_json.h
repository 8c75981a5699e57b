// SPDX-License-Identifier: Apache-2.0
// memory.json: what is live while each node runs, by class, and the peak; what the plan predicted
// beside what the system saw.
#pragma once

#include <string>

#include "record/lab_record.h"

namespace ridge::report {

std::string memory_json(const record::LabRecord& lab);

}  // namespace ridge::report
