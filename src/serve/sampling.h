// SPDX-License-Identifier: Apache-2.0
// Defines and validates a caller's sampling options. The op `sample` does the sampling.
#pragma once

#include <cstdint>

namespace ridge::serve {

// 0 turns an option off; the repeat penalty is off at 1.
struct SamplingOptions {
  double temperature = 0;  // 0: always the most likely token
  int64_t top_k = 0;
  double top_p = 0;
  double min_p = 0;
  double repeat_penalty = 1;
  int64_t seed = 0;
};

// Throws a usage Error that names the option and its range.
void validate(const SamplingOptions& options);

}  // namespace ridge::serve
