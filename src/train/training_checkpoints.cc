// SPDX-License-Identifier: Apache-2.0
// Says what becomes of the checkpoints that are there.
#include "train/training_checkpoints.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"

namespace ridge::train {
namespace {

DataPlace resumed_place(const Resumption& resumption,
                        const CheckpointedTraining& training,
                        const CheckpointNote& note) {
  const DataPlace place =
      resume(resumption, training.trainer, training.data.batches(), training.guard);
  for (const SettingChange& each : changed_settings(resumption))
    note(fmt::format("note: {} was {} and is {}", terminal_safe(each.name),
                     terminal_safe(each.before, kLongestMessage),
                     terminal_safe(each.now, kLongestMessage)));
  if (resumption.found)
    note(fmt::format("Resuming after step {} from {}.", resumption.first_step(),
                     terminal_safe(resumption.found->path.string())));
  return place;
}

}  // namespace

void validate(const ObserverOptions& o) {
  for (const auto& [option, value] :
       {std::pair("val-every", o.validate_every), std::pair("save-every", o.save_every),
        std::pair("keep", o.policy.keep)})
    if (value < 1) throw usage_error("[{}] expected at least 1, got {}", option, value);
}

void find_checkpoint(const ObserverOptions& o,
                     const models::ModelConfig& config,
                     Resumption& resumption,
                     const CheckpointNote& note) {
  if (o.checkpoints.empty()) return;
  std::vector<RefusedCheckpoint> refused;
  resumption.found = newest_checkpoint(o.checkpoints, refused);
  if (!o.resume && (resumption.found || !refused.empty()))
    throw usage_error("[checkpoints] {} has checkpoints; --resume goes on after the newest",
                      printable(o.checkpoints));
  for (const RefusedCheckpoint& each : refused)
    note(fmt::format("Refused {}: {}", terminal_safe(each.path.string()),
                     terminal_safe(each.reason, kLongestMessage)));
  if (!resumption.found && !refused.empty())
    throw file_error("[checkpoints] expected a whole checkpoint in {}, found none of {}",
                     o.checkpoints, refused.size());
  if (!resumption.found && o.resume)
    note(fmt::format("There is no checkpoint in {} yet; training begins at step 0.",
                     terminal_safe(o.checkpoints)));
  if (!resumption.found) return;
  expect_same_model(*resumption.found, config);
  expect_same_tuning(resumption);
}

TrainingCheckpoints::TrainingCheckpoints(const ObserverOptions& o,
                                         const Resumption& resumption,
                                         const CheckpointedTraining& training,
                                         const CheckpointNote& note,
                                         SaveRequest request)
    : writer(o.checkpoints,
             o.policy,
             training.data.tokenizer(),
             training.trainer.options().shard.all),
      saver(training.trainer,
            {training.data.batches(), resumed_place(resumption, training, note), training.guard,
             training.validation, resumption.settings},
            writer,
            {o.save_every, resumption.found ? std::optional(resumption.first_step()) : std::nullopt,
             std::move(request), training.free_bytes}) {}

}  // namespace ridge::train
