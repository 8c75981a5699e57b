// SPDX-License-Identifier: Apache-2.0
// Options of ridge train for its data, schedule, validation, checkpoints and samples. Not a
// subcommand.
#pragma once

#include <vector>

#include "apps/command.h"
#include "measure/training_samples.h"
#include "train/training_checkpoints.h"
#include "train/training_data.h"
#include "train/training_schedule.h"

namespace ridge::apps {

void add_training_data_options(Command app, train::TrainingDataOptions& options);
void add_observer_options(Command app, train::ObserverOptions& options);
void add_sample_options(Command app, measure::SampleOptions& options);
void add_length_options(Command app, train::ScheduleOptions& options);
void add_optimizer_options(Command app, train::ScheduleOptions& options);

// Options without effect: those of checkpoints without a folder, of samples that are off, of a rate
// that does not fall, and of a guard that is off.
Mode without_checkpoints(const train::ObserverOptions& options);
Mode without_samples(const measure::SampleOptions& options);
std::vector<Mode> unused_schedule_options(const train::ScheduleOptions& options);

}  // namespace ridge::apps
