// SPDX-License-Identifier: Apache-2.0
// The JSON files of an output folder, of this version or an older one, gathered into one document
// per folder, which the report page holds. Figures are taken over; only charts are prepared.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "files/json_field.h"
#include "report/output_files.h"

namespace ridge::report {

struct RunFolder {
  std::string name;
  std::map<std::string, nlohmann::json> files;  // by name, without those that the page ignores
};

// A string of a file, not longer than a page shows.
std::string page_text(const files::JsonField& field);

// Reads the files from disk. Throws bad-file Errors that name the file. A folder of no Ridge run is
// one too.
RunFolder read_run_folder(const std::filesystem::path& path);
// The same for files that are about to be written.
RunFolder run_folder(std::span<const OutputFile> files);

// How much of a folder its document holds.
struct DocumentLimits {
  size_t kernels = 15'000;        // at about 220 bytes
  size_t spans = 100'000;         // at about 25 bytes
  size_t memory_points = 15'000;  // at about 130 bytes
  size_t samples = 4'000;         // in each series: losses, step times
};

// {name, program, command, finished_at, machine, roofs, runs, advice, trials (before them one
// trial), warnings, formulas, inference, bench, log, left_out}. The log of a training is {training,
// validation}, each a list of [step, loss]. A run is performance_summary.json's with
// its setting as "text", its "roofline" and the "curve" of its losses (chart_model.h), and the
// parts of the other files that describe it: "flops_profile", "memory_profile", "kernels".
// "left_out" has a sentence for each limit that was reached. Throws bad-file Errors that name the
// field.
nlohmann::json folder_document(const RunFolder& folder, const DocumentLimits& limits = {});

}  // namespace ridge::report
