// SPDX-License-Identifier: Apache-2.0
// Options that several subcommands share: the model, the level, the machine, and the training step
// that they choose together. Not a subcommand.
#pragma once

#include <string>

#include "apps/command.h"
#include "backends/machine.h"
#include "base/split.h"
#include "models/model_choice.h"
#include "passes/level_options.h"
#include "train/training_choice.h"

namespace ridge::apps {

// The choices that the options below fill.
using backends::is_gpu;
using backends::MachineOptions;
using backends::make_backend;
using backends::make_setting;
using models::ModelChoice;
using models::ModelOptions;
using passes::LevelOptions;
using passes::parse_levels;
using passes::switch_text;
using train::TrainingChoice;
using train::TrainingOptions;

void add_model_options(Command app, ModelOptions& options);      // --preset, --config
void add_model_file_option(Command app, ModelOptions& options);  // --model
void add_level_option(Command app, LevelOptions& options);       // --level
void add_pass_option(Command app, LevelOptions& options);        // --pass
void add_switch_options(Command app, LevelOptions& options);     // --pass, --dtype, --tf32
void add_machine_options(Command app, MachineOptions& options);  // --device, --threads, --isa
void add_nvtx_option(Command app, MachineOptions& options);      // --nvtx
// All except --micro-batches and those of add_tuning_options; plan has lists of sizes and declares
// the rest by itself.
void add_training_options(Command app, TrainingOptions& options);
void add_tuning_options(Command app, TrainingOptions& options);  // --freeze, --lora-...
void add_clip_option(Command app, double& clip_norm);
void add_micro_batch_option(Command app, TrainingOptions& options);

// Throws usage Errors, also for an option that was given and has no effect.
TrainingChoice choose_training(const TrainingOptions& options, const Command& app);

}  // namespace ridge::apps
