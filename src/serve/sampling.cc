// SPDX-License-Identifier: Apache-2.0
// Checks the ranges of the sampling options.
#include "serve/sampling.h"

#include <cmath>
#include <iterator>

#include "base/error.h"

namespace ridge::serve {
namespace {

void expect_between(const char* option, double value, double least, double most) {
  if (!std::isfinite(value) || value < least || value > most)
    throw usage_error("[{}] expected a number from {} to {}, got {}", option, least, most, value);
}

}  // namespace

void validate(const SamplingOptions& o) {
  constexpr double kMostTemperature = 100;  // above this, all tokens are practically equally likely
  constexpr int64_t kMostTokens = int64_t{1} << 24;
  expect_between("temperature", o.temperature, 0, kMostTemperature);
  if (o.top_k < 0 || o.top_k > kMostTokens)
    throw usage_error("[top-k] expected a number from 0 (off) to {}, got {}", kMostTokens, o.top_k);
  expect_between("top-p", o.top_p, 0, 1);
  expect_between("min-p", o.min_p, 0, 1);
  expect_between("repeat-penalty", o.repeat_penalty, 0.01, 100);
  expect_between("presence-penalty", o.presence_penalty, -2, 2);
  expect_between("frequency-penalty", o.frequency_penalty, -2, 2);
  if (std::ssize(o.logit_bias) > kMostLogitBiases)
    throw usage_error("[logit-bias] expected at most {} tokens, got {}", kMostLogitBiases,
                      o.logit_bias.size());
  for (const LogitBias& each : o.logit_bias) expect_between("logit-bias", each.bias, -100, 100);
  if (o.seed < 0 || o.seed > UINT32_MAX)
    throw usage_error("[seed] expected a number from 0 to {}, got {}", UINT32_MAX, o.seed);
}

}  // namespace ridge::serve
