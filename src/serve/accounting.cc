// SPDX-License-Identifier: Apache-2.0
// Keeps the facts of each bucket and the sums of the last steps.
#include "serve/accounting.h"

#include "base/error.h"
#include "cost/predict.h"
#include "ops/registry.h"

namespace ridge::serve {

const Accounting::Facts& Accounting::facts(const Bucket& bucket) {
  const auto found = facts_.find(&bucket);
  if (found != facts_.end()) return found->second;
  if (!model_) {
    models::InferenceShape shape = bucket.shape();
    shape.rows = 1;
    model_ = model_work(models::build_inference_graph(session_.config(), ops::table(), shape,
                                                      session_.file().lookup())
                            .graph);
  }
  const cost::CostedGraph& costed = *bucket.program().graph(0).costed;
  const double predicted = ceilings_ == nullptr ? 0 : cost::predict_run_ns(costed, *ceilings_);
  return facts_.emplace(&bucket, Facts{BucketCost(*model_, costed), predicted}).first->second;
}

StepCost Accounting::add(std::span<const PartExtent> parts,
                         double ns,
                         std::span<Account* const> accounts) {
  RIDGE_CHECK(parts.size() == accounts.size(), "{} parts and {} accounts", parts.size(),
              accounts.size());
  const Facts& step = facts(session_.last_bucket());
  const std::vector<StepCost> costs = step.cost.share(parts);
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
    Account& account = *accounts[i];
    const StepCost& cost = costs[i];
    const double multiply_ns = least(2 * static_cast<double>(cost.model.macs), multiplies),
                 read_ns = least(static_cast<double>(cost.needed_bytes), reads);
    ++account.steps;
    account.step_ns += ns;
    account.shared_ns +=
        ns * static_cast<double>(cost.executed_flops) / static_cast<double>(all.executed_flops);
    account.cost += cost;
    account.least_multiply_ns += multiply_ns;
    account.least_read_ns += read_ns;
    recent.least_multiply_ns += multiply_ns;
    recent.least_read_ns += read_ns;
    (account.prefill_ns == 0 ? account.predicted_prefill_ns : account.predicted_decode_ns) +=
        step.predicted_ns;
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
