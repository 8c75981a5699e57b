// SPDX-License-Identifier: Apache-2.0
// JSON as the report files spell it: keys in order, two spaces, bytes that are not UTF-8 replaced.
// The parts that several files share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "plan/planner.h"
#include "record/lab_record.h"
#include "record/operation_table.h"

namespace ridge::report {

using Json = nlohmann::ordered_json;

// Ends in a newline. Never throws for foreign bytes; numbers that are not finite become null.
std::string json_text(const Json& json);

Json to_json(const record::Setting& setting);
Json to_json(const Summary& summary);  // {median_ns, low_ns, high_ns, samples, coverage}
Json to_json(const Work& work);
Json to_json(const record::OperationRow& row);
Json memory_classes_json(const int64_t (&bytes)[plan::kMemoryClasses]);  // {parameters: ..., ...}

// What heads each file: program, command, time, machine.
Json heading(const record::LabRecord& lab);

}  // namespace ridge::report
