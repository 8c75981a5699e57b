// SPDX-License-Identifier: Apache-2.0
// Formats an inference study: sections for the terminal, the files of a lab, and its own summary
// and report.
#pragma once

#include <string>
#include <vector>

#include "record/inference_record.h"
#include "report/output_files.h"
#include "report/terminal.h"

namespace ridge::report {

// One part of the study: a title, a table and a note that explains the table.
struct StudySection {
  std::string title;
  std::string note;
  Table table;
};
// The sections that are not empty, in order.
std::vector<StudySection> study_sections(const record::InferenceRecord& study);

std::string section_text(const StudySection& section, const TerminalOptions& options);
// The whole text, or with `verbose` unset what fits a screen.
std::string study_text(const record::InferenceRecord& study,
                       bool verbose,
                       const TerminalOptions& options);
// Returns infer_summary.json.
std::string inference_summary(const record::InferenceRecord& study);
// Returns record_files of the runs, infer_summary.json, report.md and
// report.html.
std::vector<OutputFile> study_files(record::InferenceRecord& study,
                                    const OutputFormat& format = {});

// Prefills and decodes by level, batch size and length.
Table phase_table(const record::InferenceRecord& study);
// The shares of the rates of the machine, whose ceilings are known.
Table rate_shares_table(const record::InferenceRecord& study);
// Launches, bytes and memory of each run, and the max abs difference of its logits from the
// reference run's.
Table resource_table(const record::InferenceRecord& study);
// Attention modules and MLPs of the runs: arithmetic, bytes, and their position under the roofline.
Table module_table(const record::InferenceRecord& study);
// Whether the module table has a share of a roof over 100%.
bool is_over_roof(const record::InferenceRecord& study);
Table cache_gain_table(const record::InferenceRecord& study);
Table latency_table(const record::InferenceRecord& study);
Table attention_table(const record::InferenceRecord& study);

}  // namespace ridge::report
