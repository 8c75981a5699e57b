// SPDX-License-Identifier: Apache-2.0
// JSON conventions of the report files (ordered keys, two spaces of indent, invalid UTF-8 replaced)
// and the parts that several files share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "plan/planner.h"
#include "record/lab_record.h"
#include "record/operation_table.h"

namespace ridge::report {

using Json = nlohmann::ordered_json;

// Ends with a newline. Never throws for invalid UTF-8; numbers that are not finite become null.
std::string json_text(const Json& json);

Json to_json(const record::Setting& setting);
Json to_json(const Summary& summary);  // {median_ns, low_ns, high_ns, samples, coverage}
Json to_json(const Work& work);
// {per_s, source, data_sheet_per_s}; the last is null if unknown
Json to_json(const cost::ReferenceRate& rate);
Json to_json(const record::OperationRow& row);
Json memory_classes_json(const int64_t (&bytes)[plan::kMemoryClasses]);  // {parameters: ..., ...}

// The roofs of a roofline: {memory: [bandwidths, fastest first], arithmetic: [GEMM rates],
// vector_flops_per_s, launch_ns}. Unknown rates are null.
Json roofs_json(const cost::Ceilings& ceilings);

// The first entries of each file: program, command, time, machine.
Json heading(const record::LabRecord& lab);

}  // namespace ridge::report
