// SPDX-License-Identifier: Apache-2.0
// The files of choices that were made by timing, in the cache folder, and the choice of attention that --attention auto makes.
// Not a subcommand.
#pragma once

#include <span>
#include <string>

#include "apps/inference_options.h"
#include "bench/attention_choice.h"

namespace ridge::apps {

struct TuningFile {
  const char* name;
  const char* what;
};
std::span<const TuningFile> tuning_files();
inline constexpr const char* kAttentionTuning = "attention-tuning.json";

// The path in the cache folder, whether it exists or not; empty if there is no such folder.
std::string tuning_path(const char* name);

// The choices of attention on this device. Call after make_backend, which sets threads and ISA.
bench::AttentionChoices attention_choices(const MachineOptions& machine);

// --attention
void add_attention_option(Command app, std::string& attention);
// The switch of passes for --attention: "" for level, "+flash_attention" or "-flash_attention". `auto` measures the call on this
// machine, unless that is known. Throws a usage Error for another word.
std::string attention_switch(const std::string& attention,
                             const bench::AttentionCall& call,
                             const MachineOptions& machine);
// Makes --attention one more switch of the passes of a training.
void choose_attention(const TrainingOptions& options, TrainingChoice& choice);
// The options with --attention as one more switch; a decode step at the end of the positions that
// the session holds decides.
InferenceOptions with_attention(InferenceOptions options,
                                const models::ModelConfig& config,
                                const SessionNeeds& needs);

}  // namespace ridge::apps
