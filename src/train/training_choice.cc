// SPDX-License-Identifier: Apache-2.0
// Checks the numbers, and takes from the model what is not given.
#include "train/training_choice.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/split.h"

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

TrainingSetup TrainingChoice::setup(const backends::MachineOptions& machine) const {
  TrainingSetup setup;
  setup.setting = backends::make_setting(model.name, machine, selection, switches);
  setup.config = model.config;
  setup.step = step;
  setup.selection = selection;
  return setup;
}

}  // namespace ridge::train
