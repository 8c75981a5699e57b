// SPDX-License-Identifier: Apache-2.0
// The files that a lab leaves, by name: one place that
// says what an output folder holds. It writes nothing.
#pragma once

#include <string>
#include <vector>

#include "record/lab_record.h"

namespace ridge::report {

struct OutputFile {
  std::string name;
  std::string text;
};

// Those for programs: of a lab's runs, whatever they are of. Adds a warning to the record when one
// had to be cut.
std::vector<OutputFile> record_files(record::LabRecord& lab);
// All files of a lab of training. Adds a warning to the record when one had to be cut.
std::vector<OutputFile> output_files(record::LabRecord& lab);

}  // namespace ridge::report
