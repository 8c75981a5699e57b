// SPDX-License-Identifier: Apache-2.0
// Reads a performance_summary.json: the fields that are needed to compare two runs and to describe
// one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/samples.h"
#include "record/figures.h"
#include "record/run_record.h"

namespace ridge::record {

struct SummaryOperation {
  std::string key, bound;
  int64_t calls = 0;
  double time_ns = 0, exclusive_ns = 0, share = 0, flops_per_s = 0, bytes_per_s = 0;
  double predicted_ns = 0;
  Summary samples;
  // The step would gain this if the op ran as fast as predicted; 0 without a prediction.
  double possible_gain_ns() const {
    return predicted_ns > 0 ? std::max(0.0, time_ns - predicted_ns) : 0;
  }
};

struct SummaryRun {
  Setting setting;
  Summary step;
  double predicted_ns = 0, samples_per_s = 0, tokens_per_s = 0, speed_up = 0, mfu = 0;
  double launch_rate = 0;  // 0 if not measured
  int64_t kernel_calls = 0, owned_bytes = 0, measured_peak_bytes = 0;
  std::optional<double> without_kernel_ns;  // idle and host time of a step
  std::optional<double> mean_loss;          // training only, like losses_agree
  bool losses_agree = true;
  std::vector<SummaryOperation> by_op;    // empty for a run that was not reported in detail
  std::vector<SummaryOperation> by_kind;  // empty in files of before this table, too
};

struct SummaryAdvice {
  std::string title, reason, command;
  double gain = 0;
};

template <class See, Of<SummaryAdvice> R>
void figures(const See& see, R& r) {
  see("title", r.title), see("reason", r.reason), see("command", r.command),
      see({"predicted_gain", "share"}, r.gain);
}

struct SummaryFile {
  std::string program, command, finished_at, device;
  std::vector<SummaryRun> runs;
  std::vector<SummaryAdvice> advice;
  std::vector<std::string> warnings;
};

// The version that is written. Version 1 used other names for the same values.
inline constexpr int kSummaryVersion = 2;

// A performance_summary.json of any version as a document of the current one. Throws for unknown
// versions; `source` names the file in errors.
nlohmann::json current_summary(const nlohmann::json& document, const std::string& source);
// The fields of such a document. Throws bad-file Errors that name the field.
SummaryFile read_summary(const nlohmann::json& document, const std::string& source);
// Reads an output folder or a file, in this version or an older one. Throws bad-file Errors that
// name the file and the field.
SummaryFile read_summary(const std::filesystem::path& path);

}  // namespace ridge::record
