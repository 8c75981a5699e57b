// SPDX-License-Identifier: Apache-2.0
// Evaluates the batches between two steps.
#include "train/validation.h"

#include <utility>

namespace ridge::train {

Validation::Validation(Trainer& trainer,
                       std::span<const Batch> batches,
                       int64_t every,
                       int64_t first,
                       Listener listener)
    : trainer_(trainer),
      batches_(batches),
      every_(every),
      first_(first),
      listener_(std::move(listener)) {}

bool Validation::is_due(int64_t next) { return next > first_ && next % every_ == 0; }

void Validation::work(int64_t steps) {
  if (losses_.contains(steps)) return;
  losses_[steps] = trainer_.evaluate(batches_);
  listener_({steps, losses_[steps]});
}

std::optional<double> Validation::loss_after(int64_t steps) const {
  return losses_.contains(steps) ? std::optional(losses_.at(steps)) : std::nullopt;
}

}  // namespace ridge::train
