// SPDX-License-Identifier: Apache-2.0
// Finds the measured ceilings that a step or a run of inference was faster than. Such a ceiling is
// too low: something disturbed its measurement.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cost/ceilings.h"
#include "record/rate_shares.h"
#include "record/run_record.h"

namespace ridge::record {

// A rate above a ceiling by more than this factor disproves it; less is the ceiling's own spread.
inline constexpr double kCeilingSlack = 1.05;

struct BeatenCeiling {
  std::string op;             // the fastest one: "matmul"
  DType dtype = DType::kF32;  // the GEMMs have it; it means nothing for memory
  bool is_memory = false;     // rates are in bytes, not in FLOPs
  double reached_per_ns = 0;
  double ceiling_per_ns = 0;

  std::string str() const;  // "matmul reached 1.20 TFLOP/s, above the f32 peak of 900 GFLOP/s"
};

// At most one for GEMMs and one for memory. Only ops count that take a hundredth of the step, and
// of their bytes those that no cache can hold. Empty unless the ceilings were measured.
std::vector<BeatenCeiling> beaten_ceilings(const StepRecord& step,
                                           DType dtype,
                                           const cost::Ceilings& ceilings);

// The same for a prefill, a decode step or several of them: memory by what is read beyond the last
// cache, and GEMMs if all of them multiply one type. `name` stands in place of the op.
std::vector<BeatenCeiling> beaten_ceilings(const std::string& name,
                                           const RatedWork& work,
                                           const cost::Ceilings& ceilings);

// The ceilings with the rates that were reached in place of lower ones.
cost::Ceilings raised(cost::Ceilings ceilings, std::span<const BeatenCeiling> beaten);

// The ops under one roof.
struct RoofTime {
  std::string roof;        // "memory", "f32 GEMM", "vector"
  bool is_memory = false;  // `per_ns` counts bytes, not FLOPs
  double per_ns = 0;       // the machine's measured rate
  int64_t time_ns = 0;     // exclusive time of the ops
  double least_ns = 0;     // at that rate

  double reached() const { return ratio(least_ns, time_ns); }
};

struct RooflineVerdict {
  std::vector<RoofTime> roofs;  // most time first
  int64_t time_ns = 0;          // exclusive time of all ops that compute or move data
  double least_ns = 0;          // at their roofs
  std::string worst;            // the op that takes the most time beyond its roof; empty: none does
  double worst_ns = 0;          // the time beyond it

  double reached() const { return ratio(least_ns, time_ns); }
};

// Each op of a step whose GEMMs are in `dtype` is under its lowest roof (cost::roof), one without
// FLOPs under memory's. Empty without times.
RooflineVerdict roofline_verdict(const StepRecord& step,
                                 DType dtype,
                                 const cost::Ceilings& ceilings);

}  // namespace ridge::record
