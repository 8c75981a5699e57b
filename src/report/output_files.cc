// SPDX-License-Identifier: Apache-2.0
// Calls the writer of each file.
#include "report/output_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/printable.h"
#include "files/gzip_writer.h"
#include "report/kernels_json.h"
#include "report/kineto_trace.h"
#include "report/markdown_report.h"
#include "report/operators_csv.h"
#include "report/lab_files.h"
#include "report/report_page.h"

namespace ridge::report {
namespace {

// trace.json, trace-2.json ...: one for each run reported in detail, as tools expect one program
// and one device in a trace. All together stay under the cap.
std::vector<OutputFile> trace_files(record::LabRecord& lab, const OutputFormat& format) {
  std::vector<OutputFile> files;
  const auto count = static_cast<int64_t>(lab.detailed.size());
  for (size_t index : lab.detailed) {
    const std::string stem = files.empty() ? "trace" : fmt::format("trace-{}", files.size() + 1);
    const std::string name = stem + (format.gzip ? ".json.gz" : ".json");
    Trace trace = kineto_trace(lab, lab.runs[index], name, kTraceCapBytes / count);
    if (!trace.warning.empty()) lab.warnings.push_back(trace.warning);
    files.push_back({name, format.gzip ? files::gzip(trace.text) : std::move(trace.text)});
  }
  return files;
}

}  // namespace

std::vector<FileFormat>& file_formats() {
  static std::vector<FileFormat> formats;
  return formats;
}

OutputFormat output_format(const std::string& name, bool gzip) {
  OutputFormat format{.gzip = gzip};
  std::string known = "ridge";
  for (const FileFormat& each : file_formats()) {
    if (each.name == name) format.instead = &each;
    known += fmt::format(" or {}", each.name);
  }
  if (format.instead == nullptr && name != "ridge")
    throw usage_error("[format] expected {}, got {}", known, printable(name));
  return format;
}

std::vector<OutputFile> record_files(record::LabRecord& lab, const OutputFormat& format) {
  // Write the traces first, because the other files include their warnings.
  std::vector<OutputFile> traces = trace_files(lab, format);
  std::vector<OutputFile> files = {{"performance_summary.json", performance_summary(lab)},
                                   {"flops_profile.json", flops_profile(lab)},
                                   {"computational_intensity.json", computational_intensity(lab)},
                                   {"operators.csv", operators_csv(lab)},
                                   {"memory.json", memory_json(lab)},
                                   {"kernels.json", kernels_json(lab)}};
  std::move(traces.begin(), traces.end(), std::back_inserter(files));
  return files;
}

std::vector<OutputFile> output_files(record::LabRecord& lab, const OutputFormat& format) {
  std::vector<OutputFile> files = record_files(lab, format);
  if (format.instead != nullptr) return format.instead->files(lab, std::move(files));
  files.push_back({"report.md", markdown_report(lab)});
  files.push_back(page_file(files));
  return files;
}

}  // namespace ridge::report
