// SPDX-License-Identifier: Apache-2.0
// Calls the writer of each file.
#include "report/output_files.h"

#include "report/chrome_trace.h"
#include "report/computational_intensity.h"
#include "report/flops_profile.h"
#include "report/kernels_json.h"
#include "report/markdown_report.h"
#include "report/memory_json.h"
#include "report/operators_csv.h"
#include "report/performance_summary.h"
#include "report/report_page.h"

namespace ridge::report {

std::vector<OutputFile> record_files(record::LabRecord& lab) {
  // Write the trace first, because the other files include its warning.
  Trace trace = chrome_trace(lab);
  if (!trace.warning.empty()) lab.warnings.push_back(trace.warning);
  return {{"performance_summary.json", performance_summary(lab)},
          {"flops_profile.json", flops_profile(lab)},
          {"computational_intensity.json", computational_intensity(lab)},
          {"operators.csv", operators_csv(lab)},
          {"memory.json", memory_json(lab)},
          {"kernels.json", kernels_json(lab)},
          {"trace.json", std::move(trace.text)}};
}

std::vector<OutputFile> output_files(record::LabRecord& lab) {
  std::vector<OutputFile> files = record_files(lab);
  files.push_back({"report.md", markdown_report(lab)});
  files.push_back(page_file(files));
  return files;
}

}  // namespace ridge::report
