// SPDX-License-Identifier: Apache-2.0
// A record that shows itself: its figures as JSON, the text of a terminal, a picture, and the whole
// page. It keeps what report/ has written.
#pragma once

#include <string>
#include <vector>

#include "record/lab_record.h"
#include "report/output_files.h"

namespace ridge::record {
struct BenchRecord;  // its header and those of imports each name another Extents
}

namespace ridge::python {

// A text of columns, escaped, and a picture (SVG) below it, for a cell.
std::string html_text(const std::string& text, const std::string& picture = "");

struct Report {
  std::string json, text;
  std::string picture = {};                    // SVG; empty: none
  std::vector<report::OutputFile> files = {};  // those of an output folder; empty: none

  // A table and the picture, without scripts, for a cell.
  std::string html() const { return html_text(text, picture); }
  // report.html. Throws a usage Error without files.
  std::string page() const;
};

// The differences of b's runs from those of a. Throws a usage Error if there are none to compare.
Report compared(const Report& a, const Report& b);

// The roofline of an output folder's files; empty if nothing in it has FLOPs, bytes and a time.
std::string roofline_picture(const std::vector<report::OutputFile>& files);

// The report of a bench or a demo, with its chart.
Report bench_report(const record::LabRecord& about, const record::BenchRecord& bench);

// The program, this call and the time, for an output folder.
record::LabRecord about(const std::string& call);

}  // namespace ridge::python
