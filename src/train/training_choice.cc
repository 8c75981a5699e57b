// SPDX-License-Identifier: Apache-2.0
// Checks the numbers, and takes from the model what is not given.
#include "train/training_choice.h"

#include <fmt/ranges.h>

#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/split.h"
#include "runtime/ranks.h"

namespace ridge::train {
namespace {

passes::LoraOptions lora_of(const TrainingOptions& o) {
  constexpr int64_t kMostRank = 65536;
  passes::LoraOptions lora = o.lora;
  lora.targets = split(o.lora_targets);
  if (lora.rank < 1 || lora.rank > kMostRank)
    throw usage_error("[lora-rank] expected 1 to {}, got {}", kMostRank, lora.rank);
  if (!std::isfinite(lora.alpha) || lora.alpha <= 0)
    throw usage_error("[lora-alpha] expected a number above 0, got {}", lora.alpha);
  return lora;
}

}  // namespace

std::string layout_switches(const plan::RankLayout& layout, const RankSharing& o) {
  if (o.zero < 0 || o.zero > 3)
    throw usage_error("[zero] expected a stage from 0 to 3, got {}", o.zero);
  if (o.sequence_parallel && layout.tensor == 1)
    throw usage_error("[sequence-parallel] expected ranks that share a model, got 1");
  std::vector<std::string> switches;
  if (layout.tensor > 1)
    switches.push_back(fmt::format("+train_tensor_parallel={}", layout.tensor));
  if (o.sequence_parallel) switches.emplace_back("+sequence_parallel");
  if (layout.data > 1)
    switches.push_back(o.zero == 0 ? fmt::format("+data_parallel={}", layout.data)
                                   : fmt::format("+zero={}", o.zero));
  return fmt::format("{}", fmt::join(switches, ","));
}

PipelineOptions pipeline_of(const plan::RankLayout& layout, const RankSharing& o) {
  constexpr int64_t kMostChunks = 64;
  const passes::PipelineOrder order = passes::pipeline_order(o.pipeline_schedule);
  const bool is_interleaved = order == passes::PipelineOrder::kInterleaved;
  if (layout.pipeline == 1 &&
      (order != passes::PipelineOrder::kOneForwardOneBackward || o.pipeline_chunks != 0))
    throw usage_error("[pipeline-schedule] expected --pipeline-parallel of 2 or more, got 1");
  const int64_t chunks = o.pipeline_chunks != 0 ? o.pipeline_chunks : is_interleaved ? 2 : 1;
  if (chunks < 1 || chunks > kMostChunks || (chunks > 1 && !is_interleaved))
    throw usage_error("[pipeline-chunks] expected {}, got {}",
                      is_interleaved ? fmt::format("1 to {}", kMostChunks)
                                     : std::string("1 unless --pipeline-schedule interleaved"),
                      chunks);
  return {order, chunks};
}

TrainingChoice::TrainingChoice(const TrainingOptions& o)
    : model(models::choose_model(o.model)),
      switches(passes::switch_text(o.level)),
      selection(o.level.level, switches) {
  step.batch_size = o.batch_size.value_or(model.batch_size);
  step.sequence = o.sequence.value_or(model.sequence);
  for (const auto& [option, size] :
       {std::pair("batch-size", step.batch_size), std::pair("seq-len", step.sequence)})
    if (size < 1) throw usage_error("[{}] expected at least 1, got {}", option, size);
  models::expect_context(o.model, model, "seq-len", step.sequence);
  if (o.micro_batches < 1 || o.micro_batches > kMostMicroBatches)
    throw usage_error("[micro-batches] expected 1 to {}, got {}", kMostMicroBatches,
                      o.micro_batches);
  step.micro_batches = o.micro_batches;
  if (!o.freeze.empty()) step.frozen = split(o.freeze);
  step.lora = lora_of(o);
  step.base_model = o.model.model_file;
}

void TrainingChoice::add_switch(const std::string& more) {
  switches = passes::with_switch(switches, more);
  selection = passes::Selection(selection.level(), switches);
}

void TrainingChoice::share(runtime::Ranks& ranks, const RankSharing& sharing) {
  const plan::RankLayout& layout = ranks.layout();
  add_switch(layout_switches(layout, sharing));
  step.pipeline = pipeline_of(layout, sharing);
  step.shard = {ranks.data_rank(), layout.data,     &ranks.all(),  ranks.tensor_rank(),
                layout.tensor,     &ranks.groups(), ranks.stage(), layout.pipeline};
  ranks.share_kv_heads(layout.tensor / model.config.kv_heads);
}

TrainingSetup TrainingChoice::setup(const backends::MachineOptions& machine) const {
  TrainingSetup setup;
  setup.setting = backends::make_setting(model.name, machine, selection, switches);
  setup.config = model.config;
  setup.step = step;
  setup.selection = selection;
  return setup;
}

}  // namespace ridge::train
