// SPDX-License-Identifier: Apache-2.0
// Validates a model in training: its loss on batches that it is not trained on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "record/training_record.h"
#include "train/observer.h"

namespace ridge::train {

// Validates each `every` steps and after the last one.
class Validation final : public Observer {
 public:
  using Listener = std::function<void(const record::ValidationMetrics&)>;
  // `first` is the number of steps that were done before; the state then is not validated. The
  // listener is called after each validation.
  Validation(Trainer& trainer,
             std::span<const Batch> batches,
             int64_t every,
             int64_t first,
             Listener listener);

  bool is_due(int64_t next) override;
  void work(int64_t steps) override;
  void end(int64_t steps) override { work(steps); }
  const std::map<int64_t, double>& losses() const { return losses_; }  // by the steps done
  std::optional<double> loss_after(int64_t steps) const;

 private:
  Trainer& trainer_;
  std::span<const Batch> batches_;
  int64_t every_, first_;
  Listener listener_;
  std::map<int64_t, double> losses_;
};

}  // namespace ridge::train
