// SPDX-License-Identifier: Apache-2.0
// Pictures (SVG) of an output folder for pages without scripts: the times of a bench, a demo or a study, and rooflines.
// report.html draws the same data with tooltips and filters.
#pragma once

#include <string>

#include "report/run_folder.h"

namespace ridge::report {

// Draws a folder of ridge bench, demo or study: the time over the size that varies, both logarithmic,
// a line for each form, or a bar for each form, technique or value where none varies. Full marks are
// measured, dashed or hollow ones predicted. Throws bad-file Errors, usage Errors without points.
std::string bench_chart(const RunFolder& folder);

// The roofs of the machine and a point for each measured or predicted case of a bench, or for each op of the last level of
// ridge lab, train or infer-lab, by FLOPs per planned byte. Errors as above.
std::string roofline_chart(const RunFolder& folder);

}  // namespace ridge::report
