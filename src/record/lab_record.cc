// SPDX-License-Identifier: Apache-2.0
// Comparisons between the runs of a lab.
#include "record/lab_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/units.h"
#include "record/inference_record.h"

namespace ridge::record {
namespace {

bool is_same_work(const Setting& a, const Setting& b) {
  return a.task == b.task && a.model == b.model && a.batch_size == b.batch_size &&
         a.sequence == b.sequence && a.micro_batches == b.micro_batches;
}

// The number of ranks that share each copy of the model, by the switch of their pass.
int64_t sharing_ranks(const Setting& setting) {
  constexpr std::string_view kPass = "train_tensor_parallel=";
  const size_t at = setting.switches.rfind(kPass);
  int64_t ranks = 1;
  if (at == std::string::npos) return ranks;
  const char* digits = setting.switches.data() + at + kPass.size();
  std::from_chars(digits, setting.switches.data() + setting.switches.size(), ranks);
  return ranks;
}

}  // namespace

bool LabRecord::has_launch_rate() const {
  return std::any_of(runs.begin(), runs.end(),
                     [](const RunRecord& run) { return run.launch_rate().count > 0; });
}

double TrialRecord::measured_gain() const {
  const double old_rate = before.tokens_per_s();
  return old_rate > 0 ? after.tokens_per_s() / old_rate - 1 : 0;
}

bool TrialRecord::is_clear() const {
  // Intervals of the time per token, so that runs of different batch sizes and lengths compare.
  auto per_token = [](const RunRecord& run) {
    Summary summary = run.wall();
    const double tokens = static_cast<double>(run.setting.tokens());
    summary.low /= tokens;
    summary.high /= tokens;
    return summary;
  };
  const Summary a = per_token(before), b = per_token(after);
  return std::min(a.count, b.count) >= kLeastClearSteps && !overlap(a, b);
}

std::string_view TrialRecord::verdict() const {
  if (std::min(before.wall().count, after.wall().count) < kLeastClearSteps) return "too few steps";
  return is_clear() ? "clear of noise" : "within noise";
}

DType product_dtype(const Setting& setting) {
  return parse_dtype(setting.dtype).value_or(DType::kF32);
}

cost::ReferenceRate mfu_reference(const LabRecord& lab, const Setting& setting) {
  if (!lab.ceilings) return {};
  cost::ReferenceRate rate = lab.ceilings->mfu_reference(product_dtype(setting));
  rate.per_ns *= static_cast<double>(sharing_ranks(setting));
  return rate;
}

cost::ReferenceRate mbu_reference(const LabRecord& lab) {
  return lab.ceilings ? lab.ceilings->mbu_reference() : cost::ReferenceRate();
}

std::string mbu_reason(const LabRecord& lab, const RunRecord& run) {
  return lab.ceilings ? run.mbu_reason(*lab.ceilings) : "";
}

std::string mfu_convention(const LabRecord& lab) {
  if (lab.runs.empty() || !lab.ceilings) return kMfuConvention;
  const Setting& setting = lab.runs.front().setting;
  return fmt::format("{}, {}", kMfuConvention,
                     mfu_reference(lab, setting).str("FLOP/s", setting.dtype));
}

std::string mbu_convention(const LabRecord& lab) {
  if (!lab.ceilings) return kMbuConvention;
  return fmt::format("{}, {}", kMbuConvention, mbu_reference(lab).str("B/s", ""));
}

std::vector<const RunRecord*> detailed_at_first_point(const LabRecord& lab) {
  const Setting& first = lab.runs[0].setting;
  std::vector<const RunRecord*> found;
  for (size_t index : lab.detailed) {
    const Setting& s = lab.runs[index].setting;
    if (s.batch_size == first.batch_size && s.sequence == first.sequence)
      found.push_back(&lab.runs[index]);
  }
  return found;
}

void check_consistency(const RunRecord& run, LabRecord& lab) {
  constexpr double kNoisySpread = 0.10;
  // Clocks, or a GPU's records, take so long to read, and a record takes a launch so much longer.
  constexpr double kInstrumentNs = 60e3, kRecordNs = 4e3;
  const std::string name = run.setting.str();
  std::vector<std::string>& found = lab.warnings;
  if (const Summary wall = run.wall(); wall.spread() > kNoisySpread)
    found.push_back(fmt::format(
        "the step times of {} vary from {} to {}; is another program using the machine?", name,
        format_ns(wall.low), format_ns(wall.high)));
  const double mfu = run.mfu(mfu_reference(lab, run.setting));
  if (mfu > 1)
    found.push_back(fmt::format(
        "{} reached {:.0f}% of the measured peak, so that peak is too low; measure it again with "
        "ridge machine --remeasure",
        name, 100 * mfu));
  if (!run.step.caveat.empty())
    found.push_back(fmt::format("the operations of {}: {}", name, run.step.caveat));
  if (run.step.busy_ns() > run.step.wall_ns)
    found.push_back(fmt::format("the kernels of {} took longer than its wall time", name));
  const double median_ns = run.wall().median;
  const double records = run.setting.device == "cuda" ? static_cast<double>(run.launches) : 0;
  if (std::abs(run.step.wall_ns - median_ns) > kInstrumentNs + kRecordNs * records &&
      are_inconsistent(run.step.wall_ns, median_ns))
    found.push_back(fmt::format(
        "the instrumented steps of {} took {:.1f} times as long as the plain ones, so its "
        "operation tables do not describe the plain steps; is another program using the machine?",
        name, run.step.wall_ns / median_ns));
}

std::vector<std::vector<size_t>> ladders(const LabRecord& lab) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < lab.runs.size(); ++i) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const std::vector<size_t>& each) {
      return is_same_work(lab.runs[each.front()].setting, lab.runs[i].setting);
    });
    if (group == groups.end())
      groups.push_back({i});
    else
      group->push_back(i);
  }
  return groups;
}

const RunRecord& reference_run(const LabRecord& lab, const RunRecord& run) {
  for (const RunRecord& each : lab.runs)
    if (is_same_work(each.setting, run.setting)) return each;
  return run;
}

double speed_up(const LabRecord& lab, const RunRecord& run) {
  double now = run.wall().median;
  return now > 0 ? reference_run(lab, run).wall().median / now : 0;
}

bool losses_agree(const RunRecord& a, const RunRecord& b) {
  return loss_difference(a, b) <= loss_tolerance(a, b);
}

namespace {

bool has_equal_work(const Setting& a, const Setting& b) {
  return a.task == b.task && a.model == b.model && a.samples() == b.samples() &&
         a.sequence == b.sequence;
}

// ln(predicted / measured) of a step.
double error(const RunRecord& run) { return std::log(run.predicted_ns / run.wall().median); }

}  // namespace

double gain_error(std::span<const RunRecord> runs) {
  double squares = 0;
  int64_t pairs = 0;
  for (size_t i = 0; i < runs.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const auto is_known = [](const RunRecord& run) {
        return run.predicted_ns > 0 && run.wall().median > 0;
      };
      if (!has_equal_work(runs[i].setting, runs[j].setting) || !is_known(runs[i]) ||
          !is_known(runs[j]))
        continue;
      const double difference = error(runs[i]) - error(runs[j]);
      squares += difference * difference;
      ++pairs;
    }
  if (pairs == 0) return kUnknownGainError;
  return std::max(std::sqrt(squares / static_cast<double>(pairs)), kLeastGainError);
}

double gain_confidence(double gain, double error) {
  if (!(gain > -1)) return 0;
  if (error <= 0) return gain > 0 ? 1 : 0;
  return 0.5 * std::erfc(-std::log1p(gain) / error / std::sqrt(2.0));
}

}  // namespace ridge::record
