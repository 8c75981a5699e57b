// SPDX-License-Identifier: Apache-2.0
// Declares the shared options. Not a subcommand.
#include "apps/model_options.h"

namespace ridge::apps {
namespace {

constexpr const char* kModel = "Model";
constexpr const char* kLevel = "Level";
constexpr const char* kMachine = "Machine";

}  // namespace

void add_model_options(Command app, ModelOptions& options) {
  app = app.under(kModel);
  Option preset =
      app.add_option("--preset", options.preset,
                     "size of a model with random weights: tiny (2.6 M parameters), small (32 M), "
                     "medium (190 M) or large (1.0 B)");
  app.add_option("--config", options.config_file,
                 "instead of a preset, a config.json with Hugging Face's key names or a published "
                 "shape: gemma3-270m, gemma3-1b, llama-2-7b, llama-2-70b, llama-3-8b, smollm2-135m")
      .excludes(preset);
}

void add_model_file_option(Command app, ModelOptions& options) {
  app.under(kModel).add_option(
      "--model", options.model_file,
      "start from the weights of this model: a .gguf file, or a folder with config.json and "
      "safetensors");
}

void add_level_option(Command app, LevelOptions& options) {
  app.under(kLevel).add_option(
      "--level", options.level,
      "optimizations of the graph, each level with those before: baseline (none), fused "
      "(merged projections, flash attention), kernels (hand-written ones) or compiled "
      "(generated kernels, tuned GEMMs; the fastest)");
}

void add_pass_option(Command app, LevelOptions& options) {
  app.under(kLevel).add_option("--pass", options.switches,
                               "turn passes and options on or off: +NAME,-NAME; +recompute=4 "
                               "recomputes only the first 4 layers (see ridge explain --passes)");
}

void add_switch_options(Command app, LevelOptions& options) {
  add_pass_option(app, options);
  app = app.under(kLevel);
  Option dtype =
      app.add_option("--dtype", options.dtype,
                     "type of GEMMs and activations: fp32 (the most exact), tf32 (a GPU "
                     "rounds the fp32 inputs of GEMMs to TF32), bf16 (half the memory, the "
                     "fastest where the device has it; fp32 master weights) or, to train on "
                     "a CPU, fp16 (with loss scaling too)");
  app.add_flag("--tf32", options.tf32, "short for --dtype tf32").excludes(dtype);
}

void add_machine_options(Command app, MachineOptions& options) {
  options.note = [](const std::string& warning) {
    fmt::print(stderr, "warning: {}\n", terminal_safe(warning));
  };
  app = app.under(kMachine);
  app.add_option("--device", options.device, "cpu or cuda (default: cuda if there is a GPU)");
  app.add_option("--threads", options.threads,
                 "CPU threads (default: one for each processor that Ridge may use)");
  app.add_option("--isa", options.isa,
                 "highest instruction set that kernels may use: avx2, avx512 or amx (default: the "
                 "CPU's highest)");
}

void add_nvtx_option(Command app, MachineOptions& options) {
  app.under(kMachine).add_flag("--nvtx", options.nvtx,
                               "mark launches with NVTX ranges named after their scopes, for "
                               "Nsight Systems (with CUDA graphs: during capture)");
}

void add_training_options(Command app, TrainingOptions& o) {
  add_model_options(app, o.model);
  add_level_option(app, o.level);
  add_switch_options(app, o.level);
  add_machine_options(app, o.machine);
  app.add_option("--batch-size", o.batch_size,
                 "sequences in a micro-batch (default: the preset's; 8 of a configuration)");
  app.add_option("--seq-len", o.sequence,
                 "tokens in a sequence (default: the preset's; at most 512 of a configuration)");
}

void add_clip_option(Command app, double& clip_norm) {
  app.add_option("--clip", clip_norm,
                 "largest norm of the gradients; a larger one is scaled down (0: no clipping)");
}

void add_micro_batch_option(Command app, TrainingOptions& o) {
  app.add_option("--micro-batches", o.micro_batches,
                 "micro-batches in a step, whose gradients are summed (gradient accumulation)");
}

void add_tuning_options(Command app, TrainingOptions& o) {
  app = app.under(kModel);
  app.add_option(
      "--freeze", o.freeze,
      "train all but the parameters that match: PATTERN[,PATTERN], in which * stands for "
      "any characters (*embed_tokens*,*norm*); default: train all");
  app.add_option(
      "--lora-rank", o.lora.rank,
      "rank of adapters (with --pass +lora); a higher one learns more and needs more memory");
  app.add_option("--lora-alpha", o.lora.alpha,
                 "strength of adapters: their output is multiplied by alpha / rank");
  app.add_option("--lora-targets", o.lora_targets,
                 "the projections that get an adapter: q_proj, k_proj, v_proj, o_proj, gate_proj, "
                 "up_proj, down_proj or lm_head");
}

TrainingChoice choose_training(const TrainingOptions& o, const Command& app) {
  TrainingChoice choice(o);
  const bool has_lora = choice.selection.has("lora");
  app.refuse_unused(
      {{!has_lora, "without --pass +lora", {"--lora-rank", "--lora-alpha", "--lora-targets"}},
       {has_lora, "with --pass +lora", {"--freeze"}}});
  return choice;
}

}  // namespace ridge::apps
