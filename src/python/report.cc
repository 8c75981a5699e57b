// SPDX-License-Identifier: Apache-2.0
// Puts the text and the picture together.
#include "python/report.h"

#include "base/clock.h"
#include "base/error.h"
#include "report/bench_chart.h"
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

std::string Report::html() const {
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

std::string roofline_picture(const std::vector<report::OutputFile>& files) {
  try {
    return report::roofline_chart(report::run_folder(files));
  } catch (const Error& error) {  // a trace of kernels alone has no FLOPs
    if (error.code() != ExitCode::kUsage) throw;
    return "";
  }
}

record::LabRecord about(const std::string& call) {
  record::LabRecord lab;
  lab.program = "ridge " RIDGE_VERSION;
  lab.command = call;
  lab.finished_at = utc_now();
  return lab;
}

}  // namespace ridge::python
