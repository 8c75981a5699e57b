// SPDX-License-Identifier: Apache-2.0
// A run's place under the roofline in a few numbers: which roofs its kernel time is under, how close
// to them it comes, and which op has the most to gain. The plot and its points are report/roofline.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/ceilings.h"
#include "record/run_record.h"

namespace ridge::record {

// The ops under one roof.
struct RoofTime {
  std::string roof;        // "memory", "f32 GEMM", "vector"
  bool is_memory = false;  // `per_ns` counts bytes, not FLOPs
  double per_ns = 0;       // the machine's measured rate
  int64_t time_ns = 0;     // exclusive time of the ops
  double least_ns = 0;     // at that rate

  double reached() const { return time_ns > 0 ? least_ns / static_cast<double>(time_ns) : 0; }
};

struct RooflineVerdict {
  std::vector<RoofTime> roofs;  // most time first
  int64_t time_ns = 0;          // exclusive time of all ops that compute or move data
  double least_ns = 0;          // at their roofs
  std::string worst;            // the op that takes the most time beyond its roof; empty: none does
  double worst_ns = 0;          // that time

  double reached() const { return time_ns > 0 ? least_ns / static_cast<double>(time_ns) : 0; }
};

// Of the ops of a step whose GEMMs are in `dtype`: each is under its lowest roof (cost::roof), one
// without FLOPs under that of memory. Empty without times.
RooflineVerdict roofline_verdict(const StepRecord& step,
                                 DType dtype,
                                 const cost::Ceilings& ceilings);

}  // namespace ridge::record
