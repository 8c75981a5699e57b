// SPDX-License-Identifier: Apache-2.0
// What an inference study prints and leaves: sections for the terminal, the files of a lab, and a
// summary and a report of its own.
#pragma once

#include <string>
#include <vector>

#include "base/terminal.h"
#include "record/inference_record.h"
#include "report/output_files.h"

namespace ridge::report {

// One part of the study: a title, what the reader should know, and a table.
struct StudySection {
  std::string title;
  std::string note;
  Table table;
};
// Those that hold anything, in order.
std::vector<StudySection> study_sections(const record::InferenceRecord& study);

std::string section_text(const StudySection& section, const TerminalOptions& options);
// infer_summary.json
std::string inference_summary(const record::InferenceRecord& study);
// record_files of the runs, infer_summary.json, report.md.
std::vector<OutputFile> study_files(record::InferenceRecord& study);

}  // namespace ridge::report
