// SPDX-License-Identifier: Apache-2.0
// The losses of training as a picture (SVG), from the metrics.jsonl that `ridge train --log-dir` writes. report.html
// draws the losses of run folders; this is for pages without scripts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ridge::report {

struct LossCurve {
  std::string name;
  std::vector<std::pair<int64_t, double>> training;    // (step, loss), by step
  std::vector<std::pair<int64_t, double>> validation;  // (steps done, loss)
};

// Reads metrics.jsonl of a folder. Losses that are not finite and a last line that was cut are left out. Throws
// bad-file Errors that name the file and line.
LossCurve read_loss_curve(const std::filesystem::path& folder);

// One picture of 1 to 8 curves with at least one loss; throws a usage Error otherwise. Where there are more than 400
// steps, a point of the line is the mean of several.
std::string loss_chart(std::span<const LossCurve> curves);

}  // namespace ridge::report
