// SPDX-License-Identifier: Apache-2.0
// The log of a training in a folder: its figures step by step as lines of JSON and for TensorBoard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "files/log_file.h"
#include "record/numerics_record.h"
#include "record/training_record.h"
#include "report/json_text.h"

namespace ridge::report {

class TrainingLog {
 public:
  // Makes the folder if it is missing. Throws a usage Error if it has a log already: TensorBoard
  // would draw both as one curve. With `resumed`, the first step of this run, goes on with that log
  // and drops the lines of metrics.jsonl from this step on.
  TrainingLog(const std::filesystem::path& folder, std::optional<int64_t> resumed);

  void add(const record::StepMetrics& step);
  void add(const record::ValidationMetrics& validation);
  // A line of numerics.jsonl, which is made with the first one.
  void add(const record::NumericsRecord& numerics);
  // A line of samples.jsonl, which is made with the first one.
  void add(const record::TrainingSample& sample);

 private:
  // Adds a line, and the chosen ones of its values for TensorBoard.
  void append(Json line, std::string_view scalars);

  std::filesystem::path folder_;
  std::optional<int64_t> resumed_;
  files::LogFile lines_, events_;
  std::optional<files::LogFile> numerics_, samples_;
};

}  // namespace ridge::report
