// SPDX-License-Identifier: Apache-2.0
// Compares runs two by two.
#include "record/gain_error.h"

#include <algorithm>
#include <cmath>

namespace ridge::record {
namespace {

bool is_same_work(const Setting& a, const Setting& b) {
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
      if (!is_same_work(runs[i].setting, runs[j].setting) || !is_known(runs[i]) ||
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
