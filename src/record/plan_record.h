// SPDX-License-Identifier: Apache-2.0
// Defines the plans of training and inference for the report writers: what a run would take on some
// hardware, which may be another machine. planning/ fills them; nothing here measures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost/activation_models.h"
#include "cost/ceilings.h"
#include "cost/data_parallel_plan.h"
#include "cost/resource_plan.h"
#include "record/run_record.h"

namespace ridge::record {

// The hardware that a plan is for. A value of 0 and an empty text are unknown.
struct PlannedHardware {
  std::string name;   // as the user wrote it
  std::string title;  // "NVIDIA H100 SXM 80 GB"
  std::string source;
  cost::Ceilings ceilings;
  int64_t memory_bytes = 0;
  double link_bytes_per_s = 0;  // to other devices of a node, in one direction
  std::string link;             // "NVLink 4"
  double board_watts = 0;

  bool holds(double bytes) const {
    return memory_bytes <= 0 || bytes <= static_cast<double>(memory_bytes);
  }
};

// The devices of a training plan, the types of the state that they keep, and their price. An empty
// type stands for the one that Ridge trains with.
struct PlanLayout {
  int64_t devices = 1;
  std::string zero = "auto";  // or the stage, 0 to 3
  std::string weight_dtype = "", gradient_dtype = "", moment_dtype = "";
  double link = 0;  // GB/s; 0: the data sheet's
  double network = 50;
  int64_t node_devices = 8;
  double price = 0;  // for an hour of a device; 0: not given
  double watts = 0;  // 0: the data sheet's

  // Whether the plan is that of one device as Ridge trains on it.
  bool is_plain() const {
    return devices == 1 && weight_dtype.empty() && gradient_dtype.empty() && moment_dtype.empty();
  }
};

// The devices, energy and money that some days of training take; 0 is unknown.
struct Expense {
  double device_hours = 0;
  double watts = 0;  // drawn by a device
  double kilowatt_hours = 0;
  double price = 0;
};

// The part that training plans of a model and of a number of parameters have in common.
struct DevicePlan {
  PlannedHardware hardware;
  PlanLayout layout;
  double tokens = 0, assumed_mfu = 0;
  cost::ReferenceRate peak;
  cost::StateTypes types;
  cost::StateParameters parameters;
  cost::Zero zero = cost::Zero::kNone;
  cost::Zero last_zero = cost::Zero::kNone;  // the highest stage that the layout allows
  bool fits = true;
  double assumed_days = 0;
  Expense spent;
  int64_t largest_model = 0;
  std::vector<std::string> would_fit;

  // A value that only a plan that fits has.
  std::optional<double> if_fits(double value) const {
    return fits ? std::optional<double>(value) : std::nullopt;
  }

  cost::Links links() const {
    return {layout.link > 0 ? layout.link * 1e9 : hardware.link_bytes_per_s, layout.node_devices,
            layout.network * 1e9};
  }
};

struct ParameterPlan : DevicePlan {
  std::string dtype;
  double flops_per_token = 0;
  cost::StateBytes bytes;
  int64_t fewest_devices = 0;

  double flops() const { return flops_per_token * tokens; }
};

// The bytes that one device holds at the peak of each class.
struct DeviceMemory {
  std::vector<std::pair<std::string, int64_t>> classes;  // without empty ones
  int64_t total = 0;
};

// The longest context that is tried for a preset, which has none of its own, and the largest batch.
inline constexpr int64_t kMostPlannedContext = int64_t{1} << 20;
inline constexpr int64_t kMostPlannedBatch = int64_t{1} << 20;

struct TrainingPlan : DevicePlan {
  RunRecord record;  // one device by itself
  std::string recompute;
  double clip_norm = 0;
  // Whether --recompute attention was asked of flash attention, which keeps no scores.
  bool recomputes_nothing = false;
  DeviceMemory memory;
  double sent_bytes = 0, exchange_ns = 0, exposed_ns = 0, step_ns = 0;
  double days = 0;  // `spent` is for these
  int64_t largest_batch = 0, longest_context = 0;
  int64_t most_context = 0;  // the longest that was tried
  cost::BytesPerParameter bytes_per_parameter;
  double korthikanti_bytes = 0;
  cost::NanoGptMemory nano_gpt;

  double tokens_per_s() const {
    return static_cast<double>(record.setting.tokens() * layout.devices) * 1e9 / step_ns;
  }
  double flops_per_token() const {
    return static_cast<double>(record.palm_flops()) / static_cast<double>(record.setting.tokens());
  }
  double mfu() const { return static_cast<double>(record.palm_flops()) / (step_ns * peak.per_ns); }
};

struct PhaseRecords {
  RunRecord prefill;
  RunRecord decode;
};

// Prefill and decode of a batch at a length.
struct PhasePlan {
  PhaseRecords records;     // without measured times
  int64_t owned_bytes = 0;  // both phases together: each graph has its own arena
  // The bytes of the weights by the type in which a session holds them.
  std::map<DType, int64_t> held_bytes;

  // The larger one of a class's peaks in prefill and decode, for each class.
  plan::MemoryMoment class_peaks() const {
    plan::MemoryMoment peaks = records.prefill.memory.class_peaks();
    const plan::MemoryMoment other = records.decode.memory.class_peaks();
    for (int i = 0; i < plan::kMemoryClasses; ++i)
      peaks.bytes[i] = std::max(peaks.bytes[i], other.bytes[i]);
    return peaks;
  }
};

// The largest batch that fits at a length, and its decode time.
struct LargestBatch {
  int64_t length = 0;
  int64_t batch = 0;
  double decode_ns = 0;
};
struct LongestContext {
  int64_t batch = 0;
  int64_t length = 0;
};

struct InferencePlan {
  PlannedHardware hardware;
  std::string model;
  std::string level;
  int64_t parameters = 0;
  int64_t context = 0;  // the model's
  int64_t chunk = 0;
  int64_t ranks = 1;                    // devices that share the model; times and bytes are of one
  int64_t most_batch = 0;               // the most sequences of a session
  std::string cache_dtype;              // "fp32", "bf16", "i8" or "fp8"
  std::map<DType, int64_t> file_bytes;  // by type; empty without a model file
  std::vector<PhasePlan> plans;
  std::vector<LargestBatch> largest_batches;
  std::vector<LongestContext> longest_contexts;
};

}  // namespace ridge::record
