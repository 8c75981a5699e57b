// SPDX-License-Identifier: Apache-2.0
// A model, a step and a level as the user names them, and the training step that they choose.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/machine.h"
#include "models/model_choice.h"
#include "passes/level_options.h"
#include "plan/rank_layout.h"
#include "train/setup.h"

namespace ridge::runtime {
class Ranks;
}

namespace ridge::train {

inline constexpr int64_t kMostMicroBatches = 65536;  // more would take hours per step

struct TrainingOptions {
  models::ModelOptions model;
  passes::LevelOptions level;
  backends::MachineOptions machine;
  std::optional<int64_t> batch_size, sequence;  // if empty, those of the preset
  int64_t micro_batches = 1;
  std::string freeze;
  passes::LoraOptions lora;
  std::string lora_targets = "q_proj,v_proj";
};

// How the ranks of a layout train, as the options of `ridge train` name it.
struct RankSharing {
  int64_t zero = 0;  // the stage up to which they share states out
  bool sequence_parallel = false;
  std::string pipeline_schedule = "1f1b";
  int64_t pipeline_chunks = 0;  // 0: 2 if interleaved, else 1
};
// The switches of their passes. Throws usage Errors.
std::string layout_switches(const plan::RankLayout& layout, const RankSharing& sharing);
// How their stages work. Throws usage Errors.
PipelineOptions pipeline_of(const plan::RankLayout& layout, const RankSharing& sharing);

struct TrainingChoice {
  // Throws usage Errors.
  explicit TrainingChoice(const TrainingOptions& options);
  // One more switch of passes; "" changes nothing.
  void add_switch(const std::string& more);
  // Makes this process one of the ranks. Every rank calls it, before make_backend.
  void share(runtime::Ranks& ranks, const RankSharing& sharing);
  // Call after make_backend, which sets threads and ISA.
  TrainingSetup setup(const backends::MachineOptions& machine) const;

  models::ModelChoice model;
  std::string switches;
  passes::Selection selection;
  StepOptions step;
};

}  // namespace ridge::train
