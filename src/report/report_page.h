// SPDX-License-Identifier: Apache-2.0
// Writes report.html: one file that a browser opens without a network. It holds the page of
// src/report/page, D3, and the documents of run folders. The page draws; nothing is computed here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/run_folder.h"

namespace ridge::report {

// Browsers open a page of this size at once.
inline constexpr int64_t kPageCapBytes = 10'000'000;

// Leaves out kernels, slices and samples until the page fits under the cap; the page lists what.
// Throws a run-time Error if it does not fit all the same, and bad-file Errors for damaged files.
std::string report_page(std::span<const RunFolder> folders, int64_t cap_bytes = kPageCapBytes);
// report.html for the other files of a folder.
OutputFile page_file(std::span<const OutputFile> files);

// The page without data: its place is marked by kDataMark. Made at build time from src/report/page.
extern const std::string_view kPageTemplate;
inline constexpr std::string_view kDataMark = "@RIDGE_DATA@";

}  // namespace ridge::report
