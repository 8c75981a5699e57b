// SPDX-License-Identifier: Apache-2.0
// Begins the record of a training step with its setting.
#include "train/setup.h"

#include "record/run_record.h"

namespace ridge::train {

record::RunRecord begin_record(const TrainingSetup& setup,
                               const std::vector<cost::PassRecord>& passes) {
  record::RunRecord record;
  record.setting = setup.setting;
  record.setting.batch_size = setup.step.batch_size;
  record.setting.sequence = setup.step.sequence;
  record.setting.micro_batches = setup.step.micro_batches;
  record.setting.ranks = setup.step.shard.ranks > 1 ? setup.step.shard.ranks : 0;
  record.architecture = record::architecture(setup.config);
  record.learning_rate = setup.step.optimizer.learning_rate;
  record.parameters = setup.config.parameters();
  record.passes = passes;
  return record;
}

}  // namespace ridge::train
