// SPDX-License-Identifier: Apache-2.0
// The changes to a training experiment that advice weighs. Each is made to a copy; several can be
// made to the same one if they concern different settings.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "measure/training_run.h"
#include "passes/pass.h"

namespace ridge::bench {

struct Change {
  std::string setting;  // the change sets it: "level", "batch", "pass fuse_glu"
  std::string title;    // "train with batches of 16"
  std::string why;      // the motivation, without numbers; may be empty
  // Its option: "--batch-size" and "16". Values of --pass are joined.
  std::string option, value;
  bool is_same_training = true;
  bool is_untested_rate = false;  // needs rates that no run of a lab at the present setting uses
  std::function<void(measure::TrainingExperiment&)> make;
};

// All changes that are not impossible from the start; costing them finds the others.
std::vector<Change> possible_changes(const measure::TrainingExperiment& present,
                                     const passes::PassTarget& target,
                                     std::span<const int> threads);

// "--level kernels --pass=-fuse_glu,+recompute"
std::string options_text(std::span<const Change* const> changes);

}  // namespace ridge::bench
