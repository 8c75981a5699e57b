// SPDX-License-Identifier: Apache-2.0
// JSON as the report files spell it: keys in order, two spaces, bytes that are not UTF-8 replaced.
// The parts that several files share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "perf/lab_record.h"
#include "perf/operation_table.h"
#include "perf/planner.h"

namespace ridge::report {

using Json = nlohmann::ordered_json;

// Ends in a newline. Never throws for foreign bytes; numbers that are not finite become null.
std::string json_text(const Json& json);

Json to_json(const perf::Setting& setting);
Json to_json(const perf::Summary& summary);  // {median_ns, low_ns, high_ns, samples, coverage}
Json to_json(const Work& work);
Json to_json(const perf::OperationRow& row);
Json memory_classes_json(const int64_t (&bytes)[perf::kMemoryClasses]);  // {parameters: ..., ...}

// What heads each file: program, command, time, machine.
Json heading(const perf::LabRecord& lab);

}  // namespace ridge::report
