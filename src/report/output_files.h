// SPDX-License-Identifier: Apache-2.0
// Lists the files of an output folder by name, with their text. It writes nothing to disk.
#pragma once

#include <string>
#include <vector>

#include "record/lab_record.h"

namespace ridge::report {

struct OutputFile {
  std::string name;
  std::string text;
};

struct OutputFormat {
  bool gzip = false;      // traces as trace.json.gz
  bool workshop = false;  // the workshop's JSON files (workshop_files.h) instead of Ridge's
};

// The machine-readable files of a lab's runs, for training and inference. Adds a warning to the
// record if a file had to be cut.
std::vector<OutputFile> record_files(record::LabRecord& lab, const OutputFormat& format = {});
// All files of a training lab; in the workshop's format its six, the traces, the page and the
// Markdown report under its name there. Adds a warning to the record if a file had to be cut.
std::vector<OutputFile> output_files(record::LabRecord& lab, const OutputFormat& format = {});

}  // namespace ridge::report
