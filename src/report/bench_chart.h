// SPDX-License-Identifier: Apache-2.0
// Pictures (SVG) of an output folder for pages without scripts: the times of a bench, a demo or a
// study, and rooflines. report.html draws the same model (chart_model.h) with tooltips and filters.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "report/chart_model.h"
#include "report/run_folder.h"

namespace ridge::report {

// Draws a folder of ridge bench, demo or study: the time over the size that varies, both
// logarithmic, a line for each form, or a bar for each form, technique or value where none varies.
// Full marks are measured, dashed or hollow ones predicted. A folder of ridge lab or train is drawn
// by steps_chart. Throws bad-file Errors, usage Errors without points.
std::string bench_chart(const RunFolder& folder);

// A stacked bar for each instrumented step of the last run of ridge lab or train: kernels of the
// forward pass, the backward pass and the optimizer, and the rest. Throws alike.
std::string steps_chart(const RunFolder& folder);

// The roofs of the machine and a point for each measured or predicted case of a bench, or for each
// op of the last level of ridge lab, train or infer-lab, by FLOPs per planned byte. Throws alike.
std::string roofline_chart(const RunFolder& folder);

struct LossCurve {
  std::string name;
  LossPoints training;    // (step, loss), by step
  LossPoints validation;  // (steps done, loss)
};

// Reads metrics.jsonl of a folder. Losses that are not finite and a last line that was cut are left
// out. Throws bad-file Errors that name the file and line.
LossCurve read_loss_curve(const std::filesystem::path& folder);

// One picture of 1 to 8 curves with at least one loss; throws a usage Error otherwise.
std::string loss_chart(std::span<const LossCurve> curves);

}  // namespace ridge::report
