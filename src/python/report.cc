// SPDX-License-Identifier: Apache-2.0
// Puts the text and the picture together.
#include "python/report.h"

#include "base/clock.h"
#include "base/error.h"
#include "files/json.h"
#include "record/bench_record.h"
#include "record/run_change.h"
#include "record/summary_file.h"
#include "report/bench_chart.h"
#include "report/bench_table.h"
#include "report/command_text.h"
#include "report/report_page.h"
#include "report/run_folder.h"

namespace ridge::python {
namespace {

std::string escaped(const std::string& text) {
  std::string made;
  for (const char c : text) {
    if (c == '<')
      made += "&lt;";
    else if (c == '&')
      made += "&amp;";
    else
      made += c;
  }
  return made;
}

}  // namespace

std::string html_text(const std::string& text, const std::string& picture) {
  return "<div><pre style=\"line-height:1.25;overflow-x:auto\">" + escaped(text) + "</pre>" +
         picture + "</div>";
}

std::string Report::page() const {
  for (const report::OutputFile& each : files)
    if (each.name == "report.html") return each.text;
  if (files.empty())
    throw usage_error("[report] expected a report with a page, this one is a text");
  return report::page_file(files).text;
}

Report compared(const Report& a, const Report& b) {
  const auto side = [](const Report& of, const char* name) {
    return report::DiffSide{name, record::read_summary(files::parse_json(of.json, name), name)};
  };
  const report::DiffSide before = side(a, "the first report"), after = side(b, "the second report");
  const std::vector<record::RunChange> runs = record::run_changes(before.file, after.file);
  if (runs.empty())
    throw usage_error("[compare] expected runs with the same model, level, batch and length");
  return {report::json_text(report::diff_json(runs)),
          report::diff_text(before, after, runs, {}, false)};
}

std::string roofline_picture(const std::vector<report::OutputFile>& files) {
  try {
    return report::roofline_chart(report::run_folder(files));
  } catch (const Error& error) {  // a trace of kernels alone has no FLOPs
    if (error.code() != ExitCode::kUsage) throw;
    return "";
  }
}

Report bench_report(const record::LabRecord& about, const record::BenchRecord& bench) {
  Report made{report::bench_text(bench, "json", {}), report::bench_text(bench, "table", {})};
  made.files = report::bench_files(about, bench);
  made.picture = report::bench_chart(report::run_folder(made.files));
  return made;
}

record::LabRecord about(const std::string& call) {
  record::LabRecord lab;
  lab.program = "ridge " RIDGE_VERSION;
  lab.command = call;
  lab.finished_at = utc_now();
  return lab;
}

}  // namespace ridge::python
