// SPDX-License-Identifier: Apache-2.0
// Defines the records of one `ridge lab` or `ridge train` for the report writers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/ceilings.h"
#include "record/run_record.h"

namespace ridge::record {

// A proposed change and its predicted effect, from the cost of the changed graph.
struct AdviceRecord {
  std::string title, reason, command;
  double time_gain = 0, memory_gain = 0, before_ns = 0, after_ns = 0;
  int64_t before_peak_bytes = 0, after_peak_bytes = 0;
  bool is_same_training = true;
  // The probability that tokens per second rise at all, from how far predicted gains of this lab
  // are from the measured ones; 1 for advice that only saves memory, which is counted.
  double confidence = 1;
};

// With fewer steps an interval cannot reach 95%.
inline constexpr int64_t kLeastClearSteps = 6;

// A trial of a piece of advice: the runs before and after the change, which took turns.
struct TrialRecord {
  AdviceRecord advice;
  RunRecord before;
  RunRecord after;
  // Tokens per second, after over before, less 1.
  double measured_gain() const;
  // Whether both runs have at least kLeastClearSteps steps and the intervals of their times per
  // token do not overlap.
  bool is_clear() const;
  // "clear of noise", "within noise", or "too few steps".
  std::string_view verdict() const;
};

struct LabRecord {
  std::string program;      // "ridge 0.1.0"
  std::string command;      // as typed
  std::string finished_at;  // ISO 8601, UTC
  std::optional<cost::Ceilings> ceilings;
  std::vector<RunRecord> runs;  // in run order: levels vary fastest, then batch sizes, then lengths
  std::vector<size_t> detailed;  // indices of the runs whose operations are reported
  bool seeks_advice = false;     // if false, `advice` is empty because none was looked for
  std::vector<AdviceRecord> advice;
  std::vector<TrialRecord> trials;  // the first pieces of advice
  std::vector<std::string> warnings;

  const cost::Ceilings* limits() const { return ceilings ? &*ceilings : nullptr; }
  // Whether any run measured a launch rate.
  bool has_launch_rate() const;
};

// The dtype of a setting's GEMMs: bf16, i16, or f32 otherwise.
DType product_dtype(const Setting& setting);
// The rates that MFU and MBU of a run are shares of; a rate of 0 if no ceilings are known.
cost::ReferenceRate mfu_reference(const LabRecord& lab, const Setting& setting);
cost::ReferenceRate mbu_reference(const LabRecord& lab);
// RunRecord::mbu_reason; empty if no ceilings are known.
std::string mbu_reason(const LabRecord& lab, const RunRecord& run);
// The conventions with their reference rates, for the first run: "PaLM (...), of 1.02 TFLOP/s ...".
std::string mfu_convention(const LabRecord& lab);
std::string mbu_convention(const LabRecord& lab);

// The runs reported in detail that have the batch size and length of the first run.
std::vector<const RunRecord*> detailed_at_first_point(const LabRecord& lab);

// Adds a warning for each inconsistency in the times of a run: they vary, disagree, or
// exceed a ceiling.
void check_consistency(const RunRecord& run, LabRecord& lab);

// Indices of the runs, grouped by equal work: same task, model, batch size, length and
// micro-batches. Groups keep the order of the runs; the first run of a group is its reference.
std::vector<std::vector<size_t>> ladders(const LabRecord& lab);

// The run that `run` is compared with: the first one with equal work.
const RunRecord& reference_run(const LabRecord& lab, const RunRecord& run);
// Step time of the reference run over the step time of `run`.
double speed_up(const LabRecord& lab, const RunRecord& run);
bool losses_agree(const RunRecord& a, const RunRecord& b);

// Where nothing was measured at two settings: predictions of steps are usually within 20%.
inline constexpr double kUnknownGainError = 0.2;
inline constexpr double kLeastGainError = 0.02;  // measurements are no better

// The root mean square of ln(predicted gain / measured gain) over all pairs of runs of equal work,
// where a gain is the time of one over the other's; at least kLeastGainError, and kUnknownGainError
// without such a pair.
double gain_error(std::span<const RunRecord> runs);

// The probability that a predicted gain (0.25: 25% faster) is one at all, if logarithms of gains
// have normally distributed errors of this size. An error of 0 means that predictions are exact.
double gain_confidence(double gain, double error);

}  // namespace ridge::record
