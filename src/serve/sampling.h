// SPDX-License-Identifier: Apache-2.0
// Defines and validates a caller's sampling options. The op `sample` does the sampling.
#pragma once

#include <cstdint>
#include <vector>

namespace ridge::serve {

// A number that is added to the logit of a token.
struct LogitBias {
  int32_t id = 0;
  double bias = 0;
};

// 0 turns an option off; the repeat penalty is off at 1.
struct SamplingOptions {
  double temperature = 0;  // 0: always the most likely token
  int64_t top_k = 0;
  double top_p = 0;
  double min_p = 0;
  double repeat_penalty = 1;
  int64_t seed = 0;
  // Generated tokens pay the first penalty once and the second as often as they occurred.
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::vector<LogitBias> logit_bias = {};  // at most kMostLogitBiases; the last of an id counts
};

inline constexpr int64_t kMostLogitBiases = 1024;

// Throws a usage Error that names the option and its range.
void validate(const SamplingOptions& options);

}  // namespace ridge::serve
