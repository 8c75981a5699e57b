// SPDX-License-Identifier: Apache-2.0
// The cross-entropy of a vocabulary in parts, from the sums of each.
#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/kernels.h"

namespace ridge::backends::cpu {

// Mapping: one thread, in row order. Bound: latency, R exponentials a row.
void cross_entropy_of_parts(const CrossEntropyOfParts& call) {
  double loss = 0.0;
  int32_t count = 0;
  for (int64_t row = 0; row < call.tokens; ++row) {
    const int64_t end = call.parts * call.tokens;
    double top = call.part_lse[row], sum = 0.0, chosen = 0.0;
    for (int64_t at = row; at < end; at += call.tokens)
      top = std::max(top, static_cast<double>(call.part_lse[at]));
    for (int64_t at = row; at < end; at += call.tokens) {
      sum += std::exp(call.part_lse[at] - top);
      chosen += call.at_label[at];
    }
    const double lse = top + std::log(sum);
    call.lse[row] = static_cast<float>(lse);
    if (call.labels[row] < 0) continue;
    loss += lse - chosen;
    ++count;
  }
  *call.count = count;
  *call.loss = count == 0 ? 0.0f : static_cast<float>(loss / count);
}

}  // namespace ridge::backends::cpu
