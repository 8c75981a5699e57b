// SPDX-License-Identifier: Apache-2.0
// Everything that one `ridge lab` or `ridge train` found out, for the report writers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/ceilings.h"
#include "record/run_record.h"

namespace ridge::record {

// A proposed change and what the costs of the changed graph predict for it.
struct AdviceRecord {
  std::string title;
  std::string reason;
  std::string command;
  double time_gain = 0;    // samples per second, after over before, less 1
  double memory_gain = 0;  // of owned memory
  double before_ns = 0, after_ns = 0;
  int64_t before_peak_bytes = 0, after_peak_bytes = 0;
  bool is_same_training = true;
};

// The first piece of advice, taken: the run before and the run after, one beside the other.
struct TrialRecord {
  AdviceRecord advice;
  RunRecord before;
  RunRecord after;
  // Samples per second, after over before, less 1.
  double measured_gain() const;
  // False where the step times' intervals overlap: then the gain is noise.
  bool is_clear() const;
};

struct LabRecord {
  std::string program;      // "ridge 0.1.0"
  std::string command;      // as typed
  std::string finished_at;  // ISO 8601, UTC
  std::optional<cost::Ceilings> ceilings;
  std::vector<RunRecord> runs;  // in the order they ran: levels within a batch size within a length
  std::vector<size_t> detailed;  // indices of the runs whose operations are reported
  std::vector<AdviceRecord> advice;
  std::optional<TrialRecord> trial;
  std::vector<std::string> warnings;

  const cost::Ceilings* limits() const { return ceilings ? &*ceilings : nullptr; }
  // Of any run.
  bool has_launch_rate() const;
};

// The dtype that a setting's products run in: "bf16", "i16" or f32.
DType product_dtype(const Setting& setting);
// The measured peak of that dtype's products; 0 where no ceilings are known.
double peak_flops_per_ns(const LabRecord& lab, const Setting& setting);

// Indices of the runs of one model, batch and length, in
// order; their first is what the others are compared with.
std::vector<std::vector<size_t>> ladders(const LabRecord& lab);

// The run that `run` is compared with: the first of the same model, batch and length.
const RunRecord& reference_run(const LabRecord& lab, const RunRecord& run);
// Step time of the reference over this one's.
double speed_up(const LabRecord& lab, const RunRecord& run);
bool losses_agree(const RunRecord& a, const RunRecord& b);

}  // namespace ridge::record
