// SPDX-License-Identifier: Apache-2.0
// report.md: what a lab found, joined into one text for people. Everything in it stands in the JSON
// files too.
#pragma once

#include <string>

#include "perf/lab_record.h"

namespace ridge::report {

std::string markdown_report(const perf::LabRecord& lab);

}  // namespace ridge::report
