// SPDX-License-Identifier: Apache-2.0
// Options that several subcommands share: which model, at which level, on which part of the
// machine. Not a subcommand.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/command.h"
#include "backends/backend.h"
#include "measure/training_run.h"
#include "models/config.h"
#include "passes/pipeline.h"

namespace ridge::apps {

// --preset, --config
struct ModelOptions {
  std::string preset = "small";
  std::string config_file;
};
void add_model_options(Command app, ModelOptions& options);

// A preset or a file, with the batch size and length
// that it is trained with unless asked otherwise.
struct ModelChoice {
  std::string name;
  models::ModelConfig config;
  int64_t batch_size = 0;
  int64_t sequence = 0;
};
ModelChoice choose_model(const ModelOptions& options);

// --level, --pass, --dtype or --tf32
struct LevelOptions {
  std::string level = "compiled";
  std::string switches;
  std::string dtype = "fp32";
  bool tf32 = false;  // instead of a dtype
};
void add_level_options(Command app, LevelOptions& options);   // all of them
void add_switch_options(Command app, LevelOptions& options);  // without --level
// The switches with the dtype's pass among them; usage Errors for unknown names.
std::string switch_text(const LevelOptions& options);

// --device, --threads, --isa; --nvtx where it is added
struct MachineOptions {
  std::string device;  // "cpu", "cuda"; empty: a GPU where one is found
  int threads = 0;     // 0: all
  std::string isa;
  bool nvtx = false;
};
void add_machine_options(Command app, MachineOptions& options);
void add_nvtx_option(Command app, MachineOptions& options);
// "cpu" or "cuda"; a usage Error for another name.
std::string chosen_device(const MachineOptions& options);
std::unique_ptr<backends::Backend> make_backend(const MachineOptions& options,
                                                const passes::Selection& selection);

// What the record of a run says about how it was made.
record::Setting make_setting(const std::string& model,
                             const MachineOptions& machine,
                             const passes::Selection& selection,
                             const std::string& switches);

// Measured and unmeasured steps: usage Errors for fewer than `least` measured ones and for numbers
// out of reason.
void expect_steps(int64_t steps, int64_t least, int64_t warmup);

// The value of --batch-size and its like where the option is given, else `fallback`. A usage Error
// for less than 1, which must not mean the fallback silently.
int64_t chosen_size(const Command& app, const char* option, int64_t value, int64_t fallback);
// "8,16": at least one number, each >= 1; the option is named in the Error.
std::vector<int64_t> parse_sizes(const std::string& text, const char* option);
// "all" or names of levels, in the order given.
std::vector<std::string> parse_levels(const std::string& text, const char* option);

// Builds and plans the experiment's step without running it: the bytes that it would own. An
// out-of-memory Error where it would not fit into what the machine has left, and every Error that
// building it raises.
int64_t expect_fits(const measure::TrainingExperiment& experiment,
                    const backends::Backend& backend);

}  // namespace ridge::apps
