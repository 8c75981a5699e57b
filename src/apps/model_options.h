// SPDX-License-Identifier: Apache-2.0
// Options that several subcommands share: the model, the level, the machine, and the training step
// that they choose together. Not a subcommand.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "backends/backend.h"
#include "measure/training_run.h"
#include "models/config.h"
#include "models/model_file.h"
#include "passes/pipeline.h"

namespace ridge::apps {

// --preset, --config; some subcommands add --model
struct ModelOptions {
  std::string preset = "small";
  std::string config_file;
  std::string model_file;
  bool is_preset() const { return config_file.empty() && model_file.empty(); }
};
void add_model_options(Command app, ModelOptions& options);
void add_model_file_option(Command app, ModelOptions& options);

// A preset, a configuration file or a model with weights, and the default batch size and length of
// its training.
struct ModelChoice {
  std::string name;
  models::ModelConfig config;
  int64_t batch_size = 0;
  int64_t sequence = 0;
  std::shared_ptr<const models::ModelFile> file = nullptr;  // null: no weights
};
ModelChoice choose_model(const ModelOptions& options);
// Throws a usage Error that names `option` if a sequence is longer than the context of --config or
// --model. A preset is trained at any length.
void expect_context(const ModelOptions& options,
                    const ModelChoice& model,
                    const char* option,
                    int64_t sequence);

// --level, --pass, --dtype or --tf32
struct LevelOptions {
  std::string level = "compiled";
  std::string switches;
  std::string dtype = "fp32";
  bool tf32 = false;                // instead of a dtype
  std::string attention = "level";  // of some subcommands (apps/tuning_files.h)
};
void add_level_option(Command app, LevelOptions& options);    // --level
void add_pass_option(Command app, LevelOptions& options);     // --pass
void add_switch_options(Command app, LevelOptions& options);  // --pass, --dtype, --tf32
// The switches, and the pass that the dtype needs. Throws usage Errors for unknown names.
std::string switch_text(const LevelOptions& options);

// --device, --threads, --isa; some subcommands add --nvtx
struct MachineOptions {
  std::string device;  // "cpu" or "cuda"; empty: a GPU if there is one
  int threads = 0;     // 0: all
  std::string isa;
  bool nvtx = false;
};
void add_machine_options(Command app, MachineOptions& options);
void add_nvtx_option(Command app, MachineOptions& options);
// Returns "cpu" or "cuda"; throws a usage Error for another name.
std::string chosen_device(const MachineOptions& options);
std::unique_ptr<backends::Backend> make_backend(const MachineOptions& options,
                                                const passes::Selection& selection);
// Throws a usage Error for a switch of --pass or --dtype that has no effect in such graphs on the
// target.
void expect_effect(const std::string& switches,
                   passes::Serves serves,
                   const passes::PassTarget& target);

// The settings of a run, for its record. Call after make_backend, which sets threads and ISA.
record::Setting make_setting(const std::string& model,
                             const MachineOptions& machine,
                             const passes::Selection& selection,
                             const std::string& switches);

// Throws usage Errors for fewer than `least` measured steps, and for step counts that are so large
// that they must be typing errors.
void expect_steps(int64_t steps, int64_t least, int64_t warmup);

// Parses "8,16": at least one number, each >= 1. Errors name the option.
std::vector<int64_t> parse_sizes(const std::string& text, const char* option);
// Parses "all" or names of levels, in the given order.
std::vector<std::string> parse_levels(const std::string& text, const char* option);

// A model, a step, a level and a machine: the options of train, explain and plan.
struct TrainingOptions {
  ModelOptions model;
  LevelOptions level;
  MachineOptions machine;
  std::optional<int64_t> batch_size, sequence;  // if empty, those of the preset
  int64_t micro_batches = 1;
  std::string freeze;
  passes::LoraOptions lora;
  std::string lora_targets = "q_proj,v_proj";
};
// All except --micro-batches and those of add_tuning_options; plan has lists of sizes and declares
// the rest by itself.
void add_training_options(Command app, TrainingOptions& options);
void add_tuning_options(Command app, TrainingOptions& options);  // --freeze, --lora-...
void add_clip_option(Command app, double& clip_norm);
void expect_clip(double clip_norm);  // throws a usage Error unless it is a number >= 0
void add_micro_batch_option(Command app, TrainingOptions& options);

// The result of the options. `app` tells which options were given.
struct TrainingChoice {
  TrainingChoice(const TrainingOptions& options, const Command& app);

  ModelChoice model;
  std::string switches;
  passes::Selection selection;
  train::StepOptions step;
};

// An experiment with the model's batch size and length, at its default number of steps. Call after
// make_backend, which sets threads and ISA.
measure::TrainingExperiment make_experiment(const ModelChoice& model,
                                            const MachineOptions& machine,
                                            const passes::Selection& selection,
                                            const std::string& switches);
// The same with the chosen step.
measure::TrainingExperiment make_experiment(const TrainingChoice& choice,
                                            const MachineOptions& machine);

// Builds and plans the experiment's step without running it, and returns its owned memory in bytes.
// Throws an out-of-memory Error if that is more than the machine's free memory.
int64_t expect_fits(const measure::TrainingExperiment& experiment,
                    const backends::Backend& backend);

}  // namespace ridge::apps
