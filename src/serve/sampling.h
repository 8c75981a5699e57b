// SPDX-License-Identifier: Apache-2.0
// How a sequence's tokens are chosen, as a caller asks for it. The choosing is the op `sample`.
#pragma once

#include <cstdint>

namespace ridge::serve {

// Each is off at 0 but for the repeat penalty, which is off at 1.
struct SamplingOptions {
  double temperature = 0;  // 0: always the most likely token
  int64_t top_k = 0;
  double top_p = 0;
  double min_p = 0;
  double repeat_penalty = 1;
  int64_t seed = 0;
};

// A usage Error names the option and its range.
void validate(const SamplingOptions& options);

}  // namespace ridge::serve
