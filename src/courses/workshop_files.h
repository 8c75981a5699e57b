// SPDX-License-Identifier: Apache-2.0
// The files of the Tiny LLaMA workshop's scripts: their names, keys and units (seconds, MB of 2^20
// bytes, base units; microseconds for operators), with Ridge's figures. Where a script's own figure
// means something else, "convention" says what stands there.
#pragma once

#include <vector>

#include "report/output_files.h"

namespace ridge::courses {

// Six JSON files about the last run that the lab reports in detail; of Ridge's own files the traces
// and the page, and the Markdown report under its name there.
std::vector<report::OutputFile> workshop_files(const record::LabRecord& lab,
                                               std::vector<report::OutputFile> own);

}  // namespace ridge::courses
