// SPDX-License-Identifier: Apache-2.0
// Declares and checks the options of ridge plan. Not a subcommand.
#include "apps/plan_options.h"

#include <charconv>
#include <memory>

#include "apps/inference_options.h"
#include "apps/progress_bars.h"
#include "apps/this_machine.h"
#include "base/error.h"
#include "base/printable.h"
#include "cost/hardware.h"
#include "planning/layout.h"
#include "train/training_schedule.h"

namespace ridge::apps {
namespace {

constexpr double kMostTokens = 1e18;

void add_fake_rank_options(Command app, PlanOptions& o) {
  app = app.under("Devices");
  app.add_option("--fake-ranks", o.fake_ranks,
                 "build the graph of each of so many data-parallel ranks (of a plan of inference, "
                 "of ranks that share the model), show what they exchange and check that it "
                 "matches; no other process is started");
  app.add_option(
      "--tensor-parallel", o.tensor_parallel,
      "with --fake-ranks in a plan of training, ranks that share each copy of the model; the copies "
      "train data-parallel. In a plan of inference, devices that share the model");
  app.add_flag("--sequence-parallel", o.sequence_parallel,
               "ranks that share a model keep parts of the tokens between its cut products");
  add_pipeline_options(app, o.pipeline);
}

void add_layout_options(Command app, record::PlanLayout& o) {
  app = app.under("Devices");
  app.add_option("--devices", o.devices,
                 "number of devices that train data-parallel; each has a batch of its own");
  app.add_option("--zero", o.zero,
                 "what devices share out instead of copying: 0 nothing (plain data parallel), 1 "
                 "moments and master weights, 2 gradients too, 3 weights too; auto: the lowest "
                 "that fits");
  app.add_option("--weight-dtype", o.weight_dtype,
                 "type of the weights that the optimizer updates: fp32, or bf16 or fp16 without "
                 "fp32 masters (default: fp32, next to bf16 copies with --dtype bf16)");
  app.add_option(
      "--gradient-dtype", o.gradient_dtype,
      "type of the gradients: fp32, bf16 or fp16 (default: that of GEMMs; fp32 if micro-batches are "
      "summed)");
  app.add_option(
      "--moment-dtype", o.moment_dtype,
      "type of AdamW's two moments: fp32, bf16, fp16 or i8, scales not counted (default: fp32)");
  app.add_option("--link", o.link,
                 "GB/s of a device in one direction to the others of its node (default: the data "
                 "sheet's)");
  app.add_option("--network", o.network,
                 "GB/s of a device in one direction to other nodes; 50 is a port of 400 Gbit/s");
  app.add_option("--node-devices", o.node_devices, "number of devices in a node");
  app.add_option("--price", o.price,
                 "price of a device for an hour, in any currency (default: no cost is shown)");
  app.add_option("--watts", o.watts,
                 "power of a device in watts (default: the data sheet's board power)");
}

void add_inference_options(Command app, PlanOptions& o) {
  app = app.under("Inference");
  app.add_flag(
      "--inference", o.inference,
      "plan prefill and decode instead of training; --batch-size (default: 1,8,32) and "
      "--seq-len then take lists. A length is that of the prompt (prefill) and of the "
      "context (decode); default: 128,512,2048, or less if the model's context is shorter");
  app.add_option("--model", o.model,
                 "plan inference with this model file or folder, its weights in the types in which "
                 "ridge generate holds them: those of the file on a CPU, bf16 on a GPU (fp32 with "
                 "--exact)");
  add_phase_options(app, o.chunk, o.exact, o.fast_8bit, o.cache_dtype);
}

}  // namespace

void add_plan_options(Command app, PlanOptions& o) {
  add_model_options(app, o.training.model);
  add_level_option(app, o.training.level);
  add_switch_options(app, o.training.level);
  add_machine_options(app, o.training.machine);
  app.add_option("--batch-size", o.batch_sizes,
                 "sequences in a micro-batch (default: the preset's; 8 of a configuration)")
      .numbers();
  app.add_option("--seq-len", o.lengths,
                 "tokens in a sequence (default: the preset's; at most 512 of a configuration)")
      .numbers();
  add_micro_batch_option(app, o.training);
  add_tuning_options(app, o.training);
  add_clip_option(app, o.clip_norm);
  app.add_option("--hardware", o.hardware,
                 "machine to plan for: this, " + cost::hardware_names() +
                     ", or a JSON file (see below); a list of names compares training plans");
  add_enqueue_option(app, o.enqueue_us);
  app.add_option("--tokens", o.tokens,
                 "tokens to train on; their days, energy and cost are predicted");
  app.add_option("--mfu", o.assumed_mfu,
                 "MFU from 0 to 1 for a second estimate of the days, next to the predicted one");
  app.add_option(
      "--parameters", o.parameters,
      "plan from a number of parameters alone, in bf16 unless --dtype is given (default: those of the model)");
  app.add_option(
      "--recompute", o.recompute,
      "what the backward pass computes again: none, attention (scores), block (all but "
      "the input of each layer), full (all but the input of every sqrt(L)-th of L layers, "
      "and twice); short for --pass +recompute_attention, +recompute, +recompute_nested");
  add_layout_options(app, o.layout);
  add_fake_rank_options(app, o);
  app.add_verbose_flag(o.verbose).excludes(app.add_json_flag(o.json));
  add_inference_options(app, o);
}

void refuse_unused(const PlanOptions& o, const Command& app) {
  app.refuse_unused(
      {{o.plans_inference(),
        "in a plan of inference",
        {"--micro-batches",
         "--freeze",
         "--lora-rank",
         "--lora-alpha",
         "--lora-targets",
         "--clip",
         "--tokens",
         "--mfu",
         "--devices",
         "--zero",
         "--weight-dtype",
         "--gradient-dtype",
         "--moment-dtype",
         "--link",
         "--network",
         "--node-devices",
         "--price",
         "--watts",
         "--recompute",
         "--parameters",
         "--dtype",
         "--tf32",
         "--sequence-parallel",
         "--pipeline-parallel",
         "--pipeline-schedule",
         "--pipeline-chunks"}},
       {o.plans_inference() && o.fake_ranks != 0,
        "with --fake-ranks in a plan of inference",
        {"--tensor-parallel"}},
       {o.fake_ranks != 0,
        "with --fake-ranks",
        {"--devices", "--weight-dtype", "--gradient-dtype", "--moment-dtype", "--link", "--network",
         "--node-devices", "--price", "--watts", "--tokens", "--mfu", "--parameters"}},
       {app.given("--parameters"),
        "with --parameters",
        {"--preset", "--config", "--batch-size", "--seq-len", "--micro-batches", "--clip",
         "--freeze", "--lora-rank", "--lora-alpha", "--lora-targets", "--level", "--pass",
         "--recompute", "--link", "--network", "--node-devices", "--verbose", "--enqueue-us"}},
       {o.fake_ranks == 0,
        "without --fake-ranks",
        {"--sequence-parallel", "--pipeline-parallel", "--pipeline-schedule", "--pipeline-chunks"}},
       {o.fake_ranks == 0 && !o.plans_inference(), "without --fake-ranks", {"--tensor-parallel"}},
       {o.layout.devices == 1 && o.fake_ranks == 0,
        "without --devices",
        {"--zero", "--link", "--network", "--node-devices"}},
       {!o.plans_inference(),
        "without --inference or --model",
        {"--chunk", "--exact", "--cache-dtype"}},
       {o.hardware != "this", "with --hardware", {"--device", "--threads", "--isa"}}});
}

void expect_sane(const PlanOptions& o) {
  if (!(o.tokens >= 1 && o.tokens <= kMostTokens))
    throw usage_error("[tokens] expected 1 to {:g}, got {:g}", kMostTokens, o.tokens);
  if (!(o.assumed_mfu > 0 && o.assumed_mfu <= 1))
    throw usage_error("[mfu] expected a share in (0, 1], got {:g}", o.assumed_mfu);
  constexpr int64_t kMostRanks = 4096;
  if (o.fake_ranks < 0 || o.fake_ranks > kMostRanks)
    throw usage_error("[fake-ranks] expected 1 to {}, got {}", kMostRanks, o.fake_ranks);
  if (o.pipeline.pipeline_parallel < 1 || o.pipeline.pipeline_parallel > kMostRanks ||
      (o.fake_ranks != 0 && o.fake_ranks % o.pipeline.pipeline_parallel != 0))
    throw usage_error("[pipeline-parallel] expected a divisor of the {} ranks, got {}",
                      o.fake_ranks, o.pipeline.pipeline_parallel);
  if (o.tensor_parallel < 1 ||
      (o.fake_ranks != 0 && o.fake_ranks / o.pipeline.pipeline_parallel % o.tensor_parallel != 0))
    throw usage_error("[tensor-parallel] expected a divisor of the {} ranks{}, got {}",
                      o.fake_ranks / o.pipeline.pipeline_parallel,
                      o.pipeline.pipeline_parallel > 1 ? " of a stage" : "", o.tensor_parallel);
  planning::expect_sane(o.layout);
  train::expect_clip(o.clip_norm);
}

std::optional<int64_t> one_size(const Command& app, const std::string& text, const char* option) {
  if (!app.given(option)) return {};
  if (text.find(',') != std::string::npos)
    throw usage_error("[{}] expected one number, got the list {}", option + 2, printable(text));
  int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size())
    throw usage_error("[{}] expected a number >= 1, got {}", option + 2, printable(text));
  return size;
}

planning::SearchListener search_bars(const TerminalOptions& terminal) {
  return [bars = std::make_shared<ProgressBars>(terminal)](
             std::string_view search, std::string_view unit, const std::string& trial) {
    bars->tick(search, 0, unit, trial);
  };
}

}  // namespace ridge::apps
