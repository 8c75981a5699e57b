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

// The machine-readable files of a lab's runs, for training and inference. Adds a warning to the
// record if a file had to be cut.
std::vector<OutputFile> record_files(record::LabRecord& lab);
// All files of a training lab. Adds a warning to the record if a file had to be cut.
std::vector<OutputFile> output_files(record::LabRecord& lab);

}  // namespace ridge::report
