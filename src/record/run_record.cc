// SPDX-License-Identifier: Apache-2.0
// Derived values of a run.
#include "record/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/units.h"
#include "models/config.h"

namespace ridge::record {
namespace {

constexpr double kF32Tolerance = 5e-5;     // equal when printed with 4 decimals, up to rounding
constexpr double kNarrowTolerance = 0.02;  // limit for the effect of bf16 or TF32 on losses

double per_second(double count, double ns) { return ns > 0 ? count * 1e9 / ns : 0; }

}  // namespace

std::string Setting::str() const {
  std::string text = fmt::format("{} {}{}{}", model, task == "train" ? "" : task + " ", level,
                                 switches.empty() ? "" : " " + switches);
  // A trace of kernels alone has no batch.
  if (batch_size != 0 || sequence != 0) text += fmt::format(" {}x{}", batch_size, sequence);
  if (micro_batches > 1) text += fmt::format(" x{} micro-batches", micro_batches);
  if (ranks > 1) text += fmt::format(" on {} ranks", ranks);
  if (!dtype.empty() && dtype != "fp32") text += " " + dtype;
  return cache_dtype.empty() ? text : text + " cache in " + cache_dtype;
}

int64_t StepRecord::exclusive_ns(bool computes) const {
  int64_t sum = 0;
  for (const NodeRecord& node : nodes)
    if ((node.work.flops > 0) == computes) sum += node.exclusive_ns;
  return sum;
}

std::vector<StepPhases> StepRecord::phases() const {
  std::vector<StepPhases> all;
  for (size_t i = 0; i < wall_samples_ns.size() && i < step_numbers.size(); ++i) {
    StepPhases& each = all.emplace_back(StepPhases{step_numbers[i], wall_samples_ns[i]});
    for (const NodeRecord& node : nodes) {
      double& sum = node.phase == "forward"    ? each.forward_ns
                    : node.phase == "backward" ? each.backward_ns
                                               : each.optimizer_ns;
      if (i < node.samples_ns.size()) sum += node.samples_ns[i];
    }
  }
  return all;
}

double RunRecord::samples_per_s() const {
  return per_second(static_cast<double>(setting.samples() * setting.processes()), step_ns());
}

double RunRecord::tokens_per_s() const {
  return per_second(static_cast<double>(setting.tokens() * setting.processes()), step_ns());
}

double RunRecord::palm_flops_per_s() const {
  return per_second(static_cast<double>(palm_flops()), step_ns());
}

double RunRecord::mfu(const cost::ReferenceRate& flops) const {
  return flops.per_ns > 0 ? palm_flops_per_s() / (flops.per_ns * 1e9) : 0;
}

double RunRecord::mbu(const cost::ReferenceRate& bytes) const {
  double ns = step_ns();
  if (!(ns > 0) || !(bytes.per_ns > 0)) return 0;
  return static_cast<double>(weight_bytes + cache_bytes) / ns / bytes.per_ns;
}

std::string RunRecord::mbu_reason(const cost::Ceilings& ceilings) const {
  return over_memory_reason(mbu(ceilings.mbu_reference()), weight_bytes + cache_bytes, ceilings);
}

std::string over_memory_reason(double share, int64_t bytes, const cost::Ceilings& ceilings) {
  if (!(share > 1)) return "";
  const int64_t cache = ceilings.last_cache_bytes();
  if (cache > 0 && bytes <= cache)
    return fmt::format("the weights lie in the last-level cache ({})", format_bytes(cache));
  // If what the cache holds took no time at all.
  const double most =
      cache > 0 ? static_cast<double>(bytes) / static_cast<double>(bytes - cache) : 1;
  if (share <= most)
    return fmt::format("the last-level cache ({}) holds part of the weights", format_bytes(cache));
  return ceilings.is_measured()
             ? "the measured bandwidth of memory is too low; measure it again with ridge machine "
               "--remeasure"
             : "the bandwidth of memory is assumed too low";
}

Summary RunRecord::profiling_cost() const {
  std::vector<double> shares;
  for (size_t i = 0; i < std::min(paired_wall_ns.size(), step.wall_samples_ns.size()); ++i)
    if (paired_wall_ns[i] > 0) shares.push_back(step.wall_samples_ns[i] / paired_wall_ns[i] - 1);
  return summarize(shares);
}

double RunRecord::profiling_cost_of_run() const {
  const auto instrumented = static_cast<double>(step.wall_samples_ns.size());
  const auto plain = static_cast<double>(plain_wall_ns.size());
  return instrumented > 0 ? profiling_cost().median * instrumented / (instrumented + plain) : 0;
}

double RunRecord::clock_cost() const { return ratio(clock_ns, median(plain_wall_ns)); }

double RunRecord::mean_loss() const {
  if (losses.empty()) return 0;
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

double logits_difference(const RunRecord& a, const RunRecord& b) {
  if (a.logits.size() != b.logits.size()) return HUGE_VAL;
  double most = 0;
  for (size_t i = 0; i < a.logits.size(); ++i) {
    double difference =
        std::abs(static_cast<double>(a.logits[i]) - static_cast<double>(b.logits[i]));
    if (!(difference <= most)) most = difference;
    if (std::isnan(most)) return most;
  }
  return most;
}

double loss_difference(const RunRecord& a, const RunRecord& b) {
  double most = 0;
  for (size_t i = 0; i < std::min(a.losses.size(), b.losses.size()); ++i) {
    double difference = std::abs(a.losses[i] - b.losses[i]);
    // A NaN on only one side is a difference; std::max would drop it.
    if (!(difference <= most)) most = difference;
    if (std::isnan(most)) return most;
  }
  return most;
}

double loss_tolerance(const RunRecord& a, const RunRecord& b) {
  bool both_wide = a.setting.dtype == "fp32" && b.setting.dtype == "fp32";
  return both_wide ? kF32Tolerance : kNarrowTolerance;
}

Architecture architecture(const models::ModelConfig& config) {
  return {config.vocabulary,   config.hidden,  config.layers,     config.heads,   config.kv_heads,
          config.feed_forward, config.context, config.rope_theta, config.norm_eps};
}

}  // namespace ridge::record
