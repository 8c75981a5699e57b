// SPDX-License-Identifier: Apache-2.0
// The files of the Tiny LLaMA workshop's scripts: their names, keys and units (seconds, MB of 2^20
// bytes, base units; microseconds for operators), with Ridge's figures. Where a script's own figure
// means something else, "convention" says what stands there.
#pragma once

#include <vector>

#include "report/output_files.h"

namespace ridge::courses {

// Ridge's own files, and about the last run that the lab reports in detail those of the scripts:
// with their keys next to Ridge's where both have a file of that name, and as the scripts lay them
// out (flops_analysis/, pytorch_profiling/ with a trace for TensorBoard's plugin for PyTorch's
// profiler, performance_summary_report.md).
std::vector<report::OutputFile> workshop_files(const record::LabRecord& lab,
                                               std::vector<report::OutputFile> own);

}  // namespace ridge::courses
