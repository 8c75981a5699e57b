// SPDX-License-Identifier: Apache-2.0
// Splits the cost of each engine step among the requests of the step.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cost/ceilings.h"
#include "serve/request_metrics.h"
#include "serve/session.h"

namespace ridge::serve {

class Accounting {
 public:
  // Without ceilings there are no predictions and no utilizations.
  Accounting(const Session& session, std::shared_ptr<const cost::Ceilings> ceilings)
      : session_(session), ceilings_(std::move(ceilings)) {}

  // Counts and predicts the runs of a bucket ahead of its first one. Its context may be far beyond
  // the positions of a run, so that the prediction is between that of the whole context and that of
  // a short one.
  void prepare(const Bucket& bucket);

  // Adds a run of the bucket, which took `ns`, to each part's request, or to the discarded cost
  // where that is null. Returns the run's cost.
  StepCost add(const Bucket& bucket,
               std::span<const PartExtent> parts,
               double ns,
               std::span<RequestMetrics* const> metrics);

  const StepCost& discarded_cost() const { return discarded_cost_; }
  // The data type in which the last run computed most of its MACs.
  DType product_type() const { return product_type_; }
  // Utilizations cover the last kRecentSteps steps; without ceilings there are none.
  std::optional<double> mfu() const;
  std::optional<double> mbu() const;

 private:
  struct PredictedCost {
    BucketCost cost;
    double ns = 0;  // a run whose tokens attend to the bucket's whole context
    // A run whose tokens attend to kShortContext keys each; none: as `ns`.
    std::optional<double> short_ns = std::nullopt;

    double predicted_ns(const models::InferenceShape& shape,
                        std::span<const PartExtent> parts) const;
  };
  struct Recent {
    double ns = 0, least_multiply_ns = 0, least_read_ns = 0;
  };
  static constexpr int64_t kShortContext = 256;
  static constexpr size_t kRecentSteps = 64;

  const PredictedCost& bucket_cost(const Bucket& bucket);
  std::optional<double> recent_share(double Recent::*least) const;

  const Session& session_;
  const std::shared_ptr<const cost::Ceilings> ceilings_;
  std::optional<LinearWork> model_;
  std::map<const Bucket*, PredictedCost> bucket_costs_;
  std::deque<Recent> recent_;
  StepCost discarded_cost_;
  DType product_type_ = DType::kF32;
};

}  // namespace ridge::serve
