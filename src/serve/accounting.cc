// SPDX-License-Identifier: Apache-2.0
// Keeps the cost of each bucket and the times of the last steps.
#include "serve/accounting.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cost/predict.h"
#include "ops/registry.h"

namespace ridge::serve {

const Accounting::PredictedCost& Accounting::bucket_cost(const Bucket& bucket) {
  const auto found = bucket_costs_.find(&bucket);
  if (found != bucket_costs_.end()) return found->second;
  if (!model_) {
    models::InferenceShape shape = bucket.shape();
    shape.rows = 1;
    model_ = model_work(models::build_inference_graph(session_.config(), ops::table(), shape,
                                                      session_.runner().file().lookup())
                            .graph);
  }
  const cost::CostedGraph& costed = *bucket.program().graph(0).costed;
  PredictedCost made{BucketCost(*model_, costed)};
  if (ceilings_ != nullptr) made.ns = cost::predict_run_ns(costed, *ceilings_);
  return bucket_costs_.emplace(&bucket, std::move(made)).first->second;
}

void Accounting::prepare(const Bucket& bucket) {
  bucket_cost(bucket);
  models::InferenceShape shape = bucket.shape();
  if (ceilings_ == nullptr || shape.context <= kShortContext) return;
  shape.context = kShortContext;
  bucket_costs_.at(&bucket).short_ns =
      cost::predict_run_ns(*session_.runner().buckets().planned(shape), *ceilings_);
}

double Accounting::PredictedCost::predicted_ns(const models::InferenceShape& shape,
                                               std::span<const PartExtent> parts) const {
  if (!short_ns) return ns;
  double attended = 0;  // keys, of all tokens
  for (const PartExtent& each : parts)
    attended += static_cast<double>(each.tokens) *
                (static_cast<double>(each.begin) + static_cast<double>(each.tokens + 1) / 2);
  const double each = attended / static_cast<double>(shape.tokens),
               share = (each - static_cast<double>(kShortContext)) /
                       static_cast<double>(shape.context - kShortContext);
  return std::lerp(*short_ns, ns, std::clamp(share, 0.0, 1.0));
}

StepCost Accounting::add(const Bucket& bucket,
                         std::span<const PartExtent> parts,
                         double ns,
                         std::span<RequestMetrics* const> metrics) {
  RIDGE_CHECK(parts.size() == metrics.size(), "{} parts and {} metrics", parts.size(),
              metrics.size());
  const PredictedCost& step = bucket_cost(bucket);
  const std::vector<StepCost> costs = step.cost.share(parts);
  const double predicted_ns = step.predicted_ns(bucket.shape(), parts);
  product_type_ = step.cost.product_type();
  StepCost all;
  for (const StepCost& each : costs) all += each;
  const auto least = [&](double amount, cost::ReferenceRate rate) {
    return rate.per_ns > 0 ? amount / rate.per_ns : 0;
  };
  const cost::ReferenceRate multiplies = ceilings_ == nullptr
                                             ? cost::ReferenceRate()
                                             : ceilings_->mfu_reference(step.cost.product_type());
  const cost::ReferenceRate reads =
      ceilings_ == nullptr ? cost::ReferenceRate() : ceilings_->mbu_reference();
  Recent recent{.ns = ns};
  for (size_t i = 0; i < parts.size(); ++i) {
    const StepCost& cost = costs[i];
    if (metrics[i] == nullptr) {
      discarded_cost_ += cost;
      continue;
    }
    RequestMetrics& request = *metrics[i];
    const double multiply_ns = least(2 * static_cast<double>(cost.model.macs), multiplies),
                 read_ns = least(static_cast<double>(cost.needed_bytes), reads);
    ++request.steps;
    request.step_ns += ns;
    request.shared_ns +=
        ns * static_cast<double>(cost.executed_flops) / static_cast<double>(all.executed_flops);
    request.cost += cost;
    request.least_multiply_ns += multiply_ns;
    request.least_read_ns += read_ns;
    recent.least_multiply_ns += multiply_ns;
    recent.least_read_ns += read_ns;
    (request.prefill_ns == 0 ? request.predicted_prefill_ns : request.predicted_decode_ns) +=
        predicted_ns;
  }
  recent_.push_back(recent);
  if (recent_.size() > kRecentSteps) recent_.pop_front();
  return all;
}

std::optional<double> Accounting::recent_share(double Recent::*least) const {
  double ns = 0, sum = 0;
  for (const Recent& each : recent_) {
    ns += each.ns;
    sum += each.*least;
  }
  if (ceilings_ == nullptr || !(ns > 0)) return std::nullopt;
  return sum / ns;
}

std::optional<double> Accounting::mfu() const { return recent_share(&Recent::least_multiply_ns); }
std::optional<double> Accounting::mbu() const { return recent_share(&Recent::least_read_ns); }

}  // namespace ridge::serve
