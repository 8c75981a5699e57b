// SPDX-License-Identifier: Apache-2.0
// The gradients of a loss as tensors, for those who compare them with their own. Trains nothing.
#pragma once

#include <span>
#include <vector>

#include "train/saved_state.h"
#include "train/trainer.h"

namespace ridge::train {

struct LossGradients {
  double loss = 0;  // mean over the micro-batches
  std::vector<SavedTensor> tensors;
};
// Computes them and leaves parameters, moments and the number of steps as they are. Takes a batch
// for each micro-batch. No step may be running, the options must separate the update, and a guard
// of the trainer is forgotten. With loss scaling the gradients are those of the scaled loss.
LossGradients loss_gradients(Trainer& trainer, std::span<const Batch> batches);

}  // namespace ridge::train
