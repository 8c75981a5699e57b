// SPDX-License-Identifier: Apache-2.0
// Plans a training step on a machine: its memory on each device, its time, and what fits. Prints
// nothing. Not a subcommand.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "apps/plan_training.h"
#include "cost/resource_plan.h"
#include "measure/training_run.h"

namespace ridge::apps {

inline constexpr int64_t kLargestBatch = int64_t{1} << 20;
// The longest context that is tried for a preset, which has none of its own.
inline constexpr int64_t kMostContext = int64_t{1} << 20;

// What one device holds at the peak of each class, in bytes.
struct DeviceMemory {
  std::vector<std::pair<std::string, int64_t>> classes;  // without empty ones
  int64_t total = 0;
};

struct TrainingPlan {
  record::RunRecord record;  // of a device by itself
  DType dtype = DType::kF32;
  cost::ReferenceRate peak;  // GEMMs in `dtype`
  bool is_bf16 = false;
  cost::StateTypes types;
  cost::StateParameters parameters;
  cost::Zero zero = cost::Zero::kNone;
  DeviceMemory memory;
  bool fits = true;  // the hardware's memory is unknown or holds the step
  // Of a step on all devices.
  double sent_bytes = 0;   // by each device
  double exchange_ns = 0;  // at the assumed rate of the slowest link
  double exposed_ns = 0;   // what does not overlap with the graph
  double step_ns = 0;
  double days = 0;          // for the token budget at the predicted rate
  double assumed_days = 0;  // at the assumed MFU
  Expense spent;            // in `days`
  int64_t largest_batch = 0;
  int64_t longest_context = 0;
  int64_t most_context = 0;  // the longest that was tried
  cost::BytesPerParameter bytes_per_parameter;
  int64_t largest_model = 0;
  std::vector<std::string> would_fit;  // changes of options, each by itself

  double tokens_per_step(int64_t devices) const {
    return static_cast<double>(record.setting.tokens() * devices);
  }
  double flops_per_token() const {
    return static_cast<double>(record.palm_flops()) / static_cast<double>(record.setting.tokens());
  }
  double mfu() const { return static_cast<double>(record.palm_flops()) / (step_ns * peak.per_ns); }
};

class TrainingPlanner {
 public:
  TrainingPlanner(const TrainingPlanRequest& request, const TerminalOptions& terminal)
      : request_(request), terminal_(terminal) {}

  TrainingPlan plan(const Place& place);
  cost::ActivationExtents extents() const;
  cost::Recompute recompute() const;

 private:
  // A step that differs from the requested one.
  struct Variant {
    int64_t batch = 0, sequence = 0;
    std::string recompute;
    bool bf16 = false;  // whether bf16 is added
  };

  Variant requested() const;
  measure::TrainingExperiment experiment(const Variant& variant, const Place& place) const;
  record::RunRecord record(const Variant& variant,
                           const Place& place,
                           const cost::Ceilings* ceilings) const;
  // The record without times, remembered.
  const record::RunRecord& counted(const Variant& variant, const Place& place);
  bool is_bf16(const Variant& variant) const;
  cost::StateTypes types(bool is_bf16) const;
  cost::StateParameters parameters(const record::RunRecord& record) const;
  DeviceMemory memory(const record::RunRecord& record, bool is_bf16, cost::Zero stage) const;
  // In the lowest stage that fits, or the last one.
  std::pair<cost::Zero, DeviceMemory> lowest(const record::RunRecord& record,
                                             bool is_bf16,
                                             const Place& place) const;
  int64_t bytes(const Variant& variant, const Place& place);
  void add_times(const Place& place, TrainingPlan& plan) const;
  void add_limits(const Place& place, TrainingPlan& plan);
  // The fewest devices that hold the step with ZeRO 3, more than the requested ones; 0: none.
  int64_t more_devices(const record::RunRecord& record, const Place& place, bool is_bf16) const;
  void add_changes(const Place& place, TrainingPlan& plan);

  const TrainingPlanRequest& request_;
  const TerminalOptions& terminal_;
  std::map<std::tuple<std::string, int64_t, int64_t, std::string, bool>, record::RunRecord>
      counted_;
};

}  // namespace ridge::apps
