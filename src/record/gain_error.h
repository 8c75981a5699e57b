// SPDX-License-Identifier: Apache-2.0
// How far predicted gains are from measured ones, and what that says about a gain that is only
// predicted.
#pragma once

#include <span>

#include "record/run_record.h"

namespace ridge::record {

// Where nothing was measured at two settings: predictions of steps are usually within 20%.
inline constexpr double kUnknownGainError = 0.2;
inline constexpr double kLeastGainError = 0.02;  // measurements are no better

// The root mean square of ln(predicted gain / measured gain) over all pairs of runs of equal work,
// where a gain is the time of one over that of the other; at least kLeastGainError. kUnknownGainError
// without such a pair.
double gain_error(std::span<const RunRecord> runs);

// The probability that a predicted gain (0.25: 25% faster) is one at all, if logarithms of gains have
// normally distributed errors of this size. An error of 0 means that predictions are exact.
double gain_confidence(double gain, double error);

}  // namespace ridge::record
