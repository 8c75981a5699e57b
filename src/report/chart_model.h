// SPDX-License-Identifier: Apache-2.0
// The model of the charts that pictures (SVG) and report.html both draw: points, roofs and losses
// are chosen here, from the files of a folder. All throw bad-file Errors that name the field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cost/ceilings.h"
#include "files/json_field.h"

namespace ridge::report {

// A point of bench.json.
bool is_measured(const files::JsonField& point);
// The median, or the prediction where nothing ran; 0 if neither is known.
double time_of(const files::JsonField& point);
// "k=64,n=8", or "k=n=64" where all sizes are equal; empty if the point has none.
std::string shape_text(const files::JsonField& point);

struct RooflinePoint {
  std::string name;
  double intensity = 0, rate = 0;  // FLOPs per planned byte, FLOP/s
  bool is_measured = true;
  bool is_vector = false;    // most of its FLOPs are in no GEMM (cost::roof)
  std::string dtype, level;  // the type of its GEMMs; the memory that holds its operands
};
// The points of a bench, and the ops of a run that was reported in detail.
std::vector<RooflinePoint> bench_points(const files::JsonField& result);
std::vector<RooflinePoint> run_points(const files::JsonField& run);

struct RoofLine {
  std::string name;
  double per_s = 0;  // FLOP/s, or bytes/s if slanted
  bool is_slanted = false;
  bool is_sheet = false;  // from a data sheet, not measured
};
// The lines of a roofline with these points. `roofs` is the "roofs" of a file.
std::vector<RoofLine> roof_lines(const files::JsonField& roofs,
                                 std::span<const RooflinePoint> points);
// {lines, memory_bytes_per_s, gemm: {name, flops_per_s}, vector_flops_per_s}: the lines that a page
// draws, and the rates that tell it the roof over a group of kernels. Null if memory or GEMMs have
// no rate.
nlohmann::json roofline_json(const files::JsonField& roofs, std::span<const RooflinePoint> points);
// The same by the type of GEMMs, for points that are not known yet: {f32: ..., bf16: ...}.
nlohmann::json rooflines_json(const cost::Ceilings& ceilings);

// Losses by step. Where there are more than `most`, a point is the mean of several.
using LossPoints = std::vector<std::pair<int64_t, double>>;
inline constexpr size_t kMostLossPoints = 400;
LossPoints mean_losses(const LossPoints& points, size_t most = kMostLossPoints);

}  // namespace ridge::report
